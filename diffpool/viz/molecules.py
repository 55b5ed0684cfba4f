"""Molecules as chemists draw them: RDKit's positions, element symbols and bond orders."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diffpool.data import RawGraphs
from diffpool.data.molecules import ATOM_LABELS, BOND_LABELS

ORDERS = {"single": 1.0, "double": 2.0, "triple": 3.0, "aromatic": 1.5}


@dataclass(frozen=True, eq=False)
class Molecule:
    """What a drawing of a molecule shows."""

    symbols: list[str]  # of each atom
    positions: np.ndarray | None  # [n, 2], with bonds of a median length of 1; None without RDKit
    orders: np.ndarray  # [n, n]: 1, 2, 3, 1.5 for aromatic bonds, and 0 without a bond


def is_molecules(raw: RawGraphs) -> bool:
    """Whether the graphs were read from SMILES or .mol files."""
    names = None if raw.node_labels is None else raw.node_labels.names
    return names == tuple(ATOM_LABELS.values()) and raw.edge_labels is not None


def molecule(raw: RawGraphs, graph: int) -> Molecule:
    """One of the molecules, as it is drawn."""
    single = raw[graph : graph + 1]
    assert single.node_labels is not None
    assert single.edge_labels is not None
    symbols = [word if word != "other" else "*" for word in single.node_labels.words(0)]
    orders = np.zeros((len(symbols), len(symbols)))
    kinds = np.array([ORDERS.get(kind, 1.0) for kind in BOND_LABELS["type"]])
    orders[single.target, single.source] = kinds[single.edge_labels.codes[:, 0]]
    return Molecule(symbols, _positions(symbols, orders), orders)


def _positions(symbols: list[str], orders: np.ndarray) -> np.ndarray | None:
    try:
        from rdkit import Chem
        from rdkit.Chem import rdDepictor
    except ImportError:
        return None
    bonds = {order: kind for kind, order in ORDERS.items()}
    editable = Chem.RWMol()
    for symbol in symbols:
        editable.AddAtom(Chem.Atom(symbol))
    pairs = np.argwhere(np.triu(orders, 1) > 0)
    for i, j in pairs.tolist():
        kind = getattr(Chem.BondType, bonds[float(orders[i, j])].upper())
        editable.AddBond(i, j, kind)
    drawn = editable.GetMol()
    drawn.UpdatePropertyCache(strict=False)
    Chem.FastFindRings(drawn)
    rdDepictor.Compute2DCoords(drawn)
    found = np.array(drawn.GetConformer().GetPositions())[:, :2]
    if not len(pairs):
        return found
    lengths = np.linalg.norm(found[pairs[:, 0]] - found[pairs[:, 1]], axis=1)
    return found / max(float(np.median(lengths)), 1e-9)
