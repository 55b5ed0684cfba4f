"""Structure2Vec with mean-field inference (Dai, Dai and Song, 2016)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from diffpool.graphs import Graphs
from diffpool.nn.linear import Linear
from diffpool.nn.norm import Steps


class Structure2Vec(nn.Module):
    """μ ← relu(X W₁ + A μ W₂), repeated `layers` times, starting from μ = relu(X W₁): [N, in] → [N, width].

    An encoder like `Encoder`. All layers share W₁ and W₂, because each layer is one update of the same mean field.
    Deviation: it ends with `last_order`, by default batch normalization. The sums over neighbors are unbounded; on a
    pooled graph, whose edge weights add up all edges between two clusters, they overflow without it.
    """

    def __init__(
        self,
        num_inputs: int,
        width: int,
        layers: int = 3,
        last_order: Sequence[str] = ("batch",),
        models: int = 1,
    ):
        super().__init__()
        self.layers, self.num_outputs = layers, width
        self.own = Linear(num_inputs, width, models=models)
        self.neighbors = Linear(width, width, bias=False, models=models)
        self.steps = Steps(last_order, width, models)

    def forward(self, graphs: Graphs, x: Tensor) -> Tensor:
        inputs = self.own(x)
        mu = inputs.relu()
        for _ in range(self.layers):
            mu = (inputs + self.neighbors(graphs.propagate(mu))).relu()
        return self.steps(graphs, mu)
