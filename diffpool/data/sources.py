"""Load graphs: a data set by name, or a file or folder by path."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from diffpool.data.archive import read_errors
from diffpool.data.column_names import ColumnNames
from diffpool.data.dataset import GraphDataset
from diffpool.data.download import Progress
from diffpool.data.generated import embedded
from diffpool.data.graph_files import GRAPH_SUFFIXES, find_graph_files, read_graph_files
from diffpool.data.jsonl import check_size, iter_jsonl, parse_lines, read_jsonl
from diffpool.data.parquet import parquet_columns, parquet_rows
from diffpool.data.raw import RawGraphs
from diffpool.data.stored import is_stored, read_stored
from diffpool.data.tu import read_tu
from diffpool.data.tu_collection import exists_here, load_raw
from diffpool.data.tu_names import KNOWN
from diffpool.errors import DataError, SettingError

FILE_SUFFIXES = (".jsonl", ".jsonl.gz", ".csv", ".parquet", ".mol", *GRAPH_SUFFIXES, ".zip")

ADVICE = {  # by suffix, for files that cannot be read
    ".tsv": "Save it as .csv, separated by commas.",
    ".sdf": "Save it as .csv with a column of SMILES, or give the molecules of RDKit's SDMolSupplier to `fit`.",
    ".smi": "Save it as .csv with a header, such as smiles.",
}


def load_dataset(
    name: str | Path,
    data_dir: str | Path | None = None,
    seed: int = 0,
    features: str | Sequence[str] = "auto",
    edge_features: bool | None = False,
    directed: bool = False,
) -> GraphDataset:
    """Load `embedded` (generated from the seed), a data set of the TU collection by name, or your own file.

    `read_raw` describes where the data set is searched for, and `GraphDataset.from_raw` describes the features.
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
    node_attributes: Sequence[str] | None = None,
    edge_attributes: Sequence[str] | None = None,
    names: ColumnNames | None = None,
    skip_invalid: bool = False,
) -> RawGraphs:
    """Read the graphs of a data set, before features are chosen.

    A path (with a folder or suffix, such as `./MUTAG` or `graphs.jsonl`, or one that exists) is read by `read_graphs`.
    Any other name is a data set of the TU collection, see `load_raw`.
    """
    if is_path(name):
        return read_graphs(
            Path(name),
            smiles=smiles,
            label=label,
            target=target,
            node_attributes=node_attributes,
            edge_attributes=edge_attributes,
            names=names,
            skip_invalid=skip_invalid,
        )
    _refuse_choice(name, node_attributes, edge_attributes)
    _refuse_skipping(name, skip_invalid)
    return load_raw(str(name), data_dir, refresh=refresh, progress=progress)


def is_path(name: str | Path) -> bool:
    """Whether this is a path and not the name of a data set.

    A name without a folder or a suffix is a path if it exists and is not the name of a known data set.
    """
    text = str(name)
    if isinstance(name, Path) or "/" in text or "\\" in text or text.endswith(FILE_SUFFIXES):
        return True
    return text not in KNOWN and exists_here(text)


def is_table(name: str | Path) -> bool:
    """Whether this is a table of molecules, whose columns are chosen by name."""
    return is_path(name) and _form(Path(name)) == "molecules"


# --- files and folders


def read_graphs(
    path: str | Path,
    smiles: str | None = None,
    label: str | None = None,
    target: str | Sequence[str] | None = None,
    node_attributes: Sequence[str] | None = None,
    edge_attributes: Sequence[str] | None = None,
    names: ColumnNames | None = None,
    skip_invalid: bool = False,
) -> RawGraphs:
    """Read the graphs of a file or folder; docs/own-graphs.md lists the formats.

    `smiles`, `label` and `target` are columns of a table of molecules. `node_attributes` and `edge_attributes` choose
    attributes of GML, GraphML and GEXF files and edge lists; by default all of them are used. `names` are the
    attributes that a model was trained on (`TrainedModel.names`), which are read instead. `skip_invalid`: leave out
    molecules that RDKit cannot read; `RawGraphs.skipped` lists them.
    """
    path = Path(path)
    form = _form(path, smiles, label, target)
    _refuse_skipping(path, skip_invalid and form != "molecules")
    if form == "graph files":
        return read_graph_files(path, node_attributes, edge_attributes, names)
    _refuse_choice(path, node_attributes, edge_attributes)
    if form == "stored":
        return read_stored(path)
    if form == "jsonl":
        return read_jsonl(path)
    if form == "parquet":
        return next(parse_lines(path, _parquet_lines(path), None, unit="row"))
    if form == "molecules":
        from diffpool.data.molecules import read_molecules

        return read_molecules(path, smiles or "smiles", label, target, skip_invalid=skip_invalid)
    if form == "mol":
        from diffpool.data.molecules import read_mol

        return read_mol(path)
    return read_tu(path, _tu_name(path)).with_label_column()


def iter_graphs(
    path: str | Path,
    size: int,
    smiles: str | None = None,
    label: str | None = None,
    target: str | Sequence[str] | None = None,
    node_attributes: Sequence[str] | None = None,
    edge_attributes: Sequence[str] | None = None,
    names: ColumnNames | None = None,
    skip_invalid: bool = False,
) -> Iterator[RawGraphs]:
    """Like `read_graphs`, but `size` graphs at a time. TU folders and folders of graph files are read as a whole.

    A data set on disk is read in parts.
    """
    check_size(size)
    path = Path(path)
    form = _form(path, smiles, label, target)
    _refuse_skipping(path, skip_invalid and form != "molecules")
    if form in ("jsonl", "parquet", "molecules"):
        _refuse_choice(path, node_attributes, edge_attributes)
    if form == "jsonl":
        return iter_jsonl(path, size)
    if form == "parquet":
        return parse_lines(path, _parquet_lines(path), size, unit="row")
    if form == "molecules":
        from diffpool.data.molecules import iter_molecules

        columns = (smiles or "smiles", label, target)
        return iter_molecules(path, size, *columns, skip_invalid=skip_invalid)
    raw = read_graphs(
        path, node_attributes=node_attributes, edge_attributes=edge_attributes, names=names
    )
    return raw.parts(size)


def count_graphs(path: Path) -> int | None:
    """The approximate number of graphs in a file, for a progress bar; None if it cannot be known without parsing."""
    if is_stored(path):
        return len(read_stored(path))
    if path.suffix not in (".jsonl", ".csv") or not path.is_file():
        return None
    count = 0
    with path.open("rb") as file:
        while block := file.read(1 << 24):
            count += block.count(b"\n")
    return max(count - (path.suffix == ".csv"), 0)


def _form(path: Path, *columns: Any) -> str:
    with read_errors(path):  # the name may be too long, or the folder not readable
        exists = path.exists()
    if not exists:
        raise DataError(f"{path}: no such file or folder. Is the name correct?")
    if not path.is_dir() and not path.is_file():
        raise DataError(
            f"{path}: expected a folder or a regular file, got a device, pipe or socket. Write the data to a file."
        )
    if path.is_dir() and is_stored(path):
        form = "stored"
    elif path.is_dir():
        graph_files = find_graph_files(path) and not _tu_files(path)
        form = "graph files" if graph_files else "tu"
    elif path.suffix == ".zip":
        form = "tu"
    elif path.name.endswith((".jsonl", ".jsonl.gz")):
        form = "jsonl"
    elif path.suffix == ".csv":
        form = "molecules"
    elif path.suffix == ".parquet":
        form = "parquet" if "edges" in parquet_columns(path) else "molecules"
    elif path.suffix == ".mol":
        form = "mol"
    elif path.suffix in GRAPH_SUFFIXES:
        form = "graph files"
    else:
        *others, last = FILE_SUFFIXES
        raise DataError(
            f"{path}: expected a folder or a file that ends in {', '.join(others)} or {last}, "
            f"got {path.suffix or 'no suffix'}. "
            + ADVICE.get(path.suffix.lower(), "Rename the file to match its format.")
        )
    if form != "molecules" and any(column is not None for column in columns):
        raise SettingError(
            f"{path}: column names apply to tables of molecules (.csv, .parquet) only, but this is another kind of "
            "file. Remove them."
        )
    return form


def _refuse_choice(path: str | Path, *chosen: Sequence[str] | None) -> None:
    if any(names is not None for names in chosen):
        raise SettingError(
            f"{path}: node and edge attributes can be chosen in {', '.join(GRAPH_SUFFIXES)} files only, "
            "but this is another kind of data. Remove the option."
        )


def _refuse_skipping(path: str | Path, skip_invalid: bool) -> None:
    if skip_invalid:
        raise SettingError(
            f"{path}: skip_invalid (--skip-invalid) is for tables of molecules (.csv, .parquet) only. Leave it out."
        )


def _parquet_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The rows as JSON lines, without values that are missing."""
    columns = parquet_columns(path)
    for number, row in parquet_rows(path, columns):
        given = {name: value for name, value in row.items() if value is not None}
        try:
            yield number, json.dumps(given).encode()
        except (TypeError, ValueError) as error:
            raise DataError(
                f"{path}, row {number}: expected strings, numbers or lists of them ({error}). Convert other values."
            ) from error


def _tu_files(path: Path) -> list[str]:
    patterns = ("*_A.txt", "*/*_A.txt", "*/raw/*_A.txt")
    return [file.name for pattern in patterns for file in path.glob(pattern)]


def _tu_name(path: Path) -> str:
    """The name of the only data set in a TU folder or zip file."""
    with read_errors(path):
        if path.is_dir():
            files = _tu_files(path)
        else:
            with zipfile.ZipFile(path) as archive:
                files = [member.rsplit("/", 1)[-1] for member in archive.namelist()]
    found = {f.removesuffix("_A.txt") for f in files if f.endswith("_A.txt") and f[0] != "."}
    if len(found) != 1:
        got = f"{len(found)} of them ({', '.join(sorted(found)[:5])})" if found else "none"
        raise DataError(f"{path}: expected one file NAME_A.txt, got {got}. Is it in the TU format?")
    return found.pop()
