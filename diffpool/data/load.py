"""A data set by its name or its file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from diffpool.data.dataset import GraphDataset
from diffpool.data.embedded import embedded
from diffpool.data.find import load_raw
from diffpool.data.own import read_graphs
from diffpool.data.raw import RawGraphs

Progress = Callable[[int, int | None], None]  # bytes received, bytes in all


def load_dataset(
    name: str | Path,
    data_dir: str | Path | None = None,
    seed: int = 0,
    features: str | Sequence[str] = "auto",
    edge_features: bool | None = False,
    directed: bool = False,
) -> GraphDataset:
    """`embedded` (generated from the seed), a data set of the TU collection by its name, or a file of your own.

    See `read_raw` for where it is looked for, and `GraphDataset.from_raw` for the features.
    """
    if name == "embedded":
        return embedded(seed=seed)
    return GraphDataset.from_raw(read_raw(name, data_dir), features, edge_features, directed)


def read_raw(
    name: str | Path,
    data_dir: str | Path | None = None,
    smiles: str | None = None,
    label: str | None = None,
    target: str | None = None,
    refresh: bool = False,
    progress: Progress | None = None,
) -> RawGraphs:
    """The graphs of a data set before features are chosen.

    A path (with a folder or a suffix, such as `./MUTAG`, `graphs.jsonl`, `molecules.csv`) is read. A plain name is one
    of the TU collection: looked for in `data_dir` or the folder that DIFFPOOL_DATA names, then in the cache, then
    downloaded.
    """
    if is_file(name):
        return read_graphs(Path(name), smiles=smiles, label=label, target=target)
    return load_raw(str(name), data_dir, refresh=refresh, progress=progress)


def is_file(name: str | Path) -> bool:
    """Whether this means a path and not the name of a data set."""
    text = str(name)
    return (
        isinstance(name, Path)
        or "/" in text
        or "\\" in text
        or text.endswith((".jsonl", ".jsonl.gz", ".csv", ".zip"))
    )


def count_graphs(path: Path) -> int | None:
    """How many graphs a file of lines has, about: for a progress bar. None if that is not known without reading it."""
    if path.suffix not in (".jsonl", ".csv") or not path.is_file():
        return None
    count = 0
    with path.open("rb") as file:
        while block := file.read(1 << 24):
            count += block.count(b"\n")
    return max(count - (path.suffix == ".csv"), 0)
