"""The names of the columns of node and edge tables: attributes of NetworkX graphs, chosen tensors of PyG's Data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from diffpool.errors import did_you_mean

Names = tuple[str, ...]


@dataclass(frozen=True)
class ColumnNames:
    """A name for each column of the tables of `RawGraphs`; an attribute with several numbers repeats its name."""

    node_labels: Names = ()
    node_attributes: Names = ()
    edge_labels: Names = ()
    edge_attributes: Names = ()

    def keys(self, kind: str) -> list[str]:
        """The attributes of nodes or edges, each once: labels, then numbers."""
        labels, numbers = getattr(self, f"{kind}_labels"), getattr(self, f"{kind}_attributes")
        return list(dict.fromkeys((*labels, *numbers)))

    @classmethod
    def from_json(cls, values: Any) -> ColumnNames:
        """The inverse of `dataclasses.asdict`; raises ValueError for anything else."""
        tables = [field.name for field in fields(cls)]
        if not isinstance(values, dict) or set(values) != set(tables):
            raise ValueError(f"expected the names of {', '.join(tables)}, got {values!r}")
        for names in values.values():
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise ValueError(f"{names!r} is not a list of strings")
        return cls(**{table: tuple(values[table]) for table in tables})


def missing_attribute(kind: str, name: str, found: Iterable[str], trained: bool = False) -> str:
    """The message about an attribute that no node or edge has; `trained`: a model was trained on it."""
    known = sorted(set(found))
    shown = ", ".join(known) or "none"
    why = ", which the model was trained on" if trained else ""
    return (
        f"expected {kind}s with the attribute {name!r}{why}, got {shown}{did_you_mean(name, known)}"
    )
