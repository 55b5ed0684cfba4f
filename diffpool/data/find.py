"""A data set of the TU collection by its name: from a folder, from the cache, or from its server."""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path

from diffpool.data.archive import Files, text_files, translated
from diffpool.data.cache import cache_dir, cached
from diffpool.data.download import DownloadError, Progress, download
from diffpool.data.raw import RawGraphs
from diffpool.data.tu import read_tu
from diffpool.errors import DataError

URL = "https://www.chrsmrrs.com/graphkerneldatasets"
LIST = "https://chrsmrrs.github.io/datasets/docs/datasets/"

# For the message about a name that does not exist; any name is tried.
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

    It is looked for as `NAME.zip` or a folder `NAME` in `data_dir` or, without it, the folder that DIFFPOOL_DATA names,
    then among the downloads in the cache, and then downloaded; `progress` is told the bytes received and the bytes in
    all, if known. `refresh`: neither use an earlier download nor what was read before.
    """
    if not re.fullmatch(r"[A-Za-z0-9_+-][A-Za-z0-9_.+-]*", name):
        raise DataError(
            f"expected a name of letters, digits and _ . + -, got {name!r}: see {LIST} for the names of data sets"
        )
    folder = _folder(data_dir)
    path = None if folder is None else _in_folder(folder, name)
    if path is not None:
        return _read(path, name, refresh)
    path = cache_dir() / "downloads" / f"{name}.zip"
    with translated(path):
        there = path.is_file()
    if refresh or not there:
        _download(name, path, folder, progress, refresh)
        return _read(path, name, refresh)
    try:
        return _read(path, name, refresh)
    except DataError as error:
        raise DataError(f"{error} (an earlier download: --refresh replaces it)") from error


def _read(path: Path, name: str, refresh: bool) -> RawGraphs:
    return cached(path, name, lambda: read_tu(path, name), refresh)


def _folder(data_dir: str | Path | None) -> Path | None:
    """The folder that was named; one that is not there is an error."""
    named = data_dir or os.environ.get("DIFFPOOL_DATA")
    if not named:
        return None
    folder = Path(named)
    with translated(folder):
        if not folder.is_dir():
            how = "--data-dir" if data_dir else "DIFFPOOL_DATA"
            raise DataError(
                f"expected a folder with data sets in {how}, got {folder}, which is none: name another or none"
            )
    return folder


def _in_folder(folder: Path, name: str) -> Path | None:
    zipped, plain = folder / f"{name}.zip", folder / name
    with translated(folder):
        if zipped.is_file():
            return zipped
        return plain if plain.is_dir() and text_files(plain, name) else None


def _download(
    name: str, path: Path, folder: Path | None, progress: Progress | None, refresh: bool
) -> None:
    base = os.environ.get("DIFFPOOL_URL") or URL
    if not base.startswith(("http://", "https://")):
        raise DataError(
            f"expected DIFFPOOL_URL to start with http:// or https://, got {base}: for a folder use DIFFPOOL_DATA"
        )
    url = f"{base.rstrip('/')}/{name}.zip"
    looked = f"in {folder}" if folder else f"in {path.parent} (no --data-dir or DIFFPOOL_DATA)"
    try:
        download(url, path, lambda part: _check(part, name), progress, refresh)
    except DownloadError as error:
        guess = _guess(name, folder)
        if error.missing:
            raise DataError(
                f"expected the name of a data set, got {name}, which is neither {looked} nor at {url}: "
                + (guess or f"see {LIST} for the names")
            ) from error
        raise DataError(
            f"expected {name}.zip {looked} or from its server, got neither ({error}): "
            f"get {url} and put it into {folder or path.parent}{'; or ' + guess if guess else ''}"
        ) from error


def _check(path: Path, name: str) -> None:
    with Files(path, name) as files, files.open("A") as read:
        read(1)


def _guess(name: str, folder: Path | None) -> str:
    """Names like this one that exist, as a question."""
    here = []
    if folder is not None:
        with translated(folder):
            here = [p.stem for p in folder.iterdir() if p.suffix == ".zip" or p.is_dir()]
    names = {known.lower(): known for known in (*KNOWN.split(), *here)}
    if name in names.values():
        return ""
    close = difflib.get_close_matches(name.lower(), names, n=3, cutoff=0.6)
    return f"did you mean {' or '.join(names[match] for match in close)}?" if close else ""
