"""Data sets of the TU collection by name: from a folder, the cache or the official server."""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path

from diffpool.data.archive import TUFiles, read_errors, text_files
from diffpool.data.cache import cache_dir, cached
from diffpool.data.download import DownloadError, Progress, download
from diffpool.data.raw import RawGraphs
from diffpool.data.tu import read_tu
from diffpool.errors import DataError

URL = "https://www.chrsmrrs.com/graphkerneldatasets"
LIST = "https://chrsmrrs.github.io/datasets/docs/datasets/"

# Used to suggest names for one that does not exist; any name is tried.
KNOWN = """
    AIDS alchemy_full aspirin benzene BZR BZR_MD COIL-DEL COIL-RAG COLLAB COLORS-3 COX2 COX2_MD Cuneiform DBLP_v1 DD
    deezer_ego_nets DHFR DHFR_MD ENZYMES ER_MD ethanol Fingerprint FIRSTMM_DB FRANKENSTEIN github_stargazers IMDB-BINARY
    IMDB-MULTI KKI Letter-high Letter-low Letter-med malonaldehyde MCF-7 MCF-7H MOLT-4 MOLT-4H MSRC_21 MSRC_21C MSRC_9
    MUTAG Mutagenicity naphthalene NCI-H23 NCI-H23H NCI1 NCI109 OHSU OVCAR-8 OVCAR-8H P388 P388H PC-3 PC-3H Peking_1
    PROTEINS PROTEINS_full PTC_FM PTC_FR PTC_MM PTC_MR QM9 REDDIT-BINARY REDDIT-MULTI-12K REDDIT-MULTI-5K reddit_threads
    salicylic_acid SF-295 SF-295H SN12C SN12CH SW-620 SW-620H SYNTHETIC SYNTHETICnew Synthie toluene Tox21_AHR_training
    Tox21_AR-LBD_training Tox21_ARE_training Tox21_AR_training Tox21_ATAD5_training Tox21_ER-LBD_training
    Tox21_ER_training Tox21_HSE_training Tox21_MMP_training Tox21_PPAR-gamma_training Tox21_aromatase_training
    Tox21_p53_training TRIANGLES twitch_egos TWITTER-Real-Graph-Partial UACC257 UACC257H uracil Yeast YeastH ZINC_full
    ZINC_test ZINC_train ZINC_val
"""


def load_raw(
    name: str,
    data_dir: str | Path | None = None,
    refresh: bool = False,
    progress: Progress | None = None,
) -> RawGraphs:
    """The data set with this official name.

    Searches for `NAME.zip` or a folder `NAME` in `data_dir` (by default the folder in DIFFPOOL_DATA), then among the
    downloads in the cache, and then downloads it. `progress` is called with the bytes received and the total, if known.
    `refresh`: do not use earlier downloads or cached results.
    """
    if not re.fullmatch(r"[A-Za-z0-9_+-][A-Za-z0-9_.+-]*", name):
        raise DataError(
            f"expected a data set name of letters, digits and _ . + -, got {name!r}. For all names see {LIST}."
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
        raise DataError(f"{error} This is an earlier download: --refresh replaces it.") from error


def _read(path: Path, name: str, refresh: bool) -> RawGraphs:
    return cached(path, name, lambda: read_tu(path, name), refresh)


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
                f"{option}: there is no folder {folder}. Name an existing folder, or leave it out."
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
    try:
        download(url, path, lambda part: _check(part, name), progress, refresh)
    except DownloadError as error:
        suggestion = _suggestion(name, folder)
        if error.missing:
            raise DataError(
                f"there is no data set {name}, neither {searched} nor at {url}. "
                + (suggestion or f"For all names see {LIST}.")
            ) from error
        absent = "" if refresh else f" is not {searched} and"
        raise DataError(
            f"{name}.zip{absent} could not be downloaded ({error}). "
            f"Download {url} and put it into {folder or path.parent}.{' ' + suggestion if suggestion else ''}"
        ) from error


def _check(path: Path, name: str) -> None:
    with TUFiles(path, name) as files, files.open("A") as read:
        read(1)


def _suggestion(name: str, folder: Path | None) -> str:
    """A question with similar names that exist; empty if there are none."""
    here = []
    if folder is not None:
        with read_errors(folder):
            here = [p.stem for p in folder.iterdir() if p.suffix == ".zip" or p.is_dir()]
    names = {known.lower(): known for known in (*KNOWN.split(), *here)}
    if name in names.values():
        return ""
    close = difflib.get_close_matches(name.lower(), names, n=3, cutoff=0.6)
    return f"Did you mean {' or '.join(names[match] for match in close)}?" if close else ""
