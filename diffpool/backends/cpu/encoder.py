"""An encoder's layers, and the pooling of a level, as one differentiable operation each, on the CPU.

On small graphs a training step is a thousand operations of a few microseconds, and calling them costs more than the
arithmetic. The layer that the paper uses throughout (GraphSAGE, then l2, ReLU and batch normalization) and the pooling
step are therefore C kernels here, each with one call forward and one backward. The slow twins are the modules and
`equations`; `python -m benchmarks.cpu_step` shows what it gains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from diffpool.backends import select as native
from diffpool.backends.select import address
from diffpool.graphs import DenseGraphs, Graphs, SparseGraphs
from diffpool.layout import Layout, column_counts
from diffpool.nn.convolutions import Sage
from diffpool.nn.linear import Linear
from diffpool.nn.norm import BatchNorm, Steps
from diffpool.segment import Csr

ORDER = ("l2", "relu", "batch")
# Above these PyTorch's operations are used. Chosen from the cost of a call, not swept: both ways give the same.
LARGE = 2**22  # entries of a layer's input or output, for each model
LARGE_BLOCK = 2**26  # multiplications in the pooling of one graph


def _readable(graphs: Graphs, *tensors: Tensor) -> bool:
    """Whether the kernels can read these graphs and matrices."""
    if type(graphs) not in (SparseGraphs, DenseGraphs):  # another storage
        return False
    if isinstance(graphs, DenseGraphs):
        stored = [graphs.adj, graphs.inverse_degree]
    else:
        stored = [m.values for m in (graphs.adj, graphs.adj_t) if m.values is not None]
        stored += [graphs.inverse_degree, graphs.squared_norm]
    return native.suits(*tensors, *stored)


def _describe(graphs: Graphs, csr: Csr | None = None) -> tuple[int, ...]:
    """The structure Graphs of `_native.c`; `csr` in place of A."""
    layout = graphs.layout
    where = (layout.total, len(layout), layout.sizes.data_ptr(), layout.starts.data_ptr())
    inverse = graphs.inverse_degree.data_ptr()
    if isinstance(graphs, DenseGraphs):
        return *where, 0, 0, 0, graphs.adj.data_ptr(), graphs.adj.stride(0), inverse
    a = csr or graphs.adj
    return *where, a.indptr.data_ptr(), a.indices.data_ptr(), address(a.values), 0, 0, inverse


# --- layers -------------------------------------------------------------------------------------------------------


def fitting_layers(
    graphs: Graphs, x: Tensor, convs: Sequence[nn.Module], steps: Sequence[nn.Module]
) -> int:
    """How many layers, from the first on, `sage_layers` can take over: not too large."""
    if not (_readable(graphs, x) and x.shape[0] > 0):
        return 0
    models = graphs.layout.models
    count = 0
    for conv, after in zip(convs, steps, strict=True):
        if not (
            type(conv) is Sage
            and isinstance(after, Steps)
            and after.names == ORDER
            and conv.linear.models == models
            and conv.linear.weight.dtype == x.dtype
            and 0
            < x.shape[0] * max(conv.linear.num_inputs, conv.linear.num_outputs)
            <= LARGE * models
        ):
            break
        count += 1
    return count


def sage_layers(
    graphs: Graphs,
    x: Tensor,
    convs: Sequence[Sage],
    steps: Sequence[Steps],
    concat: bool,
    clusters: Layout | None = None,
    linear: Linear | None = None,
) -> Tensor:
    """The layers one after the other: [N, in] → [N, out], the output of the last, or of all side by side.

    `clusters` narrows the last layer, as in `Encoder.forward`; `linear` comes after all of them.
    """
    batches = [after.steps[-1] for after in steps]
    widths = [conv.linear.num_outputs for conv in convs]
    if clusters is not None:
        widths[-1] = clusters.largest
    parameters: list[Tensor | None] = []
    for conv, batch in zip(convs, batches, strict=True):
        assert isinstance(batch, BatchNorm)
        parameters += [conv.linear.weight, conv.linear.bias, batch.weight, batch.bias]
    final = 0
    if linear is not None:
        parameters += [linear.weight, linear.bias]
        final = linear.num_outputs if clusters is None else clusters.largest
    columns = None if clusters is None else column_counts(graphs.layout, clusters)
    layers = _Layers(graphs, columns, batches, widths, concat, final)  # type: ignore[arg-type]
    adj = graphs.adj if isinstance(graphs, DenseGraphs) else None
    return _SageLayers.apply(x, adj, graphs.inverse_degree, layers, *parameters)


@dataclass(frozen=True, slots=True)
class _Layers:
    """What the kernels are told beside the tensors that have gradients."""

    graphs: Graphs
    columns: Tensor | None  # [N]: of the last layer, for each row
    batches: list[BatchNorm]
    widths: list[int]
    concat: bool
    final: int  # outputs of the linear layer at the end, 0 if there is none

    def describe(
        self,
        x: Tensor,
        kept: Tensor,
        out: Tensor,
        final: Tensor | None,
        parameters: Sequence[Tensor],
        csr: Csr | None = None,
    ) -> list[Any]:
        """The structure Models of `_native.c`, and the parameters of each."""
        layout = self.graphs.layout
        words: list[Any] = [
            torch.get_num_threads(),
            layout.models,
            layout.total // layout.models,
            layout.used.ctypes.data,
            *_describe(self.graphs, csr),
            x.data_ptr(),
            x.shape[1],
            address(self.columns),
            self.concat,
            kept.data_ptr(),
            out.data_ptr(),
            address(final),
        ]
        words += [0, 0, 0] if final is None else [*parameters[-2].shape[1:], self.final]
        words.append(len(self.widths))
        for i, (batch, width) in enumerate(zip(self.batches, self.widths, strict=True)):
            words += [batch.training, batch.momentum, batch.eps, parameters[4 * i].shape[2], width]
        for i, batch in enumerate(self.batches):
            for t in (*parameters[4 * i : 4 * i + 4], batch.running_mean, batch.running_var):
                words += [t.data_ptr(), t.stride(0)]
        if final is not None:
            for t in parameters[-2:]:
                words += [t.data_ptr(), t.stride(0)]
        return words


class _SageLayers(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        adj: Tensor | None,
        inverse_degree: Tensor,
        layers: _Layers,
        *parameters: Tensor,
    ) -> Tensor:
        n, widths = x.shape[0], layers.widths
        models = layers.graphs.layout.models
        room = native.kernels.layers_room(n, models, x.shape[1], layers.concat, *widths)  # type: ignore[union-attr]
        kept = x.new_empty(room)
        out = x.new_empty(n, sum(widths) if layers.concat else widths[-1])
        final = x.new_empty(n, layers.final) if layers.final else None
        native.kernels.layers_forward(*layers.describe(x, kept, out, final, parameters))  # type: ignore[union-attr]
        ctx.layers = layers
        ctx.save_for_backward(x, kept, out, final, *parameters)
        return out if final is None else final

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        layers, graphs = ctx.layers, ctx.layers.graphs
        x, kept, out, final, *parameters = ctx.saved_tensors
        grad = grad.contiguous()
        grad_x = grad_adj = grad_inverse = None
        if ctx.needs_input_grad[0] or ctx.needs_input_grad[1]:
            grad_x = torch.empty_like(x)
        if ctx.needs_input_grad[1]:
            grad_adj = torch.zeros_like(graphs.adj)
            grad_inverse = torch.zeros_like(graphs.inverse_degree)
        grads = [torch.empty(p.shape, dtype=p.dtype) for p in parameters]
        transposed = graphs.adj_t if isinstance(graphs, SparseGraphs) else None
        words = layers.describe(x, kept, out, final, parameters, transposed)
        words += [grad.data_ptr(), address(grad_x), address(grad_adj), address(grad_inverse)]
        for g in grads:
            words += [g.data_ptr(), g.stride(0)]
        native.kernels.layers_backward(*words)  # type: ignore[union-attr]
        return grad_x, grad_adj, grad_inverse, None, *grads


# --- pooling ------------------------------------------------------------------------------------------------------


def fits_pooling(graphs: Graphs, logits: Tensor, z: Tensor, clusters: Layout) -> bool:
    """Whether `pool` can take over: no graph too large for one thread."""
    n, k = graphs.layout.largest, clusters.largest
    return n * k * (z.shape[1] + 4 * k) <= LARGE_BLOCK and _readable(graphs, logits, z)


def pool(
    graphs: Graphs, logits: Tensor, z: Tensor, clusters: Layout
) -> tuple[Tensor, Tensor, DenseGraphs, Tensor, Tensor]:
    """S, X', A' and the link and entropy losses: `equations.assignment` to `equations.entropy_loss` in one call."""
    adj = graphs.adj if isinstance(graphs, DenseGraphs) else None
    s, x, pooled, degree, inverse, link, entropy = _Pool.apply(logits, z, adj, graphs, clusters)
    return s, x, DenseGraphs(clusters, pooled, degree, inverse), link, entropy


class _Pool(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        logits: Tensor,
        z: Tensor,
        adj: Tensor | None,
        graphs: Graphs,
        clusters: Layout,
    ) -> tuple[Tensor, ...]:
        (n, width), k, b = logits.shape, clusters.total, len(graphs)
        complete = graphs.layout.complete and clusters.complete
        make = logits.new_empty if complete else logits.new_zeros  # rows of no graph are zero
        s, propagated = make((2, n, width)).unbind()
        pooled, gram = make((2, k, width)).unbind()
        x, log_sum = make((k, z.shape[1])), logits.new_empty(n)
        degree, inverse = make((2, k)).unbind()
        link, entropy = logits.new_empty(2, b).unbind()
        made = (s, x, pooled, degree, inverse, link, entropy, propagated, gram, log_sum)
        native.kernels.pool_forward(*_Pool.describe(graphs, clusters, logits, z, made))  # type: ignore[union-attr]
        ctx.graphs, ctx.clusters = graphs, clusters
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(logits, z, *made)
        return made[:7]

    @staticmethod
    def describe(
        graphs: Graphs, clusters: Layout, logits: Tensor, z: Tensor, made: Sequence[Tensor]
    ) -> tuple[int, ...]:
        """The structure Pooling of `_native.c`."""
        norm = graphs.squared_norm.data_ptr() if isinstance(graphs, SparseGraphs) else 0
        return (
            torch.get_num_threads(),
            *_describe(graphs),
            clusters.sizes.data_ptr(),
            clusters.starts.data_ptr(),
            logits.shape[1],
            z.shape[1],
            logits.data_ptr(),
            z.data_ptr(),
            norm,
            *(t.data_ptr() for t in made),
        )

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        graphs, clusters = ctx.graphs, ctx.clusters
        logits, z, *made = ctx.saved_tensors
        given = [None if g is None else g.contiguous() for g in grads]
        make = torch.empty_like if graphs.layout.complete else torch.zeros_like
        grad_logits, grad_z = make(logits), make(z)
        grad_adj = make(graphs.adj) if ctx.needs_input_grad[2] else None
        t = (0, 0, 0)
        if isinstance(graphs, SparseGraphs):
            a = graphs.adj_t
            t = (a.indptr.data_ptr(), a.indices.data_ptr(), address(a.values))
        native.kernels.pool_backward(  # type: ignore[union-attr]
            *_Pool.describe(graphs, clusters, logits, z, made),
            *t,
            *(address(g) for g in given),
            grad_logits.data_ptr(),
            grad_z.data_ptr(),
            address(grad_adj),
        )
        return grad_logits, grad_z, grad_adj, None, None
