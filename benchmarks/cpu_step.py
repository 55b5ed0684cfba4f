"""How many graphs a second does one model train on the CPU, against PyTorch Geometric's dense DiffPool?

The same architecture (two poolings at 25 %, three SAGE layers in each network, hidden size 64, l2 and batch
normalization, layers side by side, both auxiliary losses), the same batches of 20 graphs, no graph dropped. Ours with
ceil(25 %) of each graph's own nodes as its clusters, and with one number for the data set as PyG must. The two take
turns, batch by batch, so that what else the machine does meets both.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Batch

from benchmarks.pyg_dense import PygDiffPool, step, to_pyg
from benchmarks.record import begin, finish, parser
from diffpool.architecture import Architecture
from diffpool.builder import build
from diffpool.data import GraphDataset, load_dataset
from diffpool.nn import GraphClassifier
from diffpool.training import CohortBatches, Optimizer, Training, train_step

HIDDEN, RATIO, BATCH = 64, 0.25, 20
STEPS = {
    "ENZYMES": 60,
    "PROTEINS": 30,
    "DD": 6,
}  # timed steps of each; PyG needs 10 s and more for one on DD


def architecture(clusters: str) -> Architecture:
    """The architecture of `pyg_dense`."""
    order = ("l2", "relu", "batch")
    return Architecture(
        hidden=HIDDEN,
        poolings=2,
        layers_before=3,
        layers_after=3,
        ratio=RATIO,
        clusters=clusters,
        order=order,
        last_order=order,
        assignment_order=order,
        concat=True,
        assignment_linear=True,
        readout="mean",
        head=(HIDDEN,),
    )


def copy_weights(peer: PygDiffPool, ours: GraphClassifier) -> None:
    """Give the peer our parameters."""
    pairs = [*zip(peer.embed, ours.encoders, strict=True)]
    pairs += [(theirs, pooler.gnn) for theirs, pooler in zip(peer.pool, ours.poolers, strict=True)]
    with torch.no_grad():
        for theirs, encoder in pairs:
            for conv, norm, our_conv, our_steps in zip(
                theirs.convs, theirs.norms, encoder.convs, encoder.steps, strict=True
            ):
                weight, width = our_conv.linear.weight[0], conv.lin_root.weight.shape[1]
                conv.lin_root.weight.copy_(weight[:width].T)
                conv.lin_root.bias.copy_(our_conv.linear.bias[0])
                conv.lin_rel.weight.copy_(weight[width:].T)
                norm.weight.copy_(our_steps.steps[-1].weight[0])
                norm.bias.copy_(our_steps.steps[-1].bias[0])
            if theirs.linear is not None:
                theirs.linear.weight.copy_(encoder.linear.weight[0].T)
                theirs.linear.bias.copy_(encoder.linear.bias[0])
        for layer in (0, 2):
            peer.head[layer].weight.copy_(ours.head[layer].weight[0].T)
            peer.head[layer].bias.copy_(ours.head[layer].bias[0])


def check(dataset: GraphDataset, peer: PygDiffPool, ours: GraphClassifier) -> None:
    """With the same parameters and one C for all, both give the same logits in evaluation mode.

    On graphs with many edges: PyG's dense SAGE divides by max(degree, 1), ours by the degree, which differs for coarse
    nodes of degree below 1.
    """
    copy_weights(peer, ours)
    edges = [int(dataset.graphs.squared_norm[g]) for g in range(len(dataset))]
    fitting = [g for g in np.argsort(edges)[::-1] if dataset.graphs.layout.sizes[g] <= 1000][:4]
    graphs = to_pyg(dataset, fitting)
    batch = dataset.batch(fitting)
    peer.double().eval()
    ours.double().eval()
    with torch.no_grad():
        theirs = peer(Batch.from_data_list(graphs).apply(_double))[0]
        logits = ours(batch.graphs.to(dtype=torch.float64), batch.x.double()).logits
    torch.testing.assert_close(logits, theirs, rtol=1e-6, atol=1e-8)
    peer.float().train()
    ours.float().train()


def _double(t: torch.Tensor) -> torch.Tensor:
    return t.double() if t.is_floating_point() else t


def measure(dataset: GraphDataset, steps: int, seed: int = 0) -> dict[str, Any]:
    torch.manual_seed(seed)
    first = math.ceil(RATIO * dataset.largest)
    sizes = (first, math.ceil(RATIO * first))
    config = Training(batch_size=BATCH, seed=seed)
    shape = (dataset.num_features, dataset.num_classes, dataset.largest)
    ours = {name: build(architecture(name), *shape) for name in ("graph", "dataset")}
    peer = PygDiffPool(dataset.num_features, HIDDEN, dataset.num_classes, sizes)
    check(dataset, peer, ours["dataset"])
    graphs = to_pyg(dataset, range(len(dataset)))
    peer_optimizer = torch.optim.Adam(peer.parameters(), config.learning_rate)
    optimizers = {name: Optimizer(model, config) for name, model in ours.items()}
    batches = {name: CohortBatches(dataset, model.clusters) for name, model in ours.items()}
    rng = np.random.default_rng(seed)
    times: dict[str, list[float]] = {"pyg": [], "graph": [], "dataset": []}
    for number in range(steps + 2):
        chosen = rng.choice(len(dataset), BATCH, replace=False)
        start = time.perf_counter()
        step(peer, peer_optimizer, [graphs[g] for g in chosen], config.clip)
        spent = {"pyg": time.perf_counter() - start}
        for name, model in ours.items():
            start = time.perf_counter()
            batch = batches[name].batch(chosen[None])
            train_step(model, optimizers[name], *batch.parts, config.loss_weights)
            spent[name] = time.perf_counter() - start
        if number >= 2:  # the first ones warm up
            for name, seconds in spent.items():
                times[name].append(seconds)
    rate = {name: BATCH * len(t) / sum(t) for name, t in times.items()}
    return {
        "pyg": round(rate["pyg"], 2),
        "per_graph_clusters": round(rate["graph"], 2),
        "one_c": round(rate["dataset"], 2),
        "clusters": list(sizes),
        "steps": steps,
        "ratio": round(rate["graph"] / rate["pyg"], 2),
        "ratio_one_c": round(rate["dataset"] / rate["pyg"], 2),
        "ratio_of_medians": round(float(np.median(times["pyg"]) / np.median(times["graph"])), 2),
    }


def main() -> None:
    options = parser(__doc__)
    options.add_argument(
        "--data-dir", required=True, help="folder with ENZYMES.zip, PROTEINS.zip, DD.zip"
    )
    options.add_argument("--datasets", default="ENZYMES,PROTEINS,DD")
    options.add_argument(
        "--steps", type=int, help="timed steps, at least 5, instead of the default"
    )
    chosen = begin(options)
    rows = {}
    print("graphs a second of training, one model, batch 20")
    print(
        f"{'':10s} {'PyG dense':>10s} {'ours':>10s} {'ratio':>7s} {'ours, one C':>12s} {'ratio':>7s}"
    )
    for name in chosen.datasets.split(","):
        dataset = load_dataset(name, chosen.data_dir)
        row = rows[name] = measure(dataset, max(chosen.steps or STEPS.get(name, 10), 5))
        print(
            f"{name:10s} {row['pyg']:10.1f} {row['per_graph_clusters']:10.1f} {row['ratio']:7.2f} "
            f"{row['one_c']:12.1f} {row['ratio_one_c']:7.2f}",
            flush=True,
        )
    finish(
        "cpu_step",
        {"ratio": {name: row["ratio"] for name, row in rows.items()}, "rows": rows},
        chosen,
    )


if __name__ == "__main__":
    main()
