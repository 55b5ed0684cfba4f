"""The operations of the Triton kernels and the arguments that they accept.

The kernels compute only the rows and columns that each graph has: no padding rows, and no columns of clusters that
a graph does not have. They never read what they leave unwritten.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from diffpool import segment
from diffpool.backends import kernel
from diffpool.backends.capture import MAX_CHANNELS
from diffpool.backends.triton import INTERPRETED, blocks, streams
from diffpool.backends.triton.adam import adam
from diffpool.backends.triton.drawn import DrawnGraphs
from diffpool.backends.triton.edge_conditioned import Filtered
from diffpool.backends.triton.layout import layout_tables
from diffpool.backends.triton.linear import LocalLinear
from diffpool.backends.triton.max import MaxRows
from diffpool.backends.triton.mean import DenseMean, known_mean, shared_adj
from diffpool.backends.triton.node_index import NodeIndexSteps, UnitRows
from diffpool.backends.triton.norm import NormSteps, standardize
from diffpool.backends.triton.pool import Pool
from diffpool.backends.triton.sum import SumRows
from diffpool.backends.triton.tiles import tiles_of
from diffpool.equations import PoolingStep
from diffpool.graphs import DenseGraphs, Graphs, SparseGraphs
from diffpool.layout import Layout
from diffpool.nn.convolutions import Sage, SumConv
from diffpool.nn.encoder import Encoder
from diffpool.nn.norm import BatchNorm, NodeIndexNorm, Steps

# The steps that `NormSteps` supports, and the same with ReLU as the last one.
ORDERS = (("l2", "relu", "batch"), ("l2", "batch"), ("relu", "batch"), ("batch",))
RELU_LAST = ("batch", "relu")
UNIT, NODE_INDEX = ("l2",), ("l2", "relu", "node-index")

# Matrices in which only the local columns of each graph were written; their gradients may be like this too.
_local: WeakIdKeyDictionary = WeakIdKeyDictionary()


def suits(*tensors: Tensor) -> bool:
    """Whether the kernels accept these tensors: float32, not empty, on a GPU (or on any device in the interpreter)."""
    return all(
        t.dtype == torch.float32 and (t.is_cuda or INTERPRETED) and t.numel() > 0 for t in tensors
    )


# --- Adam ------------------------------------------------------------------------------------------------------------


def _accepts_adam(parameters: Tensor, *rest: Any, **named: Any) -> bool:
    return suits(parameters)


kernel("training.optimizer.adam_update", "triton", _accepts_adam)(adam)


# --- layouts ---------------------------------------------------------------------------------------------------------

MAX_GRAPHS = 2**13  # of all models together: the limit of one program of the layout kernel


def _accepts_layout(sizes: Tensor, rows: int, tile: int) -> bool:
    return (sizes.is_cuda or INTERPRETED) and 0 < sizes.numel() <= MAX_GRAPHS


kernel("backends.triton.drawn.layout_tables", "triton", _accepts_layout)(layout_tables)


# --- products and sums -----------------------------------------------------------------------------------------------


def _accepts_product(
    form: str, a: Tensor, b: Tensor, rows: Layout, columns: Layout, square: bool
) -> bool:
    return suits(a, b) and not (rows.uniform and columns.uniform)


@kernel("segment.block_product", "triton", _accepts_product)
def block_product(
    form: str, a: Tensor, b: Tensor, rows: Layout, columns: Layout, square: bool
) -> Tensor:
    return _BlockProduct.apply(form, a, b, rows, columns, square)


class _BlockProduct(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, form: str, a: Tensor, b: Tensor, rows: Layout, columns: Layout, square: bool
    ) -> Tensor:
        ctx.form, ctx.blocks = form, (rows, columns, square)
        ctx.save_for_backward(a, b)
        shape = segment.product_shape(form, b, rows.total, columns.total, columns.largest)
        return blocks.product(form, a, b, shape, rows, columns, columns if square else None)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        a, b = ctx.saved_tensors
        factors_a, factors_b = segment.GRADIENTS[ctx.form](a, b, grad)
        grad_a = _BlockProduct.apply(*factors_a, *ctx.blocks) if ctx.needs_input_grad[1] else None
        grad_b = _BlockProduct.apply(*factors_b, *ctx.blocks) if ctx.needs_input_grad[2] else None
        return None, grad_a, grad_b, None, None, None


def _accepts_sum(h: Tensor, layout: Layout) -> bool:
    return suits(h) and not (layout.uniform and layout.total > 0)


@kernel("segment.sum_rows", "triton", _accepts_sum)
def sum_rows(h: Tensor, layout: Layout) -> Tensor:
    flat = h.flatten(1) if h.dim() > 1 else h[:, None]
    return SumRows.apply(flat, layout).view(len(layout), *h.shape[1:])


def _accepts_max(h: Tensor, layout: Layout) -> bool:
    return suits(h) and not layout.uniform and len(layout) > 0


@kernel("segment.max_rows", "triton", _accepts_max)
def max_rows(h: Tensor, layout: Layout) -> Tensor:
    return MaxRows.apply(h, layout)


def _accepts_mean(graphs: Graphs, h: Tensor) -> bool:
    return isinstance(graphs, DenseGraphs) and suits(h, graphs.adj)


@kernel("graphs.propagate_mean", "triton", _accepts_mean)
def propagate_mean(graphs: DenseGraphs, h: Tensor) -> Tensor:
    return known_mean(graphs, h, _dense_mean)


def _dense_mean(graphs: DenseGraphs, h: Tensor) -> Tensor:
    adj, sums = shared_adj(graphs)
    return DenseMean.apply(adj, h, graphs.inverse_degree, graphs.layout, sums)


# --- normalization ---------------------------------------------------------------------------------------------------


def _accepts_standardize(x: Tensor, mean: Tensor, inverse_sd: Tensor) -> bool:
    return suits(x, mean, inverse_sd) and not x.requires_grad


@kernel("nn.norm.standardize", "triton", _accepts_standardize)
def standardized(x: Tensor, mean: Tensor, inverse_sd: Tensor) -> Tensor:
    return standardize(x, mean, inverse_sd)


def _accepts_steps(graphs: Graphs, x: Tensor, steps: Steps, clusters: Layout | None) -> bool:
    if not suits(x):
        return False
    if steps.names == UNIT:
        return True
    if steps.names == NODE_INDEX:
        return clusters is None and _computes_alone(_norm(steps), graphs)
    supported = steps.names in ORDERS or steps.names == RELU_LAST
    return supported and _computes_alone(_norm(steps), graphs)


def _computes_alone(norm: BatchNorm | NodeIndexNorm, graphs: Graphs) -> bool:
    """Whether the statistics are those of these graphs and no others."""
    return norm.models == graphs.layout.models and not norm.shares_statistics


def _norm(steps: Steps) -> BatchNorm | NodeIndexNorm:
    norm = steps.steps[0 if steps.names == RELU_LAST else -1]
    assert isinstance(norm, BatchNorm | NodeIndexNorm)
    return norm


@kernel("nn.norm.apply_steps", "triton", _accepts_steps)
def apply_steps(
    graphs: Graphs, x: Tensor, steps: Steps, clusters: Layout | None, clean: bool = True
) -> Tensor:
    """Without `clean`, columns that a row does not have are not written."""
    if steps.names == UNIT:
        return UnitRows.apply(x, graphs.layout, clusters, clean)
    norm = _norm(steps)
    if isinstance(norm, NodeIndexNorm):
        return NodeIndexSteps.apply(x, graphs.layout)
    relu_last = steps.names == RELU_LAST
    y = NormSteps.apply(
        x,
        norm.weight,
        norm.bias,
        norm.running_mean,
        norm.running_var,
        graphs.layout,
        clusters,
        norm.momentum,
        norm.eps,
        "l2" in steps.names,
        "relu" in steps.names and not relu_last,
        norm.training,
        clean,
    )
    return y.relu() if relu_last else y


# --- the layers of an encoder ----------------------------------------------------------------------------------------


def _accepts_encoder(
    graphs: Graphs, x: Tensor, encoder: Encoder, clusters: Layout | None = None
) -> bool:
    *earlier, last = zip(encoder.convs, encoder.steps, strict=True)
    layers = [*((layer, None) for layer in earlier), (last, clusters)]
    return suits(x) and all(
        type(conv) in (Sage, SumConv) and _accepts_steps(graphs, x, steps, local)  # type: ignore[arg-type]
        for (conv, steps), local in layers
    )


@kernel("nn.encoder.encode", "triton", _accepts_encoder)
def encode(graphs: Graphs, x: Tensor, encoder: Encoder, clusters: Layout | None) -> Tensor:
    """With `clusters`, columns that a node does not have are not written."""
    rows, outputs, concat = graphs.layout, [], encoder.concat
    layers: Any = list(zip(encoder.convs, encoder.steps, strict=True))
    for i, (conv, steps) in enumerate(layers):
        local = clusters if i == len(layers) - 1 else None
        h: Tensor
        mean: Tensor | None
        if type(conv) is SumConv:
            h, mean = graphs.propagate(x), None
        else:
            h, mean, x = _with_mean(graphs, x)
        if i > 0:
            outputs.append(x)
        weight, bias = conv.linear.weight, conv.linear.bias
        x = LocalLinear.apply(h, mean, weight, bias, rows, local, False, i == 0)
        x = apply_steps(graphs, x, steps, local, clean=local is None)
    outputs.append(x)
    linear = encoder.linear
    if clusters is not None and linear is not None:
        before = torch.cat(outputs[:-1], -1) if concat and len(outputs) > 1 else x[:, :0]
        x = LocalLinear.apply(before, x, linear.weight, linear.bias, rows, clusters, True, False)
    else:
        if concat and len(outputs) > 1:
            x = torch.cat(outputs, -1)
        if linear is not None:
            x = LocalLinear.apply(x, None, linear.weight, linear.bias, rows, None, False, True)
    if clusters is not None and (linear is not None or not concat):
        x = x if x.shape[1] == clusters.largest else x[:, : clusters.largest]
        _local[x] = True
    return x


def _with_mean(graphs: Graphs, h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """H and D⁻¹A H for the next layer, which may write to the gradient of H, and H again for all other uses."""
    if isinstance(graphs, DrawnGraphs) and h.requires_grad:
        return graphs.with_mean(h)
    return h, graphs.propagate_mean(h), h


def _accepts_level(
    graphs: Graphs, x: Tensor, encoder: nn.Module, gnn: nn.Module | None, clusters: Layout | None
) -> bool:
    capturing = x.is_cuda and torch.cuda.is_current_stream_capturing()
    return capturing and all(
        type(network) is Encoder and _accepts_encoder(graphs, x, network, columns)
        for network, columns in ((encoder, None), (gnn, clusters))
    )


@kernel("nn.encoder.encode_level", "triton", _accepts_level)
def encode_level(
    graphs: Graphs, x: Tensor, encoder: nn.Module, gnn: nn.Module, clusters: Layout | None
) -> tuple[Tensor, Tensor]:
    """Run the networks of a captured step in two streams, because neither uses the whole GPU."""
    first: Any = (encoder.convs[0], gnn.convs[0])  # type: ignore[index]
    means = all(type(conv) is Sage for conv in first)
    if means and (isinstance(graphs, DenseGraphs) or not x.requires_grad):
        graphs.propagate_mean(x)  # computed once for both networks
    # both networks read these: they must exist before the streams part
    tiles_of(graphs.layout)
    _ = graphs.layout.device_starts
    with streams.side_stream(x) as side:
        z = encoder(graphs, x)
    scores = gnn(graphs, x, clusters)
    streams.join(side, z)
    return z, scores


# --- the edge-conditioned convolution --------------------------------------------------------------------------------

MAX_UNITS = 63  # hidden units of a filter network
MAX_SUMS = 2**28  # numbers in the sums of a batch assembled on the host


def _accepts_filtered(
    graphs: Graphs, x: Tensor, weight: Tensor, bias: Tensor, theta: Tensor
) -> bool:
    _, channels, units = weight.shape
    small = isinstance(graphs, DrawnGraphs) or (units + 1) * x.numel() <= MAX_SUMS
    return suits(x, weight, theta) and small and units <= MAX_UNITS and channels <= MAX_CHANNELS


@kernel("baselines.ecc.edge_conditioned.filtered", "triton", _accepts_filtered)
def filtered(
    graphs: SparseGraphs, x: Tensor, weight: Tensor, bias: Tensor, theta: Tensor
) -> Tensor:
    return Filtered.apply(x, weight, bias, theta, graphs)


# --- the pooling of a level ------------------------------------------------------------------------------------------


def _accepts_pool(graphs: Graphs, logits: Tensor, z: Tensor, clusters: Layout) -> bool:
    return not graphs.channels and suits(logits, z)


@kernel("equations.pool", "triton", _accepts_pool)
def pool(graphs: Graphs, logits: Tensor, z: Tensor, clusters: Layout) -> PoolingStep:
    adj, sums = shared_adj(graphs) if isinstance(graphs, DenseGraphs) else (None, {})
    symmetric = isinstance(graphs, SparseGraphs) and graphs.adj is graphs.adj_t
    clean = logits not in _local
    s, x, pooled, degree, inverse, link, entropy = Pool.apply(
        logits, z, adj, graphs, clusters, symmetric, sums, clean
    )
    return PoolingStep(s, x, DenseGraphs(clusters, pooled, degree, inverse), link, entropy)
