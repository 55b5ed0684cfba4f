"""Convert graphs in memory, in any format of docs/own-graphs.md, to `RawGraphs`. Messages count graphs from 0."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Any

import numpy as np
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler

from diffpool.data.column_names import ColumnNames
from diffpool.data.convert.matrices import from_matrices
from diffpool.data.convert.networkx import from_networkx
from diffpool.data.convert.pyg import from_pyg
from diffpool.data.convert.values import type_name, with_y
from diffpool.data.raw import RawGraphs, concatenate
from diffpool.data.raw_checks import check_raw
from diffpool.errors import DataError, SettingError

RAW, PYG, NETWORKX, MATRIX, MOLECULE = (
    "RawGraphs",
    "a PyTorch Geometric Data",
    "a NetworkX graph",
    "an adjacency matrix",
    "a molecule",
)
FORMS = (
    f"{RAW}, {PYG}, {NETWORKX}, {MATRIX} (SciPy or NumPy), a pair (adjacency, features), "
    f"or {MOLECULE} (SMILES, an RDKit molecule or the path to a .mol file)"
)


def as_raw(
    graphs: Any,
    y: Any = None,
    name: str = "graphs",
    node_attributes: Sequence[str] | None = None,
    edge_attributes: Sequence[str] | None = None,
    names: ColumnNames | None = None,
) -> RawGraphs:
    """Convert `RawGraphs`, a list of those or of PyG, NetworkX or SciPy graphs or molecules, or PyG's data structures.

    These are a data set, a `DataLoader` (which stands for its data set, in the order of the data set) and a `Batch`.

    `y` holds a class (a string, integer or boolean) or one or more targets (floats) for each graph. It replaces those
    that the graphs carry. `node_attributes` and `edge_attributes` choose attributes of NetworkX graphs (by default all
    of them) or tensors of PyG's Data (by default `x` and `edge_attr`) by name. `names` are the attributes that a model
    was trained on (`TrainedModel.names`), which are read instead.
    """
    chosen = {"node_attributes": node_attributes, "edge_attributes": edge_attributes}
    if isinstance(graphs, RawGraphs):
        _check_chosen(RAW, chosen)
        check_raw(graphs)
        return graphs if y is None else with_y(graphs, y)
    listed = _listed(graphs)
    kinds = [_kind(graph) for graph in listed]
    for g, kind in enumerate(kinds):
        if kind is None:
            raise DataError(
                f"graph {g}: expected {FORMS}, got {type_name(listed[g])}. Convert it first."
            )
        if kind != kinds[0]:
            raise DataError(
                f"graph {g}: expected {kinds[0]}, like graph 0, got {kind}. Convert all graphs to the same type."
            )
    _check_chosen(kinds[0] or "", chosen)
    if kinds[0] == RAW:
        for part in listed:
            check_raw(part)
        raw = concatenate(listed, name)
    elif kinds[0] == PYG:
        raw = from_pyg(listed, name, y is None, node_attributes, edge_attributes, names)
    elif kinds[0] == NETWORKX:
        raw = from_networkx(listed, name, y is None, node_attributes, edge_attributes, names)
    elif kinds[0] == MOLECULE:
        from diffpool.data.molecules import from_molecules

        raw = from_molecules(listed, name=name)
    else:
        raw = from_matrices(listed, name)
    return raw if y is None else with_y(raw, y)


def _check_chosen(kind: str, chosen: dict[str, Sequence[str] | None]) -> None:
    for option, names in chosen.items():
        if isinstance(names, str):
            raise SettingError(
                f"expected {option} as a list of names, got a single string. Write [{names!r}]."
            )
        if names is not None and kind not in (NETWORKX, PYG):
            raise SettingError(
                f"{option} selects attributes of NetworkX graphs and PyTorch Geometric Data only, got {kind}. "
                "Remove the argument."
            )


def as_column(graphs: Any) -> np.ndarray:
    """The graphs as an object array [B, 1], for scikit-learn functions that require two dimensions."""
    listed = (
        [graphs[i] for i in range(len(graphs))] if isinstance(graphs, RawGraphs) else list(graphs)
    )
    column = np.empty((len(listed), 1), object)
    for i, graph in enumerate(listed):  # one by one: NumPy would unpack graphs that are sequences
        column[i, 0] = graph
    return column


def _listed(graphs: Any) -> list[Any]:
    if hasattr(graphs, "batch_sampler") and hasattr(graphs, "dataset"):
        graphs = _of_loader(graphs)
    if hasattr(graphs, "to_data_list"):
        try:
            graphs = graphs.to_data_list()
        except RuntimeError as error:
            raise DataError(
                "expected a Batch made of a list of graphs, got one that does not know its parts: pass the list that "
                "it was made from"
            ) from error
    if isinstance(graphs, np.ndarray) and graphs.dtype == object:
        graphs = list(graphs.reshape(-1))  # [B], or [B, 1] from `as_column`
    # A PyG data set has the attributes of its graphs, and `indices`.
    several = isinstance(graphs, list | tuple | str) or hasattr(graphs, "indices")
    kind = None if several else _kind(graphs)
    if kind is not None or (isinstance(graphs, np.ndarray) and graphs.ndim < 1):
        raise DataError(f"expected a list of graphs, got {kind or 'one value'}. Write [graph].")
    iterable = isinstance(graphs, Iterable) or hasattr(graphs, "__getitem__")
    if isinstance(graphs, str | bytes | dict) or not iterable or hasattr(graphs, "edge_types"):
        raise DataError(
            f"expected a list of graphs, got {type_name(graphs)}. Read files with diffpool.read_graphs."
        )
    listed = list(graphs)
    if not listed:
        raise DataError(
            "expected at least one graph, got an empty list. Was everything filtered out?"
        )
    return listed


def _of_loader(loader: Any) -> Any:
    """The data set of a `DataLoader`. Its batches may be shuffled, but it must load every graph."""
    known = type(loader.batch_sampler) is BatchSampler or loader.batch_sampler is None
    sampler = loader.sampler
    if isinstance(sampler, RandomSampler):
        known &= not sampler.replacement and len(sampler) == len(loader.dataset)
    elif type(sampler) is not SequentialSampler:
        known = False
    if not known:
        raise DataError(
            "expected a DataLoader of all its graphs, got one with a sampler of its own: pass a data set, such as "
            "dataset[indices]"
        )
    return loader.dataset


def _kind(graph: Any) -> str | None:
    if isinstance(graph, RawGraphs):
        return RAW
    if hasattr(graph, "is_multigraph") and hasattr(graph, "nodes"):
        return NETWORKX
    if hasattr(graph, "edge_index"):
        return PYG
    if isinstance(graph, str | PurePath) or hasattr(graph, "GetAtoms"):
        return MOLECULE
    first = graph[0] if isinstance(graph, tuple | list) and len(graph) == 2 else graph
    if hasattr(first, "tocoo") or (isinstance(first, np.ndarray) and first.ndim == 2):
        return MATRIX
    return None
