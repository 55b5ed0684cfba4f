"""Graph convolutions, one layer each. The same module works on every level.

A convolution is called as `conv(graphs, x, columns)`: [N, in] → [N, out], or the first `columns` outputs only. It uses
nothing but A H and A1 of `graphs`, so it works on edge lists and on dense blocks.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from diffpool.errors import DataError
from diffpool.graphs import Graphs
from diffpool.nn.linear import Linear, Scale


class Sage(nn.Module):
    """GraphSAGE with mean aggregation (Hamilton et al., 2017): [X, D⁻¹AX] W + b.

    The mean is weighted by the edge weights; it is zero for a node without neighbors.

    Examples:
        >>> conv = Sage(3, 8)
        >>> conv(graphs, x).shape  # [N, 3] → [N, 8]
        torch.Size([7, 8])
    """

    def __init__(self, num_inputs: int, num_outputs: int, models: int = 1):
        super().__init__()
        self.linear = Linear(2 * num_inputs, num_outputs, models=models)

    def forward(self, graphs: Graphs, x: Tensor, columns: int | None = None) -> Tensor:
        return self.linear(torch.cat([x, graphs.propagate_mean(x)], -1), columns)


class EdgeSage(nn.Module):
    """GraphSAGE with edge features: [X, D⁻¹AX, D⁻¹E_1X, …, D⁻¹E_CX] W + b.

    E_c holds channel c of the edge features. A channel of a one-hot edge label acts as a relation with its own weights,
    as in R-GCN (Schlichtkrull et al., 2018); a channel of an edge attribute weights the neighbors by that attribute.
    E_c is pooled in the same way as A.

    Examples:
        >>> edge_attr = torch.rand(edge_index.shape[1], 2)  # [E, 2]
        >>> labeled = SparseGraphs.from_edge_index(edge_index, batch, edge_attr=edge_attr)
        >>> EdgeSage(3, 8, channels=2)(labeled, x).shape  # [N, 3] → [N, 8]
        torch.Size([7, 8])
    """

    def __init__(self, num_inputs: int, num_outputs: int, channels: int, models: int = 1):
        super().__init__()
        self.channels = channels
        self.linear = Linear((2 + channels) * num_inputs, num_outputs, models=models)

    def forward(self, graphs: Graphs, x: Tensor, columns: int | None = None) -> Tensor:
        if len(graphs.channels) != self.channels:
            raise DataError(
                f"expected {self.channels} edge features, got {len(graphs.channels)}: "
                "give every edge the features that the model was built for"
            )
        sums = [graphs.propagate(x)]
        sums += [graphs.propagate_channel(c, x) for c in range(self.channels)]
        means = [h * graphs.inverse_degree[:, None] for h in sums]
        return self.linear(torch.cat([x, *means], -1), columns)


class Gcn(nn.Module):
    """The graph convolution of Kipf and Welling (2017), equation 2: D̃^-½ (A + I) D̃^-½ X W + b.

    Examples:
        >>> Gcn(3, 8)(graphs, x).shape  # [N, 3] → [N, 8]
        torch.Size([7, 8])
    """

    def __init__(self, num_inputs: int, num_outputs: int, models: int = 1):
        super().__init__()
        self.linear = Linear(num_inputs, num_outputs, models=models)

    def forward(self, graphs: Graphs, x: Tensor, columns: int | None = None) -> Tensor:
        scale = (graphs.degree + 1).rsqrt()[:, None]
        x = x * scale
        return self.linear((graphs.propagate(x) + x) * scale, columns)


class Dgcnn(nn.Module):
    """The convolution of DGCNN (Zhang et al., 2018), before its tanh: D̃⁻¹ (A + I) X W + b.

    Examples:
        >>> Dgcnn(3, 8)(graphs, x).tanh().shape  # [N, 3] → [N, 8]
        torch.Size([7, 8])
    """

    def __init__(self, num_inputs: int, num_outputs: int, models: int = 1):
        super().__init__()
        self.linear = Linear(num_inputs, num_outputs, models=models)

    def forward(self, graphs: Graphs, x: Tensor, columns: int | None = None) -> Tensor:
        mean = (graphs.propagate(x) + x) / (graphs.degree + 1)[:, None]
        return self.linear(mean, columns)


class NodeWise(nn.Module):
    """A control that ignores the edges: X W + b.

    Examples:
        >>> NodeWise(3, 8)(graphs, x).shape  # [N, 3] → [N, 8]
        torch.Size([7, 8])
    """

    def __init__(self, num_inputs: int, num_outputs: int, models: int = 1):
        super().__init__()
        self.linear = Linear(num_inputs, num_outputs, models=models)

    def forward(self, graphs: Graphs, x: Tensor, columns: int | None = None) -> Tensor:
        return self.linear(x, columns)


class Gin(nn.Module):
    """The graph isomorphism convolution of Xu et al. (2019): MLP((1 + ε) X + AX) with a learned ε.

    Examples:
        >>> Gin(3, 8)(graphs, x).shape  # [N, 3] → [N, 8]
        torch.Size([7, 8])
    """

    def __init__(self, num_inputs: int, num_outputs: int, models: int = 1):
        super().__init__()
        self.scale = Scale(models)
        self.hidden = Linear(num_inputs, num_outputs, models=models)
        self.out = Linear(num_outputs, num_outputs, models=models)

    def forward(self, graphs: Graphs, x: Tensor, columns: int | None = None) -> Tensor:
        return self.out(self.hidden(self.scale(x) + graphs.propagate(x)).relu(), columns)


class SumConv(nn.Module):
    """The convolution of the released code: A X W + b, a sum over neighbors without a self term.

    Examples:
        >>> SumConv(3, 8)(graphs, x).shape  # [N, 3] → [N, 8]
        torch.Size([7, 8])
    """

    def __init__(self, num_inputs: int, num_outputs: int, models: int = 1):
        super().__init__()
        self.linear = Linear(num_inputs, num_outputs, models=models)

    def forward(self, graphs: Graphs, x: Tensor, columns: int | None = None) -> Tensor:
        return self.linear(graphs.propagate(x), columns)
