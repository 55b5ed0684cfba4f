"""The operations of the C kernels, as differentiable functions, and the arguments that they accept.

They replace about a thousand PyTorch operations of a few microseconds each in a training step on small graphs.
`python -m benchmarks.cpu_step` measures the speedup.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from diffpool.backends import kernel
from diffpool.backends.cpu import _kernels  # type: ignore[attr-defined]
from diffpool.backends.cpu.threads import num_threads
from diffpool.equations import PoolingStep, pooled_channels
from diffpool.graphs import DenseGraphs, Graphs, SparseGraphs
from diffpool.layout import Layout, column_counts
from diffpool.nn.convolutions import Sage
from diffpool.nn.encoder import Encoder
from diffpool.nn.linear import Linear
from diffpool.nn.norm import BatchNorm

# The supported steps after a convolution.
ORDERS = (("l2", "relu", "batch"), ("l2", "batch"), ("relu", "batch"), ("batch",))
MAX_LAYERS = 32
# Thresholds for the number of multiplications in a call.
CHUNKED = 2**27  # above: divide the rows of each network among the threads, otherwise the networks
ALONE = 2**19  # below: use one thread
LARGE_GRAPH = 2**28  # in the pooling of one graph; above, PyTorch with all threads is faster


def suits(graphs: Graphs, *tensors: Tensor) -> bool:
    """Whether the kernels can read these graphs and matrices: float32, on the CPU, contiguous."""
    if type(graphs) not in (SparseGraphs, DenseGraphs):  # a subclass with another storage format
        return False
    if isinstance(graphs, DenseGraphs):
        stored = [graphs.adj, graphs.inverse_degree]
    else:
        stored = [m.values for m in (graphs.adj, graphs.adj_t) if m.values is not None]
        stored += [graphs.inverse_degree, graphs.squared_norm]
    return all(
        t.dtype == torch.float32 and t.device.type == "cpu" and t.is_contiguous()
        for t in (*tensors, *stored)
    )


def _address(t: Tensor | None) -> int:
    """The address of the first element; 0 for None."""
    return 0 if t is None else t.data_ptr()


def _describe(graphs: Graphs) -> tuple[int, ...]:
    """The fields of the struct Graphs in `layers.h`."""
    layout, dense = graphs.layout, isinstance(graphs, DenseGraphs)
    sizes = (layout.total, len(layout), dense, layout.sizes.data_ptr(), layout.starts.data_ptr())
    inverse = graphs.inverse_degree.data_ptr()
    if isinstance(graphs, DenseGraphs):
        return *sizes, 0, 0, 0, graphs.adj.data_ptr(), graphs.adj.stride(0), inverse
    a = graphs.adj
    return *sizes, a.indptr.data_ptr(), a.indices.data_ptr(), _address(a.values), 0, 0, inverse


# --- the layers of encoders ------------------------------------------------------------------------------------------


class _Plan:
    """The part of an encoder's description that is the same in every call; cached, because module lookups are slow."""

    def __init__(self, encoder: Encoder):
        convs: list[Any] = list(encoder.convs)
        steps: list[Any] = list(encoder.steps)
        self.members = _members(encoder)
        self.served = len(convs) <= MAX_LAYERS and all(
            type(conv) is Sage and each.names in ORDERS
            for conv, each in zip(convs, steps, strict=True)
        )
        if not self.served:
            return
        linears: list[Linear] = [conv.linear for conv in convs]
        self.batches: list[BatchNorm] = [each.steps[-1] for each in steps]
        self.flags = [("l2" in each.names, "relu" in each.names) for each in steps]
        self.inputs = linears[0].num_inputs // 2
        self.widths = [linear.num_outputs for linear in linears]
        self.models = linears[0].models
        self.concat, self.linear = encoder.concat, encoder.linear
        self.parameters: list[Any] = []
        for linear, batch in zip(linears, self.batches, strict=True):
            self.parameters += [linear.weight, linear.bias, batch.weight, batch.bias]
        if self.linear is not None:
            self.parameters += [self.linear.weight, self.linear.bias]
        chain = zip([self.inputs, *self.widths], linears, strict=False)
        self.served = all(
            linear.num_inputs == 2 * width and linear.models == self.models
            for width, linear in chain
        )


_plans: WeakKeyDictionary[Encoder, _Plan] = WeakKeyDictionary()


def _members(encoder: Encoder) -> tuple[Any, ...]:
    """The modules that a plan depends on, and the first weight: code that replaces parameters replaces all of them."""
    modules: Any = encoder._modules
    convs: Any = modules["convs"]._modules
    steps: Any = modules["steps"]._modules
    weight = None
    if isinstance(convs["0"], Sage):
        linear: Any = convs["0"]._modules["linear"]
        weight = linear._parameters["weight"]
    return (*convs.values(), *steps.values(), modules.get("linear"), id(weight))


def _plan(encoder: Encoder) -> _Plan:
    plan = _plans.get(encoder)
    if plan is None or plan.members != _members(encoder):
        plan = _plans[encoder] = _Plan(encoder)
    return plan


def _accepts_encoder(
    graphs: Graphs, x: Tensor, encoder: Encoder, clusters: Layout | None = None
) -> bool:
    if not (suits(graphs, x) and x.numel() > 0):
        return False
    plan = _plan(encoder)
    return (
        plan.served
        and plan.inputs == x.shape[1]
        and plan.models == graphs.layout.models
        and plan.parameters[0].dtype == torch.float32
        and (clusters is None or 0 < clusters.largest <= min(plan.widths[-1], encoder.num_outputs))
    )


@kernel("nn.encoder.encode", "cpu", _accepts_encoder)
def encode(graphs: Graphs, x: Tensor, encoder: Encoder, clusters: Layout | None) -> Tensor:
    """Run all layers in one call."""
    return _run(graphs, x, [_Network(graphs, _plan(encoder), clusters)])[0]


def _accepts_level(
    graphs: Graphs, x: Tensor, encoder: nn.Module, gnn: nn.Module | None, clusters: Layout | None
) -> bool:
    return (
        isinstance(encoder, Encoder)
        and isinstance(gnn, Encoder)
        and _accepts_encoder(graphs, x, encoder)
        and _accepts_encoder(graphs, x, gnn, clusters)
    )


@kernel("nn.encoder.encode_level", "cpu", _accepts_level)
def encode_level(
    graphs: Graphs, x: Tensor, encoder: Encoder, gnn: Encoder, clusters: Layout | None
) -> tuple[Tensor, Tensor]:
    """Run both networks in one call, in parallel."""
    networks = [_Network(graphs, _plan(encoder), None), _Network(graphs, _plan(gnn), clusters)]
    z, scores = _run(graphs, x, networks)
    return z, scores


class _Network:
    """An encoder applied to a batch."""

    def __init__(self, graphs: Graphs, plan: _Plan, clusters: Layout | None):
        self.plan = plan
        self.columns = None if clusters is None else column_counts(graphs.layout, clusters)
        self.widths = plan.widths
        self.final = 0 if plan.linear is None else plan.linear.num_outputs
        if clusters is not None:
            self.widths = [*plan.widths[:-1], clusters.largest]
            self.final = 0 if plan.linear is None else clusters.largest
        self.width = sum(self.widths) if plan.concat else self.widths[-1]

    def work(self, inputs: int) -> int:
        """The number of multiplications per row."""
        total, before = self.width * self.final, inputs
        for width in self.widths:
            total, before = total + 2 * before * width, width
        return total

    def describe(
        self, graphs: Graphs, x: Tensor, kept: Tensor, out: Tensor, final: Tensor | None
    ) -> list[Any]:
        """The network and its parameters, as read by `take_network` in `kernels.c`."""
        layout, plan = graphs.layout, self.plan
        parameters = plan.parameters
        words: list[Any] = [
            layout.models,
            layout.total // layout.models,
            layout.used.ctypes.data,
            *_describe(graphs),
            x.data_ptr(),
            x.shape[1],
            _address(self.columns),
            plan.concat,
            kept.data_ptr(),
            out.data_ptr(),
            _address(final),
        ]
        words += [0, 0, 0] if final is None else [*parameters[-2].shape[1:], self.final]
        words.append(len(self.widths))
        for i, batch in enumerate(plan.batches):
            words += [batch.training, batch.momentum, batch.eps, *plan.flags[i]]
            words += [parameters[4 * i].shape[2], self.widths[i]]
        for i, batch in enumerate(plan.batches):
            for t in (*parameters[4 * i : 4 * i + 4], batch.running_mean, batch.running_var):
                words += [t.data_ptr(), t.stride(0)]
        if final is not None:
            for t in parameters[-2:]:
                words += [t.data_ptr(), t.stride(0)]
        return words


# The words of a network that describe the edges: indptr, indices and values.
EDGES = slice(8, 11)


def _run(graphs: Graphs, x: Tensor, networks: list[_Network]) -> tuple[Tensor, ...]:
    """The outputs of networks that read the same input."""
    adj = graphs.adj if isinstance(graphs, DenseGraphs) else None
    parameters = [p for network in networks for p in network.plan.parameters]
    return _Encoders.apply(x, adj, graphs.inverse_degree, graphs, networks, *parameters)


class _Encoders(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        adj: Tensor | None,
        inverse_degree: Tensor,
        graphs: Graphs,
        networks: list[_Network],
        *parameters: Tensor,
    ) -> tuple[Tensor, ...]:
        (n, d), models = x.shape, graphs.layout.models
        work = n * sum(network.work(d) for network in networks)
        ctx.call = (num_threads() if work > ALONE else 1, models == 1 and work > CHUNKED)
        ctx.words, ctx.scratch = [], 0
        saved: list[Tensor] = []
        outs = []
        for network in networks:
            kept, scratch = _kernels.layers_buffers(
                n, models, d, network.plan.concat, *network.widths
            )
            buffer, out = x.new_empty(kept), x.new_empty(n, network.width)
            final = x.new_empty(n, network.final) if network.final else None
            ctx.words.append(network.describe(graphs, x, buffer, out, final))
            ctx.scratch += scratch
            saved += [buffer, out]
            outs.append(out if final is None else final)
        words = [word for network_words in ctx.words for word in network_words]
        _kernels.layers_forward(*ctx.call, len(networks), *words)
        ctx.graphs, ctx.networks = graphs, networks
        # Save the parameters too, so that PyTorch detects in-place changes before the backward pass.
        ctx.save_for_backward(x, *saved, *outs, *parameters)
        return tuple(outs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        graphs, networks = ctx.graphs, ctx.networks
        x, *saved = ctx.saved_tensors
        parameters = saved[3 * len(networks) :]
        needs_x, needs_adj = ctx.needs_input_grad[:2]
        scratch = _scratch(ctx.scratch)
        words: list[Any] = [*ctx.call, len(networks)]
        input_grads, parameter_grads, alive, start = [], [], [], 0
        address = scratch.data_ptr()
        for grad, network, network_words in zip(grads, networks, ctx.words, strict=True):
            weights = parameters[start : start + len(network.plan.parameters)]
            start += len(weights)
            grad = grad.contiguous()
            grad_x = torch.empty_like(x) if needs_x or needs_adj else None
            grad_adj = torch.zeros_like(graphs.adj) if needs_adj else None
            grad_inverse = torch.zeros_like(graphs.inverse_degree) if needs_adj else None
            if isinstance(graphs, SparseGraphs):
                a = graphs.adj_t
                network_words = [*network_words]
                network_words[EDGES] = a.indptr.data_ptr(), a.indices.data_ptr(), _address(a.values)
            words += network_words
            words += [_address(t) for t in (grad, grad_x, grad_adj, grad_inverse)]
            words.append(address)
            address += (
                4
                * _kernels.layers_buffers(
                    len(x), graphs.layout.models, x.shape[1], network.plan.concat, *network.widths
                )[1]
            )
            weight_grads = [
                torch.empty_like(p, memory_format=torch.contiguous_format) for p in weights
            ]
            for g in weight_grads:
                words += [g.data_ptr(), g.stride(0)]
            input_grads.append((grad_x, grad_adj, grad_inverse))
            parameter_grads += weight_grads
            alive.append(grad)  # until the call below
        _kernels.layers_backward(*words)
        first = input_grads[0]
        for other in input_grads[1:]:
            for total, addend in zip(first, other, strict=True):
                if total is not None and addend is not None:
                    total += addend
        return *first, None, None, *parameter_grads


_space = threading.local()


def _scratch(size: int) -> Tensor:
    """The workspace of this thread, reused because a new allocation in every call would cause page faults."""
    known: Tensor | None = getattr(_space, "scratch", None)
    if known is None or len(known) < size:
        known = _space.scratch = torch.empty(size)
    return known


# --- the pooling of a level ------------------------------------------------------------------------------------------


def _accepts_pool(graphs: Graphs, logits: Tensor, z: Tensor, clusters: Layout) -> bool:
    n, k = graphs.layout.largest, clusters.largest
    small = n * k * (z.shape[1] + 4 * k) <= LARGE_GRAPH
    return small and min(logits.numel(), z.numel()) > 0 and suits(graphs, logits, z)


@kernel("equations.pool", "cpu", _accepts_pool)
def pool(graphs: Graphs, logits: Tensor, z: Tensor, clusters: Layout) -> PoolingStep:
    """Compute equations 3, 4 and 6 and both losses in one call."""
    adj = graphs.adj if isinstance(graphs, DenseGraphs) else None
    s, x, pooled, degree, inverse, link, entropy = _Pool.apply(logits, z, adj, graphs, clusters)
    channels = pooled_channels(graphs, s, clusters)
    coarse = DenseGraphs(clusters, pooled, degree, inverse, channels)
    return PoolingStep(s, x, coarse, link, entropy)


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
        work = n * width * (z.shape[1] + 2 * width)
        ctx.threads = num_threads() if work > ALONE else 1
        words = _Pool.describe(graphs, clusters, logits, z, made)
        _kernels.pool_forward(ctx.threads, *words)
        ctx.graphs, ctx.clusters = graphs, clusters
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(logits, z, *made)
        return made[:7]

    @staticmethod
    def describe(
        graphs: Graphs, clusters: Layout, logits: Tensor, z: Tensor, made: Sequence[Tensor]
    ) -> tuple[int, ...]:
        """The first fields of the struct Pooling in `pooling.h`."""
        norm = graphs.squared_norm.data_ptr() if isinstance(graphs, SparseGraphs) else 0
        return (
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
        transposed = (0, 0, 0)
        if isinstance(graphs, SparseGraphs):
            a = graphs.adj_t
            transposed = (a.indptr.data_ptr(), a.indices.data_ptr(), _address(a.values))
        _kernels.pool_backward(
            ctx.threads,
            *_Pool.describe(graphs, clusters, logits, z, made),
            *transposed,
            *(_address(g) for g in given),
            grad_logits.data_ptr(),
            grad_z.data_ptr(),
            _address(grad_adj),
        )
        return grad_logits, grad_z, grad_adj, None, None
