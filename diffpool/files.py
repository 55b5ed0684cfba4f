"""Atomic file writes, files with a JSON object in each line, and locks between processes."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from diffpool.errors import DataError, shortened

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows has no fcntl: there, locks do nothing
    fcntl = None

LOCK_ATTEMPTS = 1000
NO_LINKS = getattr(os, "O_NOFOLLOW", 0)  # Windows has no such flag


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the same folder to write to, and move it to `path` if the block succeeds.

    Readers see the old file or the complete new one. If the block raises, the temporary file is removed. The folder
    must exist. If `path` is a device or pipe, an OSError is raised. An OSError about the temporary file names `path`.
    """
    check_regular(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        yield temporary
        move_into_place(temporary, path)
    except BaseException as error:
        if isinstance(error, OSError) and error.filename in (temporary, str(temporary)):
            error.filename = str(path)
        temporary.unlink(missing_ok=True)
        raise


def write_json(path: Path, values: Any) -> None:
    """Write values as an indented JSON file, atomically. NaN and infinity, which JSON lacks, raise a ValueError."""
    text = json.dumps(values, indent=2, allow_nan=False) + "\n"
    with atomic_write(path) as temporary:
        temporary.write_text(text, "utf-8")


def json_lines(content: bytes, path: Path, what: str) -> list[tuple[dict[str, Any], str]]:
    """The JSON object in each line, and where it is, such as `r.jsonl, line 2`.

    `content` is that of the file `path`. Empty lines are skipped, and so is a last line that a killed process left
    incomplete. Any other line that is not a JSON object is a DataError, in which `what` names what was expected.
    """
    found = []
    for number, line in enumerate(complete_lines(content).split(b"\n"), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            values = json.loads(line)
            if not isinstance(values, dict):
                raise ValueError("it is not an object")
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"{where}: expected {what}, got {shortened(line.decode(errors='replace'))} ({error}): "
                "choose another file, or remove the line"
            ) from error
        found.append((values, where))
    return found


def complete_lines(content: bytes) -> bytes:
    """JSON lines without a last line that a killed process left incomplete: the beginning of an object."""
    end = content.rfind(b"\n") + 1
    if content.startswith(b"{", end):
        try:
            json.loads(content[end:])
        except (ValueError, RecursionError):
            return content[:end]
    return content


def check_regular(path: Path) -> None:
    """Raise an OSError if the path exists but is neither a file nor a folder (a device, pipe or socket)."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(errno.EINVAL, "it is a device or pipe, not a file", str(path))


def move_into_place(temporary: Path, path: Path) -> None:
    """Flush a file to disk, rename it to `path`, replacing any existing file, and flush the folder."""
    with temporary.open("rb+") as file:
        os.fsync(file.fileno())
    temporary.replace(path)
    _flush_folder(path.parent)


def _flush_folder(folder: Path) -> None:
    """Flush the entries of a folder to disk, so that later changes cannot reach the disk first."""
    with contextlib.suppress(OSError):  # Windows cannot open folders
        file = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)


def remove_unfinished(path: Path) -> None:
    """Remove temporary files left by processes that were killed while writing `path`."""
    for file in path.parent.iterdir() if path.parent.is_dir() else ():
        if file.name.startswith(f".{path.name}.") and file.suffix == ".part":
            file.unlink(missing_ok=True)


def lock_open_file(file: int, wait: bool = True) -> None:
    """Lock an open file (given by its descriptor) until it is closed or the process ends.

    Without `wait`, raise BlockingIOError if another process holds the lock. Does nothing on systems and file systems
    that do not support locks.
    """
    if fcntl is None:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:  # some network file systems have no locks
        pass


@contextlib.contextmanager
def file_lock(path: Path, wait: bool = True) -> Iterator[None]:
    """Hold a lock on the file `path`, which is created (with its folder) and removed afterward.

    Without `wait`, raise BlockingIOError if another process holds it. The lock is also released if the process is
    killed.
    """
    if fcntl is None:
        yield
        return
    file = _open_locked(path, wait)
    try:
        yield
    finally:
        try:
            path.unlink(missing_ok=True)
        finally:
            os.close(file)


def _open_locked(path: Path, wait: bool) -> int:
    for _ in range(LOCK_ATTEMPTS):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(path, os.O_RDWR | os.O_CREAT | NO_LINKS, 0o666)
        except FileNotFoundError:  # another process has just removed the folder
            continue
        except OSError as error:
            if not path.is_symlink():
                raise
            message = "a lock file must not be a symbolic link: remove it"
            raise OSError(errno.ELOOP, message, str(path)) from error
        try:
            lock_open_file(file, wait)
            if os.fstat(file).st_ino == path.stat().st_ino:
                return file
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(file)
            raise
        os.close(file)  # the previous holder removed this file: lock the new one
    raise OSError(errno.EBUSY, "the lock file is removed again and again", str(path))
