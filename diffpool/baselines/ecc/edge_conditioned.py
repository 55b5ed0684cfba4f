"""Edge-conditioned convolution: a small network computes a weight matrix for each edge from its features."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from diffpool.backends import accelerated
from diffpool.errors import DataError
from diffpool.graphs import Graphs, SparseGraphs
from diffpool.nn.linear import Linear
from diffpool.segment import Csr, spmm_forward


class EdgeConditioned(nn.Module):
    """The convolution of ECC: the mean of Θ(e_ji) x_j over the edges from j to i, plus b; b alone without edges.

    Simonovsky and Komodakis (2017), equation 1. The filter network has two layers, of which the last is linear:
    Θ(e) = Θ_0 + Σ_r φ_r(e) Θ_r with φ(e) = ReLU(e W + c). So h_i = Σ_r (Σ_j φ_r(e_ji) x_j) Θ_r, and the matrix of an
    edge is never built. A self-loop is an edge like any other; the paper has one at every node, and `ecc.pyramid` adds
    them.
    """

    def __init__(
        self, num_inputs: int, num_outputs: int, channels: int, hidden: int = 16, models: int = 1
    ):
        super().__init__()
        self.num_inputs, self.channels, self.models = num_inputs, channels, models
        self.filter = Linear(channels, hidden, models=models)  # W, c
        self.linear = Linear((hidden + 1) * num_inputs, num_outputs, models=models)  # Θ_1 … Θ_0, b

    def forward(self, graphs: Graphs, x: Tensor, columns: int | None = None) -> Tensor:
        """[N, in] → [N, out], or the first `columns` outputs."""
        if not isinstance(graphs, SparseGraphs):
            raise DataError(
                "expected sparse graphs for the edge-conditioned convolution, got dense graphs: "
                "use the pooler pyramid, or another convolution"
            )
        if len(graphs.channels) != self.channels:
            raise DataError(
                f"expected {self.channels} edge features, got {len(graphs.channels)}: "
                "give every edge the features that the model was built for"
            )
        assert self.filter.bias is not None
        assert self.linear.bias is not None
        theta: Tensor = self.linear.weight.unflatten(1, (-1, self.num_inputs))
        bias: Tensor = self.linear.bias
        if columns is not None or x.shape[1] < self.num_inputs:
            theta, bias = theta[:, :, : x.shape[1], :columns], bias[:, :columns]
        out = filtered(graphs, x, self.filter.weight, self.filter.bias, theta)
        return (out + bias[:, None]).flatten(0, 1)


@accelerated
def filtered(
    graphs: SparseGraphs, x: Tensor, weight: Tensor, bias: Tensor, theta: Tensor
) -> Tensor:
    """The mean of Θ(e_ji) x_j over the edges to i, zero without edges: [N, in] → [M, N/M, out].

    `weight` [M, C, R] and `bias` [M, R] are W and c; `theta` [M, R + 1, in, out] has Θ_1 … Θ_R and Θ_0.
    """
    adj, adj_t = graphs.adj, graphs.adj_t
    phi = _phi([c.values for c in graphs.channels], weight, bias, adj)
    phi_t = phi.detach()
    if x.requires_grad:  # the same values in the order in which the gradient of x is summed
        with torch.no_grad():
            phi_t = _phi([c.values_t for c in graphs.channels], weight, bias, adj_t)
    out = _Filtered.apply(x, phi, phi_t, theta, adj, adj_t)  # [M, N/M, out]
    count = adj.indptr.diff().clamp(min=1).to(x.dtype)
    return out / count.view(len(weight), -1, 1)


def _phi(features: list[Tensor], weight: Tensor, bias: Tensor, adj: Csr) -> Tensor:
    """φ of each edge, with the parameters of its model: C tensors [E] → [E, R]."""
    if len(weight) == 1:
        return torch.addmm(bias.squeeze(0), torch.stack(features, 1), weight.squeeze(0)).relu()
    model = _rows(adj) // max((len(adj.indptr) - 1) // len(weight), 1)  # [E]
    out = _PerEdge.apply(bias, model, adj.indptr)
    for values, row in zip(features, weight.unbind(1), strict=True):
        out = torch.addcmul(out, values[:, None], _PerEdge.apply(row, model, adj.indptr))
    return out.relu()


def _rows(adj: Csr) -> Tensor:
    """The row of each entry, which is the target of the edge: [E]."""
    rows = torch.arange(len(adj.indptr) - 1, device=adj.indptr.device)
    return torch.repeat_interleave(rows, adj.indptr.diff(), output_size=len(adj.indices))


class _PerEdge(torch.autograd.Function):
    """Repeat the parameters of a model for each of its edges: [M, R] → [E, R]. The gradient is deterministic."""

    @staticmethod
    def forward(ctx: Any, parameters: Tensor, model: Tensor, indptr: Tensor) -> Tensor:
        ctx.models, ctx.indptr = len(parameters), indptr
        return parameters.index_select(0, model)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        edges = torch.arange(len(grad), device=grad.device)
        rows = spmm_forward(grad.contiguous(), ctx.indptr, edges, None)  # [N, R]
        return rows.view(ctx.models, -1, grad.shape[1]).sum(1), None, None


class _Filtered(torch.autograd.Function):
    """Σ_r (Σ_j φ_r(e_ji) x_j) Θ_r with φ_0 = 1: [N, in], [E, R], [M, R + 1, in, out] → [M, N/M, out].

    `phi_t` is φ in the order of Aᵀ's entries, and has no gradient. A loop over r, repeated for the gradient, takes R
    times less memory than computing all sums at once, and no more time. The slow reference is in the tests.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, phi: Tensor, phi_t: Tensor, theta: Tensor, adj: Csr, adj_t: Csr
    ) -> Tensor:
        ctx.save_for_backward(x, phi, phi_t, theta)
        ctx.adj, ctx.adj_t = adj, adj_t
        models, _, inputs, outputs = theta.shape
        out = x.new_zeros(models, len(x) // models, outputs)
        for phi_r, matrix in zip(_by_unit(phi), theta.unbind(1), strict=True):
            sums = spmm_forward(x, adj.indptr, adj.indices, phi_r)
            out.baddbmm_(sums.view(models, -1, inputs), matrix)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, phi, phi_t, theta = ctx.saved_tensors
        adj, adj_t = ctx.adj, ctx.adj_t
        models, _, inputs, _ = theta.shape
        grad_x, grad_phi, grad_theta = torch.zeros_like(x), phi.new_empty(phi.t().shape), []
        target, ends = _rows(adj), x.index_select(0, adj.indices)  # [E], [E, in]
        units = zip(_by_unit(phi), _by_unit(phi_t), theta.unbind(1), strict=True)
        for r, (phi_r, phi_r_t, matrix) in enumerate(units):
            sums = spmm_forward(x, adj.indptr, adj.indices, phi_r)
            grad_theta.append(sums.view(models, -1, inputs).mT @ grad)
            back = (grad @ matrix.mT).flatten(0, 1)  # [N, in]
            if ctx.needs_input_grad[0]:
                grad_x += spmm_forward(back, adj_t.indptr, adj_t.indices, phi_r_t)
            if phi_r is not None:
                torch.sum(back.index_select(0, target).mul_(ends), 1, out=grad_phi[r])
        return grad_x, grad_phi.t(), None, torch.stack(grad_theta, 1), None, None


def _by_unit(phi: Tensor) -> tuple[Tensor | None, ...]:
    """φ_1 … φ_R of all edges, and None for φ_0, which is 1."""
    return *phi.t().contiguous(), None
