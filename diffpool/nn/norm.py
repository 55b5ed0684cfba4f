"""Normalizations and activations of node embeddings: the steps after a convolution.

Each is called as `step(graphs, x, mask)`: [N, D] → [N, D]. `mask` [N, D] marks the columns that a node has; the rest of
x is zero and stays zero. None: all columns. An encoder applies them through `Steps`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from diffpool.backends import accelerated
from diffpool.graphs import Graphs
from diffpool.layout import Layout, column_mask
from diffpool.nn.synchronized import largest as largest_of_processes
from diffpool.nn.synchronized import merged_moments, summed


class BatchNorm(nn.Module):
    """Batch normalization for each of M models, over the nodes in the batch.

    A column is normalized over the nodes that have it. If fewer than two nodes have it, it is normalized by the running
    statistics, which do not change. While `synchronized`, the batch is that of all processes of a data-parallel run.

    Examples:
        >>> BatchNorm(3)(graphs, x).shape  # [N, 3] → [N, 3]
        torch.Size([7, 3])
    """

    def __init__(self, width: int, models: int = 1, momentum: float = 0.1, eps: float = 1e-5):
        super().__init__()
        self.synchronized = False  # set by `nn.synchronized.synchronized`
        self.width, self.models, self.momentum, self.eps = width, models, momentum, eps
        self.weight = nn.Parameter(torch.ones(models, width))
        self.bias = nn.Parameter(torch.zeros(models, width))
        self.running_mean: Tensor
        self.running_var: Tensor
        self.register_buffer("running_mean", torch.zeros(models, width))
        self.register_buffer("running_var", torch.ones(models, width))

    def reset_parameters(self) -> None:
        """Set the parameters and running statistics to their initial values."""
        for ones, zeros in ((self.weight, self.bias), (self.running_var, self.running_mean)):
            nn.init.ones_(ones)
            nn.init.zeros_(zeros)

    @property
    def shares_statistics(self) -> bool:
        """Whether the statistics are those of all processes."""
        return self.synchronized and self.training

    def forward(self, graphs: Graphs, x: Tensor, mask: Tensor | None = None) -> Tensor:
        real = graphs.layout.real
        if real is not None:
            mask = (real[:, None] if mask is None else mask & real[:, None]).expand_as(x)
        special = x.shape[1] < self.width or x.shape[0] <= self.models or self.shares_statistics
        if mask is not None or special:
            return self._masked(x, mask)
        if self.models > 1:  # one column block per model, so that one call normalizes all models
            x = x.unflatten(0, (self.models, -1)).transpose(0, 1).flatten(1)  # [N/M, M·D]
        x = F.batch_norm(
            x,
            self.running_mean.view(-1),
            self.running_var.view(-1),
            self.weight.reshape(-1),
            self.bias.reshape(-1),
            self.training,
            self.momentum,
            self.eps,
        )
        if self.models > 1:
            x = x.unflatten(1, (self.models, -1)).transpose(0, 1).flatten(0, 1)
        return x

    def _masked(self, x: Tensor, mask: Tensor | None) -> Tensor:
        width = x.shape[1]
        real = torch.ones_like(x) if mask is None else mask.to(x.dtype)
        if mask is not None:
            x = x.masked_fill(~mask, 0)  # a product with zero would keep NaN
        shape = (self.models, x.shape[0] // self.models, width)
        x, real = x.view(shape), real.view(shape)
        mean, var = self.running_mean[:, :width], self.running_var[:, :width]
        if self.training:
            count = real.sum(1)  # [M, W]
            batch_mean = (x * real).sum(1) / count.clamp(min=1)
            batch_var = ((x - batch_mean[:, None]) * real).square().sum(1) / count.clamp(min=1)
            if self.shares_statistics:  # from here on all columns: other processes may have more
                moments = merged_moments(count, batch_mean, batch_var, self.width)
                count, batch_mean, batch_var = moments
                mean, var = self.running_mean, self.running_var
            spread = count > 1
            unbiased = batch_var.detach() * count / (count - 1).clamp(min=1)
            step = self.momentum * spread.to(x.dtype)
            running_mean = mean + step * (batch_mean.detach() - mean)
            running_var = var + step * (unbiased - var)
            mean, var = torch.where(spread, batch_mean, mean), torch.where(spread, batch_var, var)
            self.running_mean[:, : mean.shape[1]] = running_mean
            self.running_var[:, : var.shape[1]] = running_var
            mean, var = mean[:, :width], var[:, :width]
        scale = (var + self.eps).rsqrt() * self.weight[:, :width]
        shift = self.bias[:, :width] - mean * scale
        x = (x * scale[:, None] + shift[:, None]).flatten(0, 1)
        return x if mask is None else x.masked_fill(~mask, 0)


class L2Norm(nn.Module):
    """Divide each node's embedding by its L2 norm; zero stays zero.

    Examples:
        >>> L2Norm()(graphs, x).shape  # [N, 3] → [N, 3]
        torch.Size([7, 3])
    """

    def forward(self, graphs: Graphs, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return F.normalize(x, dim=-1)


class Relu(nn.Module):
    """max(X, 0)."""

    def forward(self, graphs: Graphs, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return x.relu()


class Tanh(nn.Module):
    """tanh X."""

    def forward(self, graphs: Graphs, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return x.tanh()


class NodeIndexNorm(nn.Module):
    """The normalization of the released code, kept for the preset `released`.

    It normalizes the i-th nodes of all graphs in the batch together, over graphs and features, in training and in
    evaluation. So the result of a graph depends on the order of its nodes and on the rest of the batch: Proposition 1
    does not hold. Deviation: graphs are not padded here, so the statistics do not include padding. While
    `synchronized`, the batch is that of all processes of a data-parallel run.

    Examples:
        >>> NodeIndexNorm()(graphs, x).shape  # [N, 3] → [N, 3]
        torch.Size([7, 3])
    """

    eps = 1e-5

    def __init__(self, models: int = 1):
        super().__init__()
        self.synchronized = False  # set by `nn.synchronized.synchronized`
        self.models = models

    @property
    def shares_statistics(self) -> bool:
        """Whether the statistics are those of all processes, in evaluation too."""
        return self.synchronized

    def forward(self, graphs: Graphs, x: Tensor, mask: Tensor | None = None) -> Tensor:
        largest = graphs.layout.largest
        if self.shares_statistics:
            largest = largest_of_processes(largest, x)
        index = graphs.layout.index_in_graph.unflatten(0, (self.models, x.shape[0] // self.models))
        first = torch.arange(self.models, device=x.device)[:, None] * largest
        index = (index + first).flatten()  # the i-th nodes of each model's graphs
        real = graphs.layout.real
        ones = torch.ones_like(x[:, 0]) if real is None else real.to(x.dtype)
        moments = torch.stack([ones, ones * x.mean(-1), ones * x.square().mean(-1)], -1)
        sums = x.new_zeros(self.models * largest, 3).index_add(0, index, moments)
        if self.shares_statistics:
            sums = summed(sums)
        count, mean, square = sums[index].unbind(-1)  # [N] each
        mean, square = mean / count.clamp(min=1), square / count.clamp(min=1)
        var = (square - mean.square()).clamp(min=0)
        return (x - mean[:, None]) * (var + self.eps).rsqrt()[:, None]


class Standardize(nn.Module):
    """(X − mean) / sd of the input features, for each of M models; the identity until it is fitted.

    Mean and sd come from the training graphs only and are stored with the model.

    Examples:
        >>> inputs = Standardize(3)
        >>> inputs.fit(x, columns=torch.tensor([True, True, False]))  # the last column stays as it is
        >>> inputs(x).shape  # [N, 3] → [N, 3]
        torch.Size([7, 3])
    """

    def __init__(self, width: int, models: int = 1):
        super().__init__()
        self.mean: Tensor
        self.inverse_sd: Tensor
        self.register_buffer("mean", torch.zeros(models, width))
        self.register_buffer("inverse_sd", torch.ones(models, width))

    def fit(self, x: Tensor, columns: Tensor, model: int = 0) -> None:
        """Compute mean and sd of the `columns` [F] (bool) of x [N, F]; a constant column is only centered.

        A column whose spread is within rounding error of its largest value counts as constant, whatever its scale.
        """
        self.fit_parts([x], columns, model)

    @torch.no_grad()
    def fit_parts(self, parts: Iterable[Tensor], columns: Tensor, model: int = 0) -> None:
        """The same for the rows of all parts, of which one is in memory at a time."""
        count = 0
        mean = sd = largest = torch.empty(0)
        for x in parts:
            if x.shape[0] == 0 or not bool(columns.any()):
                continue
            chosen = x[:, columns].double()
            new, spread = chosen.mean(0), chosen.std(0, correction=0)
            size = chosen.abs().amax(0)
            if count:  # the pairwise formula of Chan, Golub and LeVeque
                share = len(chosen) / (count + len(chosen))
                shift = new - mean
                variance = (1 - share) * sd**2 + share * spread**2
                spread = (variance + share * (1 - share) * shift**2).sqrt()
                new, size = mean + share * shift, torch.maximum(largest, size)
            mean, sd, largest = new, spread, size
            count += len(chosen)
        if not count:
            return
        self.mean[model, columns] = mean.to(self.mean.dtype)
        varies = sd > 1e-9 * largest
        inverse = torch.where(varies, 1 / sd, 1.0).clamp(max=torch.finfo(self.mean.dtype).max)
        self.inverse_sd[model, columns] = inverse.to(self.mean.dtype)

    def forward(self, x: Tensor) -> Tensor:
        """[N, F] → [N, F]."""
        return standardize(x, self.mean, self.inverse_sd)


@accelerated
def standardize(x: Tensor, mean: Tensor, inverse_sd: Tensor) -> Tensor:
    """(X − mean) / sd of M models side by side: [N, F], [M, F], [M, F] → [N, F]."""
    if len(mean) == 1:
        return (x - mean) * inverse_sd
    x = x.unflatten(0, (len(mean), -1))  # [M, N/M, F]
    return ((x - mean[:, None]) * inverse_sd[:, None]).flatten(0, 1)


class Steps(nn.Module):
    """The steps with these names, in sequence."""

    def __init__(self, names: Sequence[str], width: int, models: int = 1):
        super().__init__()
        self.names = tuple(names)
        self.steps = nn.ModuleList(_step(name, width, models) for name in names)

    def forward(self, graphs: Graphs, x: Tensor, clusters: Layout | None = None) -> Tensor:
        """[N, D] → [N, D]; with `clusters`, the columns are local, and zero where a node does not have them."""
        return apply_steps(graphs, x, self, clusters)


@accelerated
def apply_steps(graphs: Graphs, x: Tensor, steps: Steps, clusters: Layout | None) -> Tensor:
    """Apply the steps in sequence: [N, D] → [N, D]."""
    mask = None if clusters is None else column_mask(graphs.layout, clusters)
    mask = None if mask is None else mask[:, : x.shape[1]]
    for step in steps.steps:
        x = step(graphs, x, mask)
    return x


def _step(name: str, width: int, models: int) -> nn.Module:
    if name == "batch":
        return BatchNorm(width, models)
    if name == "node-index":
        return NodeIndexNorm(models)
    return {"l2": L2Norm, "relu": Relu, "tanh": Tanh}[name]()
