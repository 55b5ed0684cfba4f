"""The text files of a data set, in a zip file or a folder. Whatever is wrong with them is a DataError."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from diffpool.errors import DataError

REQUIRED = ("A", "graph_indicator")
OPTIONAL = (
    "graph_labels",
    "graph_attributes",
    "node_labels",
    "node_attributes",
    "edge_labels",
    "edge_attributes",
)
PARTS = REQUIRED + OPTIONAL

# A zip file that claims more than this is an attack or an accident.
MOST_BYTES = 64 << 30
MOST_RATIO = 2000  # bytes for each byte of the zip file; COLLAB with LZMA has 34
SPARE_BYTES = 100_000_000

ENCRYPTED = 0x1  # among the flags of a member
GET_AGAIN = "is the download complete? Get it again"


class Files:
    """The files `NAME_part.txt` in a zip file or a folder: all of them where `NAME_A.txt` is.

    That is the top, `NAME/`, `raw/` or `NAME/raw/`; in a zip file, any folder.
    """

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        self._archive: zipfile.ZipFile | None = None
        self._files: dict[str, Path] = {}
        self._members: dict[str, zipfile.ZipInfo] = {}
        with translated(path):
            if path.is_dir():
                self._files = text_files(path, name)
                return
            if not path.is_file():
                raise DataError(f"expected a zip file or a folder, got {path}, which is neither")
            self._archive = zipfile.ZipFile(path)
        try:
            with translated(path):
                self._members = _members(self._archive.infolist(), path, name)
        except DataError:
            self._archive.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._archive is not None:
            self._archive.close()

    def __contains__(self, part: str) -> bool:
        return part in self._files or part in self._members

    def file(self, part: str) -> str:
        return f"{self.name}_{part}.txt"

    @contextmanager
    def open(self, part: str) -> Iterator[Callable[[int], bytes]]:
        """A function that reads the next bytes of a file."""
        file = self.file(part)
        if part not in self:
            raise DataError(f"{self.path}: expected {file} in it, got {self._instead()}")
        with translated(self.path, file):
            stream: IO[bytes] = (
                self._archive.open(self._members[part])
                if self._archive is not None
                else self._files[part].open("rb")
            )

        def read(size: int) -> bytes:
            with translated(self.path, file):
                return stream.read(size)

        with stream:
            yield read

    def text(self, part: str) -> bytes:
        """The whole file."""
        with self.open(part) as read:
            return b"".join(iter(lambda: read(1 << 16), b""))

    def _instead(self) -> str:
        """What there is where a file is missing."""
        if found := [self.file(part) for part in PARTS if part in self]:
            return f"only {', '.join(found)}: {GET_AGAIN}"
        with translated(self.path):
            names = self._archive.namelist() if self._archive else map(str, self.path.iterdir())
            files = [name.rsplit("/", 1)[-1] for name in names if name.endswith("_A.txt")]
        if others := sorted({file.removesuffix("_A.txt") for file in files}):
            return f"the data set {' and '.join(others)}: is {self.name} the right name?"
        return f"no data set: {GET_AGAIN}"


def text_files(folder: Path, name: str) -> dict[str, Path]:
    """The files of a data set in a folder, by part; empty if there are none."""
    with translated(folder):
        places = (folder, folder / name, folder / "raw", folder / name / "raw")
        found = [
            {part: file for part in PARTS if (file := place / f"{name}_{part}.txt").is_file()}
            for place in places
        ]
    whole = (files for files in found if "A" in files)
    return next(whole, next((files for files in found if files), {}))


def _members(members: list[zipfile.ZipInfo], path: Path, name: str) -> dict[str, zipfile.ZipInfo]:
    """The files of a data set in a sane zip file, by part."""
    for member in members:
        if _leaves(member.orig_filename):
            raise DataError(
                f"{path}: expected files in one folder, got the path {member.orig_filename!r}: do not trust this file"
            )
    total = sum(member.file_size for member in members)
    most = min(MOST_BYTES, MOST_RATIO * path.stat().st_size + SPARE_BYTES)
    if total > most:
        raise DataError(
            f"{path}: expected at most {most:,} bytes in it, got {total:,}: it is damaged or not to be trusted"
        )
    edges = f"{name}_A.txt"
    tops = [
        m.filename.removesuffix(edges) for m in members if f"/{m.filename}".endswith(f"/{edges}")
    ]
    top = min(tops, key=len, default=f"{name}/")
    by_name = {member.filename: member for member in members}
    found = {part: by_name.get(f"{top}{name}_{part}.txt") for part in PARTS}
    for part, chosen in found.items():
        if chosen is not None and chosen.flag_bits & ENCRYPTED:
            raise DataError(
                f"{path}: expected {name}_{part}.txt without a password, got it encrypted: pack it without one"
            )
    return {part: chosen for part, chosen in found.items() if chosen is not None}


def _leaves(member: str) -> bool:
    """Whether the path of a member leads out of the archive, on any system."""
    drive = re.match(r"[A-Za-z]:", member) is not None
    return drive or "\\" in member or member.startswith("/") or ".." in member.split("/")


@contextmanager
def translated(path: Path, member: str | None = None) -> Iterator[None]:
    """Turn whatever reading raises into a DataError: the libraries of compression raise nearly anything."""
    where = f"{path}" if member is None else f"{path}: {member}"
    try:
        yield
    except DataError:
        raise
    except PermissionError as error:
        raise DataError(
            f"{where}: expected to be allowed to read it, got no permission: change its mode"
        ) from error
    except MemoryError as error:
        raise DataError(
            f"{where}: expected what fits into memory, got more: it is damaged or too large for this machine"
        ) from error
    except NotImplementedError as error:
        raise DataError(
            f"{where}: expected a compression that Python knows, got another ({error}): pack it with deflate"
        ) from error
    except zipfile.BadZipFile as error:
        what = (
            "a zip file, got something else or half of one"
            if member is None
            else "it whole, got it damaged"
        )
        raise DataError(f"{where}: expected {what} ({error}): {GET_AGAIN}") from error
    except OSError as error:
        raise DataError(
            f"{where}: expected to read it, got an error ({error.strerror or error}): {GET_AGAIN}"
        ) from error
    except Exception as error:
        raise DataError(
            f"{where}: expected it whole, got it damaged ({error or type(error).__name__}): {GET_AGAIN}"
        ) from error
