"""Set2Set as a readout (Vinyals, Bengio and Kudlur, 2016), in the form of Gilmer et al. (2017)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from diffpool.graphs import Graphs
from diffpool.nn.linear import Linear
from diffpool.segment import max_rows, sum_rows, to_rows


class Set2Set(nn.Module):
    """In each of `steps` steps an LSTM turns the last readout into a query that attends to the nodes: [N, D] → [B, 2D].

    The released code of DiffPool uses as many steps as the largest graph has nodes, which makes it the slow baseline
    that the paper reports. Deviation: one bias replaces the two of PyTorch's LSTM, which only occur as a sum.
    """

    def __init__(self, num_inputs: int, steps: int = 3, models: int = 1):
        super().__init__()
        self.width, self.steps, self.num_outputs = num_inputs, steps, 2 * num_inputs
        self.gates = Linear(3 * num_inputs, 4 * num_inputs, models=models)

    def forward(self, graphs: Graphs, h: Tensor) -> Tensor:
        layout = graphs.layout
        read = h.new_zeros(len(layout), 2 * self.width)  # [query, attended features]
        query = cell = h.new_zeros(len(layout), self.width)
        for _ in range(self.steps):
            i, f, g, o = self.gates(torch.cat([read, query], -1)).chunk(4, -1)
            cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
            query = o.sigmoid() * cell.tanh()  # [B, D]
            score = (h * to_rows(query, layout)).sum(-1, keepdim=True)  # [N, 1]
            highest = to_rows(max_rows(score, layout).detach(), layout)
            # clamp: rows outside all graphs have no maximum
            weight = (score - highest).clamp(max=0).exp()
            attention = weight / to_rows(sum_rows(weight, layout), layout).clamp(min=1e-30)
            read = torch.cat([query, sum_rows(attention * h, layout)], -1)
        return read
