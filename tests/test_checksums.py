"""Files with their own checksum: read back as they were written, or reported as damaged."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from diffpool.checksums import (
    BLANK,
    DamagedFileError,
    is_intact,
    load_arrays,
    save_arrays,
    sealed,
)

ARRAYS = {
    "matrix": np.arange(6, dtype=np.int16).reshape(2, 3),
    "transposed": np.arange(6.0).reshape(2, 3).T,  # not contiguous
    "every other": np.arange(10)[::2],
    "number": np.array(2.5),
    "empty": np.empty((0, 3), np.float32),
    "bits": np.array([True, False]),
}
ABOUT = {"names": ["é", '"checksum": "' + BLANK + '"'], "count": 3, "nothing": None}


def test_arrays_and_values_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "file.safetensors"
    save_arrays(path, ARRAYS, ABOUT)
    found = load_arrays(path)
    assert found is not None
    arrays, about = found
    assert about == ABOUT
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        assert arrays[name].shape == array.shape
        assert np.array_equal(arrays[name], array)
        assert arrays[name].flags.writeable
    assert load_file(path).keys() == ARRAYS.keys()  # it is an ordinary safetensors file
    assert [file.name for file in path.parent.iterdir()] == ["file.safetensors"]


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in "abcdefgh":
        save_arrays(tmp_path / name, ARRAYS, ABOUT)
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1


def test_a_missing_file_is_none(tmp_path: Path) -> None:
    assert load_arrays(tmp_path / "nothing") is None
    (tmp_path / "file").touch()
    assert load_arrays(tmp_path / "file" / "nothing") is None


def test_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    save_arrays(path, {"a": np.arange(3)}, {"b": 1})
    content = path.read_bytes()
    assert is_intact(content)
    for position in range(len(content)):
        for bit in range(8):
            changed = bytearray(content)
            changed[position] ^= 1 << bit
            assert not is_intact(bytes(changed)), (position, bit)


def test_every_cut_and_addition_is_noticed() -> None:
    content = sealed(json.dumps({"checksum": BLANK, "a": [1, 2]}).encode())
    assert is_intact(content)
    assert not any(is_intact(content[:length]) for length in range(len(content)))
    assert not is_intact(content + b"\n")
    assert not is_intact(b" " + content)


def test_a_file_without_a_checksum_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "file"
    save_file({"a": np.arange(3)}, path, {"about": "1"})
    with pytest.raises(DamagedFileError, match=r"is damaged .its checksum does not match."):
        load_arrays(path)


@pytest.mark.parametrize("text", ['{"checksum": "%s"}', '"checksum": "%s"', '{}"checksum": "%s"'])
def test_something_else_with_a_checksum_is_damaged(tmp_path: Path, text: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(sealed((text % BLANK).encode()))
    with pytest.raises(DamagedFileError, match=f"{path} is damaged"):
        load_arrays(path)


def test_a_folder_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DamagedFileError, match="cannot be read"):
        load_arrays(tmp_path)


def test_a_file_that_cannot_be_written_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    save_arrays(path, {"a": np.arange(3)})

    def fail(file: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(OSError, match="No space left"):
        save_arrays(path, {"a": np.arange(4)})
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
    assert load_arrays(path) is not None
