"""Molecules as graphs, read from SMILES with RDKit: atoms are nodes and bonds are edges.

The categories are fixed, so that all files have the same columns. The features of an atom do not depend on how the
SMILES is written: chirality is R or S, not the order of neighbors in the text.
"""

from __future__ import annotations

import csv
import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from diffpool.data.categories import INTEGER, Categories, Names, common_type
from diffpool.data.convert import with_y
from diffpool.data.jsonl import check_size
from diffpool.data.parquet import parquet_columns, parquet_rows
from diffpool.data.raw import MAX_FLOAT, RawGraphs, Skipped
from diffpool.errors import DataError, did_you_mean, shortened

# The columns of node_labels and their categories; the last one is for all other values.
ATOM_LABELS: dict[str, tuple[str, ...]] = {
    "element": (
        *("H", "Li", "B", "C", "N", "O", "F", "Na", "Mg", "Al", "Si", "P", "S", "Cl", "K", "Ca"),
        *("Fe", "Cu", "Zn", "As", "Se", "Br", "Sn", "I", "other"),
    ),
    "degree": ("0", "1", "2", "3", "4", "5", "6", "other"),
    "hydrogens": ("0", "1", "2", "3", "4", "other"),
    "charge": ("-2", "-1", "0", "1", "2", "other"),
    "hybridization": ("S", "SP", "SP2", "SP3", "SP3D", "SP3D2", "other"),
    "chirality": ("none", "R", "S", "other"),
}
ATOM_ATTRIBUTES = ("aromatic", "in a ring", "mass / 100")
BOND_LABELS: dict[str, tuple[str, ...]] = {
    "type": ("single", "double", "triple", "aromatic", "other"),
    "stereo": ("none", "E", "Z", "other"),
}
BOND_ATTRIBUTES = ("conjugated", "in a ring")

MAX_SHOWN = 5  # errors in one message
_CODES = {
    column: {name: code for code, name in enumerate(names)}
    for column, names in (ATOM_LABELS | BOND_LABELS).items()
}


def from_smiles(smiles: Sequence[str], y: Any = None, name: str = "molecules") -> RawGraphs:
    """Convert a list of SMILES; `y` as in `as_raw`."""
    if isinstance(smiles, str):
        raise DataError(f"expected a list of SMILES, got one string. Write [{smiles!r}].")
    return from_molecules(smiles, y, name)


def from_molecules(molecules: Sequence[Any], y: Any = None, name: str = "molecules") -> RawGraphs:
    """Convert SMILES, RDKit molecules or paths to .mol files; `y` as in `as_raw`."""
    collected = _Molecules(name)
    for i, molecule in enumerate(molecules):
        collected.add(molecule, f"molecule {i}")
    raw = collected.take()
    return raw if y is None else with_y(raw, y)


def read_mol(path: str | Path) -> RawGraphs:
    """The molecule in a .mol file."""
    path = Path(path)
    molecules = _Molecules(path.stem)
    molecules.add(path, "molecule 0")
    return molecules.take()


def read_molecules(
    path: str | Path,
    smiles: str = "smiles",
    label: str | None = None,
    target: str | Sequence[str] | None = None,
    name: str | None = None,
    skip_invalid: bool = False,
) -> RawGraphs:
    """Read the molecules of a CSV file with a header, or of a Parquet file.

    The file has a column of SMILES and, optionally, columns with classes or targets. `skip_invalid`: leave out
    molecules that RDKit cannot read; `RawGraphs.skipped` lists them.
    """
    raw = next(_chunks(Path(path), None, smiles, label, target, name, skip_invalid))
    if not len(raw):
        count = len(raw.skipped)
        raise DataError(
            f"{path}: RDKit can read none of {count} molecule{'s' * (count > 1)}. Is {smiles!r} the column of SMILES?"
        )
    return raw


def iter_molecules(
    path: str | Path,
    size: int,
    smiles: str = "smiles",
    label: str | None = None,
    target: str | Sequence[str] | None = None,
    name: str | None = None,
    skip_invalid: bool = False,
) -> Iterator[RawGraphs]:
    """Like `read_molecules`, but `size` molecules at a time."""
    check_size(size)
    return _chunks(Path(path), size, smiles, label, target, name, skip_invalid)


def _chunks(
    path: Path,
    size: int | None,
    smiles: str,
    label: str | None,
    target: str | Sequence[str] | None,
    name: str | None,
    skip_invalid: bool,
) -> Iterator[RawGraphs]:
    targets = [target] if isinstance(target, str) else list(target or ())
    typed = path.suffix == ".parquet"
    molecules = _Molecules(path.stem if name is None else name, f"{path}: ", typed)
    rows = _rows(path, [smiles, *([label] if label else []), *targets])
    empty = True
    for line, (text, *cells), row in rows:
        empty = False
        where = f"{'row' if typed else 'line'} {line}"
        molecule: Any = molecules.parsed(text) if skip_invalid else text
        if molecule is None:
            molecules.skip(row, where)
        else:
            molecules.add_row(row)
            if label:
                molecules.add_class(cells.pop(0), label, where)
            if targets:
                molecules.add_targets(cells, targets, where)
            molecules.add(molecule, where)
        if len(molecules) == size:
            yield molecules.take()
    if empty:
        raise DataError(f"{path}: the file has no molecules. Is it complete?")
    if len(molecules):
        yield molecules.take()


def _rows(path: Path, columns: list[str]) -> Iterator[tuple[int, list[Any], dict[str, Any]]]:
    """Line number, cells of these columns, and cells of all columns, for each row of a CSV or Parquet file.

    Cells of a CSV file are text; those of a Parquet file have types.
    """
    if path.suffix == ".parquet":
        header = parquet_columns(path)
        columns = _found_columns(path, header, columns)
        for number, found in parquet_rows(path, header):
            typed = {column: _typed_cell(found[column]) for column in header}
            yield number, [typed[column] for column in columns], typed
        return
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            header = [cell.strip() for cell in next(reader, [])]
            columns = _found_columns(path, header, columns)
            indices = [header.index(column) for column in columns]
            names = _unique(header)
            for row in reader:
                if not row:
                    continue
                if len(row) != len(header):
                    raise DataError(
                        f"{path}, line {reader.line_num}: expected {len(header)} cells as in the header, "
                        f"got {len(row)}. Put quotes around text with commas."
                    )
                cells = [row[i].strip() for i in indices]
                yield reader.line_num, cells, dict(zip(names, row, strict=True))
    except OSError as error:
        raise DataError(
            f"{path}: the file could not be read ({error.strerror}). Is the name right?"
        ) from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: the text is not UTF-8 ({error.reason}). Save the file as UTF-8."
        ) from error
    except csv.Error as error:
        raise DataError(
            f"{path}, line {reader.line_num}: not comma-separated values ({error}). Correct the quotes."
        ) from error


def _typed_cell(value: Any) -> Any:
    """A value as JSON can store it: a string, number, boolean or None; other values as text."""
    if isinstance(value, str):
        return value.strip()
    finite = not isinstance(value, float) or math.isfinite(value)
    return value if value is None or (isinstance(value, int | float) and finite) else str(value)


def _found_columns(path: Path, header: list[str], columns: list[str]) -> list[str]:
    """The columns as the header writes them: the first one, of the SMILES, may have other capital letters."""
    if not header:
        raise DataError(f"{path}: the file is empty. Is it complete?")
    smiles, *others = columns
    alike = [name for name in header if name.lower() == smiles.lower()]
    if smiles not in header and len(alike) == 1:
        smiles = alike[0]
    for column in (smiles, *others):
        if header.count(column) != 1:
            got = "none" if column not in header else f"{header.count(column)} of them"
            raise DataError(
                f"{path}: expected one column {column!r}, got {got}. The file has {', '.join(header)}."
                f"{_column_hint(column, header, column == smiles)}"
            )
    return [smiles, *others]


def _column_hint(column: str, header: list[str], smiles: bool) -> str:
    """What to do about a missing column."""
    for separator, name in ((";", "semicolons"), ("\t", "tabs")):
        if len(header) == 1 and separator in header[0]:
            return f" It seems to be separated by {name}: save it separated by commas."
    if column in header:
        return " Give the columns different names."
    hint = did_you_mean(column, header, prefix=" ")
    return hint or (" Name the column with --smiles (smiles in Python)." if smiles else "")


def _unique(header: list[str]) -> list[str]:
    """The column names, made unique: a CSV file may have columns without a name, or with the same name."""
    names: list[str] = []
    for i, name in enumerate(header):
        name = name or f"column_{i + 1}"
        names.append(name if header.count(name) <= 1 else f"{name}_{i + 1}")
    return names


class _Molecules:
    """Collects molecules, and error messages about those that cannot be read."""

    def __init__(self, name: str, prefix: str = "", typed: bool = False):
        try:
            from rdkit import Chem, rdBase
        except ImportError as error:
            raise DataError(
                "RDKit is required to read molecules. Install it with `pip install 'diffpool[molecules]'`."
            ) from error
        self.name, self.prefix = name, prefix
        self.typed = typed  # the classes are not text, but have the types of a Parquet file
        self.parse: Callable[[str], Any] = Chem.MolFromSmiles
        self.read: Callable[[str], Any] = Chem.MolFromMolFile
        self.quiet: Callable[[], AbstractContextManager[Any]] = rdBase.BlockLogs
        self._clear()

    def _clear(self) -> None:
        self.faults: list[str] = []
        self.count = 0
        self.sizes: list[int] = []
        # Flattened rows; arrays, because a file can have millions of atoms.
        self.atoms = array("i")  # codes of the columns of ATOM_LABELS
        self.atom_numbers = array("d")
        self.ends = array("q")  # both ends of each bond
        self.bonds = array("i")
        self.bond_numbers = array("d")
        self.classes: list[Any] = []
        self.targets: list[list[float]] = []
        self.columns: dict[str, list[Any]] = {}
        self.label = ""  # the column of the classes
        self.unreadable = 0  # of the faults
        self.skipped: list[Skipped] = []

    def __len__(self) -> int:
        """Number of molecules added, including those that cannot be read."""
        return self.count

    def add(self, given: Any, where: str) -> None:
        """Add a molecule: SMILES, an RDKit molecule or the path to a .mol file."""
        self.count += 1
        form = "a .mol file" if _is_mol_file(given) else "a SMILES"
        molecule = self._quietly_read(given)
        if molecule is None or molecule.GetNumAtoms() == 0:
            what = "with at least one atom" if molecule else "that RDKit can read"
            shown = shortened(str(given) if isinstance(given, PurePath) else given)
            self.faults.append(f"{where}: expected {form} {what}, got {shown}")
            self.unreadable += 1
            return
        try:
            self._add(molecule)
        except RuntimeError:  # of RDKit: rings and hydrogens are not computed
            self.faults.append(
                f"{where}: expected a molecule after Chem.SanitizeMol, got one that is not sanitized"
            )

    def _add(self, molecule: Any) -> None:
        start = len(self.atoms) // len(ATOM_LABELS)
        for atom in molecule.GetAtoms():
            self.atoms.extend(_atom(atom))
            self.atom_numbers.extend((atom.GetIsAromatic(), atom.IsInRing(), atom.GetMass() / 100))
        for bond in molecule.GetBonds():
            self.ends.extend((start + bond.GetBeginAtomIdx(), start + bond.GetEndAtomIdx()))
            self.bonds.extend(_bond(bond))
            self.bond_numbers.extend((bond.GetIsConjugated(), bond.IsInRing()))
        self.sizes.append(molecule.GetNumAtoms())

    def parsed(self, given: Any) -> Any:
        """The RDKit molecule; None if there is none, or one without atoms."""
        molecule = self._quietly_read(given)
        return molecule if molecule is not None and molecule.GetNumAtoms() else None

    def skip(self, row: dict[str, str], where: str) -> None:
        """Leave this row out."""
        self.count += 1
        self.skipped.append(Skipped(len(self.sizes), where, row))
        for name in row:  # the columns are known even if no molecule can be read
            self.columns.setdefault(name, [])

    def _quietly_read(self, given: Any) -> Any:
        try:
            with self.quiet():
                return self._molecule(given)
        except (UnicodeError, OSError):  # half of a surrogate pair; no such file
            return None

    def _molecule(self, given: Any) -> Any:
        if hasattr(given, "GetAtoms"):
            return given
        if _is_mol_file(given):
            return self.read(str(given))
        return self.parse(given) if isinstance(given, str) else None

    def add_row(self, row: dict[str, Any]) -> None:
        for name, cell in row.items():
            self.columns.setdefault(name, []).append(cell)

    def add_class(self, cell: Any, column: str, where: str) -> None:
        missing = cell is None or cell == ""
        if missing or str(cell).lower() == "nan":  # pandas writes NaN for a missing value
            got = "nothing" if missing else cell
            self.faults.append(f"{where}: expected a class in column {column!r}, got {got}")
        self.classes.append(cell)
        self.label = column

    def add_targets(self, cells: list[Any], columns: list[str], where: str) -> None:
        row = [_number(cell) for cell in cells]
        for column, cell, value in zip(columns, cells, row, strict=True):
            if not abs(value) <= MAX_FLOAT:  # or NaN
                got = "nothing" if cell is None or cell == "" else shortened(cell)
                self.faults.append(f"{where}: expected a number in column {column!r}, got {got}")
        self.targets.append(row)

    def take(self) -> RawGraphs:
        """The molecules added since the last call; raises the first error messages if there are any."""
        if self.faults:
            more = len(self.faults) - MAX_SHOWN
            shown = "; ".join(self.faults[:MAX_SHOWN]) + (f"; and {more} more" if more > 0 else "")
            them = "them" if len(self.faults) > 1 else "it"
            advice = f"Correct or remove {them}"
            if self.prefix and self.unreadable:
                advice += ", or leave out what RDKit cannot read with --skip-invalid (skip_invalid=True in Python)"
            raise DataError(f"{self.prefix}{shown}. {advice}.")
        if not self.sizes and not self.skipped:
            raise DataError(
                "expected at least one SMILES, got an empty list. Was everything filtered out?"
            )
        source, target = np.array(self.ends).reshape(-1, 2).T
        tables: dict[str, Any] = {}
        if self.classes:
            names = Names()
            codes = names.codes(list(map(str, self.classes)))
            kind = "int" if all(map(INTEGER.fullmatch, names)) else "str"
            if self.typed:
                kind = common_type(self.classes)
            tables["classes"] = Categories.from_columns([(names, codes)], kind)
            if (
                kind == "int"
            ):  # so that predictions as JSON have classes and predictions of one type
                self.columns[self.label] = list(map(int, self.classes))
        if self.columns:
            tables["columns"] = self.columns
        if self.targets:
            tables["targets"] = np.array(self.targets, np.float64)
        raw = RawGraphs.from_edges(
            self.name,
            self.sizes,
            source,
            target,
            one_way=True,
            node_labels=_categories(self.atoms, ATOM_LABELS),
            node_attributes=np.array(self.atom_numbers).reshape(-1, len(ATOM_ATTRIBUTES)),
            edge_labels=_categories(self.bonds, BOND_LABELS),
            edge_attributes=np.array(self.bond_numbers).reshape(-1, len(BOND_ATTRIBUTES)),
            skipped=tuple(self.skipped),
            **tables,
        )
        self._clear()
        return raw


def _is_mol_file(given: Any) -> bool:
    """Whether this is a path; no SMILES ends in `.mol`."""
    return isinstance(given, PurePath) or (isinstance(given, str) and given.endswith(".mol"))


def _atom(atom: Any) -> tuple[int, ...]:
    """The codes of an atom in the columns of ATOM_LABELS."""
    chirality = "other" if atom.GetChiralTag() else "none"  # other: neither R nor S
    if atom.HasProp("_CIPCode"):
        chirality = atom.GetProp("_CIPCode")
    return (
        _code("element", atom.GetSymbol()),
        _code("degree", str(atom.GetDegree())),
        _code("hydrogens", str(atom.GetTotalNumHs())),
        _code("charge", str(atom.GetFormalCharge())),
        _code("hybridization", str(atom.GetHybridization())),
        _code("chirality", chirality),
    )


def _bond(bond: Any) -> tuple[int, ...]:
    stereo = str(bond.GetStereo()).removeprefix("STEREO")
    return (
        _code("type", str(bond.GetBondType()).lower()),
        _code("stereo", "none" if stereo == "NONE" else stereo),
    )


def _code(column: str, word: str) -> int:
    codes = _CODES[column]
    return codes.get(word, len(codes) - 1)


def _categories(codes: array[int], columns: dict[str, tuple[str, ...]]) -> Categories:
    return Categories(np.array(codes, np.int32).reshape(-1, len(columns)), tuple(columns.values()))


def _number(cell: Any) -> float:
    """The number in a cell; NaN if it is not a number."""
    try:
        return math.nan if cell is None or isinstance(cell, bool) else float(cell)
    except (ValueError, OverflowError):
        return math.nan
