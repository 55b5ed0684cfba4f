"""Molecules: hand-checked examples, fixed columns, and CSV files with and without faults."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from diffpool import DiffPoolClassifier, as_raw
from diffpool.data import molecules
from diffpool.data.molecules import from_smiles, iter_molecules, read_molecules
from diffpool.data.raw import RawGraphs, concatenate
from diffpool.data.sources import iter_graphs, read_graphs, read_raw
from diffpool.errors import DataError, SettingError
from tests.data.test_jsonl import assert_same

pytest.importorskip("rdkit")

ATOM = {name: column for column, name in enumerate(molecules.ATOM_LABELS)}
BOND = {name: column for column, name in enumerate(molecules.BOND_LABELS)}


def atoms(raw: RawGraphs, column: str) -> list[str]:
    return raw.node_labels.words(ATOM[column])


def bonds(raw: RawGraphs, column: str) -> dict[tuple[int, int], str]:
    """By the indices of the two atoms, the smaller one first."""
    words = raw.edge_labels.words(BOND[column])
    ends = zip(raw.source.tolist(), raw.target.tolist(), strict=True)
    both = dict(zip(ends, words, strict=True))
    assert all(both[i, j] == both[j, i] for i, j in both)
    return {(i, j): word for (i, j), word in both.items() if i < j}


def test_benzene_is_an_aromatic_ring() -> None:
    raw = from_smiles(["c1ccccc1"])
    assert (raw.num_nodes, raw.num_edges, raw.directed) == (6, 12, False)
    assert atoms(raw, "element") == ["C"] * 6
    assert atoms(raw, "degree") == ["2"] * 6
    assert atoms(raw, "hydrogens") == ["1"] * 6
    assert atoms(raw, "hybridization") == ["SP2"] * 6
    assert raw.node_attributes.tolist() == [[1, 1, 0.12011]] * 6
    assert set(bonds(raw, "type").values()) == {"aromatic"}
    assert raw.edge_attributes.tolist() == [[1, 1]] * 12


def test_acetic_acid_has_one_double_bond() -> None:
    raw = from_smiles(["CC(=O)O"])
    assert atoms(raw, "element") == ["C", "C", "O", "O"]
    assert atoms(raw, "degree") == ["1", "3", "1", "1"]
    assert atoms(raw, "hydrogens") == ["3", "0", "0", "1"]
    assert atoms(raw, "charge") == ["0"] * 4
    assert atoms(raw, "hybridization") == ["SP3", "SP2", "SP2", "SP2"]
    assert bonds(raw, "type") == {(0, 1): "single", (1, 2): "double", (1, 3): "single"}
    assert set(bonds(raw, "stereo").values()) == {"none"}
    conjugated = dict(
        zip(zip(raw.source, raw.target, strict=True), raw.edge_attributes, strict=True)
    )
    assert [conjugated[1, i][0] for i in (0, 2, 3)] == [0, 1, 1]
    assert not raw.node_attributes[:, :2].any()
    np.testing.assert_allclose(raw.node_attributes[:, 2], [0.12011, 0.12011, 0.15999, 0.15999])


def test_ions_have_charges() -> None:
    raw = from_smiles(["[NH4+]", "C[N+](C)(C)CC(=O)[O-]", "[Ca+2].[Cl-].[Cl-]", "[Al+3]"])
    assert raw.sizes.tolist() == [1, 8, 3, 1]
    assert atoms(raw[0], "charge") == ["1"]
    assert atoms(raw[0], "hydrogens") == ["4"]
    assert atoms(raw[1], "charge") == ["0", "1", *["0"] * 5, "-1"]
    assert atoms(raw[2], "charge") == ["2", "-1", "-1"]
    assert atoms(raw[3], "charge") == ["other"]


def test_chirality_does_not_depend_on_how_the_smiles_is_written() -> None:
    for l_alanine in ("N[C@@H](C)C(=O)O", "C[C@H](N)C(=O)O"):
        assert atoms(from_smiles([l_alanine]), "chirality").count("S") == 1
    assert atoms(from_smiles(["N[C@H](C)C(=O)O"]), "chirality").count("R") == 1
    assert set(atoms(from_smiles(["NC(C)C(=O)O"]), "chirality")) == {"none"}
    ring = atoms(from_smiles(["C[C@@H]1CC[C@H](C)CC1"]), "chirality")  # only relative
    assert ring.count("other") == 2


@pytest.mark.parametrize(
    "smiles",
    [
        "CN1CCC[C@H]1c1cccnc1",  # nicotine
        "CC(C)Cc1ccc([C@@H](C)C(=O)[O-])cc1",  # ibuprofen, as an ion
        "C/C=C/C=C\\[C@@H](O)C#N",
        "O=C(O)[C@@H](O)[C@H](O)C(=O)O",  # tartaric acid
        "C[n+]1cccc2[nH]ccc21",
    ],
)
def test_the_features_of_a_molecule_do_not_depend_on_its_smiles(smiles: str) -> None:
    from rdkit import Chem

    def rows(raw: RawGraphs) -> list[list[tuple[float, ...]]]:
        nodes = np.concatenate([raw.node_labels.codes, raw.node_attributes], 1)
        edges = np.concatenate([raw.edge_labels.codes, raw.edge_attributes], 1)
        return [sorted(map(tuple, table.tolist())) for table in (nodes, edges)]

    molecule = Chem.MolFromSmiles(smiles)
    written = Chem.MolToRandomSmilesVect(molecule, 10, randomSeed=1)
    assert len({smiles, *written}) > 5
    for other in (*written, Chem.MolToSmiles(molecule, kekuleSmiles=True)):
        assert rows(from_smiles([other])) == rows(from_smiles([smiles])), other


def test_double_bonds_are_e_or_z() -> None:
    for smiles, expected in (("F/C=C/F", "E"), ("F/C=C\\F", "Z"), ("FC=CF", "none")):
        assert bonds(from_smiles([smiles]), "stereo")[1, 2] == expected


def test_rare_values_are_other() -> None:
    raw = from_smiles(["Cl[Pt](Cl)(N)N", "*", "N->[Zn]"])
    assert atoms(raw[0], "element") == ["Cl", "other", "Cl", "N", "N"]
    assert atoms(raw[1], "element") == ["other"]
    assert bonds(raw[2], "type") == {(0, 1): "other"}


def test_every_file_has_the_same_columns() -> None:
    methane, large = from_smiles(["C"]), from_smiles(["CC(=O)Oc1ccccc1C(=O)O"])
    assert methane.node_labels.names == large.node_labels.names
    assert methane.edge_labels.names == large.edge_labels.names
    assert methane.node_labels.names == tuple(molecules.ATOM_LABELS.values())
    assert methane.node_attributes.shape == (1, len(molecules.ATOM_ATTRIBUTES))
    assert methane.edge_attributes.shape == (0, len(molecules.BOND_ATTRIBUTES))
    assert all(names[-1] == "other" for names in methane.node_labels.names)
    assert_same(concatenate([methane, large]), from_smiles(["C", "CC(=O)Oc1ccccc1C(=O)O"]))


def test_y_gives_classes_or_targets() -> None:
    assert from_smiles(["C", "CC"], ["a", "b"]).classes.words() == ["a", "b"]
    assert from_smiles(["C", "CC"], [0.5, 1.5]).targets.tolist() == [[0.5], [1.5]]
    with pytest.raises(DataError, match="expected one y for each of 2 graphs, got 1"):
        from_smiles(["C", "CC"], [1])


def test_all_faults_of_a_list_are_in_one_message(capfd: pytest.CaptureFixture[str]) -> None:
    bad = ["C", "C1CC", "", "xx", None, "c1cccc1", "C(C)(C)(C)(C)C", "\ud800"]
    with pytest.raises(DataError) as error:
        from_smiles(bad)  # type: ignore[arg-type]
    said = str(error.value)
    assert said.startswith(
        "molecule 1: expected a SMILES that RDKit can read, got 'C1CC'; molecule 2:"
    )
    assert "molecule 2: expected a SMILES with at least one atom, got ''; " in said
    assert "got None; molecule 5:" in said
    assert said.endswith("; and 2 more. Correct or remove them.")
    assert capfd.readouterr() == ("", "")  # RDKit prints nothing


def test_anything_but_a_list_of_smiles_is_an_error() -> None:
    with pytest.raises(
        DataError, match=r"expected a list of SMILES, got one string. Write \['CCO'\]"
    ):
        from_smiles("CCO")
    with pytest.raises(DataError, match="expected at least one SMILES, got an empty list"):
        from_smiles([])


def test_without_rdkit_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rdkit", None)
    with pytest.raises(
        DataError,
        match=r"RDKit is required to read molecules. Install it with `pip install 'diffpool\[molecules\]'",
    ):
        from_smiles(["C"])


# --- files

TABLE = (
    "name,smiles,active,logp,mass\nethanol,CCO,yes,-0.31,46.1\n\nbenzene, c1ccccc1 ,no,2.13,78\n"
)


def write(path: Path, text: str = TABLE) -> Path:
    path.write_text(text, encoding="utf-8-sig")
    return path


def test_a_file_is_read_by_its_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "mols.csv")
    raw = read_molecules(path, label="active", target=["mass", "logp"])
    assert raw.name == "mols"
    assert raw.classes.words() == ["yes", "no"]
    assert raw.targets.tolist() == [[46.1, -0.31], [78, 2.13]]
    assert_same(read_molecules(path, name="x"), from_smiles(["CCO", "c1ccccc1"]))
    assert read_molecules(path, target="logp").targets.tolist() == [[-0.31], [2.13]]


def test_the_column_of_smiles_can_be_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", 'SMILES,"the, class"\nCCO,1\n')
    raw = read_graphs(path, smiles="SMILES", label="the, class")
    assert raw.classes.words() == ["1"]


def test_the_column_of_smiles_is_found_in_other_letters(tmp_path: Path) -> None:
    file = tmp_path / "m.csv"
    file.write_text("id,SMILES\n1,CCO\n")
    raw = read_molecules(file)
    assert raw.sizes.tolist() == [3]
    assert raw.columns == {"id": ["1"], "SMILES": ["CCO"]}


def test_a_misspelled_column_gets_a_suggestion(tmp_path: Path) -> None:
    file = tmp_path / "m.csv"
    file.write_text("smiles,Activity\nCCO,1\n")
    for columns in ({"label": "activty"}, {"target": "activity"}):
        with pytest.raises(DataError, match=r"got none\. The file has .* Did you mean Activity\?"):
            read_molecules(file, **columns)


def test_classes_that_are_written_as_integers_are_integers(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "smiles,a,b,c\nC,1,01,1\nCC,-1,2,x\n")
    assert read_molecules(path, label="a").classes.labels() == (-1, 1)
    assert read_molecules(path, label="b").classes.labels() == ("01", "2")
    assert read_molecules(path, label="c").classes.labels() == ("1", "x")


def test_all_columns_are_kept_under_different_names(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "x,smiles,,x\n1,C,a,2\n3,CC,b,4\n")
    columns = read_molecules(path)[1].columns
    assert columns == {"x_1": ["3"], "smiles": ["CC"], "column_3": ["b"], "x_4": ["4"]}


def test_the_chunks_together_are_the_file(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.csv", "smiles,y\n" + "".join(f"{'C' * n},{n}\n" for n in range(1, 6))
    )
    parts = list(iter_molecules(path, 2, label="y"))
    assert [len(part) for part in parts] == [2, 2, 1]
    assert_same(concatenate(parts), read_molecules(path, label="y"))
    assert_same(concatenate(list(iter_graphs(path, 3, target="y"))), read_graphs(path, target="y"))
    with pytest.raises(SettingError, match="expected a size of at least 1 graph, got 0"):
        iter_molecules(path, 0)


def test_all_faults_of_a_file_are_in_one_message(tmp_path: Path) -> None:
    rows = ["CCO,,1", "C1,a,x", ",b,", "CC,b,nan", "C,c,2"]
    path = write(tmp_path / "a.csv", "smiles,y,t\n" + "\n".join(rows))
    with pytest.raises(DataError) as error:
        read_molecules(path, label="y", target="t")
    assert str(error.value) == (
        f"{path}: line 2: expected a class in column 'y', got nothing; "
        "line 3: expected a number in column 't', got 'x'; "
        "line 3: expected a SMILES that RDKit can read, got 'C1'; "
        "line 4: expected a number in column 't', got nothing; "
        "line 4: expected a SMILES with at least one atom, got ''; "
        "and 1 more. Correct or remove them, or leave out what RDKit cannot read with --skip-invalid "
        "(skip_invalid=True in Python)."
    )
    with pytest.raises(
        DataError, match=r"line 2: expected a class .*, got nothing. Correct or remove it"
    ):
        next(iter_molecules(path, 1, label="y"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "structure,y\nC,1\n",
            r"expected one column 'smiles', got none. The file has structure, y. Name the column with --smiles",
        ),
        ("SMILES,Smiles\nC,C\n", r"expected one column 'smiles', got none. .* Did you mean"),
        ("", "the file is empty"),
        ("smiles;y\nC;1\n", "got none. .* separated by semicolons: save it separated by commas"),
        ("smiles\ty\nC\t1\n", "got none. .* separated by tabs: save it separated by commas"),
        (
            "smiles,smiles\nC,C\n",
            "expected one column 'smiles', got 2 of them. The file has smiles, smiles",
        ),
        ("smiles,y\nC,1\nC\n", "line 3: expected 2 cells as in the header, got 1. Put quotes"),
        ("smiles,y\n\n", "the file has no molecules. Is it complete"),
        ("smiles\n" + "C" * 200_000, "not comma-separated values .field larger"),
    ],
)
def test_an_invalid_table_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=r"a\.csv.*" + message):
        read_molecules(write(tmp_path / "a.csv", text))


def test_molecules_that_cannot_be_read_are_left_out_on_request(tmp_path: Path) -> None:
    rows = ["a,C1,no", "b,CCO,yes", "c,,", "d,nonsense,no", "e,C,no"]
    path = write(tmp_path / "a.csv", "id,smiles,y\n" + "\n".join(rows))
    raw = read_graphs(path, label="y", skip_invalid=True)
    assert raw.sizes.tolist() == [3, 1]
    assert raw.columns["id"] == ["b", "e"]
    assert raw.classes is not None
    assert raw.classes.words() == ["yes", "no"]
    assert [(row.index, row.where, row.columns["id"]) for row in raw.skipped] == [
        (0, "line 2", "a"),
        (1, "line 4", "c"),
        (1, "line 5", "d"),
    ]
    assert raw[:1].skipped == ()
    parts = list(iter_graphs(path, 1, skip_invalid=True))
    assert [(len(part), len(part.skipped)) for part in parts] == [
        (0, 1),
        (1, 0),
        (0, 1),
        (0, 1),
        (1, 0),
    ]
    path.write_text("smiles\nC1\n")
    with pytest.raises(DataError, match=r"a\.csv: RDKit can read none of 1 molecule"):
        read_graphs(path, skip_invalid=True)


def test_only_molecules_can_be_left_out(tmp_path: Path) -> None:
    (tmp_path / "g.jsonl").write_text('{"nodes": 1, "edges": []}\n')
    for read in (read_graphs, read_raw, lambda path, **o: iter_graphs(path, 2, **o)):
        with pytest.raises(SettingError, match=r"skip_invalid .* tables of molecules"):
            read(tmp_path / "g.jsonl", skip_invalid=True)
    with pytest.raises(SettingError, match=r"skip_invalid .* tables of molecules"):
        read_raw("ENZYMES", skip_invalid=True)


def test_a_missing_file_and_one_that_is_not_text_are_errors(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.csv: the file could not be read .No such"):
        read_molecules(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_bytes(b"smiles\n\xff\n")
    with pytest.raises(DataError, match=r"a\.csv: the text is not UTF-8"):
        read_molecules(tmp_path / "a.csv")


# --- molecules in memory and in .mol files -----------------------------------------------------------------------


def test_molecules_are_graphs_in_every_form(tmp_path: Path) -> None:
    Chem = pytest.importorskip("rdkit.Chem")
    molecule = Chem.MolFromSmiles("CC(=O)O")
    path = tmp_path / "acid.mol"
    path.write_text(Chem.MolToMolBlock(molecule))
    expected = from_smiles(["CC(=O)O"])
    for form in ("CC(=O)O", np.str_("CC(=O)O"), molecule, path, str(path)):
        raw = as_raw([form])
        assert raw.node_labels.words(0) == expected.node_labels.words(0) == ["C", "C", "O", "O"]
        assert raw.edge_labels.words(0) == expected.edge_labels.words(0)
        assert np.array_equal(raw.node_attributes, expected.node_attributes)
    assert read_graphs(path).name == "acid"
    assert read_graphs(path).sizes.tolist() == [4]


def test_an_estimator_fits_smiles() -> None:
    smiles = np.array(["C" * n + end for n in range(2, 14) for end in ("O", "N")])
    y = np.array([0, 1] * 12)
    model = DiffPoolClassifier(epochs=2, hidden=4, device="cpu").fit(smiles, y)
    assert model.predict(smiles).shape == (24,)
    assert model.predict(["CCO"]).shape == (1,)


def test_molecules_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "bad.mol").write_text("nothing")
    with pytest.raises(DataError, match=r"molecule 1: expected a SMILES that .* got 'CCX'"):
        as_raw(["CCO", "CCX"])
    for name in ("bad.mol", "missing.mol"):
        with pytest.raises(
            DataError, match=rf"expected a \.mol file that RDKit can read, .*{name}"
        ):
            as_raw([tmp_path / name])
    with pytest.raises(DataError, match="expected a list of graphs, got str"):
        as_raw("CCO")


def test_a_molecule_that_is_not_sanitized_is_an_error() -> None:
    from rdkit import Chem

    raw = Chem.MolFromSmiles("c1ccccc1", sanitize=False)
    with pytest.raises(DataError, match=r"molecule 1: expected a molecule after Chem\.SanitizeMol"):
        as_raw([Chem.MolFromSmiles("CC"), raw])
