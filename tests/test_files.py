"""Atomic writes and locks, within one process and between several."""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from diffpool import files
from diffpool.errors import DataError
from diffpool.files import (
    atomic_write,
    complete_lines,
    file_lock,
    json_lines,
    lock_open_file,
    move_into_place,
    remove_unfinished,
    write_json,
)

SPAWN = multiprocessing.get_context("spawn")


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


# --- atomic writes


def test_the_file_appears_when_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    with atomic_write(path) as temporary:
        temporary.write_text("content")
        assert not path.exists()
        assert temporary.parent == tmp_path
    assert path.read_text() == "content"
    assert names(tmp_path) == ["file.txt"]


def test_readers_see_the_old_file_until_the_new_one_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    path.write_text("old")
    with atomic_write(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_an_error_keeps_the_old_file_and_leaves_nothing_else(
    tmp_path: Path, error: BaseException
) -> None:
    path = tmp_path / "file.txt"
    path.write_text("old")

    def write() -> None:
        with atomic_write(path) as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(type(error)):
        write()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file.txt"]


def test_an_error_before_anything_was_written_is_raised_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="reason"), atomic_write(tmp_path / "file.txt"):
        raise ValueError("reason")
    assert names(tmp_path) == []


def test_a_target_that_cannot_be_replaced_leaves_no_temporary_file(tmp_path: Path) -> None:
    (tmp_path / "folder" / "inside").mkdir(parents=True)
    with pytest.raises(OSError), atomic_write(tmp_path / "folder") as temporary:  # noqa: PT011
        temporary.write_text("content")
    assert names(tmp_path) == ["folder"]


def test_two_writers_of_one_file_do_not_share_a_temporary_file(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    with atomic_write(path) as first, atomic_write(path) as second:
        first.write_text("first")
        second.write_text("second")
    assert path.read_text() == "first"  # the outer block ends last
    assert names(tmp_path) == ["file.txt"]


def test_a_file_is_on_disk_before_it_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    fsync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda file: (events.append("fsync"), fsync(file)))
    monkeypatch.setattr(
        Path, "replace", lambda self, to: (events.append("replace"), replace(self, to))
    )
    (tmp_path / "part").write_text("content")
    move_into_place(tmp_path / "part", tmp_path / "file.txt")
    assert events == ["fsync", "replace", "fsync"]  # the last one flushes the name
    assert names(tmp_path) == ["file.txt"]


def _killed_while_writing(path: Path) -> None:
    with atomic_write(path) as temporary:
        temporary.write_text("half")
        os._exit(9)


def test_files_left_by_a_killed_process_can_be_removed(tmp_path: Path) -> None:
    path, other = tmp_path / "file.txt", tmp_path / ".other.txt.1-ab.part"
    path.write_text("old")
    other.write_text("another file, still being written")
    process = SPAWN.Process(target=_killed_while_writing, args=(path,))
    process.start()
    process.join()
    assert process.exitcode == 9
    assert len(names(tmp_path)) == 3
    remove_unfinished(path)
    assert names(tmp_path) == [other.name, "file.txt"]
    assert path.read_text() == "old"


def test_a_missing_folder_has_nothing_to_remove(tmp_path: Path) -> None:
    remove_unfinished(tmp_path / "nowhere" / "file.txt")


# --- JSON lines

PATH = Path("r.jsonl")


def test_json_lines_are_read_with_their_places() -> None:
    content = '{"a": 1}\n\n{"a": 2}\r\n{"a": "\u2028"}'.encode()
    assert json_lines(content, PATH, "a record") == [
        ({"a": 1}, "r.jsonl, line 1"),
        ({"a": 2}, "r.jsonl, line 3"),
        ({"a": "\u2028"}, "r.jsonl, line 4"),
    ]
    assert json_lines(b"", PATH, "a record") == []


def test_a_last_line_cut_at_any_byte_is_skipped() -> None:
    line = '{"a": ["\u00e9", -1.5e3, {"b": null}]}'.encode()
    for cut in range(len(line)):
        content = b'{"a": 1}\n' + line[:cut]
        assert [values for values, _ in json_lines(content, PATH, "a record")] == [{"a": 1}]
        assert complete_lines(content) == b'{"a": 1}\n'
    assert complete_lines(b"{}\n" + line) == b"{}\n" + line


@pytest.mark.parametrize("line", [b"a title", b"[1]", b"3", b"\xff\xfe", b'{"a": ', b"[" * 100_000])
def test_any_other_line_that_is_no_object_is_an_error_that_names_it(line: bytes) -> None:
    for end in (b"\n", b'\n{"a": 1}', b'\n{"a": ', *([] if line.startswith(b"{") else [b""])):
        with pytest.raises(DataError, match=r"r\.jsonl, line 2: expected a record, got "):
            json_lines(b'{"a": 1}\n' + line + end, PATH, "a record")


# --- locks


def test_a_lock_file_is_created_with_its_folder_and_removed(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file.lock"
    with file_lock(path):
        assert path.exists()
    assert not path.exists()


def test_without_waiting_a_lock_that_is_held_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "file.lock"

    def take() -> None:
        with file_lock(path, wait=False):
            pass

    with file_lock(path):
        with pytest.raises(BlockingIOError):
            take()
        assert path.exists()
    take()


def test_a_lock_is_released_by_an_error(tmp_path: Path) -> None:
    path = tmp_path / "file.lock"
    with pytest.raises(ValueError, match="reason"), file_lock(path):
        raise ValueError("reason")
    with file_lock(path, wait=False):
        pass


def test_only_one_thread_at_a_time_holds_a_lock(tmp_path: Path) -> None:
    counter, rounds, threads = tmp_path / "counter", 25, 4
    counter.write_text("0")

    def count() -> None:
        for _ in range(rounds):
            with file_lock(tmp_path / "locks" / "file.lock"):
                counter.write_text(str(int(counter.read_text()) + 1))

    running = [threading.Thread(target=count) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert int(counter.read_text()) == rounds * threads
    assert names(tmp_path / "locks") == []


def _killed_while_holding(path: Path) -> None:
    with file_lock(path):
        os._exit(9)


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    path = tmp_path / "file.lock"
    process = SPAWN.Process(target=_killed_while_holding, args=(path,))
    process.start()
    process.join()
    assert process.exitcode == 9
    assert path.exists()
    with file_lock(path, wait=False):
        pass
    assert not path.exists()


@pytest.mark.parametrize("target", ["nowhere/file", "file"])
def test_a_link_in_place_of_a_lock_file_is_an_error(tmp_path: Path, target: str) -> None:
    lock = tmp_path / ".lock"
    lock.symlink_to(tmp_path / target)
    with pytest.raises(OSError, match=r"symbolic link.*remove it") as caught, file_lock(lock):
        pass
    assert caught.value.filename == str(lock)
    assert not (tmp_path / "file").exists()


def test_a_lock_file_that_disappears_again_and_again_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = files.lock_open_file

    def remove(file: int, wait: bool = True) -> None:
        lock(file, wait)
        (tmp_path / ".lock").unlink()

    monkeypatch.setattr(files, "lock_open_file", remove)
    with pytest.raises(OSError, match=r"removed again and again"), file_lock(tmp_path / ".lock"):
        pass


def test_a_folder_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError), file_lock(tmp_path / "file" / "file.lock"):
        pass


def test_an_open_file_is_locked_until_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    with path.open("w") as first, path.open("w") as second:
        lock_open_file(first.fileno())
        with pytest.raises(BlockingIOError):
            lock_open_file(second.fileno(), wait=False)
        first.close()
        lock_open_file(second.fileno(), wait=False)


class _NoLocks:
    """A file system without locks."""

    LOCK_EX = LOCK_NB = 1

    @staticmethod
    def flock(file: int, how: int) -> None:
        raise OSError(95, "Operation not supported")


@pytest.mark.parametrize("fcntl", [None, _NoLocks])
@pytest.mark.parametrize("wait", [True, False])
def test_without_lock_support_nothing_is_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fcntl: Callable[[], None] | None, wait: bool
) -> None:
    monkeypatch.setattr(files, "fcntl", fcntl)
    path = tmp_path / "file.lock"
    with file_lock(path, wait):
        pass
    assert not path.exists()


def test_an_error_names_the_file_and_not_the_temporary_one(tmp_path: Path) -> None:
    path = tmp_path / "none" / "a.json"
    with pytest.raises(OSError, match="No such file") as raised:
        write_json(path, {})
    assert raised.value.filename == str(path)


def test_json_without_nan_is_written_or_the_old_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"a": [1, 0.5, None]})
    assert json.loads(path.read_text()) == {"a": [1, 0.5, None]}
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, {"a": float("nan")})
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]
    assert json.loads(path.read_text()) == {"a": [1, 0.5, None]}


def test_a_pipe_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with (
        pytest.raises(OSError, match="it is a device or pipe, not a file"),
        atomic_write(tmp_path / "pipe"),
    ):
        pass
    assert (tmp_path / "pipe").is_fifo()
