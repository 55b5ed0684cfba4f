"""A web server for one page: it answers a browser on this machine that knows its address, and nobody else.

It listens on 127.0.0.1 only. Every address contains a random token. Requests with another Host header are refused, so
that a page of another site cannot reach it under a name of its own (DNS rebinding). It reads no files.
"""

from __future__ import annotations

import errno
import http.server
import secrets
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from diffpool.errors import SettingError

HOST = "127.0.0.1"
MAX_CONNECTIONS = 16  # at the same time; further ones are closed
TIMEOUT = 5.0  # seconds for a request to arrive
NOTHING = "default-src 'none'; frame-ancestors 'none'"  # the content security policy of everything but the page
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


@dataclass(frozen=True)
class Reply:
    """What a browser receives."""

    content: bytes
    kind: str = "application/json"
    policy: str = NOTHING


Answer = Callable[
    [str], Reply | None
]  # from the part of the address after the token; None: no such address


class LocalServer:
    """Answers requests in threads of its own, from `start` to `close`.

    with LocalServer(answer) as server:
        print(server.url)
    """

    def __init__(self, answer: Answer, port: int = 0):
        """`port` 0: any free one. It is reserved now, so that a port in use is an error before a long computation."""
        self.token = secrets.token_urlsafe(24)
        try:
            self._server = _Server(answer, self.token, port)
        except OSError as error:
            raise SettingError(_not_opened(port, error)) from error
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/{self.token}/"

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop listening; requests that are being answered may end."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _not_opened(port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} is in use by another program: choose another one, or leave the choice to the system with "
            "--watch-port 0"
        )
    if error.errno == errno.EACCES:
        return f"port {port} needs the rights of an administrator: choose one from 1024 to 65535"
    return f"cannot listen on {HOST}, port {port} ({error.strerror or error})"


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a browser that holds a connection cannot delay the end
    allow_reuse_address = False
    request_queue_size = MAX_CONNECTIONS

    def __init__(self, answer: Answer, token: str, port: int):
        self.answer, self.token = answer, token
        self.free = threading.BoundedSemaphore(MAX_CONNECTIONS)
        super().__init__((HOST, port), _Handler)
        port = self.server_address[1]
        self.hosts = {f"{HOST}:{port}", f"localhost:{port}"}

    def server_bind(self) -> None:
        """Without looking up the name of the machine, which may take seconds."""
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = HOST, self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self.free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self.free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that closes its connection is no error to report."""


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Server
    timeout = TIMEOUT
    server_version, sys_version = "diffpool", ""

    def do_GET(self) -> None:
        if self.headers.get_all("Host", []) not in [[host] for host in self.server.hosts]:
            self._send(403, b"expected the address that diffpool printed\n")
            return
        token, slash, rest = self.path[1:].partition("/")
        if not self._from_here() and (rest or not self._opens_page()):
            self._send(403, b"not for other sites\n")
            return
        known = secrets.compare_digest(
            token.encode("utf-8", "surrogateescape"), self.server.token.encode()
        )
        reply = self.server.answer(rest) if known and slash else None
        if reply is None:
            self._send(404, b"not found\n")
        else:
            self._send(200, reply.content, reply.kind, reply.policy)

    def _from_here(self) -> bool:
        """Whether the request is not caused by another site."""
        return self.headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin")

    def _opens_page(self) -> bool:
        """Whether the request follows a link, such as one printed in a terminal that is itself a web page."""
        fetch = [self.headers.get(f"Sec-Fetch-{part}") for part in ("Mode", "Dest")]
        return fetch == ["navigate", "document"]

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """In place of the pages of http.server: another method, or no valid request."""
        if code == 501:
            self._send(405, b"GET only\n", headers={"Allow": "GET"})
        else:
            self._send(code, b"bad request\n")

    def _send(
        self,
        code: int,
        content: bytes,
        kind: str = "text/plain",
        policy: str = NOTHING,
        headers: dict[str, str] | None = None,
    ) -> None:
        self.close_connection = True
        self.request_version = (
            "HTTP/1.0"  # a reply to 0.9, or to a damaged request, would have no headers
        )
        with suppress(OSError):  # the browser has gone, or does not read
            self.send_response(code)
            more = {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(content))}
            for name, value in {**HEADERS, **more, **(headers or {})}.items():
                self.send_header(name, value)
            self.send_header("Content-Security-Policy", policy)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing: training prints its progress."""
