"""The data set of a command."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from diffpool.cli.display import counted, download_bar, progress_console
from diffpool.cli.options import Inputs, Source
from diffpool.errors import SettingError

if TYPE_CHECKING:
    from diffpool.data import ColumnNames, GraphDataset, RawGraphs

PART = 1000  # graphs in memory at a time when a model reads a file


def embedded(seed: int) -> GraphDataset:
    """The generated data set."""
    from diffpool.data import embedded

    return embedded(seed=seed)


def load(
    dataset: str,
    seed: int,
    inputs: Inputs,
    edges: bool | None,
    target: str | None = None,
    quiet: bool = False,
    keep: Callable[[RawGraphs], object] | None = None,
) -> GraphDataset:
    """The graphs to learn from, with the chosen features. `keep` is called with those that were read from files."""
    from diffpool.data import GraphDataset

    if dataset == "embedded":
        return embedded(seed=seed)
    raw = read_input(dataset, inputs, target, quiet=quiet)
    check_y(dataset, raw)
    if keep is not None:
        keep(raw)
    return GraphDataset.from_raw(raw, inputs.features, edges, inputs.directed)


def check_y(dataset: str, raw: RawGraphs) -> None:
    """Raise an error if there is nothing to learn: no column was named, or it does not have classes."""
    from diffpool.data.sources import is_table
    from diffpool.experiments.advice import check_classes

    if raw.classes is None and raw.targets is None and is_table(dataset):
        raise SettingError(
            f"{dataset}: name the column of the class with --label, or of a number to predict with --target. "
            f"The file has {', '.join(raw.columns)}"
        )
    check_classes(raw)


def check_columns(label: str | None, target: str | None) -> None:
    if label is not None and target is not None:
        raise SettingError(
            f"expected --label or --target, got both: --label {label} for classes, or --target {target} for numbers"
        )


def read_input(
    dataset: str,
    source: Source,
    target: str | None = None,
    refresh: bool = False,
    quiet: bool = False,
    names: ColumnNames | None = None,
) -> RawGraphs:
    """The graphs of a path or a named data set, with the attributes of a model if it has `names` for them.

    Molecules that are left out are reported.
    """
    from diffpool.data import read_raw

    check_columns(source.label, target)
    nodes, edges = source.chosen_attributes()
    with download_bar(dataset, progress_console(quiet)) as progress:
        raw = read_raw(
            dataset,
            source.data_dir,
            source.smiles,
            source.label,
            target,
            refresh,
            progress,
            node_attributes=nodes,
            edge_attributes=edges,
            names=names,
            skip_invalid=source.skip_invalid,
        )
    if raw.skipped:
        rows = [row.where for row in raw.skipped]
        warnings.warn(
            f"{dataset}: left out {counted(len(rows), 'molecule')} that RDKit cannot read: {first(rows)}",
            stacklevel=2,
        )
    return raw


def graph_parts(
    dataset: str,
    source: Source,
    names: ColumnNames | None,
    label: str | None = None,
    target: str | None = None,
    quiet: bool = False,
) -> tuple[int | None, Iterator[RawGraphs]]:
    """The graphs of a data set in parts, with the attributes of a model, and their approximate number."""
    from diffpool.data import iter_graphs
    from diffpool.data.sources import count_graphs, is_path

    if not is_path(dataset):
        raw = read_input(dataset, source, quiet=quiet)
        return len(raw), raw.parts(PART)
    nodes, edges = source.chosen_attributes()
    parts = iter_graphs(
        Path(dataset),
        PART,
        smiles=source.smiles,
        label=label,
        target=target,
        node_attributes=nodes,
        edge_attributes=edges,
        names=names,
        skip_invalid=source.skip_invalid,
    )
    return count_graphs(Path(dataset)), parts


def graph_numbers(text: str, limit: int | None = None) -> list[int]:
    """The numbers in a list such as `0-8` or `3,17,20-25`; of a range, at most the first `limit`."""
    numbers: list[int] = []
    for part in text.replace(" ", "").split(","):
        found = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", part)
        start, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if last < start:
            raise SettingError(
                f"expected --graphs to be numbers and ranges such as 0-8 or 3,17,20-25, got {text!r}"
            )
        stop = last + 1 if limit is None else min(last + 1, start + limit)
        numbers += range(start, stop)
    return numbers


def first(rows: Sequence[str]) -> str:
    """The first five of the rows, as text."""
    return ", ".join(rows[:5]) + (", …" if len(rows) > 5 else "")
