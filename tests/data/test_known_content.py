"""The checksums of known data sets: of the content, not of the files."""

from __future__ import annotations

import os
import warnings
import zipfile
from pathlib import Path

import pytest

from diffpool.data.known_content import KNOWN_CONTENT, content_hash
from diffpool.data.tu_collection import load_raw

TEXTS = {
    "A": "1, 2\n2, 1\n2, 3\n3, 2\n",
    "graph_indicator": "1\n1\n1\n2\n",
    "graph_labels": "1\n2\n",
    "node_labels": "0\n1\n0\n0\n",
    "node_attributes": "0.5\n0\n1\n2\n",
}
# The same content, written differently.
REWRITTEN = {
    "A": "2,3\r\n3,2\r\n2,1\r\n1,2\r\n",
    "node_attributes": "0.50\n-0\n1.0\n 2e0\n",
}
CHANGES = {
    "an edge": {"A": "1, 2\n2, 1\n1, 3\n3, 1\n"},
    "a node": {
        "graph_indicator": "1\n1\n1\n2\n2\n",
        "node_labels": "0\n1\n0\n0\n0\n",
        "node_attributes": "0.5\n0\n1\n2\n2\n",
    },
    "a class": {"graph_labels": "2\n1\n"},
    "the name of a class": {"graph_labels": "1\n3\n"},
    "a node label": {"node_labels": "0\n0\n1\n0\n"},
    "an attribute": {"node_attributes": "0.5\n0\n1\n2.0000001\n"},
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIFFPOOL_CACHE", str(tmp_path / "cache"))


def write(folder: Path, **changes: str) -> Path:
    (folder / "TOY").mkdir(parents=True, exist_ok=True)
    for part, text in {**TEXTS, **changes}.items():
        (folder / "TOY" / f"TOY_{part}.txt").write_bytes(text.encode())
    return folder


def test_the_hash_depends_on_the_content_only(tmp_path: Path) -> None:
    expected = content_hash(load_raw("TOY", write(tmp_path / "a")))
    assert content_hash(load_raw("TOY", write(tmp_path / "b", **REWRITTEN))) == expected
    (tmp_path / "c").mkdir()
    with zipfile.ZipFile(tmp_path / "c" / "TOY.zip", "w", zipfile.ZIP_LZMA) as file:
        for part, text in reversed(TEXTS.items()):
            file.writestr(f"TOY/TOY_{part}.txt", text)
    assert content_hash(load_raw("TOY", tmp_path / "c")) == expected


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_the_hash_notices_a_change(changes: dict[str, str], tmp_path: Path) -> None:
    before = content_hash(load_raw("TOY", write(tmp_path / "a")))
    assert content_hash(load_raw("TOY", write(tmp_path / "b", **changes))) != before


def test_a_data_set_with_other_content_is_a_warning_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = content_hash(load_raw("TOY", write(tmp_path / "a")))
    monkeypatch.setitem(KNOWN_CONTENT, "TOY", known)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_raw("TOY", tmp_path / "a")
    write(tmp_path / "b", **CHANGES["a class"])
    for _ in range(2):  # the second time from the cache
        with pytest.warns(UserWarning, match="TOY differs from the data set of this name"):
            load_raw("TOY", tmp_path / "b")


@pytest.mark.parametrize("name", [name for name in KNOWN_CONTENT if name != "COLLAB"])
def test_the_known_data_sets_have_their_hash(name: str) -> None:
    folder = Path(os.environ.get("DIFFPOOL_DATA") or "no-such-folder")
    if not (folder / f"{name}.zip").is_file():
        pytest.skip(f"needs {name}.zip in the folder DIFFPOOL_DATA")
    assert content_hash(load_raw(name, folder)) == KNOWN_CONTENT[name]
