"""The paper implemented literally: one graph at a time, dense matrices, loops and plain autograd. Slow on purpose.

A graph is an adjacency matrix A [n, n], where A[i, j] is the weight of the edge from j to i, and features X [n, F].
A batch is a list of graphs. Nothing here uses the fast code; `classify` only reads the parameters of the modules.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import torch
import torch.nn.functional as F
from torch import Tensor

from diffpool.nn import (
    BatchNorm,
    Encoder,
    Gcn,
    Gin,
    GraphClassifier,
    L2Norm,
    Linear,
    NodeIndexNorm,
    Sage,
    SumConv,
)
from diffpool.nn.norm import Relu

# --- the equations of the paper ----------------------------------------------------------------------------------


def pooled_features(s: Tensor, z: Tensor) -> Tensor:
    """Equation 3: X' = SᵀZ."""
    return s.T @ z


def pooled_adjacency(adj: Tensor, s: Tensor) -> Tensor:
    """Equation 4: A' = SᵀAS."""
    return s.T @ adj @ s


def assignment(logits: Tensor, clusters: int) -> Tensor:
    """Equation 6: the softmax of each row over the first `clusters` columns."""
    return logits[:, :clusters].softmax(-1)


def link_loss(adj: Tensor, s: Tensor) -> Tensor:
    """‖A − SSᵀ‖_F; 0 with gradient 0 at a perfect fit."""
    squared = (adj - s @ s.T).square().sum()
    return squared if squared == 0 else squared.sqrt()


def entropy_loss(s: Tensor) -> Tensor:
    """(1/n) Σ_i H(S_i), with 0 log 0 = 0."""
    if len(s) == 0:
        return s.new_zeros(())
    return -(s * torch.where(s > 0, s, 1).log()).sum() / len(s)


# --- convolutions, normalizations, readouts ----------------------------------------------------------------------


def sage(adj: Tensor, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """X W_self + mean W_neighbors + b; the weighted mean of no neighbors is zero."""
    w_self, w_neighbors = weight[: x.shape[1]], weight[x.shape[1] :]
    rows = []
    for i in range(len(x)):
        degree = adj[i].sum()
        mean = adj[i] @ x / degree if degree > 0 else torch.zeros_like(x[i])
        rows.append(x[i] @ w_self + mean @ w_neighbors + bias)
    return torch.stack(rows) if rows else x.new_zeros(0, weight.shape[1])


def gcn(adj: Tensor, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """D̃^-½ (A + I) D̃^-½ X W + b."""
    with_loops = adj + torch.eye(len(adj), dtype=adj.dtype)
    scale = torch.diag(with_loops.sum(1) ** -0.5)
    return scale @ with_loops @ scale @ x @ weight + bias


def gin(
    adj: Tensor,
    x: Tensor,
    epsilon: Tensor,
    hidden: tuple[Tensor, Tensor],
    out: tuple[Tensor, Tensor],
) -> Tensor:
    """MLP((1 + ε) X + AX), with an MLP of two layers."""
    summed = (1 + epsilon) * x + adj @ x
    return torch.relu(summed @ hidden[0] + hidden[1]) @ out[0] + out[1]


def sum_conv(adj: Tensor, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """A X W + b."""
    return adj @ x @ weight + bias


def convolve(conv: torch.nn.Module, adj: Tensor, x: Tensor) -> Tensor:
    """The expected output of a convolution of the package on one graph."""
    match conv:
        case Sage():
            return sage(adj, x, *_parameters(conv.linear))
        case Gcn():
            return gcn(adj, x, *_parameters(conv.linear))
        case SumConv():
            return sum_conv(adj, x, *_parameters(conv.linear))
        case Gin():
            epsilon = conv.scale.epsilon[0]
            return gin(adj, x, epsilon, _parameters(conv.hidden), _parameters(conv.out))
    raise TypeError(f"no reference for {conv}")


def readout(h: Tensor, reduction: str) -> Tensor:
    """Sum, mean or max over the nodes of one graph; zero without nodes."""
    if len(h) == 0:
        return h.new_zeros(h.shape[1])
    return {"sum": h.sum(0), "mean": h.mean(0), "max": h.amax(0)}[reduction]


Running = dict[torch.nn.Module, tuple[Tensor, Tensor]]


def batch_norm(norm: BatchNorm, xs: list[Tensor], running: Running) -> list[Tensor]:
    """Normalize each column over all nodes in the batch that have it; store new running statistics in `running`."""
    old_mean, old_var = norm.running_mean[0], norm.running_var[0]
    new_mean, new_var = old_mean.clone(), old_var.clone()
    columns: list[list[Tensor]] = [[] for _ in xs]
    for j in range(max(x.shape[1] for x in xs)):
        column = torch.cat([x[:, j] for x in xs if x.shape[1] > j])
        mean, var = old_mean[j], old_var[j]
        if norm.training and len(column) > 1:
            mean, var = column.mean(), column.var(unbiased=False)
            new_mean[j] += norm.momentum * (mean.detach() - old_mean[j])
            new_var[j] += norm.momentum * (column.detach().var(unbiased=True) - old_var[j])
        for graph, x in enumerate(xs):
            if x.shape[1] > j:
                normal = (x[:, j] - mean) / torch.sqrt(var + norm.eps)
                columns[graph].append(normal * norm.weight[0, j] + norm.bias[0, j])
    running[norm] = (new_mean, new_var)
    return [
        torch.stack(c, 1) if c else torch.zeros_like(x) for c, x in zip(columns, xs, strict=True)
    ]


def node_index_norm(xs: list[Tensor], eps: float = 1e-5) -> list[Tensor]:
    """Normalize the i-th nodes of all graphs together, over graphs and features, as the released code does."""
    rows: list[list[Tensor]] = [[] for _ in xs]
    for i in range(max(len(x) for x in xs)):
        values = torch.cat([x[i] for x in xs if len(x) > i])
        mean, var = values.mean(), values.var(unbiased=False)
        for graph, x in enumerate(xs):
            if len(x) > i:
                rows[graph].append((x[i] - mean) / torch.sqrt(var + eps))
    return [torch.stack(r) if r else torch.zeros_like(x) for r, x in zip(rows, xs, strict=True)]


# --- the whole classifier ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Result:
    """The outputs of the classifier for a batch of B graphs."""

    logits: Tensor  # [B, classes]
    assignments: list[list[Tensor]]  # for each pooling and graph: [n_g, k_g]
    adjacencies: list[list[Tensor]]  # for each pooling and graph: [k_g, k_g]
    losses: dict[str, Tensor]  # each [B]
    running: Running  # the running statistics after this batch


def classify(model: GraphClassifier, adjs: list[Tensor], xs: list[Tensor]) -> Result:
    """Run the classifier graph by graph; only batch normalization in training mode combines graphs."""
    running: Running = {}
    batch = range(len(adjs))
    losses = {name: torch.zeros(len(adjs), dtype=xs[0].dtype) for name in ("link", "entropy")}
    assignments, adjacencies, vectors = [], [], []
    for level, pooler in enumerate(model.poolers):
        zs = encode(model.encoders[level], adjs, xs, running)
        if model.every_level:
            vectors.append([readout(z, model.readout) for z in zs])
        rule = model.clusters[level]
        counts = [cluster_count(rule.max_count, rule.ratio, len(x)) for x in xs]
        logits = encode(pooler.gnn, adjs, xs, running, counts)
        ss = [assignment(logits[g], counts[g]) for g in batch]
        losses["link"] = losses["link"] + torch.stack([link_loss(adjs[g], ss[g]) for g in batch])
        losses["entropy"] = losses["entropy"] + torch.stack([entropy_loss(s) for s in ss])
        xs = [pooled_features(ss[g], zs[g]) for g in batch]
        adjs = [pooled_adjacency(adjs[g], ss[g]) for g in batch]
        assignments.append(ss)
        adjacencies.append(adjs)
    last = encode(model.encoders[-1], adjs, xs, running)
    vectors.append([readout(z, model.readout) for z in last])
    rows = [torch.cat([level[g] for level in vectors]) for g in batch]
    return Result(
        logits=torch.stack([head(model.head, row) for row in rows]),
        assignments=assignments,
        adjacencies=adjacencies,
        losses=losses if len(model.poolers) else {},
        running=running,
    )


def cluster_count(most: int, ratio: float | None, nodes: int) -> int:
    """ceil(ratio · nodes) in exact decimals, at most `most`."""
    return most if ratio is None else min(math.ceil(Fraction(str(ratio)) * nodes), most)


def encode(
    encoder: Encoder,
    adjs: list[Tensor],
    xs: list[Tensor],
    running: Running,
    columns: list[int] | None = None,
) -> list[Tensor]:
    """Run a GNN on every graph; with `columns`, graph g has the first `columns[g]` outputs of the last convolution."""
    outputs = []
    for number, (conv, steps) in enumerate(zip(encoder.convs, encoder.steps, strict=True)):
        xs = [convolve(conv, adj, x) for adj, x in zip(adjs, xs, strict=True)]
        if columns is not None and number == len(encoder.convs) - 1:
            xs = [x[:, :k] for x, k in zip(xs, columns, strict=True)]
        for step in steps.steps:
            xs = apply_step(step, xs, running)
        outputs.append(xs)
    if encoder.concat:
        xs = [torch.cat([layer[g] for layer in outputs], -1) for g in range(len(xs))]
    if encoder.linear is not None:
        weight, bias = _parameters(encoder.linear)
        ends = columns or [weight.shape[1]] * len(xs)
        xs = [x @ weight[: x.shape[1], :k] + bias[:k] for x, k in zip(xs, ends, strict=True)]
    return xs


def apply_step(step: torch.nn.Module, xs: list[Tensor], running: Running) -> list[Tensor]:
    match step:
        case BatchNorm():
            return batch_norm(step, xs, running)
        case L2Norm():
            return [F.normalize(x, dim=-1) for x in xs]
        case Relu():
            return [x.clamp(min=0) for x in xs]
        case NodeIndexNorm():
            return node_index_norm(xs)
    raise TypeError(f"no reference for {step}")


def head(layers: torch.nn.Module, row: Tensor) -> Tensor:
    for layer in layers:
        if isinstance(layer, Linear):
            weight, bias = _parameters(layer)
            row = row @ weight + bias
        else:
            row = layer(row)
    return row


def _parameters(linear: Linear) -> tuple[Tensor, Tensor]:
    """W [in, out] and b [out] of a single model."""
    return linear.weight[0], linear.bias[0]


# --- reference implementations of the hot path --------------------------------------------------------------------


def blocks(h: Tensor, rows: list[int], columns: list[int] | None = None) -> list[Tensor]:
    """The rows of each graph; with `columns` only its first columns."""
    parts = h.split(rows) if rows else ()
    if columns is None:
        return list(parts)
    return [part[:, :k] for part, k in zip(parts, columns, strict=True)]


def product(
    form: str, a: Tensor, b: Tensor, rows: list[int], columns: list[int], square: bool = False
) -> Tensor:
    """The reference of segment.multiply, multiply_tn and multiply_nt: one matrix product per graph, stacked."""
    width = max(columns, default=0)
    local = columns if square else None
    if form == "nn":
        pairs = zip(blocks(a, rows, columns), blocks(b, columns, local), strict=True)
        return _stack([x @ y for x, y in pairs], a, b.shape[1])
    if form == "tn":
        pairs = zip(blocks(a, rows, columns), blocks(b, rows, local), strict=True)
        return _stack([x.T @ y for x, y in pairs], a, b.shape[1])
    pairs = zip(blocks(a, rows, local), blocks(b, columns, local), strict=True)
    return _stack([x @ y.T for x, y in pairs], a, width)


def _stack(parts: list[Tensor], like: Tensor, width: int) -> Tensor:
    padded = [F.pad(part, (0, width - part.shape[1])) for part in parts]
    return torch.cat(padded) if padded else like.new_zeros(0, width)


def dense_matrix(indptr: Tensor, indices: Tensor, values: Tensor | None) -> Tensor:
    """Convert a CSR matrix to a dense one, entry by entry."""
    n = len(indptr) - 1
    matrix = torch.zeros(n, n, dtype=torch.float64)
    for i in range(n):
        for e in range(int(indptr[i]), int(indptr[i + 1])):
            matrix[i, int(indices[e])] += 1 if values is None else values[e].item()
    return matrix


def sum_rows(h: Tensor, sizes: list[int]) -> Tensor:
    parts = [part.sum(0) for part in blocks(h, sizes)]
    return torch.stack(parts) if parts else h.new_zeros(0, *h.shape[1:])


def max_rows(h: Tensor, sizes: list[int]) -> Tensor:
    parts = [readout(part, "max") for part in blocks(h, sizes)]
    return torch.stack(parts) if parts else h.new_zeros(0, h.shape[1])


def select(parts: list[Tensor], chosen: list[int]) -> list[Tensor]:
    """The reference of SparseGraphs.select: a batch is a list of graphs."""
    return [parts[graph] for graph in chosen]
