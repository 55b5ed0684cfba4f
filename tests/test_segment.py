"""Products and sums over ragged segments against their references: values and gradients."""

from __future__ import annotations

import math

import pytest
import reference
import torch
from hypothesis import given
from hypothesis import strategies as st
from samples import KINDS, Sample, gradients, randn, sample, second_derivative
from torch import Tensor
from torch.autograd import gradcheck

from diffpool import segment
from diffpool.layout import Layout, column_mask
from diffpool.segment import Csr, max_rows, spmm, sum_rows

FORMS = ("nn", "tn", "nt")
PRODUCTS = {"nn": segment.multiply, "tn": segment.multiply_tn, "nt": segment.multiply_nt}

# Sizes of rows and columns and the number of features. Equal sizes use one batched product, similar ones are padded,
# and very different ones use a loop over graphs.
STRATEGIES = {
    "uniform": ([4, 4, 4], [2, 2, 2], 5),
    "padded": ([4, 1, 0, 3, 2], [2, 1, 0, 3, 0], 5),
    "looped": ([300, 1, 0, 1, 2], [100, 1, 0, 1, 0], 20),
}


def exact(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


def matrix(
    rows: list[int], width: int, columns: list[int] | None, seed: int, whole: bool = False
) -> Tensor:
    """Random rows; with `columns`, only the first columns of each graph are nonzero. `whole`: small integers."""
    h = randn(sum(rows), width, seed=seed)
    h = (3 * h).round().clamp(-4, 4) if whole else h
    if columns is not None:
        graph = torch.repeat_interleave(torch.arange(len(rows)), torch.tensor(rows, dtype=int))
        h = h * (torch.arange(width) < torch.tensor(columns, dtype=int)[graph][:, None])
    return h


def operands(
    form: str,
    rows: list[int],
    columns: list[int],
    features: int,
    square: bool = False,
    whole: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """The two factors of a product and a cotangent of its result."""
    width = max(columns, default=0)
    features, inner = (width, columns) if square else (features, None)
    if form == "nn":
        a, b = (rows, width, columns), (columns, features, inner)
        out = (rows, features, inner)
    elif form == "tn":
        a, b = (rows, width, columns), (rows, features, inner)
        out = (columns, features, inner)
    else:
        a, b = (rows, features, inner), (columns, features, inner)
        out = (rows, width, columns)
    return tuple(matrix(*parts, seed=i, whole=whole) for i, parts in enumerate((a, b, out)))


def check_product(
    form: str,
    rows: list[int],
    columns: list[int],
    features: int,
    square: bool = False,
    dtype: torch.dtype = torch.float64,
) -> None:
    """Values and gradients; in single precision, on small integers, which avoids rounding."""
    whole = dtype == torch.float32
    a, b, cotangent = (
        t.to(dtype) for t in operands(form, rows, columns, features, square, whole=whole)
    )
    a.requires_grad_()
    b.requires_grad_()
    fast = PRODUCTS[form](a, b, Layout.from_sizes(rows), Layout.from_sizes(columns), square)
    slow = reference.product(form, a, b, rows, columns, square)
    pairs = zip(
        (fast, *gradients((fast * cotangent).sum(), a, b)),
        (slow, *gradients((slow * cotangent).sum(), a, b)),
        strict=True,
    )
    for ours, theirs in pairs:
        if whole:
            assert torch.equal(ours, theirs)
        else:
            exact(ours, theirs)


# --- products ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("square", [False, True])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_each_strategy_agrees_with_the_reference(
    strategy: str, form: str, square: bool, dtype: torch.dtype
) -> None:
    check_product(form, *STRATEGIES[strategy], square, dtype)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("form", FORMS)
def test_products_in_half_precision_are_rounded_once(form: str, strategy: str) -> None:
    """On small integers, the sums are exact before rounding."""
    rows, columns, features = STRATEGIES[strategy]
    a, b, _ = operands(form, rows, columns, features, whole=True)
    fast = PRODUCTS[form](
        a.bfloat16(), b.bfloat16(), Layout.from_sizes(rows), Layout.from_sizes(columns)
    )
    assert torch.equal(fast, reference.product(form, a, b, rows, columns).bfloat16())


@given(
    blocks=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4)), max_size=6),
    features=st.integers(0, 4),
    form=st.sampled_from(FORMS),
    square=st.booleans(),
)
def test_products_of_any_sizes_agree_with_the_reference(
    blocks: list[tuple[int, int]], features: int, form: str, square: bool
) -> None:
    rows, columns = [n for n, _ in blocks], [k for _, k in blocks]
    for dtype in (torch.float32, torch.float64):
        check_product(form, rows, columns, features, square, dtype)


def test_the_products_of_a_hand_computed_case() -> None:
    rows, columns = Layout.from_sizes([2, 1]), Layout.from_sizes([1, 2])
    a = torch.tensor([[2.0, 0.0], [3.0, 0.0], [4.0, 5.0]])  # the first graph has one column only
    b = torch.tensor([[1.0], [10.0], [100.0]])
    assert segment.multiply(a, b, rows, columns).tolist() == [[2], [3], [540]]
    assert segment.multiply_tn(a, b, rows, columns).tolist() == [[32], [400], [500]]
    assert segment.multiply_nt(b, b, rows, columns).tolist() == [[1, 0], [10, 0], [1000, 10000]]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("form", FORMS)
def test_the_gradients_of_each_strategy_pass_gradcheck(form: str, strategy: str) -> None:
    rows, columns, features = STRATEGIES[strategy]
    a, b, _ = operands(form, rows, columns, features)
    layouts = Layout.from_sizes(rows), Layout.from_sizes(columns)

    def function(a: Tensor, b: Tensor) -> Tensor:
        # Entries to the right of a graph's columns must be zero: the check must not perturb them.
        mask = column_mask(*layouts)
        if form != "nt" and mask is not None:
            a = a * mask
        return PRODUCTS[form](a, b, *layouts)

    fast = strategy == "looped"
    assert gradcheck(function, (a.requires_grad_(), b.requires_grad_()), fast_mode=fast)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("form", FORMS)
def test_the_second_derivative_of_a_product_agrees_with_the_reference(
    form: str, strategy: str
) -> None:
    rows, columns, features = STRATEGIES[strategy]
    a, b, _ = (t.requires_grad_() for t in operands(form, rows, columns, features))
    fast = PRODUCTS[form](a, b, Layout.from_sizes(rows), Layout.from_sizes(columns))
    slow = reference.product(form, a, b, rows, columns)
    ours = second_derivative(fast.square().sum(), a, b)
    for mine, theirs in zip(ours, second_derivative(slow.square().sum(), a, b), strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("needed", [0, 1])
def test_a_product_differentiates_only_the_factor_that_needs_it(form: str, needed: int) -> None:
    rows, columns, features = STRATEGIES["padded"]
    *factors, cotangent = operands(form, rows, columns, features)
    factors[needed].requires_grad_()
    fast = PRODUCTS[form](*factors, Layout.from_sizes(rows), Layout.from_sizes(columns))
    slow = reference.product(form, *factors, rows, columns)
    exact(
        *gradients((fast * cotangent).sum(), factors[needed]),
        *gradients((slow * cotangent).sum(), factors[needed]),
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("strategy", ["uniform", "padded"])
def test_the_product_operator_is_a_well_formed_torch_operator(form: str, strategy: str) -> None:
    rows, columns, features = STRATEGIES[strategy]
    a, b, _ = operands(form, rows, columns, features)
    r, c = Layout.from_sizes(rows), Layout.from_sizes(columns)
    where = (r.sizes, r.starts, r.slot_of_row, c.sizes, c.starts, c.slot_of_row)
    where = (*where, r.total, c.total, c.largest)
    uniform = r.uniform and c.uniform
    torch.library.opcheck(
        torch.ops.diffpool.product,
        (form, a.requires_grad_(), b.requires_grad_(), *where, uniform, False),
        test_utils=("test_schema", "test_autograd_registration", "test_faketensor"),
    )


# --- sparse times dense ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("features", [0, 1, 4])
def test_spmm_equals_the_product_with_the_dense_matrix(ragged: Sample, features: int) -> None:
    graphs = ragged.sparse
    h = randn(graphs.num_nodes, features, seed=1).requires_grad_()
    cotangent = randn(graphs.num_nodes, features, seed=2)
    adj = graphs.adj
    slow = reference.dense_matrix(adj.indptr, adj.indices, adj.values) @ h
    fast = spmm(graphs.adj, graphs.adj_t, h)
    exact(fast, slow)
    exact(*gradients((fast * cotangent).sum(), h), *gradients((slow * cotangent).sum(), h))


def test_spmm_passes_gradcheck(ragged: Sample) -> None:
    graphs = ragged.sparse
    h = randn(graphs.num_nodes, 2, seed=1).requires_grad_()
    assert gradcheck(lambda h: spmm(graphs.adj, graphs.adj_t, h), (h,))


def test_a_second_derivative_of_spmm_is_correct_or_rejected(ragged: Sample) -> None:
    graphs = ragged.sparse
    h = randn(graphs.num_nodes, 2, seed=1).requires_grad_()
    ours = second_derivative(spmm(graphs.adj, graphs.adj_t, h).square().sum(), h)
    if ours is not None:
        slow = torch.block_diag(*ragged.adjs) @ h
        exact(*ours, *second_derivative(slow.square().sum(), h))


def test_spmm_adds_the_indexed_rows() -> None:
    matrix = Csr(torch.tensor([0, 2, 2, 3]), torch.tensor([0, 2, 1]), torch.tensor([1.0, 2.0, 3.0]))
    transposed = Csr(
        torch.tensor([0, 1, 2, 3]), torch.tensor([0, 2, 0]), torch.tensor([1.0, 3.0, 2.0])
    )
    h = torch.tensor([[1.0], [10.0], [100.0]], requires_grad=True)
    out = spmm(matrix, transposed, h)
    assert out.tolist() == [[201], [0], [30]]
    (gradient,) = torch.autograd.grad(out, h, torch.tensor([[1.0], [1.0], [10.0]]))
    assert gradient.tolist() == [[1], [30], [2]]


def test_spmm_without_edges_is_zero_and_has_the_gradient_zero() -> None:
    graphs = sample([3, 0, 2], edgeless=(0, 1, 2)).sparse
    h = randn(5, 2, seed=0).requires_grad_()
    out = spmm(graphs.adj, graphs.adj_t, h)
    assert torch.equal(out, torch.zeros(5, 2, dtype=torch.float64))
    (gradient,) = torch.autograd.grad(out.sum(), h)
    assert torch.equal(gradient, torch.zeros_like(h))


def test_the_gradient_of_spmm_takes_a_strided_cotangent() -> None:
    graphs = sample(**KINDS["everything"]).sparse
    h = randn(graphs.num_nodes, 3, seed=1).requires_grad_()
    strided = randn(3, graphs.num_nodes, seed=2).T
    (ours,) = torch.autograd.grad(spmm(graphs.adj, graphs.adj_t, h), h, strided)
    adj = reference.dense_matrix(graphs.adj.indptr, graphs.adj.indices, graphs.adj.values)
    exact(ours, adj.T @ strided)


def test_the_spmm_operator_is_a_well_formed_torch_operator(ragged: Sample) -> None:
    graphs = ragged.sparse
    h = randn(graphs.num_nodes, 3, seed=1).requires_grad_()
    matrices = [t for m in (graphs.adj, graphs.adj_t) for t in (m.indptr, m.indices, m.values)]
    torch.library.opcheck(
        torch.ops.diffpool.spmm,
        (h, *matrices),
        test_utils=("test_schema", "test_autograd_registration", "test_faketensor"),
    )


# --- sums and maxima ---------------------------------------------------------------------------------------------


@given(sizes=st.lists(st.integers(0, 5), max_size=6), features=st.integers(1, 3))
def test_sums_and_maxima_of_any_sizes_agree_with_the_reference(
    sizes: list[int], features: int
) -> None:
    layout = Layout.from_sizes(sizes)
    h = randn(layout.total, features, seed=1).requires_grad_()
    cotangent = randn(len(sizes), features, seed=2)
    for fast, slow in (
        (sum_rows(h, layout), reference.sum_rows(h, sizes)),
        (max_rows(h, layout), reference.max_rows(h, sizes)),
    ):
        exact(fast, slow)
        if layout.total:
            exact(*gradients((fast * cotangent).sum(), h), *gradients((slow * cotangent).sum(), h))


def test_the_sum_and_the_maximum_of_an_empty_segment_are_zero() -> None:
    layout = Layout.from_sizes([0, 2, 0, 1, 0])
    h = torch.tensor([[-1.0, 5.0], [-2.0, 7.0], [-3.0, -4.0]])
    assert sum_rows(h, layout).tolist() == [[0, 0], [-3, 12], [0, 0], [-3, -4], [0, 0]]
    assert max_rows(h, layout).tolist() == [[0, 0], [-1, 7], [0, 0], [-3, -4], [0, 0]]


def test_sum_rows_takes_vectors_and_higher_tensors() -> None:
    layout = Layout.from_sizes([2, 0, 1])
    assert sum_rows(torch.tensor([1.0, 2.0, 4.0]), layout).tolist() == [3, 0, 4]
    h = torch.arange(12.0).view(3, 2, 2)
    assert sum_rows(h, layout).tolist() == [[[4, 6], [8, 10]], [[0, 0], [0, 0]], [[8, 9], [10, 11]]]


@pytest.mark.parametrize("sizes", [[2, 2], [2, 1, 0, 1]])
def test_the_gradient_of_a_maximum_goes_to_its_rows_in_equal_parts(sizes: list[int]) -> None:
    """Also if the maximum is zero, which is common after a ReLU."""
    layout = Layout.from_sizes(sizes)
    h = torch.tensor([[0.0, 3.0], [-1.0, 3.0], [0.0, -2.0], [0.0, -1.0]], dtype=torch.float64)
    h.requires_grad_()
    weights = torch.arange(1.0, 2 * len(sizes) + 1, dtype=torch.float64).view(-1, 2)
    fast = gradients((max_rows(h, layout) * weights).sum(), h)
    slow = gradients((reference.max_rows(h, sizes) * weights).sum(), h)
    exact(*fast, *slow)


# --- layouts -----------------------------------------------------------------------------------------------------


def test_the_layout_of_a_hand_computed_case() -> None:
    layout = Layout.from_sizes([2, 0, 3])
    assert len(layout) == 3
    assert layout.total == 5
    assert layout.largest == 3
    assert layout.sizes.tolist() == [2, 0, 3]
    assert layout.graph_of_row.tolist() == [0, 0, 2, 2, 2]
    assert layout.index_in_graph.tolist() == [0, 1, 0, 1, 2]
    assert layout.slot_of_row.tolist() == [0, 1, 6, 7, 8]
    assert repr(layout) == "Layout(3 graphs, 5 rows, largest 3)"


@pytest.mark.parametrize(
    ("sizes", "uniform"),
    [
        ([2, 2, 2], True),
        ([2, 2, 1], False),
        ([0, 0], True),
        ([], True),
        ([3], True),
        ([0, 3], False),
    ],
)
def test_a_layout_is_uniform_when_all_sizes_are_equal(sizes: list[int], uniform: bool) -> None:
    assert Layout.from_sizes(sizes).uniform is uniform


def test_a_layout_keeps_its_sizes_when_the_given_array_changes() -> None:
    sizes = torch.tensor([2, 3])
    layout = Layout.from_sizes(sizes)
    sizes[0] = 7
    assert layout.sizes.tolist() == [2, 3]


def test_the_column_mask_gives_every_row_the_columns_of_its_graph() -> None:
    mask = column_mask(Layout.from_sizes([2, 1, 0, 1]), Layout.from_sizes([1, 3, 2, 0]))
    assert mask.int().tolist() == [[1, 0, 0], [1, 0, 0], [1, 1, 1], [0, 0, 0]]


def test_there_is_no_column_mask_when_every_row_has_all_columns() -> None:
    assert column_mask(Layout.from_sizes([2, 1]), Layout.from_sizes([3, 3])) is None


@given(sizes=st.lists(st.integers(0, 50), min_size=1, max_size=30))
def test_local_columns_cost_at_most_half_of_one_plus_the_root_of_the_batch(
    sizes: list[int],
) -> None:
    """The bound that the module promises: Σ k_g · max k ≤ (1 + √B)/2 · Σ k_g²."""
    layout = Layout.from_sizes(sizes)
    needed = sum(k * k for k in sizes)
    assert layout.total * layout.largest <= (1 + math.sqrt(len(sizes))) / 2 * needed * (1 + 1e-12)
