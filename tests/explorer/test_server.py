"""The server of the page answers requests with its token and its own Host header, and nothing else."""

from __future__ import annotations

import errno
import http.client
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from diffpool.errors import SettingError
from diffpool.explorer import server as module
from diffpool.explorer.server import LocalServer, Reply


def answer(address: str) -> Reply | None:
    return {"": Reply(b"<p>", "text/html", "default-src 'self'"), "data": Reply(b"1")}.get(address)


@pytest.fixture
def server() -> Iterator[LocalServer]:
    with LocalServer(answer) as opened:
        yield opened


def ask(
    server: LocalServer, address: str | None = None, method: str = "GET", **headers: str
) -> tuple[int, str, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    path = f"/{server.token}/" if address is None else address
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, headers=names)
    reply = connection.getresponse()
    found = reply.status, reply.read().decode(), dict(reply.getheaders())
    connection.close()
    return found


def raw(server: LocalServer, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as connection:
        connection.sendall(request)
        return connection.makefile("rb").read()


def test_the_page_and_its_data_are_served_at_the_address_with_the_token(
    server: LocalServer,
) -> None:
    assert server.url == f"http://127.0.0.1:{server.port}/{server.token}/"
    assert len(server.token) >= 32
    assert ask(server)[:2] == (200, "<p>")
    status, content, headers = ask(server, f"/{server.token}/data")
    assert (status, content) == (200, "1")
    assert headers["Content-Type"] == "application/json; charset=utf-8"


def test_every_reply_forbids_storing_guessing_framing_and_everything_else(
    server: LocalServer,
) -> None:
    for address in (None, f"/{server.token}/data", "/"):
        headers = ask(server, address)[2]
        assert headers["Cache-Control"] == "no-store"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        own = "default-src 'self'" if address is None else module.NOTHING
        assert headers["Content-Security-Policy"] == own
        assert headers["Server"].strip() == "diffpool"  # without versions


@pytest.mark.parametrize("address", ["/", "/data", "/x/data", "//", "/../data", "/\udce9/", "*"])
def test_an_address_without_the_token_is_not_found(server: LocalServer, address: str) -> None:
    path = address.encode("utf-8", "surrogateescape")
    host = f"127.0.0.1:{server.port}".encode()
    reply = raw(server, b"GET " + path + b" HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
    assert reply.startswith(b"HTTP/1.0 404 ")
    assert b"not found" in reply
    assert server.token.encode() not in reply


def test_a_wrong_token_and_an_unknown_path_get_the_same_reply(server: LocalServer) -> None:
    wrong = ("A" if server.token[0] != "A" else "B") + server.token[1:]
    replies = [
        ask(server, address)[:2]
        for address in (
            f"/{wrong}/",
            f"/{server.token}",
            f"/{server.token}/etc/passwd",
            f"/{server.token}/../pyproject.toml",
        )
    ]
    assert replies == [(404, "not found\n")] * 4


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "", "[::1]:{port}"]
)
def test_another_host_header_is_refused(server: LocalServer, host: str) -> None:
    assert ask(server, Host=host.format(port=server.port))[0] == 403


def test_no_host_header_or_two_of_them_are_refused(server: LocalServer) -> None:
    host = f"Host: 127.0.0.1:{server.port}\r\n".encode()
    path = f"GET /{server.token}/ HTTP/1.1\r\n".encode()
    assert raw(server, path + b"\r\n").startswith(b"HTTP/1.0 403")
    assert raw(server, path + host + b"Host: evil.example\r\n\r\n").startswith(b"HTTP/1.0 403")
    assert raw(server, path + host + b"\r\n").startswith(b"HTTP/1.0 200")


def test_a_request_from_a_page_of_another_site_is_refused(server: LocalServer) -> None:
    for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 200)):
        assert ask(server, Sec_Fetch_Site=site)[0] == status


def test_a_link_on_another_site_opens_the_page_and_nothing_else(server: LocalServer) -> None:
    """A terminal in a browser makes a link of the printed address."""
    link = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
    assert ask(server, **link, Sec_Fetch_Dest="document")[0] == 200
    assert ask(server, **link, Sec_Fetch_Dest="iframe")[0] == 403
    assert ask(server, f"/{server.token}/data", **link, Sec_Fetch_Dest="document")[0] == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD", "CONNECT", "X"])
def test_other_methods_are_refused(server: LocalServer, method: str) -> None:
    status, _, headers = ask(server, method=method)
    assert status == 405
    assert headers["Allow"] == "GET"


def test_it_listens_on_the_loopback_address_only(server: LocalServer) -> None:
    assert server._server.socket.getsockname() == ("127.0.0.1", server.port)


def test_too_many_connections_are_closed_and_the_others_are_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module._Handler, "timeout", 0.3)
    with LocalServer(answer) as server:
        idle = [
            socket.create_connection(("127.0.0.1", server.port), timeout=5)
            for _ in range(module.MAX_CONNECTIONS)
        ]
        assert raw(server, b"") == b""  # closed at once
        for connection in idle:  # those that send nothing are closed, too
            assert connection.recv(1) == b""
            connection.close()
        assert ask(server)[0] == 200


def test_a_damaged_request_gets_a_plain_reply(server: LocalServer) -> None:
    reply = raw(server, b"<script>alert(1)</script> / / /\r\n\r\n")
    assert b"400" in reply.splitlines()[0]
    assert b"script" not in reply
    assert module.NOTHING.encode() in reply


def test_after_the_end_nothing_listens() -> None:
    with LocalServer(answer) as server:
        assert ask(server)[0] == 200
    with pytest.raises(ConnectionRefusedError):
        ask(server)


def test_a_port_that_cannot_be_used_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SettingError, match=f"port {port} is in use by another program"):
            LocalServer(answer, port)

    def refuse(*args: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(module._Server, "server_bind", refuse)
    with pytest.raises(SettingError, match="port 80 needs the rights of an administrator"):
        LocalServer(answer, 80)
