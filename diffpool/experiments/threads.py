"""Calls made by several threads: for code that releases Python's lock, such as LIBSVM."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


def cores() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def in_threads(calls: Sequence[Callable[[], T]], jobs: int) -> Iterator[list[Future[T]]]:
    """The results to come of the calls, made in this order, `jobs` at a time; those not begun at the end are left out.

    The threads are daemons: a process that is interrupted does not wait for them (a fit may take half a minute).
    """
    futures: list[Future[T]] = [Future() for _ in calls]
    waiting = deque(zip(calls, futures, strict=True))

    def work() -> None:
        while True:
            try:
                call, future = waiting.popleft()
            except IndexError:
                return
            try:
                future.set_result(call())
            except BaseException as error:  # it belongs to whoever asks for the result
                future.set_exception(error)

    for _ in range(min(jobs, len(calls))):
        Thread(target=work, daemon=True).start()
    try:
        yield futures
    finally:
        waiting.clear()
