"""Run competitors on the same work: warm each up, then time them in turns. A failure of one does not stop the others.

A piece of work is a stack of batches: graph numbers [steps, M, B], with a batch of B graphs for each of M models. A
competitor with one model uses the batches of the first.
"""

from __future__ import annotations

import gc
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

Work = Callable[[np.ndarray], object]
MIN_STEPS = 2  # timed steps in a turn
WARM_UP_LIMIT, TURN_LIMIT = 180.0, 60.0  # seconds; a competitor that takes longer fails


class OutOfTime(BaseException):
    """Not an `Exception`, so that no library in between catches it."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `OutOfTime` in the main thread after this many seconds."""

    def ring(*_: object) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def trouble(work: Callable[[], object], seconds: float) -> str | None:
    """Do the work; return the error in one line, or None."""
    if seconds <= 0:
        return "its warm-up time was used up on earlier data sets"
    try:
        with time_limit(seconds):
            work()
        return None
    except OutOfTime:
        return f"not done after {seconds:.0f} s"
    except ModuleNotFoundError as error:
        return f"{error.name} is not installed"
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        return f"{type(error).__name__}: {lines[0][:200]}"


def timed(work: Callable[[], object], device: str) -> float:
    """The seconds until the device has finished."""
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def peak(work: Callable[[], object], device: str) -> float | None:
    """Peak GPU memory in MiB above the memory in use before; None on the CPU."""
    return peaks(work, device)[0]


def peaks(work: Callable[[], object], device: str) -> tuple[float | None, float | None]:
    """The same, and the peak of the memory reserved: CUDA graphs keep what a step needed."""
    if device != "cuda":
        work()
        return None, None
    torch.cuda.empty_cache()
    allocated, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    torch.cuda.reset_peak_memory_stats()
    work()
    torch.cuda.synchronize()
    return (
        (torch.cuda.max_memory_allocated() - allocated) / 2**20,
        (torch.cuda.max_memory_reserved() - reserved) / 2**20,
    )


class Entrant:
    """A competitor: `make` builds it and returns the work to time. Errors are kept as text.

    A competitor that captures a step the second time its size occurs rehearses its turns, so that the timed steps are
    like those of a long run; rehearsals count as warm-up.
    """

    def __init__(
        self, make: Callable[[], Work], max_steps: int, models: int = 1, rehearsals: int = 0
    ):
        self.make, self.models, self.steps = make, models, max_steps
        self.rehearsals = rehearsals
        self.work: Work | None = None
        self.failed: str | None = None
        self.mib: float | None = None
        self.reserved: float | None = None
        self.warm_up_seconds = 0.0
        self.times: list[float] = []  # seconds of each turn

    def warm_up(self, chosen: np.ndarray, device: str, limit: float, turn_seconds: float) -> None:
        """Build it and do the work once, untimed; then choose the number of steps for a turn of `turn_seconds`."""
        own = chosen[: self.steps, : self.models]

        def first() -> None:
            self.work = work = self.make()

            def all_runs() -> None:
                for _ in range(1 + self.rehearsals):
                    work(own)

            self.mib, self.reserved = peaks(all_runs, device)
            few = own[:MIN_STEPS]
            pace = timed(lambda: work(few), device) / len(few)
            self.steps = min(max(int(turn_seconds / pace), MIN_STEPS), len(own))

        start = time.perf_counter()
        self._attempt(first, limit)
        self.warm_up_seconds = time.perf_counter() - start

    def rehearse(self, draws: Sequence[np.ndarray], device: str) -> None:
        """Do the work of all turns, untimed, `rehearsals` times."""
        work = self.work
        if work is None or self.rehearsals == 0:
            return

        def all_turns() -> None:
            for _ in range(self.rehearsals):
                for chosen in draws:
                    work(chosen[: self.steps, : self.models])

        self.warm_up_seconds += timed(lambda: self._attempt(all_turns, WARM_UP_LIMIT), device)

    def turn(self, chosen: np.ndarray, device: str) -> None:
        """Time the first steps of this work."""
        work, own = self.work, chosen[: self.steps, : self.models]
        if work is not None:
            self._attempt(lambda: self.times.append(timed(lambda: work(own), device)), TURN_LIMIT)

    def _attempt(self, work: Callable[[], object], limit: float) -> None:
        self.failed = trouble(work, limit)
        if self.failed is not None:
            self.work = None
            if torch.cuda.is_available():
                torch.cuda.empty_cache()

    def result(self, batch: int) -> dict[str, Any]:
        """Graphs per second over all turns for this batch size, the median ms per step, and MiB."""
        if self.failed is not None:
            return {"failed": self.failed}
        graphs = batch * self.models * self.steps * len(self.times)
        return {
            "rate": round(graphs / sum(self.times), 1),
            "ms": round(1e3 * float(np.median(self.times)) / self.steps, 3),
            "mib": None if self.mib is None else round(self.mib, 1),
            "reserved": None if self.reserved is None else round(self.reserved, 1),
            "steps": self.steps,
            "warm_up_s": round(self.warm_up_seconds, 1),
        }


def contest(
    entrants: Mapping[str, Entrant],
    draws: Sequence[np.ndarray],
    device: str,
    seconds: float,
    limits: Mapping[str, float] | None = None,
) -> dict[str, dict[str, Any]]:
    """The results of all competitors: the first draw is for warm-up, and each has a turn with every later one.

    `seconds` is the approximate time of all turns of a competitor. `limits` overrides the seconds for its warm-up.
    """
    limits = limits or {}
    for name, entrant in entrants.items():
        limit = limits.get(name, WARM_UP_LIMIT)
        entrant.warm_up(draws[0], device, limit, seconds / max(len(draws) - 1, 1))
        entrant.rehearse(draws[1:], device)
    for chosen in draws[1:]:
        for entrant in entrants.values():
            entrant.turn(chosen, device)
    return {name: entrant.result(draws[0].shape[2]) for name, entrant in entrants.items()}


def draw(
    rng: np.random.Generator, graphs: int, shape: tuple[int, int, int], count: int
) -> list[np.ndarray]:
    """`count` pieces of work [steps, M, B]; a graph occurs at most once in a batch."""
    steps, models, batch = shape
    return [
        np.stack(
            [
                [rng.choice(graphs, batch, replace=False) for _ in range(models)]
                for _ in range(steps)
            ]
        )
        for _ in range(count)
    ]


def tidy() -> None:
    """Release what the last contest left behind: worker processes, compiled programs, memory."""
    gc.collect()
    torch.compiler.reset()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def quotient(a: Any, b: Any) -> float | None:
    """The quotient rounded to one digit; None unless both were measured."""
    return round(a / b, 1) if isinstance(a, int | float) and isinstance(b, int | float) else None
