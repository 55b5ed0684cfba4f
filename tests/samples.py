"""Random ragged batches, as dense matrices and as the batch types of the package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from diffpool.graphs import DenseGraphs, SparseGraphs
from diffpool.layout import Layout
from diffpool.nn import Pooled

# Empty graphs, a single node, an edgeless graph (EDGELESS), and two nodes (fewer than the up to four clusters).
SIZES = (5, 0, 1, 7, 4, 2, 0, 6)
EDGELESS = (4,)
CLUSTERS = (2, 0, 1, 3, 2, 4, 0, 3)

KINDS = {
    "undirected": {},
    "weighted": {"weighted": True},
    "directed": {"directed": True},
    "loops": {"loops": True},
    "everything": {"weighted": True, "directed": True, "loops": True},
}


@dataclass(frozen=True, eq=False)
class Sample:
    """A batch of graphs: the adjacency matrix [n_g, n_g] and the features [n_g, F] of each."""

    adjs: list[Tensor]
    xs: list[Tensor]

    @property
    def sizes(self) -> list[int]:
        return [len(adj) for adj in self.adjs]

    @property
    def x(self) -> Tensor:
        return torch.cat(self.xs)

    @property
    def sparse(self) -> SparseGraphs:
        """The batch as an edge list, without weights if all are 1."""
        sources, targets, weights, start = [], [], [], 0
        for adj in self.adjs:
            target, source = adj.nonzero().T
            sources.append(source + start)
            targets.append(target + start)
            weights.append(adj[target, source])
            start += len(adj)
        source, target, weight = torch.cat(sources), torch.cat(targets), torch.cat(weights)
        return SparseGraphs.from_edges(
            self.sizes,
            source,
            target,
            None if bool((weight == 1).all()) else weight,
            dtype=self.x.dtype,
        )

    @property
    def dense(self) -> DenseGraphs:
        """The batch as dense blocks."""
        return DenseGraphs.from_adj(
            Layout.from_sizes(self.sizes), local(self.adjs, max(self.sizes))
        )

    def of(self, graphs: Sequence[int]) -> Sample:
        return Sample([self.adjs[g] for g in graphs], [self.xs[g] for g in graphs])

    def relabeled(self, seed: int, only: int | None = None) -> Sample:
        """The same graphs with the nodes of every graph (or of graph `only`) permuted."""
        generator = torch.Generator().manual_seed(seed)
        adjs, xs = [], []
        for graph, (adj, x) in enumerate(zip(self.adjs, self.xs, strict=True)):
            order = torch.arange(len(x))
            if only in (None, graph):
                order = torch.randperm(len(x), generator=generator)
            adjs.append(adj[order][:, order])
            xs.append(x[order])
        return Sample(adjs, xs)

    def to(self, dtype: torch.dtype) -> Sample:
        return Sample([adj.to(dtype) for adj in self.adjs], [x.to(dtype) for x in self.xs])


def sample(
    sizes: Sequence[int] = SIZES,
    seed: int = 0,
    edgeless: Sequence[int] = EDGELESS,
    features: int = 3,
    density: float = 0.5,
    weighted: bool = False,
    directed: bool = False,
    loops: bool = False,
) -> Sample:
    """Random graphs of these sizes, in float64; the graphs in `edgeless` have no edges."""
    generator = torch.Generator().manual_seed(seed)
    adjs, xs = [], []
    for graph, n in enumerate(sizes):
        adj = (random(n, n, generator=generator) < density).double()
        if weighted:
            adj = adj * (0.1 + 2 * random(n, n, generator=generator))
        if not directed:
            adj = adj.triu() + adj.triu(1).T
        if not loops:
            adj = adj.fill_diagonal_(0)
        adjs.append(adj * (graph not in edgeless))
        xs.append(torch.randn(n, features, dtype=torch.float64, generator=generator))
    return Sample(adjs, xs)


def random(*shape: int, generator: torch.Generator) -> Tensor:
    return torch.rand(*shape, dtype=torch.float64, generator=generator)


def randn(*shape: int, seed: int) -> Tensor:
    """Normally distributed numbers, in float64."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, dtype=torch.float64, generator=generator)


def local(parts: Sequence[Tensor], width: int) -> Tensor:
    """Stack blocks with local columns, padded with zeros to `width`."""
    padded = [torch.nn.functional.pad(part, (0, width - part.shape[1])) for part in parts]
    return torch.cat(padded)


def padded(ragged: Sample, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """The adjacency matrices from source to target [B, n, n], features [B, n, F] and mask [B, n] of a sample."""
    graphs, width = len(ragged.sizes), ragged.xs[0].shape[1]
    adj = torch.zeros(graphs, size, size, dtype=torch.float64)
    x = torch.zeros(graphs, size, width, dtype=torch.float64)
    mask = torch.zeros(graphs, size, dtype=torch.bool)
    for g, (a, h) in enumerate(zip(ragged.adjs, ragged.xs, strict=True)):
        adj[g, : len(a), : len(a)] = a.T  # row i of a holds the edges that point to node i
        x[g, : len(h)] = h
        mask[g, : len(h)] = True
    return adj, x, mask


def gradients(value: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    """The gradients of a scalar; zero for inputs that it does not depend on."""
    if not value.requires_grad:  # it depends on no input, for example in a batch without graphs
        return tuple(torch.zeros_like(i) for i in inputs)
    found = torch.autograd.grad(value, inputs, allow_unused=True, retain_graph=True)
    return tuple(
        torch.zeros_like(i) if g is None else g for i, g in zip(inputs, found, strict=True)
    )


def second_derivative(value: Tensor, *inputs: Tensor) -> tuple[Tensor, ...] | None:
    """The gradients of the sum of squared gradients; None if PyTorch refuses a second derivative."""
    try:
        first = torch.autograd.grad(value, inputs, create_graph=True)
        return torch.autograd.grad(sum(gradient.square().sum() for gradient in first), inputs)
    except RuntimeError as error:
        if "differentiate twice" in str(error) or "support automatic differ" in str(error):
            return None
        raise


def pooled(
    pooler: Any, graphs: Any, x: Tensor, clusters: Layout | None, random: Any = None
) -> Pooled:
    """Pool a level whose embeddings are its features."""
    scores = None if pooler.gnn is None else pooler.gnn(graphs, x, clusters)
    return pooler(graphs, x, scores, clusters, random)
