"""Dropout: rate, scale, and random bits that depend only on the model's seed, step, layer, row and column."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from diffpool.nn import Linear, Random, mlp
from diffpool.nn.random import GOLDEN, splitmix64

ROWS, COLUMNS = 200, 300


def dropout(rates: list[float], seeds: list[int], steps: list[int]) -> Random:
    return Random(seeds, torch.tensor(steps, dtype=torch.float32)[:, None], rates)


def kept(rate: float = 0.5, seed: int = 0, step: int = 0, layer: int = 0) -> Tensor:
    return dropout([rate], [seed], [step]).kept(layer, ROWS, COLUMNS)[0]


def near(count: float, share: float, of: int) -> bool:
    """Whether a count is within five standard deviations of the expectation for independent bits."""
    return abs(count - share * of) <= 5 * math.sqrt(of * share * (1 - share))


# --- the bits ------------------------------------------------------------------------------------------------------


def test_the_numbers_equal_those_of_splitmix64() -> None:
    """The first three outputs of the published generator with seed 0."""
    published = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    found = splitmix64(GOLDEN * torch.arange(1, 4)).numpy().view(np.uint64)
    assert [int(number) for number in found] == published


def splitmix(x: int) -> int:
    """The reference of `splitmix64`, with Python integers."""
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
    return x ^ x >> 31


def test_the_mask_equals_a_loop_over_its_entries() -> None:
    rates, seeds, steps, layer = [0.3, 0.0, 0.75], [5, 6, 2**70], [0, 9, 12345], 2
    found = dropout(rates, seeds, steps).kept(layer, 4, 5)
    for m, (rate, seed, step) in enumerate(zip(rates, seeds, steps, strict=True)):
        key = int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])
        stream = splitmix((splitmix((key + step) % 2**64) + layer) % 2**64)
        for row in range(4):
            for column in range(5):
                place = (row * 2**32 + column) * 0x9E3779B97F4A7C15
                bits = splitmix((stream + place) % 2**64) >> 32
                assert bool(found[m, row, column]) == (bits >= rate * 2**32)


@pytest.mark.parametrize("rate", [0.01, 0.3, 0.5, 0.9])
def test_the_share_of_dropped_entries_is_the_rate(rate: float) -> None:
    """Overall, in every row and in every column."""
    mask = kept(rate)
    assert near(int(mask.sum()), 1 - rate, mask.numel())
    assert all(near(count, 1 - rate, COLUMNS) for count in mask.sum(1).tolist())
    assert all(near(count, 1 - rate, ROWS) for count in mask.sum(0).tolist())


@pytest.mark.parametrize("rate", [0.3, 0.5])
def test_masks_of_different_seeds_steps_layers_rows_and_columns_are_independent(
    rate: float,
) -> None:
    mask = kept(rate)
    agree = rate**2 + (1 - rate) ** 2
    for other in (kept(rate, seed=1), kept(rate, step=1), kept(rate, layer=2)):
        assert near(int((mask == other).sum()), agree, mask.numel())
    assert near(int((mask[1:] == mask[:-1]).sum()), agree, mask[1:].numel())
    assert near(int((mask[:, 1:] == mask[:, :-1]).sum()), agree, mask[:, 1:].numel())
    # The next step is not the same mask shifted by a row or a column.
    later = kept(rate, step=1)
    assert near(int((mask[1:] == later[:-1]).sum()), agree, mask[1:].numel())
    assert near(int((mask[:, 1:] == later[:, :-1]).sum()), agree, mask[:, 1:].numel())


def test_a_mask_does_not_depend_on_the_other_models_or_on_the_size_of_the_batch() -> None:
    together = dropout([0.2, 0.5, 0.5], [3, 0, 1], [7, 11, 0]).kept(0, ROWS, COLUMNS)
    assert torch.equal(together[1], kept(0.5, seed=0, step=11))
    assert torch.equal(together[2], kept(0.5, seed=1, step=0))
    few = dropout([0.2], [3], [7]).kept(0, 10, 20)[0]
    assert torch.equal(together[0, :10, :20], few)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_the_mask_is_the_same_on_a_gpu() -> None:
    steps = torch.tensor([[3.0], [70000.0]])
    there = Random([1, 2], steps.cuda(), [0.3, 0.6]).kept(1, ROWS, COLUMNS)
    assert torch.equal(there.cpu(), Random([1, 2], steps, [0.3, 0.6]).kept(1, ROWS, COLUMNS))


# --- dropout -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_kept_entries_and_their_gradients_are_divided_by_the_keep_rate(dtype: torch.dtype) -> None:
    rates = [0.0, 0.25, 0.5]
    drop = dropout(rates, [0, 1, 2], [0, 0, 0])
    x = torch.randn(3 * ROWS, COLUMNS, dtype=dtype, requires_grad=True)
    out = drop.dropout(x, 0)
    assert out.dtype == dtype
    out.sum().backward()
    assert x.grad is not None
    mask = drop.kept(0, ROWS, COLUMNS)
    for m, rate in enumerate(rates):
        rows = slice(m * ROWS, (m + 1) * ROWS)
        expected = mask[m] * (1 / torch.tensor(1 - rate, dtype=dtype))
        torch.testing.assert_close(out[rows], x[rows] * expected, rtol=1e-6, atol=0)
        torch.testing.assert_close(x.grad[rows], expected, rtol=1e-6, atol=0)
    assert torch.equal(out[:ROWS], x[:ROWS])  # a rate of 0 changes no bit


def test_dropout_keeps_the_mean() -> None:
    rate = 0.4
    out = dropout([rate], [0], [0]).dropout(torch.ones(ROWS, COLUMNS, dtype=torch.float64), 0)
    sd = math.sqrt(rate / (1 - rate) / out.numel())
    assert abs(out.mean().item() - 1) < 5 * sd


def test_the_head_applies_a_different_mask_before_each_linear_layer() -> None:
    head = mlp(6, [6], 2).double()
    seen: list[tuple[int, Tensor]] = []

    class Spy(Random):
        def dropout(self, x: Tensor, layer: int) -> Tensor:
            seen.append((layer, x))
            return super().dropout(x, layer)

    drop = Spy([0], torch.zeros(1, 1), [0.5])
    x = torch.randn(50, 6, dtype=torch.float64)
    out = head(x, drop)
    assert [layer for layer, _ in seen] == [0, 2]
    assert torch.equal(seen[0][1], x)
    first, second = head[0], head[2]
    assert isinstance(first, Linear)
    hidden = first(Random.dropout(drop, x, 0)).relu()
    assert torch.equal(out, second(Random.dropout(drop, hidden, 2)))
    assert not torch.equal(drop.kept(0, 50, 6), drop.kept(2, 50, 6))
    assert torch.equal(head(x), second(first(x).relu()))
