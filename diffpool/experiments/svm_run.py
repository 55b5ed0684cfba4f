"""The run of a graph kernel with an SVM. It may be killed at any time, and continues after the last recorded fold.

This module imports scikit-learn, which is slow: import it only where a kernel is evaluated.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

import numpy as np
import torch

from diffpool.baselines.graph_kernels import gram_matrices
from diffpool.baselines.graph_kernels.svm import best_choice, quiet, right_by_cost
from diffpool.cores import usable_cores
from diffpool.data import Fold, RawGraphs, stratified_folds
from diffpool.experiments.methods import KernelMethod
from diffpool.experiments.plan import FoldIndex, derived_seed, fold_indices
from diffpool.experiments.protocols import InnerCV
from diffpool.experiments.provenance import (
    KERNEL_PACKAGES,
    commit,
    device_name,
    kernel_run_key,
    peak_memory,
    versions,
)
from diffpool.experiments.records import Heading, Record, RunRecords
from diffpool.experiments.status import KernelStatus, KernelWatch

CPU = torch.device("cpu")
T = TypeVar("T")

Grams = Mapping[int | None, np.ndarray]  # [B, B] by h; None for a kernel without h

# Computes the Gram matrices of the kernel with this name; reports the share computed so far.
MakeGrams = Callable[[str, RawGraphs, Callable[[float], None] | None], Grams]


@dataclass(frozen=True, eq=False)
class Part:
    """The training graphs of an outer fold, and the inner parts of them that are held out in turn."""

    graphs: np.ndarray
    held_out: tuple[np.ndarray, ...]
    test: np.ndarray

    def trained(self) -> int:
        """Number of training graphs of the inner fits for one C and h, added up."""
        return (len(self.held_out) - 1) * len(self.graphs)


def make_part(y: np.ndarray, fold: Fold, seed: int, count: int) -> Part:
    """Join the training and validation graphs of a fold and divide them into `count` stratified inner parts."""
    graphs = np.union1d(fold.train, fold.validation)
    inner = stratified_folds(y[graphs], seed, count)
    return Part(graphs, tuple(graphs[part.test] for part in inner), fold.test)


class SvmRun:
    """Computes the Gram matrices; then, fold by fold, chooses C and h, tests, and records."""

    def __init__(
        self,
        method: KernelMethod,
        protocol: InnerCV,
        raw: RawGraphs,
        folds: tuple[tuple[Fold, ...], ...],
        seed: int,
        out: Path,
        watch: KernelWatch,
    ):
        assert raw.classes is not None
        self.method, self.protocol, self.raw, self.watch = method, protocol, raw, watch
        self.folds, self.seed = folds, seed
        self.y = raw.classes.codes[:, 0].astype(np.int64)
        self.heading = Heading(
            key=kernel_run_key(method, protocol, raw, folds, seed),
            method=method.name,
            dataset=raw.name,
            features=method.without_labels if raw.node_labels is None else "node labels",
            protocol=protocol.name,
            seed=seed,
            commit=commit(),
            device=device_name(CPU),
            versions=versions(*KERNEL_PACKAGES),
        )
        self.records = RunRecords(out, self.heading, fold_indices(folds))
        self.points = len(method.depths) * len(method.costs)
        self.fits = self.fitted = 0
        self.start = self.last = 0.0

    def run(self, jobs: int | None = None, make_grams: MakeGrams | None = None) -> None:
        """Evaluate the folds that are not recorded, `jobs` fits at a time (default: the number of cores)."""
        self.records.read()
        parts = {index: self._part(index) for index in self.records.missing}
        if not parts:
            return
        self.fits = sum(self.points * len(part.held_out) for part in parts.values())
        start = time.perf_counter()
        make_grams = make_grams or gram_matrices
        grams = make_grams(self.method.name, self.raw, lambda share: self._report(share, None))
        self.start = self.last = time.perf_counter()
        gram_seconds = (self.start - start) / len(parts)  # the share of each fold
        calls = {
            (index, depth, number): partial(self._count_correct, grams[depth], part, number)
            for index, part in parts.items()
            for depth in self.method.depths
            for number in range(len(part.held_out))
        }
        with quiet(), in_threads(list(calls.values()), jobs or usable_cores()) as futures:
            by_fold: dict[FoldIndex, dict[int | None, list[Future[list[int]]]]] = {}
            for (index, depth, _), future in zip(calls, futures, strict=True):
                by_fold.setdefault(index, {}).setdefault(depth, []).append(future)
            for index, part in parts.items():
                correct = self._collect(by_fold[index])
                self.records.add([self._make_record(index, part, grams, correct, gram_seconds)])

    def _part(self, index: FoldIndex) -> Part:
        repeat, fold = index
        seed = derived_seed(self.seed, "inner", repeat, fold)
        return make_part(self.y, self.folds[repeat][fold], seed, self.protocol.folds)

    def _count_correct(self, gram: np.ndarray, part: Part, number: int) -> list[int]:
        held_out = part.held_out[number]
        train = np.setdiff1d(part.graphs, held_out)
        return right_by_cost(gram, self.y, train, held_out, self.method.costs)

    def _collect(
        self, by_depth: Mapping[int | None, list[Future[list[int]]]]
    ) -> dict[tuple[int | None, float], int]:
        """Number of held-out graphs predicted correctly, over all inner parts, by h and C."""
        correct: Counter[tuple[int | None, float]] = Counter()
        for depth, futures in by_depth.items():
            for future in futures:
                for cost, count in zip(self.method.costs, future.result(), strict=True):
                    correct[depth, cost] += count
                self.fitted += len(self.method.costs)
                self._report(1.0, self._seconds_left())
        return dict(correct)

    def _make_record(
        self,
        index: FoldIndex,
        part: Part,
        grams: Grams,
        correct: Mapping[tuple[int | None, float], int],
        gram_seconds: float,
    ) -> Record:
        choice = best_choice(correct)
        gram, cost = grams[choice.depth], choice.cost
        (test_correct,) = right_by_cost(gram, self.y, part.graphs, part.test, [cost])
        now = time.perf_counter()
        seconds, self.last = now - self.last + gram_seconds, now
        details: dict[str, Any] = {"C": cost}
        if choice.depth is not None:
            details["h"] = choice.depth
        details["inner_accuracy"] = 100 * choice.correct / len(part.graphs)
        graphs = self.points * part.trained() + len(part.graphs)
        return Record(
            **vars(self.heading),
            repeat=index[0],
            fold=index[1],
            settings=self.method.settings(),
            accuracy=100 * test_correct / len(part.test),
            epoch=None,
            parameters=None,
            seconds=seconds,
            graphs_per_second=graphs / max(seconds, 1e-9),
            peak_memory=peak_memory(CPU),
            details=details,
        )

    def _seconds_left(self) -> float:
        return (time.perf_counter() - self.start) * (self.fits - self.fitted) / self.fitted

    def _report(self, gram: float, seconds_left: float | None) -> None:
        status = KernelStatus(
            gram=gram,
            fits=self.fits,
            fitted=self.fitted,
            folds=len(self.records.folds),
            records=tuple(self.records.found),
            seconds_left=seconds_left,
        )
        self.watch(status)


@contextmanager
def in_threads(calls: Sequence[Callable[[], T]], jobs: int) -> Iterator[list[Future[T]]]:
    """Make the calls in this order in `jobs` threads; yields their futures. LIBSVM releases Python's global lock.

    Calls not started by the end of the block are not made. The threads are daemons: an interrupted process does
    not wait for them (a fit may take half a minute).
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
            except BaseException as error:  # raised again where the result is used
                future.set_exception(error)

    for _ in range(min(jobs, len(calls))):
        Thread(target=work, daemon=True).start()
    try:
        yield futures
    finally:
        waiting.clear()
