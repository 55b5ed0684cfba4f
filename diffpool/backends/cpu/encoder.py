"""The layers of the encoders of a level in one call, as a differentiable function."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from itertools import chain
from operator import is_
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from diffpool.backends import kernel
from diffpool.backends.cpu import _kernels  # type: ignore[attr-defined]
from diffpool.backends.cpu.arguments import ALONE, describe_graphs, fits, suits
from diffpool.backends.cpu.threads import num_threads
from diffpool.graphs import DenseGraphs, Graphs
from diffpool.layout import Layout, column_counts
from diffpool.nn.convolutions import Sage
from diffpool.nn.encoder import Encoder
from diffpool.nn.linear import Linear
from diffpool.nn.norm import BatchNorm

# The supported steps after a convolution.
ORDERS = (("l2", "relu", "batch"), ("l2", "batch"), ("relu", "batch"), ("batch",))
MAX_LAYERS = 32
MAX_KEPT = 2**24  # floats of workspace that a thread keeps
# Multiplications of a call. Networks with fewer are one piece of work each; with more, their rows are divided.
CHUNKED = 2**27


class _Plan:
    """The part of an encoder's description that is the same in every call; cached, because module lookups are slow.

    It holds the parts of the encoder but not the encoder itself, which would then never be freed.
    """

    def __init__(self, encoder: Encoder):
        convs: list[Any] = list(encoder.convs)
        steps: list[Any] = list(encoder.steps)
        parts = list(encoder.modules())
        # The dictionaries in which modules, parameters and buffers may be replaced, and their current entries.
        self.owners: list[dict[str, Any]] = [
            d for m in parts for d in (m._modules, m._parameters, m._buffers) if d
        ]
        self.members = self._members()
        self.hooks = [d for m in parts for d in (m._forward_hooks, m._forward_pre_hooks)]
        self.addresses: tuple[int, ...] = ()  # of tensors that were found readable
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
        self.tensors: list[Any] = []  # the parameters and statistics
        self.statistics: list[tuple[Any, Any]] = []  # of each batch normalization
        self.shapes: list[tuple[int, ...]] = []  # that the kernel expects
        before = self.inputs
        for linear, batch, width in zip(linears, self.batches, self.widths, strict=True):
            parameters = [linear.weight, linear.bias, batch.weight, batch.bias]
            self.parameters += parameters
            self.statistics.append((batch.running_mean, batch.running_var))
            self.tensors += [*parameters, *self.statistics[-1]]
            self.shapes += [(self.models, 2 * before, width), *[(self.models, width)] * 5]
            before = width
        if self.linear is not None:
            parameters = [self.linear.weight, self.linear.bias]
            self.parameters += parameters
            self.tensors += parameters
            inputs = sum(self.widths) if self.concat else before
            self.final_shape = (inputs, self.linear.num_outputs)
            self.shapes += [(self.models, *self.final_shape), (self.models, self.final_shape[1])]
        self.served = all(type(t) in (nn.Parameter, Tensor) for t in self.tensors)

    def _members(self) -> list[Any]:
        return list(chain.from_iterable(map(dict.values, self.owners)))

    def current(self) -> bool:
        """Whether the encoder still has the same modules, parameters and buffers."""
        now = self._members()
        return len(now) == len(self.members) and all(map(is_, now, self.members))

    def readable(self) -> bool:
        """Whether the kernel can read the parameters and statistics as they are now."""
        addresses = tuple(map(Tensor.data_ptr, self.tensors))
        if addresses != self.addresses:
            if not all(map(_by_models, self.tensors, self.shapes)):
                return False
            self.addresses = addresses
        return self.parameters[0].dtype == torch.float32


def _by_models(t: Tensor, shape: tuple[int, ...]) -> bool:
    """Whether a tensor has this shape and the part of each model is contiguous, float32, on the CPU."""
    known = t.shape == shape and t.dtype == torch.float32 and t.is_cpu and not t.is_neg()
    apart = shape[0] == 1 or t.stride(0) >= math.prod(shape[1:])  # not expanded
    return known and apart and t[:1].is_contiguous()


_plans: WeakKeyDictionary[Encoder, _Plan] = WeakKeyDictionary()


def _reads(encoder: Encoder, graphs: Graphs, x: Tensor, clusters: Layout | None) -> bool:
    """Whether the kernel can run this encoder on suitable graphs and features."""
    plan = _plans.get(encoder)
    if plan is None or not plan.current():
        plan = _plans[encoder] = _Plan(encoder)
    return (
        plan.served
        and x.shape == (graphs.layout.total, plan.inputs)
        and plan.models == graphs.layout.models
        and plan.readable()
        and not any(plan.hooks)
        and not any(batch.shares_statistics for batch in plan.batches)
        and (clusters is None or fits(graphs, clusters, min(plan.widths[-1], encoder.num_outputs)))
    )


def _accepts_encoder(
    graphs: Graphs, x: Tensor, encoder: Encoder, clusters: Layout | None = None
) -> bool:
    return x.numel() > 0 and suits(graphs, x) and _reads(encoder, graphs, x, clusters)


@kernel("nn.encoder.encode", "cpu", _accepts_encoder)
def encode(graphs: Graphs, x: Tensor, encoder: Encoder, clusters: Layout | None) -> Tensor:
    """Run all layers in one call."""
    return _run(graphs, x, [_Network(graphs, _plans[encoder], clusters)])[0]


def _accepts_level(
    graphs: Graphs, x: Tensor, encoder: nn.Module, gnn: nn.Module | None, clusters: Layout | None
) -> bool:
    return (
        type(encoder) is Encoder  # a subclass may do something else
        and type(gnn) is Encoder
        and _accepts_encoder(graphs, x, encoder)
        and _reads(gnn, graphs, x, clusters)
    )


@kernel("nn.encoder.encode_level", "cpu", _accepts_level)
def encode_level(
    graphs: Graphs, x: Tensor, encoder: Encoder, gnn: Encoder, clusters: Layout | None
) -> tuple[Tensor, Tensor]:
    """Run both networks in one call, in parallel."""
    networks = [_Network(graphs, _plans[encoder], None), _Network(graphs, _plans[gnn], clusters)]
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
        self, kept: Tensor, out: Tensor, final: Tensor | None, parameters: Sequence[Tensor]
    ) -> list[Any]:
        """The arguments that `take_network` and `take_parameters` in `kernels.c` read."""
        plan = self.plan
        words: list[Any] = [self.columns, plan.concat, len(self.widths)]
        layers = zip(plan.batches, plan.flags, plan.widths, self.widths, strict=True)
        for batch, (l2, relu), width, used in layers:
            words += (batch.training, batch.momentum, batch.eps, l2, relu, width, used)
        words += (kept, out, final is not None)
        if final is not None:
            words += (*plan.final_shape, self.final, final)
        for i, statistics in enumerate(plan.statistics):
            words += parameters[4 * i : 4 * i + 4]
            words += statistics
        words += parameters[4 * len(plan.statistics) :]
        return words


def _describe_input(graphs: Graphs, x: Tensor, transpose: bool = False) -> list[Any]:
    """The arguments that `take_input` in `kernels.c` reads."""
    return [graphs.layout.models, *describe_graphs(graphs, transpose), x.shape[1], x]


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
        ctx.workspace = 1  # the largest of all networks, for one model
        words: list[Any] = [*ctx.call, *_describe_input(graphs, x), len(networks)]
        saved: list[Tensor | None] = []
        start = 0
        for network in networks:
            network_parameters = parameters[start : start + len(network.plan.parameters)]
            start += len(network_parameters)
            kept, workspace = _kernels.layers_buffers(
                n, models, d, network.plan.concat, *network.widths
            )
            buffers = (
                x.new_empty(kept),
                x.new_empty(n, network.width),
                x.new_empty(n, network.final) if network.final else None,
            )
            words += network.describe(*buffers, network_parameters)
            ctx.workspace = max(ctx.workspace, workspace)
            saved += buffers
        _kernels.layers_forward(*words)
        ctx.graphs, ctx.networks = graphs, networks
        ctx.save_for_backward(x, *saved, *parameters)
        outs = zip(saved[1::3], saved[2::3], strict=True)
        return tuple(out if final is None else final for out, final in outs)  # type: ignore[misc]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        graphs, networks = ctx.graphs, ctx.networks
        x, *saved = ctx.saved_tensors
        parameters = saved[3 * len(networks) :]
        needs_x, needs_adj = ctx.needs_input_grad[:2]
        tasks = 1 if ctx.call[1] else len(networks) * graphs.layout.models  # side by side
        workspace = _workspace(ctx.workspace * min(ctx.call[0], tasks))
        words: list[Any] = [*ctx.call, workspace]
        words += [*_describe_input(graphs, x, transpose=True), len(networks)]
        input_grads, parameter_grads, start = [], [], 0
        for number, network in enumerate(networks):
            network_parameters = parameters[start : start + len(network.plan.parameters)]
            start += len(network_parameters)
            buffers = saved[3 * number : 3 * number + 3]
            words += network.describe(*buffers, network_parameters)
            grad_x = torch.empty_like(x) if needs_x or needs_adj else None
            grad_adj = torch.zeros_like(graphs.adj) if needs_adj else None
            grad_inverse = torch.zeros_like(graphs.inverse_degree) if needs_adj else None
            grad_inputs = (grad_x, grad_adj, grad_inverse)
            grad_parameters = list(
                map(torch.empty_like, network_parameters)
            )  # contiguous: models are apart
            words += [grads[number].contiguous(), *grad_inputs, *grad_parameters]
            input_grads.append(grad_inputs)
            parameter_grads += grad_parameters
        _kernels.layers_backward(*words)
        first = input_grads[0]
        for other in input_grads[1:]:
            for total, addend in zip(first, other, strict=True):
                if total is not None and addend is not None:
                    total += addend
        return *first, None, None, *parameter_grads


_space = threading.local()  # the workspace of a thread of Python


def _workspace(size: int) -> Tensor:
    """At least `size` floats, reused because a new allocation in every call would cause page faults."""
    known: Tensor | None = getattr(_space, "kept", None)
    if known is None or len(known) < size:
        known = torch.empty(size, dtype=torch.float32, device="cpu")
        if size <= MAX_KEPT:
            _space.kept = known
    return known
