"""Edge lists in PyTorch Geometric's format, sorted on their own device.

The host needs the sizes of the graphs, whether the arguments are valid, and whether edges repeat or A is symmetric. All
of this reaches it in one transfer of a few numbers per graph; the edges stay on the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from diffpool.edge_checks import check_edges
from diffpool.errors import DataError
from diffpool.layout import Layout, checked_sizes
from diffpool.segment import Csr


@dataclass(frozen=True, eq=False)
class SortedEdges:
    """The edges of a batch of graphs, as A and Aᵀ. Row i of A holds the edges that point to node i."""

    layout: Layout
    adj: Csr
    adj_t: Csr  # the same object if A is symmetric
    order: Tensor  # [E]: index of the given edge for each entry of A
    order_t: Tensor  # [E]: index of the entry of A for each entry of Aᵀ


def sorted_edges(
    edge_index: Tensor,
    batch: Tensor | None,
    sizes: Sequence[int] | np.ndarray | Tensor | None,
    batch_size: int | None,
    weight: Tensor | None,
    unique: bool = False,
) -> SortedEdges:
    """Sort edges [2, E] by target and merge repeated ones; `weight` [E] in the dtype of the result.

    The nodes of the graphs are described by `batch` [N] or by `sizes` [B]. `unique`: no edge may be repeated.
    """
    _check_shapes(edge_index, batch, sizes, weight)
    edge_index, device = edge_index.long(), edge_index.device
    facts: dict[str, Tensor] = {}
    if batch is None:
        assert sizes is not None
        layout = Layout.from_sizes(_checked(sizes), device)
        graph_of_node, counts = layout.graph_of_row, layout.device_sizes[:0]
    else:
        graph_of_node = batch.long()
        if batch_size is None:
            batch_size = int(graph_of_node[-1]) + 1 if len(graph_of_node) else 0
        starts = torch.searchsorted(graph_of_node, torch.arange(batch_size + 1, device=device))
        counts = starts.diff()
        facts["ascending"] = (graph_of_node[1:] >= graph_of_node[:-1]).all()
    num_nodes, num_edges = graph_of_node.shape[0], edge_index.shape[1]
    if num_edges and not num_nodes:
        raise DataError(f"expected no edges between 0 nodes, got {num_edges}: give the nodes too")
    # Invalid numbers are reported below; until then, they must not be used as indices.
    source, target = inside = edge_index.clamp(0, max(num_nodes - 1, 0))
    key, order = (target * num_nodes + source).sort()
    values = None if weight is None else weight.index_select(0, order)
    key_t, order_t = _reversed(key, num_nodes).sort()
    if num_edges:
        facts["exist"] = (inside == edge_index).all()
        facts["within"] = (graph_of_node[source] == graph_of_node[target]).all()
        facts["unique"] = (key[1:] > key[:-1]).all()
        facts["symmetric"] = _symmetric(key, values, key_t, order_t)
        if values is not None:
            facts["weights"] = ((values >= 0) & values.isfinite()).all()
    found, known = _to_host(counts, facts)
    if batch is not None:
        if not known["ascending"] or sum(found) != num_nodes:
            raise DataError(
                "expected `batch` to give the graph of each node in ascending order, from 0 to "
                f"{batch_size - 1 if batch_size else 0}, got other numbers: sort the nodes by graph"
            )
        layout = Layout.on_device(found, counts, graph_of_node)
    if not all(known.get(fact, True) for fact in ("exist", "within", "weights")):
        weights = None if weight is None else weight.detach().double().cpu().numpy()
        ends = edge_index.cpu().numpy()
        check_edges(layout.sizes.numpy(), ends[0], ends[1], weights)
    symmetric = known.get("symmetric", True)
    if not known.get("unique", True):
        if unique:
            raise DataError(
                "expected each edge once, because edge features cannot be added up, got a duplicate edge: remove it"
            )
        key, entry = key.unique_consecutive(return_inverse=True)
        if values is not None:
            values = values.new_zeros(len(key)).index_add_(0, entry, values)
        key_t, order_t = _reversed(key, num_nodes).sort()
        symmetric = bool(_symmetric(key, values, key_t, order_t))
    adj = adj_t = _csr(key, values, num_nodes)
    if not symmetric:
        values_t = None if values is None else values.index_select(0, order_t)
        adj_t = _csr(key_t, values_t, num_nodes)
    return SortedEdges(layout, adj, adj_t, order, order_t)


def _reversed(key: Tensor, num_nodes: int) -> Tensor:
    """The keys of the reversed edges: target · N + source → source · N + target."""
    n = max(num_nodes, 1)
    return key % n * n + key.div(n, rounding_mode="floor")


def _symmetric(key: Tensor, values: Tensor | None, key_t: Tensor, order_t: Tensor) -> Tensor:
    """Whether A = Aᵀ: [] bool. Both keys are sorted, without duplicates."""
    same = key_t == key
    if values is not None:
        same &= values.index_select(0, order_t) == values
    return same.all()


def _csr(key: Tensor, values: Tensor | None, num_nodes: int) -> Csr:
    count = key.new_zeros(num_nodes + 1)
    row = key.div(max(num_nodes, 1), rounding_mode="floor")
    count.index_add_(0, row + 1, torch.ones_like(row))
    return Csr(count.cumsum(0), key % max(num_nodes, 1), values)


def _to_host(counts: Tensor, facts: dict[str, Tensor]) -> tuple[list[int], dict[str, bool]]:
    """Copy counts [B] and facts [] to the host in one transfer."""
    if not facts:
        return [], {}
    numbers = torch.cat([counts, torch.stack(list(facts.values())).long()]).tolist()
    split = len(numbers) - len(facts)
    return numbers[:split], dict(zip(facts, map(bool, numbers[split:]), strict=True))


def _checked(sizes: Sequence[int] | np.ndarray | Tensor) -> np.ndarray:
    try:
        return checked_sizes(sizes)
    except ValueError as error:
        raise DataError(str(error)) from None


def _check_shapes(
    edge_index: Tensor,
    batch: Tensor | None,
    sizes: Sequence[int] | np.ndarray | Tensor | None,
    weight: Tensor | None,
) -> None:
    shape, integer = tuple(edge_index.shape), not edge_index.is_floating_point()
    if len(shape) != 2 or shape[0] != 2 or not integer or edge_index.layout != torch.strided:
        raise DataError(
            f"expected edge_index with two rows of integers, source and target: [2, E], got {edge_index.dtype} "
            f"{list(shape)}: for another format, see torch_geometric.utils.to_edge_index and dense_to_sparse"
        )
    if (batch is None) == (sizes is None):
        raise DataError(
            "expected either `batch`, the graph of each node, or `sizes`, the number of nodes of each graph, got "
            f"{'none' if batch is None else 'both'}: for a single graph, give sizes=[num_nodes]"
        )
    if batch is not None and (batch.dim() != 1 or batch.is_floating_point()):
        raise DataError(
            f"expected `batch` to be one integer per node: [N], got {batch.dtype} {list(batch.shape)}"
        )
    if weight is not None and weight.shape != shape[1:]:
        raise DataError(
            f"expected one weight for each of the {shape[1]} edges, got {list(weight.shape)}: "
            "leave the weights out if all are 1"
        )
    for name, other in (("batch", batch), ("edge_weight", weight)):
        if other is not None and other.device != edge_index.device:
            raise DataError(
                f"expected `{name}` on {edge_index.device}, like edge_index, got {other.device}: "
                "move the whole batch with batch.to(device)"
            )
