"""`DiffPooling` under torch.compile and in mixed precision."""

from __future__ import annotations

import torch
from pooling.layers import SIZES, inputs
from samples import randn, sample
from torch import Tensor, nn

from diffpool import DiffPooling


class Model(nn.Module):
    """Two poolings, the first with an assignment network of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(3, 8)
        self.first = DiffPooling(assign=nn.Linear(8, 4), ratio=0.5)
        self.second = DiffPooling(8, num_clusters=2)
        self.head = nn.Linear(8, 2)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> tuple[Tensor, Tensor]:
        h = self.embed(x).relu()
        out = self.first(h, edge_index, batch)
        last = self.second(out.x.relu(), out.graphs)
        return self.head(last.x_dense.mean(1)), out.loss + last.loss + out.lift(out.x).mean()


def values_and_gradients(model: nn.Module, *arguments: Tensor) -> list[Tensor]:
    model.zero_grad()
    logits, loss = model(*arguments)
    (logits.float().square().sum() + loss).backward()
    return [logits, loss, *(p.grad for p in model.parameters() if p.grad is not None)]


def test_a_compiled_model_gives_the_same_results() -> None:
    torch.manual_seed(0)
    model = Model().eval()
    compiled = torch.compile(model, backend="aot_eager")
    for sizes in (SIZES, (3, 8)):
        x, edge_index, batch, _ = inputs(sample(sizes).to(torch.float32))
        expected = values_and_gradients(model, x, edge_index, batch)
        found = values_and_gradients(compiled, x, edge_index, batch)
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_under_autocast_the_pooling_is_done_in_float32() -> None:
    torch.manual_seed(0)
    model = Model().eval()
    x, edge_index, batch, _ = inputs(sample(SIZES).to(torch.float32))
    expected = values_and_gradients(model, x, edge_index, batch)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        h = model.embed(x)
        out = model.first(h, edge_index, batch)
        found = values_and_gradients(model, x, edge_index, batch)
    assert h.dtype == torch.bfloat16
    for tensor in (out.x, out.adj, out.edge_weight, out.assignment.s, out.loss):
        assert tensor.dtype == torch.float32
    assert out.lift(h[: len(out.x)]).dtype == torch.bfloat16
    for a, b in zip(found, expected, strict=True):
        assert (a.float() - b).norm() < 0.1 * b.norm() + 1e-3


def test_features_in_half_precision_are_pooled_in_float32() -> None:
    x, edge_index, batch, _ = inputs(sample(SIZES).to(torch.bfloat16))
    logits = randn(sum(SIZES), 3, seed=0).bfloat16()
    pool = DiffPooling()
    out = pool(x, edge_index, batch, s=logits)
    exact = pool(x.float(), edge_index, batch, s=logits.float())
    assert out.x.dtype == out.adj.dtype == out.edge_weight.dtype == torch.bfloat16
    assert torch.equal(out.x, exact.x.bfloat16())
    assert torch.equal(out.adj, exact.adj.bfloat16())
    assert torch.equal(out.loss, exact.loss)
