"""The kernels of block products against a loop over graphs in double precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from diffpool.layout import Layout
from diffpool.segment import multiply, multiply_nt, multiply_tn

blocks = pytest.importorskip("diffpool.backends.triton.blocks")
aligned = pytest.importorskip("diffpool.backends.triton.tiles").aligned

pytestmark = pytest.mark.triton

CASES = {
    "ragged": ([5, 0, 40, 1, 70], [2, 0, 9, 1, 35]),
    "more clusters than nodes": ([3, 2], [1, 4]),
    "one graph": ([33], [32]),
    "no rows": ([0, 0], [3, 2]),
}
PRODUCTS: dict[str, Callable[..., Tensor]] = {"nn": multiply, "tn": multiply_tn, "nt": multiply_nt}


@dataclass
class Case:
    """Layouts of rows and columns on the host (for the loop) and on the device (for the kernels)."""

    rows: Layout
    columns: Layout
    device: str

    @classmethod
    def named(cls, name: str, device: str) -> Case:
        rows, columns = (Layout.from_sizes(sizes) for sizes in CASES[name])
        return cls(rows, columns, device)

    @property
    def mask(self) -> Tensor:
        """A mask of the columns that each row has."""
        return self._mask(self.rows)

    @property
    def inner(self) -> Tensor:
        """The same with one row per cluster."""
        return self._mask(self.columns)

    def _mask(self, layout: Layout) -> Tensor:
        limits = self.columns.sizes[layout.graph_of_row][:, None]
        return torch.arange(self.columns.largest) < limits

    def expected(
        self, form: str, a: Tensor, b: Tensor, columns: Layout, square: bool = False
    ) -> Tensor:
        return PRODUCTS[form](a.double(), b.double(), self.rows, columns, square=square)

    def found(
        self,
        form: str,
        a: Tensor,
        b: Tensor,
        shape: Sequence[int],
        columns: Layout,
        local: Layout | None = None,
        **options: Tensor,
    ) -> Tensor:
        """The kernel's result, back on the host."""
        layouts: list[Any] = [self.rows.to(self.device), columns.to(self.device)]
        layouts += [] if local is None else [local.to(self.device)]
        a, b = a.to(self.device), b.to(self.device)
        moved = {name: t.to(self.device) for name, t in options.items()}
        return blocks.product(form, a, b, shape, *layouts, **moved).cpu()


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-4)


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, device: str) -> Case:
    return Case.named(request.param, device)


@pytest.mark.parametrize("width", [1, 7, 64, 100])
@pytest.mark.parametrize("form", PRODUCTS)
def test_products_with_full_columns(case: Case, form: str, width: int) -> None:
    n, k = case.rows.total, case.columns.total
    s = torch.randn(n, case.columns.largest) * case.mask
    a, b = {
        "nn": (s, torch.randn(k, width)),
        "tn": (s, torch.randn(n, width)),
        "nt": (torch.randn(n, width), torch.randn(k, width)),
    }[form]
    expected = case.expected(form, a, b, case.columns)
    close(case.found(form, a, b, expected.shape, case.columns), expected)


@pytest.mark.parametrize("form", PRODUCTS)
def test_products_with_local_columns_overwrite_or_add(case: Case, form: str) -> None:
    n, k, width = case.rows.total, case.columns.total, case.columns.largest
    s, other = torch.randn(n, width) * case.mask, torch.randn(n, width) * case.mask
    square = torch.randn(k, width) * case.inner
    a, b = {"nn": (s, square), "tn": (s, other), "nt": (other, square)}[form]
    expected = case.expected(form, a, b, case.columns, square=True)
    found = case.found(form, a, b, expected.shape, case.columns, case.columns)
    close(found, expected)
    added = case.found(form, a, b, expected.shape, case.columns, case.columns, out=found.clone())
    close(added, 2 * expected)


@pytest.mark.parametrize("form", PRODUCTS)
def test_columns_that_are_local_to_other_clusters(case: Case, form: str) -> None:
    """A S and its gradients. After its columns, a row has zeros up to a multiple of four, then NaN."""
    n, width = case.rows.total, case.columns.largest
    limits = case.columns.sizes[case.rows.graph_of_row][:, None]
    sizes = case.rows.sizes[case.rows.graph_of_row][:, None]
    adj = torch.randn(n, case.rows.largest) * (torch.arange(case.rows.largest) < sizes)
    s, other = torch.randn(n, width) * case.mask, torch.randn(n, width) * case.mask

    def beyond(t: Tensor) -> Tensor:
        """Pad the rows: zeros up to a multiple of four columns, then NaN up to the aligned width."""
        column = torch.arange(aligned(width))
        padding = torch.where(column < (limits + 3) // 4 * 4, 0.0, torch.nan)
        padded = torch.nn.functional.pad(t, (0, len(column) - width))
        return torch.where(column < limits, padded, padding)

    left = other if form == "nt" else adj
    expected = case.expected(form, left, s, case.rows)
    left = beyond(other) if form == "nt" else adj
    close(case.found(form, left, beyond(s), expected.shape, case.rows, case.columns), expected)


def test_a_multiple_of_another_matrix_is_added(case: Case) -> None:
    n, k, width = case.rows.total, case.columns.total, case.columns.largest
    a, b, other = torch.randn(n, 7), torch.randn(k, 7), torch.randn(n, width)
    factor = torch.randn(len(case.rows))
    expected = case.expected("nt", a, b, case.columns)
    expected = expected + other * case.mask * factor[case.rows.graph_of_row][:, None]
    close(
        case.found("nt", a, b, (n, width), case.columns, scale=factor, extra=other),
        expected,
    )


@pytest.mark.parametrize("form", ["nn", "tn"])
@pytest.mark.usefixtures("_poisoned_memory")
def test_rows_that_belong_to_no_graph_are_zero(form: str, device: str) -> None:
    rows = Layout.from_sizes([3, 2, 40, 0], device, models=2)
    columns = Layout.from_sizes([2, 1, 5, 0], device, models=2)
    a = torch.randn(80, 5, device=device)
    b = torch.randn({"nn": 10, "tn": 80}[form], 9, device=device)
    over = rows if form == "nn" else columns
    out = blocks.product(form, a, b, (over.total, 9), rows, columns)
    assert not over.complete
    assert (out[~over.real] == 0).all()
    assert (out[over.real] != 0).all()
