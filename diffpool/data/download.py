"""Download one file. Interrupted downloads resume, and the file appears only when it is complete."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from diffpool.errors import DataError
from diffpool.files import file_lock, move_into_place

Progress = Callable[[int, int | None], None]  # bytes received, bytes in total (None: unknown)
Version = dict[str, Any]  # of a file on a server: url, etag, modified, size

ATTEMPTS = 4
WAIT = 1.0  # seconds before the second attempt; doubles for each further one
TIMEOUT = 30.0  # seconds without receiving a byte
PIECE = 1 << 16
MAX_BYTES = 4 << 30  # of a file; no data set of the TU collection comes close


class DownloadError(DataError):
    """A failed download. The message is part of a longer one. `missing`: the server does not have the file."""

    def __init__(self, reason: str, missing: bool = False) -> None:
        super().__init__(reason)
        self.missing = missing


class _TryAgain(Exception):
    """The attempt failed, but another one may succeed."""


def download(
    url: str,
    target: Path,
    check: Callable[[Path], None],
    progress: Progress | None = None,
    refresh: bool = False,
) -> None:
    """Download `url` to `target` if it is missing, or with `refresh`; `check` raises a DataError for a wrong file."""
    part = target.with_name(f"{target.name}.part")
    try:
        with file_lock(target.with_name(f"{target.name}.lock")):
            if target.is_file() and not refresh:  # another process has downloaded it
                return
            _get(url, part, progress)
            try:
                check(part)
            except DataError as error:
                _remove(part)
                raise DownloadError(f"{url} is not the expected file: {error}") from error
            move_into_place(part, target)
            _remove(part)
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
    raise DownloadError(f"{url} could not be downloaded in {ATTEMPTS} attempts: {reason}")


def _attempt(url: str, part: Path, progress: Progress | None) -> None:
    """Download the part of the file that is missing."""
    done, before = _resumable(url, part)
    headers = {"User-Agent": "diffpool", "Accept-Encoding": "identity"}
    if done:
        headers["Range"] = f"bytes={done}-"
        if validator := before["etag"] or before["modified"]:
            headers["If-Range"] = validator  # if the file has changed, the server sends all of it
    with _open(url, headers, part) as response:
        version = _version(url, response)
        if response.status != 206:  # the server sends the whole file, even if asked for a part
            done = 0
        elif _first_byte(response) != done or not _same_version(version, before):
            _remove(part)
            raise _TryAgain("the file changed on the server")
        size = version["size"]
        if size is not None and size > MAX_BYTES:
            raise DownloadError(f"{url}: expected at most {MAX_BYTES:,} bytes, got {size:,}")
        _version_file(part).write_text(json.dumps(version))
        with part.open("ab" if done else "wb") as file:
            while piece := _next(response):
                file.write(piece)
                done += len(piece)
                if done > MAX_BYTES:
                    break
                if progress is not None:
                    progress(done, size)
    if done > MAX_BYTES:
        _remove(part)
        raise DownloadError(f"{url}: expected at most {MAX_BYTES:,} bytes, got more")
    if size is not None and done != size:
        if done > size:
            _remove(part)
        raise _TryAgain(f"the download ended after {done:,} of {size:,} bytes")


class _SameHost(urllib.request.HTTPRedirectHandler):
    """Follows redirects on the same host only, and never from https to http."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        before, after = urllib.parse.urlsplit(req.full_url), urllib.parse.urlsplit(newurl)
        schemes = ("https",) if before.scheme == "https" else ("http", "https")
        if after.hostname != before.hostname or after.scheme not in schemes:
            fp.close()
            raise DownloadError(f"{req.full_url} redirects to {newurl}, which is another server")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


@contextlib.contextmanager
def _open(url: str, headers: dict[str, str], part: Path) -> Iterator[http.client.HTTPResponse]:
    try:
        request = urllib.request.Request(url, headers=headers)
        response = urllib.request.build_opener(_SameHost).open(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416:  # the partial file is not the beginning of this file
            _remove(part)
            raise _TryAgain("the file changed on the server") from error
        reason = f"the server answered {error.code} {error.reason}"
        if error.code in (408, 429) or error.code >= 500:
            raise _TryAgain(reason) from error
        missing = error.code in (404, 410)
        raise DownloadError(f"{url}: {reason}", missing) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        cause = getattr(error, "reason", error)
        if _is_temporary(cause):
            raise _TryAgain(str(cause) or type(cause).__name__) from error
        raise DownloadError(f"{url} cannot be reached: {cause}") from error
    with response:
        yield response


def _is_temporary(cause: object) -> bool:
    """Whether another attempt may succeed: yes after a broken connection, no after a refused one."""
    refused = isinstance(cause, (ConnectionRefusedError, http.client.InvalidURL))
    broken = isinstance(cause, (TimeoutError, ConnectionError, http.client.HTTPException))
    return broken and not refused


def _next(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read(PIECE)
    except (OSError, http.client.HTTPException) as error:
        raise _TryAgain(str(error) or type(error).__name__) from error


def _version(url: str, response: http.client.HTTPResponse) -> Version:
    """The version of the file that the server sends, and its size."""
    range_, length = response.headers.get("Content-Range"), response.headers.get("Content-Length")
    size = range_.rsplit("/", 1)[-1] if range_ else length
    etag = response.headers.get("ETag")
    return {
        "url": url,
        "etag": None if etag is None or etag.startswith("W/") else etag,
        "modified": response.headers.get("Last-Modified"),
        "size": int(size) if size and size.isdecimal() else None,
    }


def _same_version(a: Version, b: Version) -> bool:
    """Whether all values present in both are equal; the second response need not repeat all of them."""
    return all(a[key] == b[key] for key in a if a[key] is not None and b[key] is not None)


def _first_byte(response: http.client.HTTPResponse) -> int | None:
    words = (response.headers.get("Content-Range") or "").removeprefix("bytes ").split("-")
    return int(words[0]) if words[0].isdecimal() else None


# --- what an interrupted download leaves


def _version_file(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def _resumable(url: str, part: Path) -> tuple[int, Version]:
    """The number of bytes downloaded so far, and the version of the file; 0 if they cannot be used."""
    try:
        version = json.loads(_version_file(part).read_text())
        done = part.stat().st_size
        if version["url"] == url and version["size"] is not None and 0 < done < version["size"]:
            return done, version
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    return 0, {}


def _remove(part: Path) -> None:
    for file in (part, _version_file(part)):
        file.unlink(missing_ok=True)
