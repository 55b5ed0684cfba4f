"""Molecules as graphs: atoms are nodes and bonds are edges, read from SMILES with RDKit.

The vocabularies are fixed, so that every file has the same columns. All of them say the same of an atom however the
SMILES was written: chirality is the R or S of the atom, not the order of its neighbors in the text.
"""

from __future__ import annotations

import csv
import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from diffpool.data.jsonl import Names, categories, check_size
from diffpool.data.own import labeled
from diffpool.data.raw import Categories, RawGraphs
from diffpool.errors import DataError

# The columns of node_labels, with their categories; the last one stands for all others.
ATOM_LABELS: dict[str, tuple[str, ...]] = {
    "element": (
        *("H", "Li", "B", "C", "N", "O", "F", "Na", "Mg", "Al", "Si", "P", "S", "Cl", "K", "Ca"),
        *("Fe", "Cu", "Zn", "As", "Se", "Br", "Sn", "I", "other"),
    ),
    "degree": ("0", "1", "2", "3", "4", "5", "6", "other"),
    "hydrogens": ("0", "1", "2", "3", "4", "other"),
    "charge": ("-2", "-1", "0", "1", "2", "other"),
    "hybridisation": ("S", "SP", "SP2", "SP3", "SP3D", "SP3D2", "other"),
    "chirality": ("none", "R", "S", "other"),
}
ATOM_ATTRIBUTES = ("aromatic", "in a ring", "mass / 100")
BOND_LABELS: dict[str, tuple[str, ...]] = {
    "type": ("single", "double", "triple", "aromatic", "other"),
    "stereo": ("none", "E", "Z", "other"),
}
BOND_ATTRIBUTES = ("conjugated", "in a ring")

SHOWN = 5  # faults in one message
_CODES = {
    column: {name: code for code, name in enumerate(names)}
    for column, names in (ATOM_LABELS | BOND_LABELS).items()
}


def from_smiles(smiles: Sequence[str], y: Any = None, name: str = "molecules") -> RawGraphs:
    """The molecules of a list of SMILES; `y` as in `as_raw`."""
    if isinstance(smiles, str):
        raise DataError(f"expected a list of SMILES, got one: write [{smiles!r}]")
    molecules = _Molecules(name)
    for i, text in enumerate(smiles):
        molecules.add(text, f"molecule {i}")
    raw = molecules.take()
    return raw if y is None else labeled(raw, y)


def read_molecules(
    path: str | Path,
    smiles: str = "smiles",
    label: str | None = None,
    target: str | Sequence[str] | None = None,
    name: str | None = None,
) -> RawGraphs:
    """The molecules of a CSV file with a header: a column of SMILES and, if named, of classes or of numbers."""
    return next(_chunks(Path(path), None, smiles, label, target, name))


def iter_molecules(
    path: str | Path,
    size: int,
    smiles: str = "smiles",
    label: str | None = None,
    target: str | Sequence[str] | None = None,
    name: str | None = None,
) -> Iterator[RawGraphs]:
    """The same, `size` molecules at a time."""
    check_size(size)
    return _chunks(Path(path), size, smiles, label, target, name)


def _chunks(
    path: Path,
    size: int | None,
    smiles: str,
    label: str | None,
    target: str | Sequence[str] | None,
    name: str | None,
) -> Iterator[RawGraphs]:
    targets = [target] if isinstance(target, str) else list(target or ())
    molecules = _Molecules(path.stem if name is None else name, f"{path}: ")
    rows = _rows(path, [smiles, *([label] if label else []), *targets])
    empty = True
    for line, (text, *cells) in rows:
        empty = False
        where = f"line {line}"
        if label:
            molecules.add_class(cells.pop(0), label, where)
        if targets:
            molecules.add_targets(cells, targets, where)
        molecules.add(text, where)
        if len(molecules) == size:
            yield molecules.take()
    if empty:
        raise DataError(
            f"{path}: expected a molecule in each line, got none: is the file complete?"
        )
    if len(molecules):
        yield molecules.take()


def _rows(path: Path, columns: list[str]) -> Iterator[tuple[int, list[str]]]:
    """The line and the cells of these columns, for each row of a CSV file."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            header = [cell.strip() for cell in next(reader, [])]
            for column in columns:
                if header.count(column) != 1:
                    got = "none" if column not in header else f"{header.count(column)} of them"
                    raise DataError(
                        f"{path}: expected one column {column!r}, got {got}: it has {', '.join(header) or 'no columns'}"
                    )
            places = [header.index(column) for column in columns]
            for row in reader:
                if not row:
                    continue
                if len(row) != len(header):
                    raise DataError(
                        f"{path}, line {reader.line_num}: expected {len(header)} cells as in the header, "
                        f"got {len(row)}: put text with commas into quotes"
                    )
                yield reader.line_num, [row[place].strip() for place in places]
    except OSError as error:
        raise DataError(
            f"{path}: expected a file that can be read, got: {error.strerror}: is the name right?"
        ) from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: expected UTF-8 text, got another byte ({error.reason}): save it as UTF-8"
        ) from error
    except csv.Error as error:
        raise DataError(
            f"{path}, line {reader.line_num}: expected comma-separated values, got others ({error}): mend the quotes"
        ) from error


class _Molecules:
    """Molecules one after another, with all that is wrong with them."""

    def __init__(self, name: str, place: str = ""):
        try:
            from rdkit import Chem, rdBase
        except ImportError as error:
            raise DataError(
                "expected RDKit, which reads molecules, got none: pip install 'diffpool[molecules]'"
            ) from error
        self.name, self.place = name, place
        self.parse: Callable[[str], Any] = Chem.MolFromSmiles
        self.quiet: Callable[[], AbstractContextManager[Any]] = rdBase.BlockLogs
        self._clear()

    def _clear(self) -> None:
        self.faults: list[str] = []
        self.count = 0
        self.sizes: list[int] = []
        # Row after row; arrays, because a file can have millions of atoms.
        self.atoms = array("i")  # codes in the columns of ATOM_LABELS
        self.atom_numbers = array("d")
        self.ends = array("q")  # of each bond
        self.bonds = array("i")
        self.bond_numbers = array("d")
        self.classes: list[str] = []
        self.targets: list[list[float]] = []

    def __len__(self) -> int:
        """How many were added, right or wrong."""
        return self.count

    def add(self, smiles: Any, where: str) -> None:
        self.count += 1
        try:
            with self.quiet():
                molecule = self.parse(smiles) if isinstance(smiles, str) else None
        except UnicodeError:  # half a character
            molecule = None
        if molecule is None or molecule.GetNumAtoms() == 0:
            what = "of an atom or more" if molecule else "that RDKit can read"
            self.faults.append(f"{where}: expected a SMILES {what}, got {_short(smiles)}")
            return
        start = len(self.atoms) // len(ATOM_LABELS)
        for atom in molecule.GetAtoms():
            self.atoms.extend(_atom(atom))
            self.atom_numbers.extend((atom.GetIsAromatic(), atom.IsInRing(), atom.GetMass() / 100))
        for bond in molecule.GetBonds():
            self.ends.extend((start + bond.GetBeginAtomIdx(), start + bond.GetEndAtomIdx()))
            self.bonds.extend(_bond(bond))
            self.bond_numbers.extend((bond.GetIsConjugated(), bond.IsInRing()))
        self.sizes.append(molecule.GetNumAtoms())

    def add_class(self, cell: str, column: str, where: str) -> None:
        if not cell:
            self.faults.append(f"{where}: expected a class in column {column!r}, got nothing")
        self.classes.append(cell)

    def add_targets(self, cells: list[str], columns: list[str], where: str) -> None:
        row = [_number(cell) for cell in cells]
        for column, cell, value in zip(columns, cells, row, strict=True):
            if not math.isfinite(value):
                got = _short(cell) if cell else "nothing"
                self.faults.append(f"{where}: expected a number in column {column!r}, got {got}")
        self.targets.append(row)

    def take(self) -> RawGraphs:
        """The molecules added since the last time, or an error with the first faults of all."""
        if self.faults:
            more = len(self.faults) - SHOWN
            shown = "; ".join(self.faults[:SHOWN]) + (f"; and {more} more" if more > 0 else "")
            do = f"mend or remove {'them' if len(self.faults) > 1 else 'it'}"
            raise DataError(f"{self.place}{shown}: {do}")
        if not self.sizes:
            raise DataError("expected at least one SMILES, got an empty list: was all filtered?")
        source, target = np.array(self.ends).reshape(-1, 2).T
        tables: dict[str, Any] = {}
        if self.classes:
            names = Names()
            tables["classes"] = categories([(names, names.codes(self.classes))])
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
            **tables,
        )
        self._clear()
        return raw


def _atom(atom: Any) -> tuple[int, ...]:
    """Its codes in the columns of ATOM_LABELS."""
    chirality = "other" if atom.GetChiralTag() else "none"  # other: neither R nor S
    if atom.HasProp("_CIPCode"):
        chirality = atom.GetProp("_CIPCode")
    return (
        _code("element", atom.GetSymbol()),
        _code("degree", str(atom.GetDegree())),
        _code("hydrogens", str(atom.GetTotalNumHs())),
        _code("charge", str(atom.GetFormalCharge())),
        _code("hybridisation", str(atom.GetHybridization())),
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


def _number(cell: str) -> float:
    """NaN if it is none."""
    try:
        return float(cell)
    except ValueError:
        return math.nan


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 100 else f"{text[:97]}…"
