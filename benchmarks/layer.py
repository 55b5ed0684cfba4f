"""A two-level model with PyG's dense operator, with torch-geometric-pool, and with our layer, in one training loop.

All have the architecture of `cpu_step`, the same number of parameters, batches from PyG's DataLoader and a plain loop
with `torch.optim.Adam`. `ours` uses `DiffPooling` and the encoders of `diffpool.nn`; `ours-captured` is the same with
the step of the loop in `captured_step`, and `ours-reference` without the C and Triton kernels; `ours-pyg` uses
`DiffPooling` and PyG's convolutions, as if it had replaced `dense_diff_pool` in an existing model. Ours give each graph
ceil(25 %) of its own nodes as clusters; the others have one number for the data set. Before the run, the models are
compared: with the same parameters and numbers of clusters, they have the same logits and losses.

Memory is the peak of what a step allocates. The memory that is reserved includes what CUDA graphs keep.

Lines of code are those of the model's classes, without comments, docstrings and line breaks in statements.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Batch
from torch_geometric.nn import SAGEConv

from benchmarks import tgp_pool
from benchmarks.competitors import CONFIG, Peer, Setting, loaded
from benchmarks.contest import Entrant, Work, contest, draw, tidy
from benchmarks.cpu_step import RATIO, copy_encoders, to_double, with_many_edges
from benchmarks.pyg_dense import Gnn, PygDiffPool, to_pyg, train_on
from benchmarks.record import begin, finish, parser, words_of
from benchmarks.tgp_pool import TgpDiffPool
from diffpool import DiffPooling, SparseGraphs, captured_step
from diffpool.backends import use_backend
from diffpool.data import load_dataset
from diffpool.nn import Encoder, Sage

TURNS = 5
WARM_UP = 600.0  # seconds; the peers need minutes on D&D on the CPU


class LayerDiffPool(nn.Module):
    """Two poolings with `DiffPooling` and our encoders, the mean of the last level, two linear layers."""

    def __init__(
        self,
        num_features: int,
        hidden: int,
        num_classes: int,
        clusters: tuple[int, int],
        ratio: float | None = RATIO,
    ):
        super().__init__()
        width = 3 * hidden
        self.embed = nn.ModuleList(
            Encoder(Sage, [i, hidden, hidden, hidden], concat=True)
            for i in (num_features, width, width)
        )
        self.pool = nn.ModuleList(
            DiffPooling(
                assign=Encoder(Sage, [i, hidden, hidden, k], concat=True, outputs=k),
                ratio=ratio,
                losses="pyg",
            )
            for i, k in zip((num_features, width), clusters, strict=True)
        )
        self.head = nn.Sequential(
            nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, num_classes)
        )

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Logits and the sum of the auxiliary losses."""
        x, auxiliary = batch.x, batch.x.new_zeros(())
        graphs: Any = SparseGraphs.from_pyg(batch)
        for embed, pool in zip(self.embed, self.pool, strict=False):
            out = pool(embed(graphs, x), graphs, assign_x=x)
            x, graphs, auxiliary = out.x, out.graphs, auxiliary + out.loss
        z = self.embed[-1](graphs, x)
        return self.head(graphs.readout(z, "mean")), auxiliary


class SparseGnn(Gnn):
    """`Gnn` on edge lists."""

    def __init__(self, num_inputs: int, hidden: int, num_outputs: int, linear: bool):
        super().__init__(num_inputs, hidden, num_outputs, linear, conv=SAGEConv)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(x, edge_index)


class DenseGnn(Gnn):
    """`Gnn` on padded graphs."""

    def forward(self, x: Tensor, adj: Tensor, mask: Tensor | None = None) -> Tensor:
        return super().forward(x, adj, mask)


class PygLayerDiffPool(nn.Module):
    """The same with `DiffPooling` and PyG's convolutions: sparse before the first pooling, then dense."""

    def __init__(
        self,
        num_features: int,
        hidden: int,
        num_classes: int,
        clusters: tuple[int, int],
        ratio: float | None = RATIO,
    ):
        super().__init__()
        width, (first, second) = 3 * hidden, clusters
        self.embed = nn.ModuleList(
            [
                SparseGnn(num_features, hidden, hidden, linear=False),
                DenseGnn(width, hidden, hidden, linear=False),
                DenseGnn(width, hidden, hidden, linear=False),
            ]
        )
        assign = (
            SparseGnn(num_features, hidden, first, linear=True),
            DenseGnn(width, hidden, second, linear=True),
        )
        self.pool = nn.ModuleList(DiffPooling(assign=a, ratio=ratio, losses="pyg") for a in assign)
        self.head = nn.Sequential(
            nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, num_classes)
        )

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Logits and the sum of the auxiliary losses."""
        z = self.embed[0](batch.x, batch.edge_index)
        out = self.pool[0](
            z, batch.edge_index, batch.batch, batch_size=batch.num_graphs, assign_x=batch.x
        )
        x = out.x_dense
        z = self.embed[1](x, out.adj, out.mask)
        last = self.pool[1](z, out.adj, mask=out.mask, assign_x=x)
        z = self.embed[2](last.x_dense, last.adj, last.mask)
        mean = (z * last.mask[..., None]).sum(1) / last.mask.sum(1, keepdim=True)
        return self.head(mean), out.loss + last.loss


Make = Callable[..., nn.Module]  # (features, hidden, classes, clusters) → model

MODELS: dict[str, Make] = {
    "pyg": PygDiffPool,
    "tgp": lambda *shape: TgpDiffPool(*shape, batched=True),
    "ours": LayerDiffPool,
    "ours-captured": LayerDiffPool,
    "ours-pyg": PygLayerDiffPool,
    "ours-reference": LayerDiffPool,
}
DEFAULT = "pyg,tgp,ours,ours-captured,ours-pyg"
CODE: dict[str, tuple[Any, ...]] = {
    "pyg": (Gnn, PygDiffPool),
    "tgp": (Gnn, TgpDiffPool, tgp_pool._dense),
    "ours": (LayerDiffPool,),
    "ours-captured": (LayerDiffPool,),
    "ours-pyg": (Gnn, SparseGnn, DenseGnn, PygLayerDiffPool),
    "ours-reference": (LayerDiffPool,),
}
PEER_STEPS = 3  # maximum in a turn, of a peer on the CPU: each may take seconds


def lines_of_code(*parts: Any) -> int:
    """The lines of these classes and functions, one per statement, without docstrings, comments and empty lines."""
    lines = 0
    for part in parts:
        tree = ast.parse(textwrap.dedent(inspect.getsource(part)))
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
                node.body = node.body[1:]
        lines += sum(bool(line.strip()) for line in ast.unparse(tree).splitlines())
    return lines


def parameters(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


@torch.no_grad()
def check(setting: Setting) -> None:
    """With the same parameters and numbers of clusters, ours and PyG's model have the same logits and losses.

    In double precision and evaluation mode, on graphs with many edges: PyG's dense SAGE divides by max(degree, 1), ours
    by the degree, which differs for coarse nodes of degree below 1.
    """
    device = setting.device
    peer = PygDiffPool(*setting.shape)
    ours = LayerDiffPool(*setting.shape, ratio=None)
    copy_encoders(peer, list(ours.embed), [pool.assign for pool in ours.pool])
    peer.head.load_state_dict(ours.head.state_dict())
    batch = Batch.from_data_list(to_pyg(setting.dataset, with_many_edges(setting.dataset)))
    batch = batch.apply(to_double).to(device)
    theirs, auxiliary = peer.to(device).double().eval()(batch)
    logits, loss = ours.to(device).double().eval()(batch)
    torch.testing.assert_close(logits, theirs, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(loss, auxiliary, rtol=1e-6, atol=1e-8)


class CapturedPeer(Peer):
    """A model whose training steps are captured; on a CPU, they run as they are."""

    def __init__(self, setting: Setting, model: nn.Module):
        super().__init__(setting, model, loaded(setting))
        self.optimizer.param_groups[0]["capturable"] = setting.device == "cuda"
        self.step = captured_step(self._step, device=setting.device)

    def _step(self, batch: Any) -> None:
        train_on(self.model, self.optimizer, batch, CONFIG.clip)

    def steps(self, chosen: np.ndarray) -> None:
        for batch in self.batches(chosen[:, 0]):
            self.step(batch)


def work(setting: Setting, name: str) -> Work:
    """Training steps of this model."""
    if name == "ours-captured":
        return CapturedPeer(setting, MODELS[name](*setting.shape)).steps
    peer = Peer(setting, MODELS[name](*setting.shape), loaded(setting))
    backend = "reference" if name == "ours-reference" else "auto"

    def steps(chosen: np.ndarray) -> None:
        with use_backend(backend):
            peer.steps(chosen)

    return steps


def measure(
    setting: Setting, batch: int, steps: int, seconds: float, names: list[str]
) -> dict[str, Any]:
    """Graphs per second and MiB of each model in turns, and ratios to PyG's."""
    torch.manual_seed(0)
    entrants = {}
    for name in names:
        ours = name.startswith("ours")
        max_steps = steps if ours or setting.device == "cuda" else min(steps, PEER_STEPS)
        # Triton compiles a kernel for each class of sizes, once; a captured step is captured the second time.
        rehearsals = (1 + (name == "ours-captured")) if ours and setting.device == "cuda" else 0
        entrants[name] = Entrant(partial(work, setting, name), max_steps, rehearsals=rehearsals)
    draws = draw(np.random.default_rng(0), len(setting.dataset), (steps, 1, batch), 1 + TURNS)
    limits = dict.fromkeys(names, WARM_UP)
    results = contest(entrants, draws, setting.device, seconds, limits)
    row: dict[str, Any] = {
        "clusters": list(setting.clusters),
        "batch": batch,
        "models": results,
    }
    for name, result in results.items():
        if "failed" not in result:
            result["parameters"] = parameters(MODELS[name](*setting.shape))
        result["lines"] = lines_of_code(*CODE[name])
        result["ratio"] = _ratio(result, results.get("pyg", {}), "rate")
        result["memory"] = _ratio(result, results.get("pyg", {}), "mib")
    return row


def _ratio(result: dict[str, Any], peer: dict[str, Any], key: str) -> float | None:
    a, b = result.get(key), peer.get(key)
    return None if a is None or not b else round(a / b, 3)


def show(name: str, row: dict[str, Any]) -> None:
    """Print the results of a data set."""
    columns = ("rate", "ms", "mib", "reserved", "ratio", "memory", "parameters", "lines")
    print(f"\n{name}, batches of {row['batch']} graphs, clusters {row['clusters']}")
    print(f"{'':15s}" + "".join(f"{column:>12s}" for column in columns))
    for model, result in row["models"].items():
        if "failed" in result:
            print(f"{model:15s}  {result['failed']}")
            continue
        cells = ("–" if result[column] is None else f"{result[column]:,}" for column in columns)
        print(f"{model:15s}" + "".join(f"{cell:>12s}" for cell in cells), flush=True)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--data-dir", required=True, help="folder with ENZYMES.zip and DD.zip")
    options.add_argument("--datasets", default="ENZYMES,DD")
    options.add_argument(
        "--batch-sizes", default="20", help="comma-separated numbers of graphs in a batch"
    )
    options.add_argument("--models", default=DEFAULT, help=f"of {', '.join(MODELS)}")
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options.add_argument("--steps", type=int, default=50, help="maximum number of steps in a turn")
    options.add_argument(
        "--seconds", type=float, default=5.0, help="approximate timed seconds for each model"
    )
    options.add_argument("--workers", type=int, default=0, help="processes of the loader")
    chosen = begin(options)
    names = words_of(chosen.models, tuple(MODELS), "models")
    rows: dict[str, list[dict[str, Any]]] = {}
    for name in chosen.datasets.split(","):
        dataset = load_dataset(name, chosen.data_dir)
        setting = Setting(dataset, chosen.device, chosen.workers)
        check(setting)
        rows[name] = []
        for batch in map(int, chosen.batch_sizes.split(",")):
            tidy()
            row = measure(setting, batch, chosen.steps, chosen.seconds, names)
            rows[name].append(row)
            show(name, row)
    finish("layer" if chosen.device == "cuda" else "layer_cpu", {"rows": rows}, chosen)


if __name__ == "__main__":
    main()
