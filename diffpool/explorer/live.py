"""The page of a model in training: the clusters of some validation graphs, which change after the epochs.

`Live` is a callback that also sees the model. In the thread of the training, it only runs the network on these graphs,
as often as a small share of the time permits. Drawings are made when a browser asks for them. Training does not
depend on any of this: its result is the same to the bit.
"""

from __future__ import annotations

import json
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from diffpool.data import Fold, GraphDataset, RawGraphs
from diffpool.errors import ModelError
from diffpool.explorer.collect import Collection, matrices, used_clusters
from diffpool.explorer.page import document, embedded, overview_element
from diffpool.explorer.plane import next_plane
from diffpool.explorer.run_files import curves_of
from diffpool.explorer.server import LocalServer, Reply
from diffpool.explorer.steady import Steady
from diffpool.explorer.write import with_answers

if TYPE_CHECKING:
    from diffpool.training import Epoch, TrainedModel

MAX_GRAPHS, MAX_NODES = 200, 1000  # graphs on the page; larger ones are listed, but not drawn
PART = 50  # graphs that go through the network at a time
SHARE = 0.02  # of the time of training that the page may take, with its drawings
LINGER = 1.5  # seconds that the server waits at the end, for a page that asks every second

Drawn = tuple[list[np.ndarray], list[np.ndarray]]  # S of every pooling, A' of every coarser level


@dataclass(frozen=True, eq=False)
class Snapshot:
    """What the model computes for the graphs on the page, after one epoch."""

    version: int
    epoch: int
    collection: Collection
    drawn: list[Drawn | None]  # None for a graph that is too large


class Live:
    """Serves a page while a model is trained: a callback for `train_once`, `fit` and the estimators.

        with Live(print) as live:
            outcome = train_once(method, dataset, callbacks=[live])
            live.end(outcome.trained)

    `announce` is called once, with the address. The page has up to 200 validation graphs, at even distances.

    Args:
        epochs: The maximum number of epochs, if the page is to show it.
        port: The port to listen on; 0: any free one.
        share: Maximum share of the time that running the network for the page takes.
    """

    def __init__(
        self,
        announce: Callable[[str], object],
        epochs: int | None = None,
        port: int = 0,
        share: float = SHARE,
    ):
        self.epochs, self.share = epochs, share
        self._read: RawGraphs | None = None
        self._announce, self._server = announce, LocalServer(self._answer, port)
        self._rows: list[Epoch] = []
        self._state = "training"  # or ended, stopped, failed
        self._model: Callable[[], TrainedModel] | None = None
        self._snapshot: Snapshot | None = None
        self._next = 0.0  # when the network may run again
        self._asked = self._ended = -1e9
        self._lock = threading.Lock()  # of what follows, which belongs to the threads of the server
        self._texts: dict[int | str, tuple[int, str]] = {}
        self._places: dict[int, np.ndarray] = {}
        self._steady = Steady()
        self._axes: np.ndarray | None = None  # of the embeddings: [D, 2]

    @property
    def url(self) -> str:
        return self._server.url

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self.end()
        seen = kind is None and self._ended - self._asked < 2 * LINGER
        if seen:  # a page is open: it asks for the end
            time.sleep(max(0.0, self._ended + LINGER - time.monotonic()))
        self._server.close()

    def names_from(self, raw: RawGraphs) -> None:
        """Show the graphs of the data set as they were read, with their labels and names."""
        self._read = raw

    def begin(self, model: Callable[[], TrainedModel], dataset: GraphDataset, fold: Fold) -> None:
        """Show the model before its next epoch, and announce the address."""
        has_validation = len(fold.validation) > 0
        self._part = "validation graph" if has_validation else "graph"
        chosen = np.sort(fold.validation) if has_validation else np.arange(len(dataset))
        self._total = len(chosen)
        if len(chosen) > MAX_GRAPHS:
            chosen = chosen[np.linspace(0, len(chosen) - 1, MAX_GRAPHS).round().astype(np.int64)]
        first = model()
        if self._read is None:
            self._graphs = with_answers(_selected(dataset, chosen))
        else:
            self._graphs = first.read(self._read.select(chosen))
        self._numbers, self._read = chosen.tolist(), None
        self._edges = self._graphs if first.card.directed else self._graphs.undirected()
        starts = range(0, len(chosen), PART)
        self._inputs = [dataset.batch(chosen[start : start + PART]) for start in starts]
        self._model = model
        self._renew(lambda: first)
        self._next = 0.0  # it is slower than those during training
        if self._snapshot is not None:
            self._server.start()
            self._announce(self.url)

    def __call__(self, row: Epoch) -> None:
        """Show the model after an epoch, unless this took too much of the time."""
        self._rows.append(row)
        if self._model is not None and time.monotonic() >= self._next:
            self._renew(self._model)

    def end(self, model: TrainedModel | None = None, stopped: bool = False) -> None:
        """Training has ended, or was `stopped`. Show the `model` that was kept from now on."""
        if self._state not in ("training", "failed"):
            return
        if model is not None and self._model is not None:
            self._renew(lambda: model.members[0])
        self._state = "stopped" if stopped or model is None else "ended"
        self._ended = time.monotonic()

    def wait(self) -> None:
        """Serve the page until Ctrl-C."""
        with suppress(KeyboardInterrupt):
            while True:
                time.sleep(3600)

    def _renew(self, model: Callable[[], TrainedModel]) -> None:
        """A new snapshot. What goes wrong does not end training."""
        start = time.monotonic()
        try:
            self._snapshot = self._look(model())
            if self._snapshot.version == 1:  # imports: before training, not during it
                self._text("overview", self._snapshot)
        except Exception as error:
            self._model, self._state = None, "failed"
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            warnings.warn(
                f"the page shows no more changes ({reason}); training continues", stacklevel=2
            )
        self._pause(start)

    def _pause(self, start: float) -> None:
        """Put off the next snapshot, so that what has been done since `start` is a small share of the time."""
        now = time.monotonic()
        self._next = max(self._next, now) + (now - start) * (1 / self.share - 1)

    def _look(self, model: TrainedModel) -> Snapshot:
        """Run the network on the graphs of the page."""
        found = Collection(model, self._graphs, MAX_NODES, places=self._places, keeps_places=True)
        drawn: list[Drawn | None] = []
        outputs = []
        for batch in self._inputs:
            prediction = model.prediction(batch.graphs, batch.x)
            outputs.append(model.scaled(prediction.logits.cpu()).double().numpy())
            for index, vector in enumerate(prediction.embedding.cpu().numpy()):
                number = len(drawn)
                assignments, coarser = matrices(prediction, index, self._numbers[number])
                found.embedding.append(vector)
                found.allowed.append([int(g.layout.sizes[index]) for g in prediction.graphs[1:]])
                found.used.append(used_clusters(assignments))
                drawn.append((assignments, coarser) if found.is_drawn(number) else None)
        found.outputs = np.concatenate(outputs)
        if not np.isfinite(found.outputs).all():
            raise ModelError("expected finite outputs of the model, got NaN or infinity")
        version = 1 if self._snapshot is None else self._snapshot.version + 1
        return Snapshot(version, len(self._rows), found, drawn)

    def _answer(self, address: str) -> Reply | None:
        """The page (""), a graph (`graph/N`), or what is new (`news/VERSION/N`); see web/src/live.ts."""
        kind, *words = address.split("/")
        state, snapshot = (
            self._state,
            self._snapshot,
        )  # in this order: the end comes with the last snapshot
        assert snapshot is not None
        if address == "":
            return self._page(snapshot)
        if not all(word.isascii() and word.isdecimal() and len(word) < 10 for word in words):
            return None
        numbers = [int(word) for word in words]
        if (kind, len(numbers)) not in (("graph", 1), ("news", 2)):
            return None
        if numbers[-1] >= len(snapshot.drawn):
            return None
        self._asked = time.monotonic()
        parts = {"status": json.dumps(self._status(snapshot, state))}
        if kind == "graph" or numbers[0] != snapshot.version:
            parts["graph"] = self._text(numbers[-1], snapshot)
            if kind == "news":
                parts["overview"] = self._text("overview", snapshot)
        return Reply(("{" + ",".join(f'"{k}":{v}' for k, v in parts.items()) + "}").encode())

    def _status(self, snapshot: Snapshot, state: str) -> dict[str, object]:
        """What the page says about the training."""
        return {
            "version": snapshot.version,
            "epoch": snapshot.epoch,
            "done": len(self._rows),
            "epochs": self.epochs,
            "part": self._part,
            "state": state,
        }

    def _page(self, snapshot: Snapshot) -> Reply:
        overview = json.loads(self._text("overview", snapshot))
        overview["live"] = self._status(snapshot, self._state)
        title = f"{overview['data']} · {overview['model']['method']} · training"
        found = document(live=True)
        content = "".join(found.parts(title, [overview_element(overview)]))
        policy = f"{found.policy}; frame-ancestors 'none'"
        return Reply(content.encode(), "text/html", policy)

    def _text(self, what: int | str, snapshot: Snapshot) -> str:
        """The overview, or the details of a graph, as JSON."""
        with self._lock:
            version, text = self._texts.get(what, (0, ""))
            if version < snapshot.version:
                start = time.monotonic()
                value = (
                    self._overview(snapshot)
                    if isinstance(what, str)
                    else self._graph(what, snapshot)
                )
                text = embedded(value)
                self._texts[what] = (snapshot.version, text)
                self._pause(start)
            return text

    def _overview(self, snapshot: Snapshot) -> object:
        found = snapshot.collection
        points, self._axes = next_plane(np.stack(found.embedding), self._axes)
        rows = self._rows[: snapshot.epoch]
        return found.overview() | {
            "numbers": self._numbers,
            "total": self._total,
            "split": None,
            "curves": curves_of([asdict(row) for row in rows]),
            "embedding": "pca",
            "plane": np.round(points, 4).T.tolist(),
        }

    def _graph(self, number: int, snapshot: Snapshot) -> object:
        drawn, found = snapshot.drawn[number], snapshot.collection
        if drawn is None:
            return None
        graph, _ = found.draw(self._edges, number, *drawn)
        self._steady.paint(number, graph["levels"])
        return graph


def _selected(dataset: GraphDataset, graphs: np.ndarray) -> GraphDataset:
    """A data set of these graphs."""
    batch = dataset.batch(graphs)
    return GraphDataset(
        name=dataset.name,
        graphs=batch.graphs,
        x=batch.x,
        y=batch.y,
        class_names=dataset.class_names,
        features=dataset.features,
        directed=dataset.directed,
    )
