"""One run of a kernel with an SVM between its data and its records: it may end at any moment and go on later."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from diffpool.baselines.graph_kernels import gram_matrices
from diffpool.baselines.graph_kernels.svm import best_choice, quiet, right_by_cost
from diffpool.data import Fold, RawGraphs, stratified_folds
from diffpool.experiments.kernel_status import Grams, KernelStatus, KernelWatch, MakeGrams
from diffpool.experiments.methods import KernelMethod
from diffpool.experiments.origin import device_name, peak_memory, versions
from diffpool.experiments.protocols import InnerCV
from diffpool.experiments.recorded import FoldResult, Heading, Place, RunRecords
from diffpool.experiments.run_key import KERNEL_PACKAGES, kernel_run_key
from diffpool.experiments.tasks import STAGES, derived_seed, places
from diffpool.experiments.threads import in_threads

CPU = torch.device("cpu")


@dataclass(frozen=True, eq=False)
class Part:
    """The training graphs of an outer fold, and the parts of them that are held out in turn."""

    graphs: np.ndarray
    held_out: tuple[np.ndarray, ...]
    test: np.ndarray

    def trained(self) -> int:
        """Graphs that the inner fits of one C and h train on."""
        return (len(self.held_out) - 1) * len(self.graphs)


def make_part(y: np.ndarray, fold: Fold, seed: int, count: int) -> Part:
    """Training and validation graphs of a fold are one training part, divided into `count` stratified parts."""
    graphs = np.union1d(fold.train, fold.validation)
    inner = stratified_folds(y[graphs], seed, count)
    return Part(graphs, tuple(graphs[own.test] for own in inner), fold.test)


class KernelRun:
    """The Gram matrices, then fold by fold the choice of C and h, the test, the record."""

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
        heading = Heading(
            key=kernel_run_key(method, protocol, raw, folds, seed),
            method=method.name,
            dataset=raw.name,
            features=method.without_labels if raw.node_labels is None else "node labels",
            protocol=protocol.name,
            seed=seed,
            device=device_name(CPU),
            versions=versions(*KERNEL_PACKAGES),
        )
        self.records = RunRecords(out, heading, places(folds))
        self.points = len(method.depths) * len(method.costs)
        self.fits = self.fitted = 0
        self.start = self.last = 0.0

    def run(self, jobs: int, make_grams: MakeGrams | None = None) -> None:
        """Compute the Gram matrices, then go through the folds that are not recorded, `jobs` fits at a time."""
        self.records.read()
        parts = {place: self._part(place) for place in self.records.missing}
        if not parts:
            return
        self.fits = sum(self.points * len(part.held_out) for part in parts.values())
        start = time.perf_counter()
        make_grams = make_grams or gram_matrices
        grams = make_grams(self.method.name, self.raw, lambda share: self._tell(share, None))
        self.start = self.last = time.perf_counter()
        share = (self.start - start) / len(parts)  # of the Gram matrices' time
        calls = {
            (place, depth, number): partial(self._right, grams[depth], part, number)
            for place, part in parts.items()
            for depth in self.method.depths
            for number in range(len(part.held_out))
        }
        with quiet(), in_threads(list(calls.values()), jobs) as futures:
            by_place: dict[Place, dict[int | None, list[Future[list[int]]]]] = {}
            for (place, depth, _), future in zip(calls, futures, strict=True):
                by_place.setdefault(place, {}).setdefault(depth, []).append(future)
            for place, part in parts.items():
                right = self._collect(by_place[place])
                self.records.add([self._result(place, part, grams, right, share)])

    def _part(self, place: Place) -> Part:
        repeat, fold = place
        seed = derived_seed(self.seed, STAGES.index("inner"), repeat, fold)
        return make_part(self.y, self.folds[repeat][fold], seed, self.protocol.folds)

    def _right(self, gram: np.ndarray, part: Part, number: int) -> list[int]:
        held_out = part.held_out[number]
        train = np.setdiff1d(part.graphs, held_out)
        return right_by_cost(gram, self.y, train, held_out, self.method.costs)

    def _collect(
        self, by_depth: Mapping[int | None, list[Future[list[int]]]]
    ) -> dict[tuple[int | None, float], int]:
        """Held-out graphs predicted right, of all inner folds, by h and C."""
        right: Counter[tuple[int | None, float]] = Counter()
        for depth, futures in by_depth.items():
            for future in futures:
                for cost, count in zip(self.method.costs, future.result(), strict=True):
                    right[depth, cost] += count
                self.fitted += len(self.method.costs)
                self._tell(1.0, self._seconds_left())
        return dict(right)

    def _result(
        self,
        place: Place,
        part: Part,
        grams: Grams,
        right: Mapping[tuple[int | None, float], int],
        gram_seconds: float,
    ) -> FoldResult:
        choice = best_choice(right)
        gram, cost = grams[choice.depth], choice.cost
        (correct,) = right_by_cost(gram, self.y, part.graphs, part.test, [cost])
        now = time.perf_counter()
        seconds, self.last = now - self.last + gram_seconds, now
        details: dict[str, Any] = {"C": cost}
        if choice.depth is not None:
            details["h"] = choice.depth
        details["inner_accuracy"] = 100 * choice.correct / len(part.graphs)
        graphs = self.points * part.trained() + len(part.graphs)
        return FoldResult(
            repeat=place[0],
            fold=place[1],
            settings=self.method.settings(),
            accuracy=100 * correct / len(part.test),
            epoch=None,
            parameters=None,
            seconds=seconds,
            graphs_per_second=graphs / max(seconds, 1e-9),
            peak_memory=peak_memory(CPU),
            details=details,
        )

    def _seconds_left(self) -> float:
        return (time.perf_counter() - self.start) * (self.fits - self.fitted) / self.fitted

    def _tell(self, gram: float, seconds_left: float | None) -> None:
        status = KernelStatus(
            gram=gram,
            fits=self.fits,
            fitted=self.fitted,
            folds=len(self.records.places),
            records=tuple(self.records.found),
            seconds_left=seconds_left,
        )
        self.watch(status)
