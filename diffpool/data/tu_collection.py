"""Data sets of the TU collection by name: from a folder, the cache or the official server."""

from __future__ import annotations

import os
import re
from pathlib import Path

from diffpool.data.archive import TUFiles, read_errors, text_files
from diffpool.data.cache import cache_dir, cached
from diffpool.data.download import DownloadError, Progress, download
from diffpool.data.known_content import warn_if_different
from diffpool.data.raw import RawGraphs
from diffpool.data.tu import read_tu
from diffpool.data.tu_names import KNOWN
from diffpool.errors import DataError, did_you_mean

URL = "https://www.chrsmrrs.com/graphkerneldatasets"
MISSPELLED = 0.9  # similarity to a known name: of ENZYME, but not of Tox21_ARE_testing
LIST = "https://chrsmrrs.github.io/datasets/docs/datasets/"


def load_raw(
    name: str,
    data_dir: str | Path | None = None,
    refresh: bool = False,
    progress: Progress | None = None,
) -> RawGraphs:
    """The data set with this official name.

    Searches for `NAME.zip` or a folder `NAME` in `data_dir` (by default the folder in DIFFPOOL_DATA), then among the
    downloads in the cache, and then downloads it. `progress` is called with the bytes received and the total, if known.
    `refresh`: ignore earlier downloads and cached results.
    """
    if not re.fullmatch(r"[A-Za-z0-9_+-][A-Za-z0-9_.+-]*", name):
        raise DataError(
            f"expected a data set name of letters, digits and _ . + -, got {name!r}. For a list of names, see {LIST}."
        )
    folder = _folder(data_dir)
    path = None if folder is None else _in_folder(folder, name)
    if path is not None:
        return _read(path, name, refresh)
    path = cache_dir() / "downloads" / f"{name}.zip"
    with read_errors(path):
        downloaded = path.is_file()
    if refresh or not downloaded:
        _download(name, path, folder, progress, refresh)
        return _read(path, name, refresh)
    try:
        return _read(path, name, refresh)
    except DataError as error:
        raise DataError(
            f"{error} The file was downloaded earlier; --refresh downloads it again."
        ) from error


def _read(path: Path, name: str, refresh: bool) -> RawGraphs:
    raw = cached(path, name, lambda: read_tu(path, name), refresh)
    warn_if_different(raw)
    return raw.with_label_column()


def _folder(data_dir: str | Path | None) -> Path | None:
    """The folder to search, None if none is given; an error if it does not exist."""
    named = data_dir or os.environ.get("DIFFPOOL_DATA")
    if not named:
        return None
    folder = Path(named)
    with read_errors(folder):
        if not folder.is_dir():
            option = "--data-dir" if data_dir else "DIFFPOOL_DATA"
            raise DataError(
                f"{option}: the folder {folder} does not exist. Name an existing folder, or omit it."
            )
    return folder


def _in_folder(folder: Path, name: str) -> Path | None:
    zipped, plain = folder / f"{name}.zip", folder / name
    with read_errors(folder):
        if zipped.is_file():
            return zipped
        return plain if plain.is_dir() and text_files(plain, name) else None


def _download(
    name: str, path: Path, folder: Path | None, progress: Progress | None, refresh: bool
) -> None:
    base = os.environ.get("DIFFPOOL_URL") or URL
    if not base.startswith(("http://", "https://")):
        raise DataError(
            f"expected DIFFPOOL_URL to start with http:// or https://, got {base}. For a folder use DIFFPOOL_DATA."
        )
    url = f"{base.rstrip('/')}/{name}.zip"
    searched = f"in {folder}" if folder else f"in {path.parent} (no --data-dir or DIFFPOOL_DATA)"
    _check_name(name, searched, refresh)
    try:
        download(url, path, lambda part: _check(part, name), progress, refresh)
    except DownloadError as error:
        suggestion = _suggestion(name, folder)
        if error.missing:
            raise DataError(
                f"there is no data set {name}, neither {searched} nor at {url}. "
                + (suggestion or f"For a list of names, see {LIST}.")
            ) from error
        absent = "" if refresh else f" is not {searched} and"
        raise DataError(
            f"{name}.zip{absent} could not be downloaded ({error}). "
            f"Download {url} and put it into {folder or path.parent}.{' ' + suggestion if suggestion else ''}"
        ) from error


def _check_name(name: str, searched: str, refresh: bool) -> None:
    """Do not ask the server for what is probably a local path or a misspelled name; `refresh` insists on the name."""
    if exists_here(name) and not (refresh and name in KNOWN):
        kind = "folder" if Path(name).is_dir() else "file"
        if name not in KNOWN:
            raise DataError(f"there is no data set {name}, but a {kind}. Did you mean ./{name}?")
        raise DataError(
            f"{name} is a data set to download, and there is a {kind} of the same name: write ./{name} for the {kind}, "
            "or start in another folder to download."
        )
    meant = did_you_mean(name, KNOWN, prefix="", similarity=MISSPELLED)
    if name not in KNOWN and meant and not refresh:
        raise DataError(
            f"there is no data set {name}, neither {searched} nor among the known names. {meant} "
            f"`diffpool data {name} --refresh` tries to download it nevertheless."
        )


def exists_here(name: str) -> bool:
    """Whether there is a file or folder of this name."""
    try:
        return Path(name).exists()
    except (OSError, ValueError):  # too long, or not a name at all
        return False


def _check(path: Path, name: str) -> None:
    with TUFiles(path, name) as files, files.open("A") as read:
        read(1)


def _suggestion(name: str, folder: Path | None) -> str:
    """A question with similar names that exist; empty if there are none."""
    here = []
    if folder is not None:
        with read_errors(folder):
            here = [p.stem for p in folder.iterdir() if p.suffix == ".zip" or p.is_dir()]
    names = [*KNOWN, *here]
    return "" if name in names else did_you_mean(name, names, prefix="")
