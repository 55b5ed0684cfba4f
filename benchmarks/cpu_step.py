"""How many graphs per second does one model train on the CPU, compared with PyTorch Geometric's dense DiffPool?

The same architecture (two poolings at 25 %, three SAGE layers in each network, hidden size 64, l2 and batch
normalization, concatenated layers, both auxiliary losses), the same batches of 20 graphs, no graph dropped. Ours with
ceil(25 %) of each graph's own nodes as its clusters, and with one number for the data set as PyG requires. Further
columns: ours with one thread, and ours without the C kernels, with one thread and with all. Everybody takes turns of a
few steps, so that other load on the machine affects all alike; the first step of a turn is not timed, because the
threads of the one before may still be spinning.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch_geometric.data import Batch

from benchmarks.pyg_dense import PygDiffPool, step, to_pyg
from benchmarks.record import begin, finish, parser
from diffpool.architecture import Architecture
from diffpool.backends import use_backend
from diffpool.backends.cpu.threads import threads_for
from diffpool.builder import build
from diffpool.data import GraphDataset, load_dataset
from diffpool.nn import GraphClassifier
from diffpool.training import CohortBatches, Optimizer, Training, train_step

HIDDEN, RATIO, BATCH = 64, 0.25, 20
STEPS = {
    "ENZYMES": 60,
    "PROTEINS": 30,
    "DD": 5,
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
    copy_encoders(peer, list(ours.encoders), [pooler.gnn for pooler in ours.poolers])
    with torch.no_grad():
        for layer in (0, 2):
            peer.head[layer].weight.copy_(ours.head[layer].weight[0].T)
            peer.head[layer].bias.copy_(ours.head[layer].bias[0])


@torch.no_grad()
def copy_encoders(peer: PygDiffPool, embed: Sequence[nn.Module], pool: Sequence[nn.Module]) -> None:
    """Give the networks of the peer the parameters of our encoders."""
    for theirs, encoder in zip([*peer.embed, *peer.pool], [*embed, *pool], strict=True):
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


def check(dataset: GraphDataset, peer: PygDiffPool, ours: GraphClassifier) -> None:
    """With the same parameters and one C for all, both give the same logits in evaluation mode.

    On graphs with many edges: PyG's dense SAGE divides by max(degree, 1), ours by the degree, which differs for coarse
    nodes of degree below 1.
    """
    copy_weights(peer, ours)
    fitting = with_many_edges(dataset)
    graphs = to_pyg(dataset, fitting)
    batch = dataset.batch(fitting)
    peer.double().eval()
    ours.double().eval()
    with torch.no_grad():
        theirs = peer(Batch.from_data_list(graphs).apply(to_double))[0]
        logits = ours(batch.graphs.to(dtype=torch.float64), batch.x.double()).logits
    torch.testing.assert_close(logits, theirs, rtol=1e-6, atol=1e-8)
    peer.float().train()
    ours.float().train()


def with_many_edges(dataset: GraphDataset) -> list[int]:
    """The four graphs with most edges among those of up to 1,000 nodes."""
    order = dataset.graphs.squared_norm.argsort(descending=True).tolist()
    return [g for g in order if dataset.graphs.layout.sizes[g] <= 1000][:4]


def to_double(t: torch.Tensor) -> torch.Tensor:
    return t.double() if t.is_floating_point() else t


@dataclass(frozen=True)
class Way:
    """One way to compute our steps."""

    clusters: str = "graph"
    backend: str = "auto"
    one_thread: bool = False


WAYS = {
    "default": Way(),
    "one_thread": Way(one_thread=True),
    "reference": Way(backend="reference"),
    "reference_one_thread": Way(backend="reference", one_thread=True),
    "one_c": Way(clusters="dataset"),
}
TURN = 6  # steps, of which the first is not timed


class Ours:
    """One of our models, trained as one of the ways says."""

    def __init__(self, dataset: GraphDataset, way: Way, config: Training):
        shape = (dataset.num_features, dataset.num_classes, dataset.largest)
        self.way, self.config = way, config
        self.model = build(architecture(way.clusters), *shape)
        self.optimizer = Optimizer(self.model, config)
        self.batches = CohortBatches(dataset, self.model.clusters)
        self.rows = BATCH * dataset.graphs.num_nodes / len(dataset)

    def step(self, chosen: np.ndarray) -> None:
        batch = self.batches.batch(chosen[None])
        train_step(self.model, self.optimizer, *batch.parts, self.config.loss_weights)

    def turn(self, chosen: np.ndarray) -> list[float]:
        """Seconds of each step on these graphs: [steps, B]."""
        threads = torch.get_num_threads()
        torch.set_num_threads(1 if self.way.one_thread else threads)
        try:
            with use_backend(self.way.backend), threads_for(self.rows):
                return [timed(self.step, own) for own in chosen]
        finally:
            torch.set_num_threads(threads)


def timed(step: Callable[[np.ndarray], None], chosen: np.ndarray) -> float:
    start = time.perf_counter()
    step(chosen)
    return time.perf_counter() - start


def measure(dataset: GraphDataset, steps: int, seed: int = 0) -> dict[str, Any]:
    """Graphs per second of PyG and of each of our ways."""
    torch.manual_seed(seed)
    first = math.ceil(RATIO * dataset.largest)
    sizes = (first, math.ceil(RATIO * first))
    config = Training(batch_size=BATCH, seed=seed)
    ours = {name: Ours(dataset, way, config) for name, way in WAYS.items()}
    peer = PygDiffPool(dataset.num_features, HIDDEN, dataset.num_classes, sizes)
    check(dataset, peer, ours["one_c"].model)
    graphs = to_pyg(dataset, range(len(dataset)))
    optimizer = torch.optim.Adam(peer.parameters(), config.learning_rate)

    def peer_step(chosen: np.ndarray) -> None:
        step(peer, optimizer, [graphs[g] for g in chosen], config.clip)

    rng = np.random.default_rng(seed)
    times: dict[str, list[float]] = {name: [] for name in ("pyg", *WAYS)}
    for turn in range(-1, -(-steps // (TURN - 1))):  # the first turn warms up
        chosen = np.stack([rng.choice(len(dataset), BATCH, replace=False) for _ in range(TURN)])
        for name, entrant in ours.items():
            found = entrant.turn(chosen if turn >= 0 or name != "one_c" else chosen[:1])
            times[name] += found[1:] if turn >= 0 else []
        found = [timed(peer_step, own) for own in (chosen if turn >= 0 else chosen[:1])]
        times["pyg"] += found[1:] if turn >= 0 else []
    rate = {name: round(BATCH * len(t) / sum(t), 2) for name, t in times.items()}
    medians = {name: float(np.median(t)) for name, t in times.items()}
    return {
        **rate,
        "clusters": list(sizes),
        "steps": len(times["pyg"]),
        "ratio": round(rate["default"] / rate["pyg"], 2),
        "ratio_one_thread": round(rate["one_thread"] / rate["pyg"], 2),
        "ratio_one_c": round(rate["one_c"] / rate["pyg"], 2),
        "ratio_of_medians": round(medians["pyg"] / medians["default"], 2),
        "kernels_gain": round(medians["reference"] / medians["default"], 2),
        "kernels_gain_one_thread": round(
            medians["reference_one_thread"] / medians["one_thread"], 2
        ),
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
    columns = ("pyg", *WAYS)
    print("graphs per second of training, one model, batch 20")
    print(f"{'':10s}" + "".join(f"{name:>22s}" for name in columns) + f"{'default / PyG':>16s}")
    for name in chosen.datasets.split(","):
        dataset = load_dataset(name, chosen.data_dir)
        row = rows[name] = measure(dataset, max(chosen.steps or STEPS.get(name, 10), 5))
        cells = "".join(f"{row[column]:22.1f}" for column in columns)
        print(f"{name:10s}{cells}{row['ratio']:16.2f}", flush=True)
    finish(
        "cpu_step",
        {"ratio": {name: row["ratio"] for name, row in rows.items()}, "rows": rows},
        chosen,
    )


if __name__ == "__main__":
    main()
