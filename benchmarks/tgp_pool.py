"""A peer: DiffPool of torch-geometric-pool, batched and unbatched. It needs `pip install torch-geometric-pool`.

The architecture of `pyg_dense` with sparse convolutions on the input graphs, as in that library; with the same
parameters, both give the same logits. Batched, it pads the graphs for the first pooling; unbatched, it pools from the
edges and loops over the graphs.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch
import torch_geometric  # noqa: F401 (must be imported before the stub: it looks for torch_scatter too)
from torch import Tensor, nn
from torch_geometric.data import Batch
from torch_geometric.nn import SAGEConv
from torch_geometric.utils import to_dense_batch

from benchmarks.pyg_dense import Gnn


def poolers() -> Any:
    """Import `tgp.poolers`.

    The library imports torch_scatter, which has no wheels on PyPI, but its DiffPool does not use it. If torch_scatter
    is not installed, a stub replaces it during the import; calling it would fail.
    """
    if find_spec("tgp") is None:
        raise ModuleNotFoundError("No module named 'tgp'", name="tgp")
    needs_stub = "torch_scatter" not in sys.modules and find_spec("torch_scatter") is None
    if needs_stub:
        module = ModuleType("torch_scatter")
        for name in ("scatter", "scatter_add", "scatter_max", "scatter_min", "scatter_mul"):
            setattr(module, name, None)
        sys.modules["torch_scatter"] = module
    try:
        import tgp.poolers

        return tgp.poolers
    finally:
        if needs_stub:
            del sys.modules["torch_scatter"]


class TgpDiffPool(nn.Module):
    """Two poolings to fixed numbers of clusters, the mean of the last level, two linear layers."""

    def __init__(
        self,
        num_features: int,
        hidden: int,
        num_classes: int,
        clusters: tuple[int, int],
        batched: bool,
    ):
        super().__init__()
        self.batched = batched
        width = 3 * hidden
        first, second = clusters
        self.embed = nn.ModuleList(
            [
                Gnn(num_features, hidden, hidden, linear=False, conv=SAGEConv),
                Gnn(width, hidden, hidden, linear=False),
                Gnn(width, hidden, hidden, linear=False),
            ]
        )
        # The linear layer of a pooling network is the one in the library's pooler.
        self.pool = nn.ModuleList(
            [
                Gnn(num_features, hidden, first, linear=False, conv=SAGEConv),
                Gnn(width, hidden, second, linear=False),
            ]
        )
        # SᵀAS as in the paper; by default, the library removes its diagonal and normalizes it
        plain = {"remove_self_loops": False, "degree_norm": False}
        self.poolers = nn.ModuleList(
            poolers().DiffPool(2 * hidden + k, k, batched=way, **plain)
            for k, way in ((first, batched), (second, True))
        )
        self.head = nn.Sequential(
            nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, num_classes)
        )

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Logits and the sum of the auxiliary losses."""
        z = self.embed[0](batch.x, batch.edge_index)
        s = self.pool[0](batch.x, batch.edge_index)
        first = self._padded if self.batched else self._flat
        x, adj, losses = first(z, s, batch)
        x, adj, more = _dense(
            self.poolers[1], self.embed[1](x, adj), self.pool[1](x, adj), adj, None
        )
        logits = self.head(self.embed[2](x, adj).mean(1))
        return logits, torch.stack([*losses.values(), *more.values()]).sum()

    def _padded(
        self, z: Tensor, s: Tensor, batch: Batch
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        pooler: Any = self.poolers[0]
        s, adj, mask = pooler.preprocessing(x=s, edge_index=batch.edge_index, batch=batch.batch)
        return _dense(pooler, to_dense_batch(z, batch.batch)[0], s, adj, mask, nodes=len(z))

    def _flat(self, z: Tensor, s: Tensor, batch: Batch) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        pooler: Any = self.poolers[0]
        of_node = batch.batch
        so = pooler.select(x=s, batch=of_node)
        losses = pooler.compute_sparse_loss(batch.edge_index, None, so.s, of_node)
        x, _ = pooler.reduce(x=z, so=so, batch=of_node, return_batched=True)
        adj, _ = pooler.connect(edge_index=batch.edge_index, so=so, batch=of_node)
        return x, adj, losses


def _dense(
    pooler: Any, z: Tensor, s: Tensor, adj: Tensor, mask: Tensor | None, nodes: int | None = None
) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """A pooling of padded graphs: z, s and adj have a row for each node of each graph."""
    so = pooler.select(x=s, mask=mask)
    losses = pooler.compute_loss(adj, so.s, s.shape[0] * s.shape[1] if nodes is None else nodes)
    x, _ = pooler.reduce(x=z, so=so)
    pooled, _ = pooler.connect(edge_index=adj, so=so)
    return x, pooled, losses
