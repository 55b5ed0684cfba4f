"""Parquet files: molecules, or graphs with the keys of JSON lines."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from diffpool.data import archive, parquet
from diffpool.data.sources import iter_graphs, read_graphs
from diffpool.errors import DataError, SettingError
from tests.data.test_jsonl import assert_same

GRAPHS: list[dict[str, Any]] = [
    {"nodes": 3, "edges": [[0, 1], [1, 2]], "node_labels": ["C", "C", "O"], "label": "alcohol"},
    {"nodes": 2, "edges": [[0, 1]], "node_labels": ["C", "N"], "label": "amine"},
    {"nodes": 1, "edges": [], "node_labels": ["C"], "label": "amine"},
]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    pyarrow.parquet.write_table(arrow.Table.from_pylist(rows), path)
    return path


def test_rows_are_graphs_with_the_keys_of_json_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "own.parquet", GRAPHS)
    (tmp_path / "own.jsonl").write_text("".join(json.dumps(g) + "\n" for g in GRAPHS))
    expected = read_graphs(tmp_path / "own.jsonl")
    assert_same(read_graphs(path), expected)
    assert [len(part) for part in iter_graphs(path, 2)] == [2, 1]


def test_molecules(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    rows = [{"smiles": "CCO", "active": 1, "logp": -0.3}, {"smiles": "CC", "active": 0, "logp": 1}]
    path = write(tmp_path / "m.parquet", rows)
    raw = read_graphs(path, label="active")
    assert raw.sizes.tolist() == [3, 2]
    assert raw.classes is not None
    assert raw.classes.words() == ["1", "0"]
    targets = read_graphs(path, target="logp").targets
    assert targets is not None
    assert targets.tolist() == [[-0.3], [1]]
    assert [len(part) for part in iter_graphs(path, 1, label="active")] == [1, 1]


def test_messages_name_the_row(tmp_path: Path) -> None:
    bad = [*GRAPHS[:1], {**GRAPHS[1], "edges": [[0, 2]]}]
    with pytest.raises(DataError, match=r"bad\.parquet, row 2: node 2 does not exist"):
        read_graphs(write(tmp_path / "bad.parquet", bad))
    pytest.importorskip("rdkit")
    path = write(tmp_path / "m.parquet", [{"smiles": "CC", "y": 1}, {"smiles": "X", "y": None}])
    with pytest.raises(DataError, match=r"row 2: expected a SMILES that RDKit can read"):
        read_graphs(path)
    with pytest.raises(DataError, match=r"row 2: expected a class in column 'y', got nothing"):
        read_graphs(path, label="y")
    with pytest.raises(DataError, match="expected one column 'z', got none"):
        read_graphs(path, label="z")
    with pytest.raises(SettingError, match="column names apply to tables of molecules"):
        read_graphs(write(tmp_path / "own.parquet", GRAPHS), label="y")


def test_a_file_that_is_not_parquet_is_an_error(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "a.parquet"
    path.write_text("hello")
    with pytest.raises(
        DataError, match=r"a\.parquet: expected a Parquet file, but the file cannot be parsed"
    ):
        read_graphs(path)


def test_without_pyarrow_the_message_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.parquet").touch()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(DataError, match=r"PyArrow is required .*pip install 'diffpool\[parquet\]'"):
        read_graphs(tmp_path / "a.parquet")


ROWS = [
    {"smiles": "CCO", "id": 7, "yes": True, "text": "1", "x": 1.5, "day": None},
    {"smiles": "CC", "id": 8, "yes": False, "text": "0", "x": 2.5, "day": None},
]


@pytest.mark.parametrize(
    ("column", "classes"),
    [("yes", (False, True)), ("text", ("0", "1")), ("id", (7, 8)), ("x", (1.5, 2.5))],
)
def test_a_table_of_molecules_keeps_its_types(tmp_path: Path, column: str, classes: tuple) -> None:
    pytest.importorskip("rdkit")
    path = write(tmp_path / "m.parquet", ROWS)
    raw = read_graphs(path, label=column)
    assert raw.classes is not None
    assert raw.classes.labels() == classes
    assert list(map(type, raw.classes.labels())) == list(map(type, classes))
    for name in ROWS[0]:
        assert raw.columns[name] == [row[name] for row in ROWS]
        assert list(map(type, raw.columns[name])) == [type(row[name]) for row in ROWS]


def test_values_without_a_type_in_json_become_words(tmp_path: Path) -> None:
    import datetime

    pytest.importorskip("rdkit")
    rows = [{"smiles": "CC", "day": datetime.date(2024, 5, 1), "x": float("nan")}]
    raw = read_graphs(write(tmp_path / "m.parquet", rows))
    assert raw.columns == {"smiles": ["CC"], "day": ["2024-05-01"], "x": ["nan"]}


@pytest.mark.parametrize("value", [True, "x", None, float("nan")])
def test_a_target_that_is_not_a_number_is_an_error(tmp_path: Path, value: Any) -> None:
    pytest.importorskip("rdkit")
    path = write(tmp_path / "m.parquet", [{"smiles": "CC", "t": value}])
    with pytest.raises(DataError, match=r"row 1: expected a number in column 't', got"):
        read_graphs(path, target="t")


# --- small files that unpack to many bytes


def write_columns(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    pyarrow.parquet.write_table(arrow.table(columns), path, compression="zstd", **options)
    return path


@pytest.mark.parametrize(
    "columns",
    [
        {"nodes": [1], "edges": [[[0, 0]] * 20_000]},  # runs of one value
        {"smiles": ["C" * 100_000]},  # compressed
        {"smiles": ["C" * 5000] * 100},  # a dictionary with one word
        {"nodes": [1], "edges": [[]], "tags": [["x" * 5000] * 100]},
    ],
)
def test_a_small_file_that_unpacks_to_too_many_bytes_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: dict[str, Any]
) -> None:
    path = write_columns(tmp_path / "a.parquet", columns)
    monkeypatch.setattr(archive, "SPARE_BYTES", 20_000)
    monkeypatch.setattr(archive, "MAX_RATIO", 2)
    limit = 2 * path.stat().st_size + 20_000
    with pytest.raises(
        DataError, match=rf"a\.parquet: expected at most {limit:,} unpacked bytes, got "
    ):
        read_graphs(path)


def test_prefixes_that_words_share_are_refused(tmp_path: Path) -> None:
    path = write_columns(
        tmp_path / "a.parquet",
        {"smiles": ["CC", "CCC"]},
        use_dictionary=False,
        column_encoding={"smiles": "DELTA_BYTE_ARRAY"},
    )
    with pytest.raises(DataError, match=r"column smiles has the encoding DELTA_BYTE_ARRAY"):
        read_graphs(path)


def test_a_row_has_a_maximum_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"nodes": 1, "edges": [], "note": note} for note in ("short", "x" * 5000)]
    path = write(tmp_path / "a.parquet", rows)
    monkeypatch.setattr(parquet, "MAX_BYTES", 4000)
    with pytest.raises(
        DataError, match=r"a\.parquet, row 2: expected at most 4,000 bytes, got 5,0"
    ):
        read_graphs(path)
    assert len(read_graphs(write(tmp_path / "b.parquet", [rows[0]] * 900))) == 900


def test_ordinary_files_are_far_below_the_limit(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", GRAPHS * 10_000)
    assert len(read_graphs(path)) == 30_000
