"""Files and folders by their paths."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diffpool.data import jsonl
from diffpool.data.convert import as_raw
from diffpool.data.sources import iter_graphs, read_graphs, read_raw
from diffpool.errors import DataError, SettingError
from tests.data.test_jsonl import assert_same

TRIANGLE = np.ones((3, 3)) - np.eye(3)
PAIR = np.array([[0.0, 1.0], [1.0, 0.0]])


def test_files_are_read_by_their_suffix(tmp_path: Path) -> None:
    raw = as_raw([TRIANGLE, PAIR, PAIR], ["a", "b", "b"])
    for name in ("own.jsonl", "own.jsonl.gz"):
        jsonl.write_jsonl(tmp_path / name, raw)
        assert_same(read_graphs(tmp_path / name), raw)
        assert_same(as_raw(list(iter_graphs(str(tmp_path / name), 2))), raw)


TU = {
    "A": "1, 2\n2, 1\n4, 5\n5, 4\n",
    "graph_indicator": "1\n1\n2\n3\n3\n",
    "graph_labels": "1\n2\n1\n",
}


@pytest.mark.parametrize("storage", ["folder", "raw", "inner", "zip"])
def test_a_tu_folder_may_have_another_name_than_its_data_set(tmp_path: Path, storage: str) -> None:
    if storage == "zip":
        path = tmp_path / "download.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for part, text in TU.items():
                archive.writestr(f"MINE/MINE_{part}.txt", text)
            archive.writestr("__MACOSX/MINE/._MINE_A.txt", "")
    else:
        path = tmp_path / "download"
        inner = path / {"folder": ".", "raw": "raw", "inner": "MINE"}[storage]
        inner.mkdir(parents=True)
        for part, text in TU.items():
            (inner / f"MINE_{part}.txt").write_text(text)
    expected = as_raw([PAIR, np.zeros((1, 1)), PAIR], [1, 2, 1])
    assert_same(read_graphs(path), expected)
    assert read_graphs(path).columns == {"label": [1, 2, 1]}  # predictions repeat it
    parts = list(iter_graphs(path, 2))
    assert [len(part) for part in parts] == [2, 1]
    assert_same(as_raw(parts), expected)


def test_a_tu_folder_without_exactly_one_data_set_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"expected one file NAME_A.txt, got none. Is it in the TU"):
        read_graphs(tmp_path)
    for name in ("X", "Y"):
        (tmp_path / f"{name}_A.txt").touch()
    with pytest.raises(DataError, match=r"expected one file NAME_A.txt, got 2 of them \(X, Y\)"):
        read_graphs(tmp_path)


def test_a_file_that_is_not_a_zip_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_text("x")
    with pytest.raises(DataError, match=r"a\.zip: not a zip file, or incomplete"):
        read_graphs(tmp_path / "a.zip")


@pytest.mark.parametrize("read", [read_graphs, lambda path: iter_graphs(path, 1)])
def test_a_missing_file_and_an_unknown_suffix_are_errors(tmp_path: Path, read: Any) -> None:
    with pytest.raises(DataError, match=r"a\.jsonl: no such file or folder"):
        read(tmp_path / "a.jsonl")
    (tmp_path / "a.xyz").touch()
    with pytest.raises(
        DataError, match=r"a\.xyz: expected a folder or a file that ends in .* got .xyz"
    ):
        read(tmp_path / "a.xyz")
    (tmp_path / "a.sdf").touch()
    with pytest.raises(DataError, match=r"got \.sdf\. Save it as \.csv with a column of SMILES"):
        read(tmp_path / "a.sdf")
    (tmp_path / "a").touch()
    with pytest.raises(DataError, match=r"got no suffix. Rename the file"):
        read(tmp_path / "a")


def test_column_names_are_for_csv_files_only(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").touch()
    with pytest.raises(SettingError, match=r"column names apply to tables of molecules"):
        read_graphs(tmp_path / "a.jsonl", label="y")
    with pytest.raises(SettingError, match="expected a size of at least 1 graph, got 0"):
        iter_graphs(tmp_path / "a.jsonl", 0)


def test_a_pipe_is_an_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.jsonl")
    with pytest.raises(DataError, match=r"a.jsonl: expected a folder or a regular file, got a dev"):
        read_graphs(tmp_path / "a.jsonl")


def test_a_path_that_exists_needs_no_slash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DIFFPOOL_URL", "http://127.0.0.1:9")  # must not be asked
    (tmp_path / "mine").mkdir()
    for part, text in TU.items():
        (tmp_path / "mine" / f"MINE_{part}.txt").write_text(text)
    assert read_raw("mine").sizes.tolist() == [2, 1, 2]
    (tmp_path / "tab.tsv").write_text("smiles\ty\nC\t1\n")
    with pytest.raises(DataError, match=r"tab\.tsv: expected .* got \.tsv\. Save it as \.csv"):
        read_raw("tab.tsv")


def test_a_known_name_is_a_data_set_and_not_a_local_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DIFFPOOL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("DIFFPOOL_URL", "http://127.0.0.1:9")  # must not be asked
    monkeypatch.delenv("DIFFPOOL_DATA", raising=False)
    (tmp_path / "MUTAG").mkdir()
    with pytest.raises(
        DataError, match=r"MUTAG is a data set .* and there is a folder .* \./MUTAG"
    ):
        read_raw("MUTAG")


@pytest.mark.parametrize(("name", "meant"), [("ENZYME", "ENZYMES"), ("mutag", "MUTAG")])
def test_a_misspelled_name_gets_a_suggestion_before_any_download(
    name: str, meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIFFPOOL_CACHE", str(tmp_path))
    monkeypatch.setenv("DIFFPOOL_URL", "http://127.0.0.1:9")  # must not be asked
    monkeypatch.delenv("DIFFPOOL_DATA", raising=False)
    with pytest.raises(DataError, match=rf"no data set {name}, .* Did you mean {meant}\?"):
        read_raw(name)
