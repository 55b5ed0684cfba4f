"""The text files of a TU data set, in a zip file or a folder. Every problem raises a DataError."""

from __future__ import annotations

import re
import zipfile
from collections import Counter
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

# A compressed file that unpacks to more than this is damaged or malicious; see docs/own-graphs.md.
MAX_BYTES = 64 << 30
MAX_RATIO = 100  # unpacked bytes for each byte of the file; COLLAB with LZMA has 34
SPARE_BYTES = 20_000_000

ENCRYPTED = 0x1  # a flag of a member
DOWNLOAD_AGAIN = "Is the download complete? Try downloading it again."


class TUFiles:
    """The files `NAME_part.txt` of a data set, all in the folder that contains `NAME_A.txt`.

    That is the folder itself or its subfolder `NAME/`, `raw/` or `NAME/raw/`; in a zip file, any folder.
    """

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        self._archive: zipfile.ZipFile | None = None
        self._files: dict[str, Path] = {}
        self._members: dict[str, zipfile.ZipInfo] = {}
        with read_errors(path):
            if path.is_dir():
                self._files = text_files(path, name)
                return
            if not path.is_file():
                raise DataError(f"{path}: expected a zip file or a folder, got neither.")
            self._archive = zipfile.ZipFile(path)
        try:
            with read_errors(path):
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
        """A function that reads the next bytes of the file for this part."""
        file = self.file(part)
        if part not in self:
            raise DataError(f"{self.path}: {file} is missing. {self._found_instead()}")
        with read_errors(self.path, file):
            stream: IO[bytes] = (
                self._archive.open(self._members[part])
                if self._archive is not None
                else self._files[part].open("rb")
            )

        def read(size: int) -> bytes:
            with read_errors(self.path, file):
                return stream.read(size)

        with stream:
            yield read

    def text(self, part: str) -> bytes:
        """The whole file."""
        with self.open(part) as read:
            return b"".join(iter(lambda: read(1 << 16), b""))

    def _found_instead(self) -> str:
        """What was found instead of a missing file."""
        if found := [self.file(part) for part in PARTS if part in self]:
            return f"Found only {', '.join(found)}. {DOWNLOAD_AGAIN}"
        with read_errors(self.path):
            names = self._archive.namelist() if self._archive else map(str, self.path.iterdir())
            files = [name.rsplit("/", 1)[-1] for name in names if name.endswith("_A.txt")]
        if others := sorted({file.removesuffix("_A.txt") for file in files}):
            return f"Found the data set {' and '.join(others)}. Is {self.name} the right name?"
        return f"Found no data set. {DOWNLOAD_AGAIN}"


def max_unpacked(path: Path) -> int:
    """The number of bytes that a compressed file may unpack to."""
    return min(MAX_BYTES, MAX_RATIO * path.stat().st_size + SPARE_BYTES)


def text_files(folder: Path, name: str) -> dict[str, Path]:
    """The files of a data set in a folder, by part."""
    with read_errors(folder):
        candidates = (folder, folder / name, folder / "raw", folder / name / "raw")
        found = [
            {part: file for part in PARTS if (file := inner / f"{name}_{part}.txt").is_file()}
            for inner in candidates
        ]
    with_edges = (files for files in found if "A" in files)
    return next(with_edges, next((files for files in found if files), {}))


def _members(members: list[zipfile.ZipInfo], path: Path, name: str) -> dict[str, zipfile.ZipInfo]:
    """The files of a data set in a zip file, by part, after checking the zip file."""
    for member in members:
        if _leaves(member.orig_filename):
            raise DataError(
                f"{path}: the path {member.orig_filename!r} points outside the archive. Do not trust this file."
            )
    total = sum(member.file_size for member in members)
    limit = max_unpacked(path)
    if total > limit:
        raise DataError(
            f"{path}: expected at most {limit:,} unpacked bytes, got {total:,}. The file is damaged or malicious."
        )
    edges = f"{name}_A.txt"
    tops = [
        m.filename.removesuffix(edges) for m in members if f"/{m.filename}".endswith(f"/{edges}")
    ]
    if len(set(tops)) > 1:
        found_in = " and ".join(repr(top) for top in sorted(set(tops))[:3])
        raise DataError(
            f"{path}: expected one folder with {edges}, got {len(set(tops))}: {found_in}. Include only one data set."
        )
    top = next(iter(tops), f"{name}/")
    _refuse_duplicates(members, path, top)
    by_name = {member.filename: member for member in members}
    found = {part: by_name.get(f"{top}{name}_{part}.txt") for part in PARTS}
    for part, chosen in found.items():
        if chosen is not None and chosen.flag_bits & ENCRYPTED:
            raise DataError(
                f"{path}: {name}_{part}.txt is encrypted. Create the archive without a password."
            )
    return {part: chosen for part, chosen in found.items() if chosen is not None}


def _refuse_duplicates(members: list[zipfile.ZipInfo], path: Path, top: str) -> None:
    """Raise an error if two members have the same name: programs disagree about which one to use."""
    names = Counter(m.filename for m in members if m.filename.startswith(top))
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        raise DataError(
            f"{path}: the file {twice[0]!r} occurs {names[twice[0]]} times in the archive. Create the archive again."
        )


def _leaves(member: str) -> bool:
    """Whether the path of a member points outside the archive, on any operating system."""
    drive = re.match(r"[A-Za-z]:", member) is not None
    return drive or "\\" in member or member.startswith("/") or ".." in member.split("/")


@contextmanager
def read_errors(path: Path, member: str | None = None) -> Iterator[None]:
    """Turn any exception raised while reading into a DataError: decompressors raise nearly every type."""
    where = f"{path}" if member is None else f"{path}: {member}"
    try:
        yield
    except DataError:
        raise
    except PermissionError as error:
        raise DataError(
            f"{where}: permission denied. Change the permissions of the file."
        ) from error
    except MemoryError as error:
        raise DataError(
            f"{where}: the file does not fit into memory. It is damaged, or too large for this machine."
        ) from error
    except NotImplementedError as error:
        raise DataError(
            f"{where}: Python does not support its compression method ({error}). Compress it with deflate."
        ) from error
    except zipfile.BadZipFile as error:
        what = "not a zip file, or incomplete" if member is None else "the file is damaged"
        raise DataError(f"{where}: {what} ({error}). {DOWNLOAD_AGAIN}") from error
    except OSError as error:
        raise DataError(
            f"{where}: the file could not be read ({error.strerror or error}). {DOWNLOAD_AGAIN}"
        ) from error
    except Exception as error:
        reason = error or type(error).__name__
        raise DataError(f"{where}: the file is damaged ({reason}). {DOWNLOAD_AGAIN}") from error
