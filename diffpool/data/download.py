"""One file from a server: resumed where it broke off, and never half of it under its name."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from diffpool.errors import DataError
from diffpool.files import file_lock, move_into_place

Progress = Callable[[int, int | None], None]  # bytes received, bytes in all
About = dict[str, Any]  # a file on a server: url, etag, modified, size

ATTEMPTS = 4
WAIT = 1.0  # seconds before the second attempt; twice as many before each further one
TIMEOUT = 30.0  # seconds without a byte
PIECE = 1 << 16


class DownloadError(DataError):
    """The reason, for a message of which it is a part. `missing`: the server does not have the file."""

    def __init__(self, reason: str, missing: bool = False) -> None:
        super().__init__(reason)
        self.missing = missing


class _TryAgain(Exception):
    """The attempt failed in a way that another one may not."""


def download(
    url: str,
    target: Path,
    check: Callable[[Path], None],
    progress: Progress | None = None,
    refresh: bool = False,
) -> None:
    """Get the file, unless it is there; `check` raises a DataError if it is not what it should be."""
    part = target.with_name(f"{target.name}.part")
    try:
        with file_lock(target.with_name(f"{target.name}.lock")):
            if target.is_file() and not refresh:  # another process was faster
                return
            _get(url, part, progress)
            try:
                check(part)
            except DataError as error:
                _forget(part)
                raise DownloadError(f"{url} gave something else: {error}") from error
            move_into_place(part, target)
            _forget(part)
    except OSError as error:
        raise DownloadError(f"{target} cannot be written: {error.strerror or error}") from error


def _get(url: str, part: Path, progress: Progress | None) -> None:
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(WAIT * 2 ** (attempt - 1))
        try:
            return _attempt(url, part, progress)
        except _TryAgain as error:
            reason = str(error)
    raise DownloadError(f"{url} could not be had in {ATTEMPTS} attempts: {reason}")


def _attempt(url: str, part: Path, progress: Progress | None) -> None:
    """Get what is missing of the file."""
    done, before = _begun(url, part)
    headers = {"User-Agent": "diffpool", "Accept-Encoding": "identity"}
    if done:
        headers["Range"] = f"bytes={done}-"
        if validator := before["etag"] or before["modified"]:
            headers["If-Range"] = validator  # a changed file comes as a whole
    with _answer(urllib.request.Request(url, headers=headers), part) as response:
        about = _about(url, response)
        if response.status != 206:  # the whole file, whatever was asked for
            done = 0
        elif _first_byte(response) != done or not _same_version(about, before):
            _forget(part)
            raise _TryAgain("the file changed on the server")
        size = about["size"]
        _about_file(part).write_text(json.dumps(about))
        with part.open("ab" if done else "wb") as file:
            while piece := _next(response):
                file.write(piece)
                done += len(piece)
                if progress is not None:
                    progress(done, size)
    if size is not None and done != size:
        if done > size:
            _forget(part)
        raise _TryAgain(f"it ended after {done:,} of {size:,} bytes")


@contextlib.contextmanager
def _answer(request: urllib.request.Request, part: Path) -> Iterator[http.client.HTTPResponse]:
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416:  # what is there already is not the beginning of the file
            _forget(part)
            raise _TryAgain("the file changed on the server") from error
        reason = f"it answered {error.code} {error.reason}"
        if error.code in (408, 429) or error.code >= 500:
            raise _TryAgain(reason) from error
        missing = error.code in (404, 410)
        raise DownloadError(f"{request.full_url}: {reason}", missing) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        cause = getattr(error, "reason", error)
        if _may_pass(cause):
            raise _TryAgain(str(cause) or type(cause).__name__) from error
        raise DownloadError(f"{request.full_url} cannot be reached: {cause}") from error
    with response:
        yield response


def _may_pass(cause: object) -> bool:
    """Whether this trouble may be gone in a moment: a broken connection, but not one that never came about."""
    never = isinstance(cause, (ConnectionRefusedError, http.client.InvalidURL))
    broken = isinstance(cause, (TimeoutError, ConnectionError, http.client.HTTPException))
    return broken and not never


def _next(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read(PIECE)
    except (OSError, http.client.HTTPException) as error:
        raise _TryAgain(str(error) or type(error).__name__) from error


def _about(url: str, response: http.client.HTTPResponse) -> About:
    """Which version of the file this is, and its size."""
    range_, length = response.headers.get("Content-Range"), response.headers.get("Content-Length")
    size = range_.rsplit("/", 1)[-1] if range_ else length
    etag = response.headers.get("ETag")
    return {
        "url": url,
        "etag": None if etag is None or etag.startswith("W/") else etag,
        "modified": response.headers.get("Last-Modified"),
        "size": int(size) if size and size.isdecimal() else None,
    }


def _same_version(a: About, b: About) -> bool:
    """Whether nothing that both say differs; the second answer need not repeat everything."""
    return all(a[key] == b[key] for key in a if a[key] is not None and b[key] is not None)


def _first_byte(response: http.client.HTTPResponse) -> int | None:
    words = (response.headers.get("Content-Range") or "").removeprefix("bytes ").split("-")
    return int(words[0]) if words[0].isdecimal() else None


# --- what an interrupted download leaves -------------------------------------------------------------------------


def _about_file(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def _begun(url: str, part: Path) -> tuple[int, About]:
    """How many bytes are there already, and of which version of the file; 0 if they are of no use."""
    try:
        about = json.loads(_about_file(part).read_text())
        done = part.stat().st_size
        if about["url"] == url and about["size"] is not None and 0 < done < about["size"]:
            return done, about
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return 0, {}


def _forget(part: Path) -> None:
    for file in (part, _about_file(part)):
        file.unlink(missing_ok=True)
