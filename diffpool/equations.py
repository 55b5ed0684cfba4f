"""The paper on one page: equations 3 to 6 and the two auxiliary losses (Ying et al., 2018).

Notation as in the paper: A adjacency, X features, Z embeddings, S assignment of nodes to clusters. Every function works
on each graph separately: the result for a graph does not depend on the rest of the batch. `s` has local columns: the
block of graph g is `s[rows_g, :k_g]` (see `segment`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from diffpool.backends import accelerated
from diffpool.graphs import DenseGraphs, Graphs, squared_norms
from diffpool.layout import Layout, column_mask
from diffpool.segment import multiply


@dataclass(frozen=True, eq=False)
class PoolingStep:
    """The result of pooling one level."""

    s: Tensor  # local [N, W]
    x: Tensor  # X', [K, D]
    graphs: DenseGraphs  # A'
    link: Tensor  # [B]
    entropy: Tensor  # [B]


@accelerated
def pool(graphs: Graphs, logits: Tensor, z: Tensor, clusters: Layout) -> PoolingStep:
    """Equations 3, 4 and 6 and both losses. Logits of GNN_pool [N, W] and Z [N, D] → the coarser level."""
    s = assignment(logits, graphs.layout, clusters)
    coarse = pooled_graphs(graphs, s, clusters)
    return PoolingStep(
        s=s,
        x=pooled_features(graphs, s, z, clusters),
        graphs=coarse,
        link=link_loss(graphs, s, coarse),
        entropy=entropy_loss(graphs, s),
    )


def pooled_features(graphs: Graphs, s: Tensor, z: Tensor, clusters: Layout) -> Tensor:
    """Equation 3: X' = SᵀZ. Local [N, W], [N, D] → [K, D]."""
    return graphs.contract(s, z, clusters)


def pooled_graphs(graphs: Graphs, s: Tensor, clusters: Layout) -> DenseGraphs:
    """Equation 4: A' = SᵀAS, computed as Sᵀ(AS): propagate the assignment one hop, then contract."""
    adj = graphs.contract(s, graphs.propagate(s), clusters, square=True)
    return DenseGraphs.from_adj(clusters, adj, pooled_channels(graphs, s, clusters))


def pooled_channels(graphs: Graphs, s: Tensor, clusters: Layout) -> tuple[Tensor, ...]:
    """Equation 4 for edge features (the paper's footnote): E'_c = SᵀE_cS for each channel, local [K, W] each."""
    return tuple(
        graphs.contract(s, graphs.propagate_channel(c, s), clusters, square=True)
        for c in range(len(graphs.channels))
    )


def unpooled_features(s: Tensor, h: Tensor, rows: Layout, clusters: Layout) -> Tensor:
    """The reverse of equation 3: S H', the features of each node's clusters. Local [N, W], [K, D] → [N, D]."""
    return multiply(s, h, rows, clusters)


# Equation 5, Z = GNN_embed(A, X), is `nn.Encoder.forward`.


def assignment(logits: Tensor, rows: Layout, clusters: Layout) -> Tensor:
    """Equation 6: S = softmax(GNN_pool(A, X)), over the clusters of each node's graph: [N, W] → local [N, W]."""
    mask = column_mask(rows, clusters)
    if mask is None:
        return logits.softmax(-1)
    s = logits.masked_fill(~mask, -torch.inf).softmax(-1)
    return s.masked_fill(~mask, 0)  # padding rows have no clusters: their softmax is NaN


def link_loss(graphs: Graphs, s: Tensor, pooled: DenseGraphs) -> Tensor:
    """L_LP = ‖A − SSᵀ‖_F of each graph: [B]; `pooled` is A' = SᵀAS.

    ‖A − SSᵀ‖² = ‖A‖² − 2 tr(SᵀAS) + ‖SᵀS‖², which needs no n × n matrix. A value within rounding error of zero counts
    as zero and has a zero gradient; the gradient of the square root would be infinite.
    """
    clusters = pooled.layout
    gram = graphs.contract(s, s, clusters, square=True)  # SᵀS: local [K, W]
    largest = graphs.squared_norm + squared_norms(clusters, gram)
    squared = largest - 2 * pooled.trace()
    rounding = 8 * torch.finfo(s.dtype).eps * largest.detach() + torch.finfo(s.dtype).tiny
    return _root(squared, rounding)


def _root(squared: Tensor, rounding: Tensor) -> Tensor:
    """√squared; 0 with a zero gradient where it is within rounding error of zero. NaN stays NaN."""
    positive = ~(squared <= rounding)
    return torch.where(positive, torch.where(positive, squared, 1).sqrt(), 0)


def entropy_loss(graphs: Graphs, s: Tensor) -> Tensor:
    """L_E = (1/n) Σ_i H(S_i) of each graph: [B]."""
    entropy = -(s * s.clamp(min=torch.finfo(s.dtype).tiny).log()).sum(-1)  # [N]
    return graphs.readout(entropy, "mean")
