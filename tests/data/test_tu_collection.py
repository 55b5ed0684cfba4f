"""Data sets by name, from a folder, the cache or a server. The servers are local and misbehave."""

from __future__ import annotations

import io
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from diffpool.data import download
from diffpool.data.tu_collection import load_raw
from diffpool.errors import DataError

TEXTS = {"A": "1, 2\n2, 1\n", "graph_indicator": "1\n1\n2\n", "graph_labels": "7\n8\n"}


def zipped(**changes: str) -> bytes:
    """A zip file of 300 kB, so that it arrives in several pieces."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for part, text in {**TEXTS, **changes}.items():
            file.writestr(f"TOY/TOY_{part}.txt", text)
        file.writestr("TOY/README.txt", "x" * 300_000)
    return buffer.getvalue()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, no folder, and a server that does not exist, without waiting between attempts."""
    monkeypatch.setenv("DIFFPOOL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("DIFFPOOL_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.delenv("DIFFPOOL_DATA", raising=False)
    monkeypatch.setattr(download, "WAIT", 0.0)
    monkeypatch.setattr(download, "TIMEOUT", 5.0)
    return tmp_path / "cache"


def files(cache: Path) -> list[str]:
    """The files that a download left."""
    folder = cache / "downloads"
    return sorted(file.name for file in folder.iterdir()) if folder.exists() else []


# --- folders


@pytest.mark.parametrize("place", ["TOY.zip", "TOY", "TOY/raw", "TOY/TOY"])
@pytest.mark.parametrize("given", ["argument", "environment"])
def test_a_data_set_is_found_in_the_given_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, given: str
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    if place == "TOY.zip":
        (data / place).write_bytes(zipped())
    else:
        (data / place).mkdir(parents=True)
        for part, text in TEXTS.items():
            (data / place / f"TOY_{part}.txt").write_text(text)
    if given == "environment":
        monkeypatch.setenv("DIFFPOOL_DATA", str(data))
    for _ in range(2):  # the second time from the cache
        raw = load_raw("TOY", data if given == "argument" else None)
        assert raw.sizes.tolist() == [2, 1]
        assert raw.columns == {"label": [7, 8]}  # predictions repeat it


def test_the_argument_overrides_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, indicator in (("a", "1\n1\n2\n"), ("b", "1\n1\n1\n2\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "TOY.zip").write_bytes(zipped(graph_indicator=indicator))
    monkeypatch.setenv("DIFFPOOL_DATA", str(tmp_path / "b"))
    assert load_raw("TOY").num_nodes == 4
    assert load_raw("TOY", tmp_path / "a").num_nodes == 3


def test_a_missing_folder_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = tmp_path / "nowhere"
    with pytest.raises(DataError, match=r"--data-dir: the folder .*nowhere does not exist. Name"):
        load_raw("TOY", nowhere)
    monkeypatch.setenv("DIFFPOOL_DATA", str(nowhere))
    with pytest.raises(DataError, match=r"DIFFPOOL_DATA: the folder .*nowhere does not exist"):
        load_raw("TOY")


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".hidden", "a/b", "../TOY", "a\\b", "a b", "TOY\n", "é", "a?b"]
)
def test_an_invalid_name_is_an_error(name: str) -> None:
    with pytest.raises(
        DataError, match=r"expected a data set name of letters, digits and _ . \+ -, got "
    ):
        load_raw(name)


def test_a_fault_in_a_folder_is_reported_and_nothing_is_downloaded_or_written(
    tmp_path: Path, cache: Path
) -> None:
    (tmp_path / "TOY.zip").write_bytes(zipped(A="1, 9\n"))
    with pytest.raises(DataError, match=r"TOY_A.txt, line 1: expected node numbers from 1 to 3"):
        load_raw("TOY", tmp_path)
    assert not cache.exists()


# --- servers


@dataclass
class Server:
    """The file and the behavior of a server, and the requests it received."""

    content: bytes = field(default_factory=zipped)
    etag: str | None = '"1"'
    modified: str | None = None
    ranges: bool = True  # supports range requests
    length: bool = True  # sends Content-Length
    breaks_after: list[int | None] = field(
        default_factory=list
    )  # bytes of each response; None: complete
    statuses: list[int] = field(default_factory=list)  # of the first responses, instead of the file
    seconds: float = 0.0  # pause before the last byte
    asked: list[str | None] = field(default_factory=list)  # requested ranges
    url: str = ""
    redirect: str = ""  # where requests for other paths than /moved/ are sent


def handler(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            wanted = self.headers["Range"]
            server.asked.append(wanted)
            if server.statuses and self.path == "/TOY.zip":
                return self.send_error(server.statuses.pop(0))
            if server.redirect and not self.path.startswith("/moved/"):
                self.send_response(302)
                self.send_header("Location", server.redirect)
                return self.end_headers()
            if self.path.removeprefix("/moved") != "/TOY.zip":
                return self.send_error(404)
            start = 0
            if (
                wanted
                and server.ranges
                and self.headers["If-Range"] in (None, server.etag, server.modified)
            ):
                start = int(wanted.removeprefix("bytes=").removesuffix("-"))
                if start >= len(server.content):
                    return self.send_error(416)
            self.send_response(206 if start else 200)
            body = server.content[start:]
            if start:
                total = len(server.content)
                self.send_header("Content-Range", f"bytes {start}-{total - 1}/{total}")
            if server.length:
                self.send_header("Content-Length", str(len(body)))
            if server.etag:
                self.send_header("ETag", server.etag)
            if server.modified:
                self.send_header("Last-Modified", server.modified)
            self.end_headers()
            end = server.breaks_after.pop(0) if server.breaks_after else None
            self.wfile.write(body[:end] if end is not None else body[:-1])
            self.wfile.flush()
            time.sleep(server.seconds)
            if end is None:
                self.wfile.write(body[-1:])
            return None

    return Handler


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Server]]:
    """Start a server with this behavior, and download from it."""
    running = []

    def start(**behavior: object) -> Server:
        server = Server(**behavior)  # type: ignore[arg-type]
        listener = ThreadingHTTPServer(("127.0.0.1", 0), handler(server))
        running.append(listener)
        threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01}).start()
        server.url = f"http://127.0.0.1:{listener.server_address[1]}"
        monkeypatch.setenv("DIFFPOOL_URL", server.url)
        return server

    yield start
    for listener in running:
        listener.shutdown()
        listener.server_close()


Serve = Callable[..., Server]


def test_a_data_set_is_downloaded_once(serve: Serve, cache: Path, tmp_path: Path) -> None:
    server = serve()
    seen: list[tuple[int, int | None]] = []
    (tmp_path / "empty").mkdir()
    raw = load_raw("TOY", tmp_path / "empty", progress=lambda *bytes_: seen.append(bytes_))
    assert raw.sizes.tolist() == [2, 1]
    assert len(seen) > 2
    assert seen[-1] == (len(server.content), len(server.content))
    assert load_raw("TOY").sizes.tolist() == [2, 1]
    assert server.asked == [None]
    assert files(cache) == ["TOY.zip"]


def test_refresh_downloads_again(serve: Serve) -> None:
    server = serve()
    assert load_raw("TOY").num_nodes == 3
    server.content, server.etag = zipped(graph_indicator="1\n1\n1\n2\n"), '"2"'
    assert load_raw("TOY").num_nodes == 3
    assert load_raw("TOY", refresh=True).num_nodes == 4
    assert load_raw("TOY").num_nodes == 4


def test_a_failed_refresh_leaves_the_earlier_download(serve: Serve, cache: Path) -> None:
    server = serve()
    load_raw("TOY")
    server.content = b"<html>under construction</html>"
    with pytest.raises(DataError, match="is not the expected file"):
        load_raw("TOY", refresh=True)
    assert files(cache) == ["TOY.zip"]
    assert load_raw("TOY").num_nodes == 3


@pytest.mark.parametrize("validator", ["etag", "modified", "weak", "none"])
def test_a_broken_download_is_resumed(serve: Serve, cache: Path, validator: str) -> None:
    version: dict[str, str | None] = {"etag": None, "modified": None}
    if validator == "weak":
        version["etag"] = 'W/"1"'
    elif validator != "none":
        version[validator] = "1"
    server = serve(breaks_after=[100_000, 50_000], **version)
    assert load_raw("TOY").num_nodes == 3
    assert server.asked == [None, "bytes=100000-", "bytes=150000-"]
    assert files(cache) == ["TOY.zip"]
    assert (cache / "downloads" / "TOY.zip").read_bytes() == server.content


def test_a_download_is_resumed_by_a_later_call(serve: Serve, cache: Path) -> None:
    server = serve(breaks_after=[100_000, 10, 10, 10])
    with pytest.raises(
        DataError, match=r"in 4 attempts: the download ended after 100,030 of .* bytes"
    ):
        load_raw("TOY")
    assert files(cache) == ["TOY.zip.part", "TOY.zip.part.json"]
    assert load_raw("TOY").num_nodes == 3
    assert server.asked[-1] == "bytes=100030-"
    assert files(cache) == ["TOY.zip"]


def test_a_server_that_does_not_resume_sends_the_whole_file(serve: Serve, cache: Path) -> None:
    server = serve(breaks_after=[100_000], ranges=False)
    assert load_raw("TOY").num_nodes == 3
    assert (cache / "downloads" / "TOY.zip").read_bytes() == server.content


@pytest.mark.parametrize("etag", ['"2"', None])
def test_a_changed_file_is_not_combined_with_the_old_one(
    serve: Serve, cache: Path, etag: str | None
) -> None:
    """With a validator the server sends the whole file; without one the size differs."""
    server = serve(breaks_after=[100_000] * download.ATTEMPTS, etag=etag and '"1"', ranges=False)
    with pytest.raises(DataError):
        load_raw("TOY")
    server.content, server.etag, server.ranges = zipped(node_labels="1\n2\n3\n"), etag, True
    assert load_raw("TOY").node_labels is not None
    assert (cache / "downloads" / "TOY.zip").read_bytes() == server.content


def test_a_file_that_became_shorter_is_downloaded_again(serve: Serve) -> None:
    server = serve(breaks_after=[300_000] * download.ATTEMPTS, etag=None, ranges=False)
    with pytest.raises(DataError):
        load_raw("TOY")
    with zipfile.ZipFile(buffer := io.BytesIO(), "w") as file:
        for part, text in TEXTS.items():
            file.writestr(f"TOY_{part}.txt", text)
    server.content, server.ranges = buffer.getvalue(), True
    assert load_raw("TOY").num_nodes == 3
    assert server.asked[-2:] == ["bytes=300000-", None]


def test_a_partial_download_without_a_valid_description_is_not_used(
    serve: Serve, cache: Path
) -> None:
    (cache / "downloads").mkdir(parents=True)
    (cache / "downloads" / "TOY.zip.part").write_bytes(b"rubbish")
    (cache / "downloads" / "TOY.zip.part.json").write_text("[]")
    server = serve()
    assert load_raw("TOY").num_nodes == 3
    assert server.asked == [None]


def test_a_download_of_unknown_size_is_accepted(serve: Serve) -> None:
    seen = []
    serve(length=False)
    assert load_raw("TOY", progress=lambda _, size: seen.append(size)).num_nodes == 3
    assert set(seen) == {None}


def test_an_incomplete_download_of_unknown_size_is_an_error_and_not_kept(
    serve: Serve, cache: Path
) -> None:
    serve(length=False, breaks_after=[100_000])
    with pytest.raises(DataError, match=r"is not the expected file: .* incomplete"):
        load_raw("TOY")
    assert files(cache) == []


def test_a_truncated_file_is_never_under_the_final_name(serve: Serve, cache: Path) -> None:
    serve(breaks_after=[1000] * 20, ranges=False)
    with pytest.raises(
        DataError, match=r"in 4 attempts: the download ended after 1,000 of .* bytes"
    ):
        load_raw("TOY")
    assert "TOY.zip" not in files(cache)


def test_a_download_that_is_not_a_zip_file_is_an_error_and_not_kept(
    serve: Serve, cache: Path
) -> None:
    server = serve(content=b"<html>please log in</html>" * 100)
    with pytest.raises(
        DataError, match=r"is not the expected file: .* not a zip file.*Download http.*TOY.zip"
    ):
        load_raw("TOY")
    assert files(cache) == []
    assert len(server.asked) == 1


def test_a_zip_file_of_another_data_set_is_an_error_and_not_kept(serve: Serve, cache: Path) -> None:
    with zipfile.ZipFile(buffer := io.BytesIO(), "w") as file:
        file.writestr("OTHER/OTHER_A.txt", "1, 2\n")
    serve(content=buffer.getvalue())
    with pytest.raises(DataError, match=r"TOY_A.txt is missing. Found the data set OTHER"):
        load_raw("TOY")
    assert files(cache) == []


def test_a_silent_server_is_retried_after_a_timeout(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "TIMEOUT", 0.2)
    server = serve(seconds=1.0)
    with pytest.raises(DataError, match=r"in 4 attempts: .*timed out"):
        load_raw("TOY")
    assert len(server.asked) == 4


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_temporary_server_error_is_retried(serve: Serve, status: int) -> None:
    server = serve(statuses=[status, status])
    assert load_raw("TOY").num_nodes == 3
    assert len(server.asked) == 3


def test_a_permanent_server_error_is_not_retried(serve: Serve) -> None:
    server = serve(statuses=[403])
    with pytest.raises(
        DataError, match=r"the server answered 403 Forbidden\). Download http.*/TOY.zip and put it"
    ):
        load_raw("TOY")
    assert len(server.asked) == 1


def test_the_error_about_a_folder_given_as_a_name_suggests_its_path(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve()
    (tmp_path / "shapes").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"no data set shapes, .*\. Did you mean \./shapes\?"):
        load_raw("shapes")


def test_the_error_about_an_unknown_name_suggests_similar_ones(serve: Serve, cache: Path) -> None:
    serve()
    with pytest.raises(
        DataError, match=r"no data set ENZYME, neither in .*. Did you mean ENZYMES.*\?"
    ):
        load_raw("ENZYME")
    with pytest.raises(DataError, match=r"Did you mean .*IMDB-BINARY"):
        load_raw("imdb_binary")
    with pytest.raises(DataError, match=r"no data set Qwxz, .*. For a list of names, see https://"):
        load_raw("Qwxz")
    assert files(cache) == []


def test_suggestions_include_the_data_sets_in_the_folder(serve: Serve, tmp_path: Path) -> None:
    serve()
    (tmp_path / "my-molecules.zip").touch()
    with pytest.raises(
        DataError, match=r"neither in .* nor at http.*. Did you mean my-molecules\?"
    ):
        load_raw("my_molecules", tmp_path)


def test_without_a_network_the_error_says_which_file_to_get_and_where_to_put_it(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = "http://127.0.0.1:9/TOY.zip"
    message = rf"TOY.zip is not in .* and could not be downloaded \({address} cannot be reached"
    message += rf".*Download {address} and put it into "
    with pytest.raises(DataError, match=message + str(cache / "downloads")):
        load_raw("TOY")
    (tmp_path / "data").mkdir()
    with pytest.raises(DataError, match=message + str(tmp_path / "data")):
        load_raw("TOY", tmp_path / "data")
    monkeypatch.setenv("DIFFPOOL_DATA", str(tmp_path / "data"))
    with pytest.raises(DataError, match=message + str(tmp_path / "data")):
        load_raw("TOY")
    with pytest.raises(DataError, match=r"Did you mean ENZYMES"):
        load_raw("ENZYME")


def test_without_a_network_an_earlier_download_is_used(cache: Path) -> None:
    (cache / "downloads").mkdir(parents=True)
    (cache / "downloads" / "TOY.zip").write_bytes(zipped())
    assert load_raw("TOY").num_nodes == 3


def test_a_damaged_earlier_download_is_an_error_that_says_how_to_replace_it(cache: Path) -> None:
    (cache / "downloads").mkdir(parents=True)
    (cache / "downloads" / "TOY.zip").write_bytes(zipped()[:-50])
    with pytest.raises(
        DataError,
        match=r"incomplete .* The file was downloaded earlier; --refresh downloads it again",
    ):
        load_raw("TOY")


def test_a_cache_that_cannot_be_written_is_an_error_where_a_download_is_needed(
    serve: Serve, cache: Path
) -> None:
    serve()
    cache.write_text("a file where the folder should be")
    with pytest.raises(
        DataError, match=r"cannot be written: .*Download http.*/TOY.zip and put it into"
    ):
        load_raw("TOY")


def test_the_server_must_be_a_valid_http_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIFFPOOL_URL", "file:///etc")
    with pytest.raises(
        DataError, match=r"start with http:// or https://, got file:///etc. For a folder"
    ):
        load_raw("TOY")
    monkeypatch.setenv("DIFFPOOL_URL", "http://not a host")
    with pytest.raises(DataError, match=r"cannot be reached"):
        load_raw("TOY")


def test_simultaneous_downloads_share_one_request(serve: Serve, cache: Path) -> None:
    server = serve(seconds=0.3)
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.append(load_raw("TOY").num_nodes)) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [3, 3, 3]
    assert server.asked == [None]
    assert files(cache) == ["TOY.zip"]


# --- what a server may not do


@pytest.mark.parametrize(
    "location",
    [
        "http://localhost:9/TOY.zip",
        "ftp://127.0.0.1/TOY.zip",
        "https://a.b/c",
    ],
)
def test_a_redirect_to_another_host_or_scheme_is_refused(
    serve: Serve, cache: Path, location: str
) -> None:
    serve(redirect=location)
    with pytest.raises(DataError, match=f"redirects to {location}, which is another server"):
        load_raw("TOY")
    assert files(cache) == []


def test_a_redirect_on_the_same_host_is_followed(serve: Serve) -> None:
    serve(redirect="/moved/TOY.zip")
    assert load_raw("TOY").num_nodes == 3


@pytest.mark.parametrize("length", [True, False])
def test_a_download_that_is_too_large_is_refused(
    serve: Serve, cache: Path, monkeypatch: pytest.MonkeyPatch, length: bool
) -> None:
    monkeypatch.setattr(download, "MAX_BYTES", 100_000)
    serve(length=length)
    with pytest.raises(DataError, match=r"TOY.zip: expected at most 100,000 bytes, got"):
        load_raw("TOY")
    assert files(cache) == []


@pytest.mark.parametrize("url", ["http://[bad", "http://", "http://a b", "http://127.0.0.1:x"])
def test_a_broken_url_is_an_error(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("DIFFPOOL_URL", url)
    with pytest.raises(DataError, match="could not be downloaded"):
        load_raw("TOY")
