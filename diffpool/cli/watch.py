"""`diffpool train --watch`: the page of the training, from the first epoch to the end of the command."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from diffpool.cli.display import progress_console
from diffpool.errors import SettingError

if TYPE_CHECKING:
    from rich.console import Console

    from diffpool.explorer.live import Live

MAX_PORT = 65535


def check_watch(watch: bool, port: int | None) -> None:
    if port is None:
        return
    if not watch:
        raise SettingError(f"expected --watch with --watch-port {port}: add --watch")
    if not 0 <= port <= MAX_PORT:
        raise SettingError(f"expected --watch-port from 0 to {MAX_PORT}, got {port}")


@contextmanager
def watched(watch: bool, port: int | None, epochs: int, shown: Console) -> Iterator[Live | None]:
    """The server of the page, which prints its address when training begins; None without --watch."""
    if not watch:
        yield None
        return
    from diffpool.explorer.live import Live

    to = progress_console(False) if shown.quiet else shown  # the address is needed in any case

    def announce(url: str) -> None:
        to.print(f"watch the training at {url}", markup=False, soft_wrap=True)

    with Live(announce, epochs, port or 0) as live:
        yield live


def stay(live: Live, shown: Console) -> None:
    """Serve the page until Ctrl-C if a person is there: the command is used in a terminal, and prints to it."""
    if shown.is_terminal and not shown.quiet and sys.stdin.isatty():
        shown.print("the page stays until Ctrl-C", markup=False)
        live.wait()
