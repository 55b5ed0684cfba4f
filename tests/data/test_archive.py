"""Zip files and folders of text files: every fault is a DataError."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffpool.data import archive
from diffpool.data.archive import TUFiles
from diffpool.data.tu import read_tu
from diffpool.errors import DataError

TEXTS = {"A": "1, 2\n2, 1\n", "graph_indicator": "1\n1\n", "graph_labels": "7\n"}


def packed(path: Path, top: str = "TOY/", method: int = 0, **more: str) -> Path:
    """A zip file with the data set in the folder `top`, and more members by their paths."""
    with zipfile.ZipFile(path, "w", method) as file:
        for part, text in TEXTS.items():
            file.writestr(f"{top}TOY_{part}.txt", text)
        for member, text in more.items():
            file.writestr(member, text)
    return path


@pytest.mark.parametrize("top", ["", "TOY/", "raw/", "TOY/raw/", "another/folder/"])
def test_the_files_may_be_in_any_folder_of_a_zip_file(tmp_path: Path, top: str) -> None:
    assert len(read_tu(packed(tmp_path / "TOY.zip", top), "TOY")) == 1


def test_files_come_from_the_folder_with_the_edges(tmp_path: Path) -> None:
    """Files that macOS adds are ignored."""
    junk = {
        "__MACOSX/TOY/._TOY_A.txt": "x",
        "TOY_node_labels.txt": "x",
    }
    raw = read_tu(packed(tmp_path / "TOY.zip", **junk), "TOY")
    assert raw.node_labels is None


def test_two_folders_with_the_data_set_are_an_error(tmp_path: Path) -> None:
    path = packed(tmp_path / "TOY.zip", **{"old/version/TOY_A.txt": "x"})
    with pytest.raises(DataError, match=r"expected one folder with TOY_A.txt, got 2: 'TOY/' and"):
        read_tu(path, "TOY")


def test_a_file_that_is_twice_in_the_archive_is_an_error(tmp_path: Path) -> None:
    path = packed(tmp_path / "TOY.zip")
    with zipfile.ZipFile(path, "a") as file, pytest.warns(UserWarning, match="Duplicate name"):
        file.writestr("TOY/TOY_graph_labels.txt", "7\n")
    with pytest.raises(
        DataError, match=r"'TOY/TOY_graph_labels.txt' occurs 2 times in the archive"
    ):
        read_tu(path, "TOY")


def test_a_name_is_not_confused_with_a_longer_one(tmp_path: Path) -> None:
    path = packed(
        tmp_path / "TOY.zip", **{"TOY/TOY_full_A.txt": "x", "TOY/TOY_full_node_labels.txt": "x"}
    )
    assert len(read_tu(path, "TOY")) == 1


def test_the_error_about_a_wrong_name_lists_the_right_one(tmp_path: Path) -> None:
    message = "OTHER_.* is missing. Found the data set TOY. Is OTHER the right name?"
    with pytest.raises(DataError, match=message):
        read_tu(packed(tmp_path / "OTHER.zip"), "OTHER")
    (tmp_path / "TOY_A.txt").touch()
    with pytest.raises(DataError, match=message):
        read_tu(tmp_path, "OTHER")


@pytest.mark.parametrize("content", [b"", b"<html>moved</html>", b"PK\x05\x06", b"PK\x03\x04" * 50])
def test_a_file_that_is_not_a_zip_file_is_an_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "TOY.zip"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"TOY.zip: not a zip file, or incomplete"):
        read_tu(path, "TOY")


def test_a_truncated_zip_file_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    path = packed(tmp_path / "TOY.zip")
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(DataError, match=r"TOY.zip: .* incomplete .*Is the download complete"):
        read_tu(path, "TOY")


def test_an_empty_zip_file_or_folder_is_an_error(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "TOY.zip", "w"):
        pass
    with pytest.raises(DataError, match=r"TOY_graph_indicator.txt is missing. Found no data set"):
        read_tu(tmp_path / "TOY.zip", "TOY")
    (tmp_path / "TOY").mkdir()
    with pytest.raises(DataError, match=r"TOY_graph_indicator.txt is missing. Found no data set"):
        read_tu(tmp_path / "TOY", "TOY")


def test_a_missing_path_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere: expected a zip file or a folder, got neither"):
        read_tu(tmp_path / "nowhere", "TOY")


def test_a_member_with_a_wrong_checksum_is_an_error(tmp_path: Path) -> None:
    path = packed(tmp_path / "TOY.zip")
    path.write_bytes(path.read_bytes().replace(b"1, 2\n", b"2, 2\n"))
    with pytest.raises(DataError, match=r"TOY.zip: TOY_A.txt: the file is damaged .*CRC"):
        read_tu(path, "TOY")


@pytest.mark.parametrize(
    "member",
    ["/etc/passwd", "../up.txt", "TOY/../../up", "TOY\\up.txt", "C:/up.txt", "C:up", "..", "a/.."],
)
def test_a_path_that_leads_out_of_the_archive_is_an_error(tmp_path: Path, member: str) -> None:
    with pytest.raises(DataError, match=r"the path .* points outside the archive. Do not trust"):
        read_tu(packed(tmp_path / "TOY.zip", **{member: "x"}), "TOY")


def test_a_zip_file_that_unpacks_to_too_many_bytes_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = packed(tmp_path / "TOY.zip", method=zipfile.ZIP_DEFLATED, large="0" * 10**6)
    assert len(read_tu(path, "TOY")) == 1
    message = (
        r"TOY.zip: expected at most .* unpacked bytes, got 1,000,0\d\d. The file is damaged or"
    )
    with monkeypatch.context() as patch:
        patch.setattr(archive, "MAX_BYTES", 10**6)
        with pytest.raises(DataError, match=message):
            read_tu(path, "TOY")
    monkeypatch.setattr(archive, "SPARE_BYTES", 1000)
    monkeypatch.setattr(archive, "MAX_RATIO", 2)
    with pytest.raises(DataError, match=message):
        read_tu(path, "TOY")


def patched(path: Path, local: int, central: int, value: bytes) -> Path:
    """Replace bytes at an offset of every local and central header."""
    content = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", local), (b"PK\x01\x02", central)):
        start = content.find(signature)
        while start >= 0:
            content[start + offset : start + offset + len(value)] = value
            start = content.find(signature, start + 1)
    path.write_bytes(content)
    return path


def test_an_encrypted_member_is_an_error(tmp_path: Path) -> None:
    path = patched(packed(tmp_path / "TOY.zip"), 6, 8, b"\x01\x00")
    with pytest.raises(DataError, match=r"TOY_A.txt is encrypted. Create"):
        read_tu(path, "TOY")


def test_an_unknown_compression_is_an_error(tmp_path: Path) -> None:
    path = patched(packed(tmp_path / "TOY.zip"), 8, 10, (97).to_bytes(2, "little"))
    with pytest.raises(DataError, match=r"Python does not support its compression"):
        read_tu(path, "TOY")


SYSTEM_ERRORS = {
    "no permission": (
        PermissionError(13, "Permission denied"),
        "permission denied. Change",
    ),
    "a folder in place of a file": (IsADirectoryError(21, "Is a directory"), "could not be read"),
    "a disk that fails": (
        OSError(5, "Input/output error"),
        r"could not be read \(Input/output error\)",
    ),
    "too little memory": (MemoryError(), "does not fit into memory"),
    "anything else": (ValueError("odd"), r"the file is damaged \(odd\)"),
}


@pytest.mark.parametrize("case", SYSTEM_ERRORS)
@pytest.mark.parametrize("zipped", [True, False])
def test_the_message_of_a_system_error_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, zipped: bool
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    error, message = SYSTEM_ERRORS[case]
    path = packed(tmp_path / "TOY.zip")
    if zipped:
        monkeypatch.setattr(zipfile.ZipFile, "open", fail)
    else:
        path = tmp_path / "TOY"
        path.mkdir()
        for part, text in TEXTS.items():
            (path / f"TOY_{part}.txt").write_text(text)
        monkeypatch.setattr(Path, "open", fail)
    with pytest.raises(DataError, match=rf"TOY.*: TOY_graph_indicator.txt: .*{message}"):
        read_tu(path, "TOY")


def test_a_zip_file_is_closed_after_reading(tmp_path: Path) -> None:
    with TUFiles(packed(tmp_path / "TOY.zip"), "TOY") as files:
        assert files.text("A") == TEXTS["A"].encode()
    with pytest.raises(DataError, match="already closed"):
        files.text("A")


METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)


@settings(max_examples=300)
@given(
    method=st.sampled_from(METHODS),
    changes=st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), max_size=4),
    cut=st.none() | st.floats(0, 1),
)
def test_damage_to_a_zip_file_raises_nothing_but_a_data_error(
    tmp_path_factory: pytest.TempPathFactory,
    method: int,
    changes: list[tuple[float, int]],
    cut: float | None,
) -> None:
    path = packed(tmp_path_factory.mktemp("fuzz") / "TOY.zip", method=method)
    whole = read_tu(path, "TOY")
    content = bytearray(path.read_bytes())
    for position, value in changes:
        content[int(position * len(content))] = value
    path.write_bytes(content if cut is None else content[: int(cut * len(content))])
    try:
        raw = read_tu(path, "TOY")
    except DataError:
        return
    # What is accepted has not been damaged: only files that are not needed may be gone.
    assert raw.sizes.tolist() == whole.sizes.tolist()
    assert raw.source.tolist() == whole.source.tolist()
    assert raw.classes is None or raw.classes.words() == whole.classes.words()
