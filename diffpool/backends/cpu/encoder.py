"""The layers of the encoders of a level in one call, as a differentiable function."""

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
from diffpool.backends.cpu.arguments import ALONE, address, describe_graphs, fits, suits
from diffpool.backends.cpu.threads import num_threads
from diffpool.graphs import DenseGraphs, Graphs, SparseGraphs
from diffpool.layout import Layout, column_counts
from diffpool.nn.convolutions import Sage
from diffpool.nn.encoder import Encoder
from diffpool.nn.linear import Linear
from diffpool.nn.norm import BatchNorm

# The supported steps after a convolution.
ORDERS = (("l2", "relu", "batch"), ("l2", "batch"), ("relu", "batch"), ("batch",))
MAX_LAYERS = 32
MAX_SCRATCH = 2**24  # floats of working space that a thread keeps
# Multiplications of a call. Networks with fewer are one piece of work each; with more, their rows are divided.
CHUNKED = 2**27


class _Plan:
    """The part of an encoder's description that is the same in every call; cached, because module lookups are slow."""

    def __init__(self, encoder: Encoder, members: tuple[Any, ...]):
        convs: list[Any] = list(encoder.convs)
        steps: list[Any] = list(encoder.steps)
        self.members = members
        self.checked: tuple[int, ...] = ()  # addresses of tensors that were found readable
        self.modules = [encoder, *convs, *steps]
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
        self.statistics = [t for b in self.batches for t in (b.running_mean, b.running_var)]
        chain = zip([self.inputs, *self.widths], linears, strict=False)
        self.served = all(type(t) in (nn.Parameter, Tensor) for t in self.parameters) and all(
            linear.num_inputs == 2 * width and linear.models == self.models
            for width, linear in chain
        )

    def readable(self) -> bool:
        """Whether the kernel can read the parameters and statistics as they are now."""
        tensors = (*self.parameters, *self.statistics)
        addresses = tuple(t.data_ptr() for t in tensors)
        if addresses != self.checked and all(_by_models(t) for t in tensors):
            self.checked = addresses
        return addresses == self.checked and self.parameters[0].dtype == torch.float32


def _by_models(t: Tensor) -> bool:
    """Whether the part of each model is contiguous, float32, on the CPU."""
    return t.dtype == torch.float32 and t.device.type == "cpu" and t[:1].is_contiguous()


_plans: WeakKeyDictionary[Encoder, _Plan] = WeakKeyDictionary()


def _members(encoder: Encoder) -> tuple[Any, ...]:
    """Everything that a plan depends on and that may be replaced: modules, parameters and buffers, by identity."""
    found: list[Any] = []
    waiting: list[Any] = [encoder]
    while waiting:
        module = waiting.pop()
        if module is not None:
            found += (id(module), *map(id, module._parameters.values()))
            found += map(id, module._buffers.values())
            waiting += module._modules.values()
    return tuple(found)


def _plan(encoder: Encoder) -> _Plan:
    plan, members = _plans.get(encoder), _members(encoder)
    if plan is None or plan.members != members:
        plan = _plans[encoder] = _Plan(encoder, members)
    return plan


def _accepts_encoder(
    graphs: Graphs, x: Tensor, encoder: Encoder, clusters: Layout | None = None
) -> bool:
    if not (suits(graphs, x) and x.numel() > 0 and x.dim() == 2):
        return False
    plan = _plan(encoder)
    return (
        plan.served
        and x.shape == (graphs.layout.total, plan.inputs)
        and plan.models == graphs.layout.models
        and plan.readable()
        and not any(m._forward_hooks or m._forward_pre_hooks for m in plan.modules)
        and (clusters is None or fits(graphs, clusters, min(plan.widths[-1], encoder.num_outputs)))
    )


@kernel("nn.encoder.encode", "cpu", _accepts_encoder)
def encode(graphs: Graphs, x: Tensor, encoder: Encoder, clusters: Layout | None) -> Tensor:
    """Run all layers in one call."""
    return _run(graphs, x, [_Network(graphs, _plan(encoder), clusters)])[0]


def _accepts_level(
    graphs: Graphs, x: Tensor, encoder: nn.Module, gnn: nn.Module | None, clusters: Layout | None
) -> bool:
    return (
        type(encoder) is Encoder  # a subclass may do something else
        and type(gnn) is Encoder
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
        self,
        graphs: Graphs,
        x: Tensor,
        kept: Tensor,
        out: Tensor,
        final: Tensor | None,
        parameters: Sequence[Tensor],
    ) -> list[Any]:
        """The network and its parameters, as read by `take_network` in `kernels.c`."""
        layout, plan = graphs.layout, self.plan
        words: list[Any] = [
            layout.models,
            layout.total // layout.models,
            layout.used.ctypes.data,
            *describe_graphs(graphs),
            x.data_ptr(),
            x.shape[1],
            address(self.columns),
            plan.concat,
            kept.data_ptr(),
            out.data_ptr(),
            address(final),
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
        ctx.words, ctx.scratch = [], []
        saved: list[Tensor | None] = []
        start = 0
        for network in networks:
            own = parameters[start : start + len(network.plan.parameters)]
            start += len(own)
            kept, scratch = _kernels.layers_buffers(
                n, models, d, network.plan.concat, *network.widths
            )
            buffers = (
                x.new_empty(kept),
                x.new_empty(n, network.width),
                x.new_empty(n, network.final) if network.final else None,
            )
            ctx.words.append(network.describe(graphs, x, *buffers, own))
            ctx.scratch.append(scratch)
            saved += buffers
        words = [word for own_words in ctx.words for word in own_words]
        _kernels.layers_forward(*ctx.call, len(networks), *words)
        ctx.graphs, ctx.networks = graphs, networks
        ctx.save_for_backward(x, *saved, *parameters)
        ctx.addresses = [address(t) for t in (x, *saved, *parameters)]
        outs = zip(saved[1::3], saved[2::3], strict=True)
        return tuple(out if final is None else final for out, final in outs)  # type: ignore[misc]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        graphs, networks = ctx.graphs, ctx.networks
        x, *saved = tensors = ctx.saved_tensors
        moved = ctx.addresses != [address(t) for t in tensors]  # by hooks on saved tensors
        parameters = saved[3 * len(networks) :]
        needs_x, needs_adj = ctx.needs_input_grad[:2]
        scratch = _scratch(sum(ctx.scratch))
        workspace = scratch.data_ptr()
        words: list[Any] = [*ctx.call, len(networks)]
        input_grads, parameter_grads, alive, start = [], [], [], 0
        for number, network in enumerate(networks):
            own = parameters[start : start + len(network.plan.parameters)]
            start += len(own)
            own_words = [*ctx.words[number]]
            if moved:
                buffers = saved[3 * number : 3 * number + 3]
                own_words = network.describe(graphs, x, *buffers, own)
            if isinstance(graphs, SparseGraphs):
                a = graphs.adj_t
                own_words[EDGES] = a.indptr.data_ptr(), a.indices.data_ptr(), address(a.values)
            grad = grads[number].contiguous()
            grad_x = torch.empty_like(x) if needs_x or needs_adj else None
            grad_adj = torch.zeros_like(graphs.adj) if needs_adj else None
            grad_inverse = torch.zeros_like(graphs.inverse_degree) if needs_adj else None
            words += own_words
            words += [address(t) for t in (grad, grad_x, grad_adj, grad_inverse)]
            words.append(workspace)
            workspace += 4 * ctx.scratch[number]
            weight_grads = [torch.empty_like(p, memory_format=torch.contiguous_format) for p in own]
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
        known = torch.empty(size, dtype=torch.float32, device="cpu")
        if size <= MAX_SCRATCH:
            _space.scratch = known
    return known
