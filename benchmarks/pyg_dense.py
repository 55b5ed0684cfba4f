"""A peer: DiffPool as in PyTorch Geometric's examples, with its dense operator and padded batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import DenseSAGEConv, dense_diff_pool
from torch_geometric.utils import to_dense_adj, to_dense_batch

from diffpool.data import GraphDataset


class Gnn(nn.Module):
    """Three SAGE layers with l2 and batch normalization, concatenated, then optionally a linear layer.

    `conv` is a PyG convolution; its arguments after the features are passed on.
    """

    def __init__(
        self,
        num_inputs: int,
        hidden: int,
        num_outputs: int,
        linear: bool,
        conv: Callable[..., nn.Module] = DenseSAGEConv,
    ):
        super().__init__()
        sizes = [num_inputs, hidden, hidden, num_outputs]
        self.convs = nn.ModuleList(conv(i, o, normalize=True) for i, o in pairwise(sizes))
        self.norms = nn.ModuleList(nn.BatchNorm1d(o) for o in sizes[1:])
        self.linear = nn.Linear(sum(sizes[1:]), num_outputs) if linear else None

    def forward(self, x: Tensor, *where: Tensor | None) -> Tensor:
        layers = []
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = conv(x, *where).relu()
            x = norm(x.flatten(0, -2)).view(x.shape)
            layers.append(x)
        x = torch.cat(layers, -1)
        return x if self.linear is None else self.linear(x)


class PygDiffPool(nn.Module):
    """Two poolings to fixed numbers of clusters, the mean of the last level, two linear layers."""

    def __init__(self, num_features: int, hidden: int, num_classes: int, clusters: tuple[int, int]):
        super().__init__()
        first, second = clusters
        width = 3 * hidden
        self.embed = nn.ModuleList(
            Gnn(i, hidden, hidden, linear=False) for i in (num_features, width, width)
        )
        self.pool = nn.ModuleList(
            Gnn(i, hidden, k, linear=True) for i, k in ((num_features, first), (width, second))
        )
        self.head = nn.Sequential(
            nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, num_classes)
        )

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Logits and the sum of the auxiliary losses."""
        x, mask = to_dense_batch(batch.x, batch.batch)
        adj = to_dense_adj(batch.edge_index, batch.batch).to(x.dtype)
        return self.dense(x, adj, mask)

    def dense(self, x: Tensor, adj: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """The part on padded graphs, whose shapes do not depend on the data."""
        auxiliary = x.new_zeros(())
        for embed, pool in zip(self.embed, self.pool, strict=False):
            s, z = pool(x, adj, mask), embed(x, adj, mask)
            x, adj, link, entropy = dense_diff_pool(z, adj, s, mask)
            auxiliary, mask = auxiliary + link + entropy, None
        return self.head(self.embed[-1](x, adj).mean(1)), auxiliary


def to_pyg(dataset: GraphDataset, chosen: Iterable[int]) -> list[Data]:
    """Graphs of a data set on the host as PyG data objects."""
    indptr, source = dataset.graphs.adj.indptr, dataset.graphs.adj.indices
    starts, sizes = (
        t.tolist() for t in (dataset.graphs.layout.starts, dataset.graphs.layout.sizes)
    )
    graphs = []
    for g in chosen:
        a, b = starts[g], starts[g] + sizes[g]
        ends = indptr[a : b + 1]
        target = torch.repeat_interleave(torch.arange(b - a), ends.diff())
        edges = torch.stack([source[int(ends[0]) : int(ends[-1])] - a, target])
        graphs.append(Data(x=dataset.x[a:b], edge_index=edges, y=dataset.y[g : g + 1]))
    return graphs


def train_on(model: nn.Module, optimizer: torch.optim.Optimizer, batch: Batch, clip: float) -> None:
    """One training step on a batch that is on the model's device."""
    logits, auxiliary = model(batch)
    loss = F.cross_entropy(logits, batch.y) + auxiliary
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()


def step(
    model: nn.Module, optimizer: torch.optim.Optimizer, graphs: list[Data], clip: float
) -> None:
    """One training step on the CPU, including collation, as in PyG's loader."""
    train_on(model, optimizer, Batch.from_data_list(graphs), clip)
