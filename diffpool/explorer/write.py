"""`explore`: write the page about a model and graphs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from diffpool.data import GraphDataset, RawGraphs
from diffpool.data.categories import Categories, common_type
from diffpool.errors import DataError, SettingError, did_you_mean
from diffpool.explorer.collect import Collection
from diffpool.explorer.effects import CHOICES
from diffpool.explorer.page import packed, page
from diffpool.explorer.plane import METHODS, plane
from diffpool.explorer.run_files import read_curves, read_split
from diffpool.files import atomic_write
from diffpool.training import as_trained_model

MAX_GRAPHS, MAX_NODES, MAX_MEGABYTES = 5000, 10_000, 100


@dataclass(frozen=True)
class Written:
    """What is on a page."""

    path: Path
    graphs: int
    total: int  # graphs in the data
    too_large: int  # graphs that are listed, but not drawn
    bytes: int


def explore(
    model: Any,
    graphs: Any,
    out: str | Path,
    *,
    directory: str | Path | None = None,
    max_graphs: int = MAX_GRAPHS,
    max_nodes: int = MAX_NODES,
    max_megabytes: float = MAX_MEGABYTES,
    embedding: str = "pca",
    effects: str = "leave-out",
    watch: Callable[[int], None] = lambda count: None,
) -> Written:
    """Write one HTML file that shows how a model pools and classifies graphs. It opens from disk, without a network.

    Args:
        model: A fitted estimator, a `TrainedModel` or a model directory.
        graphs: Graphs in any form that the model can read, or a `GraphDataset`.
        out: The file to write.
        directory: The model directory of a `TrainedModel`. The page shows its training curves, and which of the graphs
            the model was trained on.
        max_graphs: Maximum number of graphs; of more, the page shows a sample at even distances.
        max_nodes: Maximum number of nodes of a graph that is drawn; larger ones are only listed.
        max_megabytes: Maximum size of the file.
        embedding: How the embeddings of the graphs are projected: `pca` or `tsne`.
        effects: How the share of each cluster in the prediction is computed: `leave-out`, `keep` or `gradients`, as by
            `diffpool.explain`, or `none`. Graphs with more than 1,000 nodes, and models that cannot be explained, have
            no shares.
        watch: Called with the number of graphs that were added to the page.
    """
    for name, value in (("max_graphs", max_graphs), ("max_nodes", max_nodes)):
        if value < 1:
            raise SettingError(f"expected {name} to be at least 1, got {value}")
    if not max_megabytes > 0:
        raise SettingError(f"expected max_megabytes to be above 0, got {max_megabytes}")
    for name, chosen, known in (("embedding", embedding, METHODS), ("effects", effects, CHOICES)):
        if chosen not in known:
            words = f"{', '.join(known[:-1])} or {known[-1]}"
            raise SettingError(
                f"expected {name} to be {words}, got {chosen!r}{did_you_mean(chosen, known)}"
            )
    if directory is None and isinstance(model, str | Path):
        directory = model
    trained = as_trained_model(model)
    raw = trained.read(with_answers(graphs))
    total = len(raw)
    if not total:
        raise DataError("expected at least one graph, got none: add graphs")
    split = None if directory is None else read_split(Path(directory), raw.name, total)
    numbers = np.arange(total)
    if total > max_graphs:
        numbers = np.linspace(0, total - 1, max_graphs).round().astype(np.int64)
        raw = raw.select(numbers)
    collection = Collection(trained, raw, max_nodes, effects, watch)
    limit, size = max_megabytes * 1e6, 0
    found: list[str | None] = []
    for graph in collection.details():
        found.append(None if graph is None else packed(graph))
        size += len(found[-1] or "")
        if size > limit:
            raise SettingError(
                f"expected a page of at most {max_megabytes:g} MB, but {len(found)} of {len(raw)} graphs already take "
                f"more: show fewer graphs (max_graphs, now {max_graphs}), leave out large ones (max_nodes, now "
                f"{max_nodes}) or allow a larger file (max_megabytes)"
            )
    overview = collection.overview() | {
        "numbers": numbers.tolist(),
        "total": total,
        "split": None if split is None else [split[number] for number in numbers],
        "curves": None if directory is None else read_curves(Path(directory)),
        "embedding": embedding,
        "plane": np.round(plane(np.stack(collection.embedding), embedding), 4).T.tolist(),
    }
    path = Path(out)
    title = f"{overview['data']} · {overview['model']['method']}"
    with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        for part in page(title, overview, found):
            file.write(part)
    return Written(path, len(raw), total, found.count(None), path.stat().st_size)


def with_answers(graphs: Any) -> Any:
    """A `GraphDataset` as raw graphs with its classes or targets; anything else unchanged."""
    if not isinstance(graphs, GraphDataset):
        return graphs
    raw: RawGraphs = graphs.as_raw()
    if graphs.regression:
        return replace(raw, targets=graphs.y.cpu().double().numpy())
    codes = graphs.y.cpu().numpy().astype(np.int32)[:, None]
    names = tuple(str(name) for name in graphs.class_names)
    return replace(raw, classes=Categories(codes, (names,), common_type(graphs.class_names)))
