"""Products and sums over ragged segments: the hot path.

Rows of a matrix are divided among graphs by a `Layout`. A block-diagonal matrix (an assignment, a coarse
adjacency) is stored with its rows flat and *local columns*: the block of graph g is `a[rows_g, :k_g]`, and what
lies right of column k_g is zero. So a batch of B graphs costs at most (1 + √B)/2 times the memory of its blocks,
whatever their sizes, while every product works on exactly the blocks.

The three products `nn`, `nt` and `tn` are closed under differentiation: the gradient of each is made of the other
two. Their slow twins are in `tests/reference.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from diffpool import native
from diffpool.native import TILE, suits


@dataclass(frozen=True, eq=False, repr=False)
class Layout:
    """How N rows are divided among B graphs: graph g owns `sizes[g]` consecutive rows from `starts[g]` on.

    `sizes` stays on the host, so that shapes and loops are planned without asking the device. With several models side
    by side each has as many rows, and those at the end of a model that has fewer belong to no graph.
    """

    sizes: Tensor  # [B] int64, on the host
    starts: Tensor  # [B] int64, on the host
    total: int  # N
    largest: int
    graph_of_row: Tensor  # [N] int64, on the device; B for a row of no graph
    place_of_row: Tensor  # [N] int64, on the device: 0 for the first row of each graph
    # [N] int64, on the device: the row when every graph is padded to the largest; B · largest for a row of no graph
    slot_of_row: Tensor
    device_sizes: Tensor  # [B] int64: the sizes, on the device
    complete: bool = True  # whether every row belongs to a graph
    real: Tensor | None = (
        None  # [N] bool, on the device: which rows belong to graphs; None if all do
    )
    models: int = 1

    @classmethod
    def of(
        cls,
        sizes: Sequence[int] | np.ndarray | Tensor,
        device: torch.device | str = "cpu",
        models: int = 1,
    ) -> Layout:
        """The layout of graphs with these sizes: those of the first model, as many of the second, and so on."""
        counts = np.asarray(sizes).astype(np.int64)
        largest = int(counts.max(initial=0))
        of_model = counts.reshape(models, -1) if models > 1 else counts[None]
        rows = int(of_model.sum(1).max(initial=0))  # of each model
        starts = np.cumsum(of_model, 1) - of_model + rows * np.arange(len(of_model))[:, None]
        starts = starts.reshape(-1)
        if models == 1:
            graph_of_row = np.repeat(np.arange(len(counts)), counts)
            place_of_row = np.arange(rows) - starts[graph_of_row]
        else:
            graph_of_row = np.full(models * rows, len(counts))
            place_of_row = np.zeros(models * rows, np.int64)
            graph = np.repeat(np.arange(len(counts)), counts)
            place = np.arange(len(graph)) - np.repeat(np.cumsum(counts) - counts, counts)
            owned = starts[graph] + place
            graph_of_row[owned], place_of_row[owned] = graph, place
        slot_of_row = graph_of_row * largest + place_of_row
        places = np.stack([graph_of_row, place_of_row, slot_of_row])  # one transfer, not three
        on_device = torch.from_numpy(places).to(device)
        complete = int(counts.sum()) == models * rows
        host = torch.from_numpy(counts)
        return cls(
            sizes=host,
            starts=torch.from_numpy(starts),
            total=models * rows,
            largest=largest,
            graph_of_row=on_device[0],
            place_of_row=on_device[1],
            slot_of_row=on_device[2],
            device_sizes=host.to(device),
            complete=complete,
            real=None if complete else on_device[0] < len(counts),
            models=models,
        )

    def __len__(self) -> int:
        return self.sizes.shape[0]

    @property
    def uniform(self) -> bool:
        """Whether all graphs have the same size, so that [N, D] can be seen as [B, N/B, D]."""
        return self.total == len(self) * self.largest

    @cached_property
    def used(self) -> np.ndarray:
        """[M] int64: how many rows of each model belong to graphs; they come first."""
        return self.sizes.numpy().reshape(self.models, -1).sum(1)

    @cached_property
    def device_starts(self) -> Tensor:
        """[B] int64: the starts, on the device."""
        return self.starts.to(self.graph_of_row.device)

    @cached_property
    def tiles(self) -> Tensor:
        """[T, 2] int64, on the device: graph and first row of each tile of up to 32 rows of one graph."""
        sizes, starts = self.sizes.numpy(), self.starts.numpy()
        count = -(-sizes // TILE)
        graph = np.repeat(np.arange(len(sizes)), count)
        place = np.arange(len(graph)) - np.repeat(np.cumsum(count) - count, count)
        first = starts[graph] + TILE * place
        return torch.from_numpy(np.stack([graph, first], 1)).to(self.graph_of_row.device)

    def to(self, device: torch.device | str) -> Layout:
        return replace(
            self,
            graph_of_row=self.graph_of_row.to(device),
            place_of_row=self.place_of_row.to(device),
            slot_of_row=self.slot_of_row.to(device),
            device_sizes=self.device_sizes.to(device),
            real=None if self.real is None else self.real.to(device),
        )

    def __repr__(self) -> str:
        return f"Layout({len(self)} graphs, {self.total} rows, largest {self.largest})"


def column_counts(rows: Layout, columns: Layout) -> Tensor | None:
    """How many local columns each row has: [N]; None if every row has as many. A row of no graph has none."""
    if not rows.complete:
        sizes = torch.cat([columns.device_sizes, columns.device_sizes.new_zeros(1)])
        return sizes[rows.graph_of_row]
    return None if columns.uniform else columns.device_sizes[rows.graph_of_row]


def column_mask(rows: Layout, columns: Layout) -> Tensor | None:
    """Which local columns each row has: [N, W] bool; None if every row has all W columns."""
    count = column_counts(rows, columns)
    if count is None:
        return None
    return torch.arange(columns.largest, device=count.device) < count[:, None]


# --- products, graph by graph -------------------------------------------------------------------------------


def nn(a: Tensor, b: Tensor, rows: Layout, columns: Layout, square: bool = False) -> Tensor:
    """A_g B_g for each graph: local [N, W], [K, D] → [N, D].

    `square` says that the D columns are local to the graph as well: only the first k_g of them count.
    """
    return _product("nn", a, b, rows, columns, square)


def tn(a: Tensor, b: Tensor, rows: Layout, columns: Layout, square: bool = False) -> Tensor:
    """A_gᵀ B_g for each graph: local [N, W], [N, D] → [K, D]."""
    return _product("tn", a, b, rows, columns, square)


def nt(a: Tensor, b: Tensor, rows: Layout, columns: Layout, square: bool = False) -> Tensor:
    """A_g B_gᵀ for each graph: [N, D], [K, D] → local [N, W]."""
    return _product("nt", a, b, rows, columns, square)


def _product(
    form: str, a: Tensor, b: Tensor, rows: Layout, columns: Layout, square: bool
) -> Tensor:
    if a.is_cuda and not (rows.uniform and columns.uniform) and native.suits_triton(a, b):
        return _BlockProduct.apply(form, a, b, rows, columns, square)
    where = (
        rows.sizes,
        rows.starts,
        rows.slot_of_row,
        columns.sizes,
        columns.starts,
        columns.slot_of_row,
    )
    shape = (rows.total, columns.total, columns.largest)
    uniform = rows.uniform and columns.uniform
    if torch.compiler.is_compiling():
        return torch.ops.diffpool.product(form, a, b, *where, *shape, uniform, square)
    return _Product.apply(form, a, b, *where, *shape, uniform, square)  # half the overhead


# The gradients of each product are two others: of a and of b, from the gradient g of the result.
GRADIENTS: dict[str, Callable[[Tensor, Tensor, Tensor], tuple[tuple[str, Tensor, Tensor], ...]]] = {
    "nn": lambda a, b, g: (("nt", g, b), ("tn", a, g)),
    "tn": lambda a, b, g: (("nt", b, g), ("nn", a, g)),
    "nt": lambda a, b, g: (("nn", g, b), ("tn", g, a)),
}


def block_places(form: str, rows: Layout, columns: Layout) -> tuple[Tensor, ...]:
    """What `cuda_blocks.product` must know of the blocks: tiles of the result, starts and sizes of rows and columns."""
    tiles = columns.tiles if form == "tn" else rows.tiles
    of_rows = (rows.device_starts, rows.device_sizes)
    return tiles, *of_rows, columns.device_starts, columns.device_sizes


class _BlockProduct(torch.autograd.Function):
    """One of the three products on a GPU, by the kernels of `cuda_blocks`."""

    @staticmethod
    def forward(
        ctx: Any, form: str, a: Tensor, b: Tensor, rows: Layout, columns: Layout, square: bool
    ) -> Tensor:
        from diffpool import cuda_blocks

        ctx.form, ctx.where = form, (rows, columns, square)
        ctx.save_for_backward(a, b)
        shape = _product_shape(form, b, rows.total, columns.total, columns.largest)
        places, complete = (
            block_places(form, rows, columns),
            (columns if form == "tn" else rows).complete,
        )
        return cuda_blocks.product(form, a, b, shape, places, square, complete)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        a, b = ctx.saved_tensors
        of_a, of_b = GRADIENTS[ctx.form](a, b, grad)
        grad_a = _BlockProduct.apply(*of_a, *ctx.where) if ctx.needs_input_grad[1] else None
        grad_b = _BlockProduct.apply(*of_b, *ctx.where) if ctx.needs_input_grad[2] else None
        return None, grad_a, grad_b, None, None, None


class _Product(torch.autograd.Function):
    """One of the three products; `where` is what all three need to know of the blocks."""

    @staticmethod
    def forward(ctx: Any, form: str, a: Tensor, b: Tensor, *where: Any) -> Tensor:
        _Product.remember(ctx, (form, a, b, *where), None)
        return _product_kernel(form, a, b, *where)

    @staticmethod
    def remember(ctx: Any, inputs: tuple[Any, ...], output: Tensor | None) -> None:
        form, a, b, *where = inputs
        ctx.form, ctx.where = form, where[6:]
        ctx.save_for_backward(a, b, *where[:6])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        a, b, *sizes = ctx.saved_tensors
        of_a, of_b = GRADIENTS[ctx.form](a, b, grad)
        product: Any
        if torch.compiler.is_compiling():
            product = torch.ops.diffpool.product
        else:  # the record for a second derivative is made only where one is asked for
            product = _Product.apply if torch.is_grad_enabled() else _product_kernel
        grad_a = product(*of_a, *sizes, *ctx.where) if ctx.needs_input_grad[1] else None
        grad_b = product(*of_b, *sizes, *ctx.where) if ctx.needs_input_grad[2] else None
        return None, grad_a, grad_b, *(None for _ in range(11))


def _product_shape(form: str, b: Tensor, total: int, clusters: int, width: int) -> tuple[int, int]:
    if form == "nt":
        return total, width
    return (total if form == "nn" else clusters), b.shape[1]


def _product_kernel(
    form: str,
    a: Tensor,
    b: Tensor,
    row_sizes: Tensor,
    row_starts: Tensor,
    row_slot: Tensor,
    column_sizes: Tensor,
    column_starts: Tensor,
    column_slot: Tensor,
    total: int,
    clusters: int,
    width: int,
    uniform: bool,
    square: bool,
) -> Tensor:
    shape = _product_shape(form, b, total, clusters, width)
    graphs = len(row_sizes)
    if min(graphs, total, clusters, b.shape[1]) == 0:
        return a.new_zeros(shape)
    if uniform:
        x, y = a.reshape(graphs, -1, a.shape[1]), b.reshape(graphs, -1, b.shape[1])
        return _batched(form, x, y).view(shape)
    blocks = (row_sizes, row_starts, column_sizes, column_starts)
    if suits(a, b):
        return _small_and_large(form, a, b, blocks, square, shape)
    rows, columns = row_sizes.tolist(), column_sizes.tolist()
    padded = graphs * max(rows) * width
    wasted = padded - sum(map(operator.mul, rows, columns))
    # Padding costs a multiplication for each wasted entry and column, a loop about 15 µs for each graph.
    if wasted * b.shape[1] < 100_000 * graphs:
        x = _pad(a, row_slot, max(rows), graphs)
        y = (
            _pad(b, row_slot, max(rows), graphs)
            if form == "tn"
            else _pad(b, column_slot, width, graphs)
        )
        z = _batched(form, x, y).flatten(0, 1)
        if sum(rows) < total or sum(columns) < clusters:  # for rows of no graph
            z = torch.cat([z, z.new_zeros(1, z.shape[1])])
        return z.index_select(0, column_slot if form == "tn" else row_slot)
    out = a.new_zeros(shape)
    _looped(form, a, b, out, blocks, square)
    return out


SMALL = 100_000  # multiplications in a block up to which C is used; estimated from call costs, not swept


def _small_and_large(
    form: str,
    a: Tensor,
    b: Tensor,
    blocks: tuple[Tensor, ...],
    square: bool,
    shape: tuple[int, int],
) -> Tensor:
    """Small blocks by the C kernel, all in one call, and large ones by PyTorch."""
    assert native.kernels is not None
    a, b = a.contiguous(), b.contiguous()
    out = a.new_zeros(shape)
    native.kernels.products(
        ("nn", "tn", "nt").index(form),
        a.data_ptr(),
        a.stride(0),
        b.data_ptr(),
        b.stride(0),
        out.data_ptr(),
        out.stride(0),
        *(t.data_ptr() for t in blocks),
        len(blocks[0]),
        a.shape[1] if form == "nt" else b.shape[1],
        square,
        SMALL,
    )
    if int(blocks[0].max()) * int(blocks[2].max()) * b.shape[1] > SMALL:
        _looped(form, a, b, out, blocks, square, above=SMALL)
    return out


def _batched(form: str, x: Tensor, y: Tensor) -> Tensor:
    return torch.bmm(x.mT if form == "tn" else x, y.mT if form == "nt" else y)


def _pad(h: Tensor, slot_of_row: Tensor, largest: int, graphs: int) -> Tensor:
    """Every graph with as many rows as the largest: [N, D] → [B, largest, D]; rows of no graph go behind the last."""
    padded = h.new_zeros(graphs * largest + 1, h.shape[1]).index_copy_(0, slot_of_row, h)
    return padded[:-1].view(graphs, largest, h.shape[1])


def _looped(
    form: str,
    a: Tensor,
    b: Tensor,
    out: Tensor,
    blocks: tuple[Tensor, ...],
    square: bool,
    above: int = 0,
) -> None:
    """Write the blocks with more than `above` multiplications into `out`, which is zero before."""
    for n, r, k, c in zip(*(t.tolist() for t in blocks), strict=True):
        d = k if square else None
        if n * k * (d or b.shape[1]) <= above:
            pass
        elif form == "nn":
            torch.mm(a[r : r + n, :k], b[c : c + k, :d], out=out[r : r + n, :d])
        elif form == "tn":
            torch.mm(a[r : r + n, :k].T, b[r : r + n, :d], out=out[c : c + k, :d])
        else:
            torch.mm(a[r : r + n, :d], b[c : c + k, :d].T, out=out[r : r + n, :k])


# --- sparse times dense ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Csr:
    """A sparse N × N matrix by rows: the entries of row i are those from indptr[i] to indptr[i + 1]."""

    indptr: Tensor  # [N + 1] int64
    indices: Tensor  # [E] int64: columns
    values: Tensor | None  # [E]; None if all are 1


def spmm(matrix: Csr, transposed: Csr, h: Tensor) -> Tensor:
    """A H for a sparse A: [N, D] → [N, D]. The gradient is a product with Aᵀ; A itself is data and has none."""
    structure = (matrix.indptr, matrix.indices, matrix.values)
    structure_t = (transposed.indptr, transposed.indices, transposed.values)
    if torch.compiler.is_compiling():
        return torch.ops.diffpool.spmm(h, *structure, *structure_t)
    return _Spmm.apply(h, *structure, *structure_t)


class _Spmm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, *matrices: Any) -> Tensor:
        _Spmm.remember(ctx, (h, *matrices), None)
        return spmm_kernel(h, *matrices)

    @staticmethod
    def remember(ctx: Any, inputs: tuple[Any, ...], output: Tensor | None) -> None:
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        matrices = ctx.saved_tensors
        spmm: Any
        if torch.compiler.is_compiling():
            spmm = torch.ops.diffpool.spmm
        else:
            spmm = _Spmm.apply if torch.is_grad_enabled() else spmm_kernel
        back = spmm(grad.contiguous(), *matrices[3:], *matrices[:3])
        return back, *(None for _ in matrices)


def spmm_kernel(
    h: Tensor, indptr: Tensor, indices: Tensor, values: Tensor | None, *transposed: Tensor | None
) -> Tensor:
    """Row i of the result is Σ values[e] · h[indices[e]] over e from indptr[i] to indptr[i + 1]."""
    if indices.numel() == 0 or h.numel() == 0:
        return h.new_zeros(indptr.shape[0] - 1, h.shape[1])
    # The sum of embedding rows is the fastest sparse product in PyTorch on the CPU: at 64 columns twice as fast as
    # its CSR product on small batches, ten times on 100,000 nodes (and 7 to 30 times index_add).
    return F.embedding_bag(
        indices,
        h.detach(),
        indptr,
        mode="sum",
        per_sample_weights=values,
        include_last_offset=True,
    )


# Registered as operators, so that torch.compile sees one call each and does not unroll the loop over graphs.
_library = torch.library.Library("diffpool", "DEF")
_library.define(
    "product(str form, Tensor a, Tensor b, Tensor row_sizes, Tensor row_starts, Tensor row_slot,"
    " Tensor column_sizes, Tensor column_starts, Tensor column_slot,"
    " SymInt total, SymInt clusters, SymInt width, bool uniform, bool square) -> Tensor"
)
_library.define(
    "spmm(Tensor h, Tensor indptr, Tensor indices, Tensor? values, Tensor indptr_t, Tensor indices_t,"
    " Tensor? values_t) -> Tensor"
)
_library.impl("product", _product_kernel, "CompositeExplicitAutograd")
_library.impl("spmm", spmm_kernel, "CompositeExplicitAutograd")
torch.library.register_autograd(
    "diffpool::product", _Product.backward, setup_context=_Product.remember, lib=_library
)
torch.library.register_autograd(
    "diffpool::spmm", _Spmm.backward, setup_context=_Spmm.remember, lib=_library
)


@torch.library.register_fake("diffpool::product", lib=_library)
def _(form: str, a: Tensor, b: Tensor, *where: Any) -> Tensor:
    return a.new_empty(_product_shape(form, b, *where[6:9]))


@torch.library.register_fake("diffpool::spmm", lib=_library)
def _(h: Tensor, indptr: Tensor, *rest: Any) -> Tensor:
    return h.new_empty(indptr.shape[0] - 1, h.shape[1])


# --- sums and maxima over the rows of each graph ----------------------------------------------------------------


def sum_rows(h: Tensor, layout: Layout) -> Tensor:
    """The sum over each graph's rows: [N, …] → [B, …]; zero for an empty graph."""
    if layout.uniform and layout.total > 0:
        return h.unflatten(0, (len(layout), layout.largest)).sum(1)
    graphs = len(layout) + (not layout.complete)  # one more for the rows of no graph
    sums = h.new_zeros(graphs, *h.shape[1:]).index_add(0, layout.graph_of_row, h)
    return sums if layout.complete else sums[:-1]


def max_rows(h: Tensor, layout: Layout) -> Tensor:
    """The maximum over each graph's rows: [N, D] → [B, D]; zero for an empty graph."""
    if layout.uniform and layout.total > 0:
        return h.unflatten(0, (len(layout), layout.largest)).amax(1)
    index = layout.graph_of_row[:, None].expand_as(h)
    least = h.new_full((len(layout) + (not layout.complete), h.shape[1]), -torch.inf)
    found = least.scatter_reduce(0, index, h, reduce="amax")[: len(layout)]
    return found.masked_fill(layout.device_sizes[:, None] == 0, 0)
