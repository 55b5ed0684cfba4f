"""Calls of the assignment network of `DiffPooling`, which may be any module that returns logits."""

from __future__ import annotations

import inspect
from typing import Any

from torch import Tensor, nn

from diffpool.errors import DataError, SettingError
from diffpool.exchange import padded_adj, padded_mask, padded_rows, unpadded_rows
from diffpool.graphs import DenseGraphs, Graphs
from diffpool.layout import Layout
from diffpool.nn.encoder import Encoder
from diffpool.pooling.eager import eager
from diffpool.pooling.inputs import Level
from diffpool.pooling.output import coarse_edges
from diffpool.pooling.precision import full_precision


def input_names(assign: nn.Module | None) -> frozenset[str]:
    """The names of the arguments of a module's `forward`."""
    if assign is None:
        return frozenset()
    module: Any = getattr(assign, "_orig_mod", assign)  # what torch.compile wraps
    names = frozenset(inspect.signature(module.forward).parameters)
    if names == {"args", "kwargs"}:  # PyTorch Geometric's Sequential
        names = frozenset(getattr(getattr(module, "signature", None), "param_dict", names))
    if names == {"args", "kwargs"}:
        raise SettingError(
            f"expected an assignment network whose forward names its arguments, got {type(module).__name__} with *args "
            "and **kwargs: wrap it in a module with forward(self, x, edge_index) or forward(self, x)"
        )
    return names


def logits_of(assign: nn.Module, takes: frozenset[str], level: Level, x: Tensor) -> Tensor:
    """The logits of a module that takes arguments with these names: features [N, F] → [N, clusters]."""
    graphs = level.graphs
    batch = {"batch": graphs.layout.graph_of_row, "batch_size": len(graphs)}
    if "graphs" in takes:
        return assign(graphs, x)
    if "edge_index" in takes:
        edge_index, edge_weight = level.edge_index, level.edge_weight
        if edge_index is None:
            edge_index, edge_weight = coarse_edges(graphs)
        extra = {"edge_weight": edge_weight, "edge_attr": level.edge_attr, **batch}
        known = {k: v for k, v in extra.items() if k in takes and v is not None}
        return assign(x, edge_index, **known)
    if "adj" in takes:
        return _of_matrices(assign, graphs, x)
    return assign(x, **{k: v for k, v in batch.items() if k in takes})


def _of_matrices(assign: nn.Module, graphs: Graphs, x: Tensor) -> Tensor:
    if not isinstance(graphs, DenseGraphs):
        raise DataError(
            f"expected an assignment network for edge lists, got {type(assign).__name__} for dense adjacency "
            "matrices: use its sparse counterpart, or pass adj [B, n, n]"
        )
    rows = graphs.layout
    logits = assign(padded_rows(x, rows), padded_adj(graphs).to(x.dtype), padded_mask(rows))
    return unpadded_rows(logits, rows)


@eager
def encode(encoder: Encoder, graphs: Graphs, x: Tensor, clusters: Layout) -> Tensor:
    """The logits of an encoder of this package, in full precision."""
    with full_precision(x.device.type):
        return encoder(graphs, x, clusters)


def reset(module: nn.Module) -> None:
    """Initialize the parameters of a module again."""
    reset_parameters: Any = getattr(module, "reset_parameters", None)
    if reset_parameters is not None:
        reset_parameters()
    else:
        for child in module.children():
            reset(child)


def check_logits(logits: Any, num_nodes: int) -> Tensor:
    """Raise a DataError unless these are logits [N, clusters]."""
    if not isinstance(logits, Tensor):
        raise DataError(
            f"expected logits [{num_nodes}, clusters] from the assignment network, got {type(logits).__name__}: "
            "wrap it in a module that returns the logits alone"
        )
    if logits.dim() != 2 or logits.shape[0] != num_nodes or not logits.is_floating_point():
        raise DataError(
            f"expected logits [{num_nodes}, clusters], one row per node, got {logits.dtype} {list(logits.shape)}"
        )
    return logits
