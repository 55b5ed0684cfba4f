"""A small trained model, its graphs, and their page."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from diffpool import RawGraphs
from diffpool.data.categories import Categories
from diffpool.experiments import settings_for, train_once

# Names that would add elements or run scripts, if the page took them for markup.
HOSTILE = (
    "<img src=x onerror=document.title='hacked'>",
    "</script><script>document.title='hacked'</script>",
    "\"'><svg onload=document.title='hacked'>",
)


def rings(count: int = 24, targets: bool = False) -> RawGraphs:
    """Two rings with a bridge, of different sizes, with weights, hostile labels, ids and classes."""
    rng = np.random.default_rng(0)
    source, target, sizes, start = [], [], [], 0
    for graph in range(count):
        first, second = 4 + graph % 5, 5 + graph % 3
        for size in (first, second):
            ring = np.arange(size)
            source += (start + ring).tolist()
            target += (start + (ring + 1) % size).tolist()
            start += size
        source.append(start - second)
        target.append(start - second - 1)
        sizes.append(first + second)
    labels = np.array([HOSTILE[node % 3] for node in range(start)])
    classes = np.array([HOSTILE[graph % 2] for graph in range(count)])
    answers = (
        {"targets": rng.random((count, 1))}
        if targets
        else {"classes": Categories.from_values(classes)}
    )
    return RawGraphs.from_edges(
        HOSTILE[0],
        sizes,
        np.array(source),
        np.array(target),
        one_way=True,
        edge_weights=rng.random(len(source)) + 0.5,
        node_labels=Categories.from_values(labels),
        node_attributes=rng.random((start, 3)),
        columns={
            "id": [f"{HOSTILE[graph % 3]}{graph}" for graph in range(count)],
            HOSTILE[1]: [HOSTILE[2]] * count,
        },
        **answers,
    )


def train(folder: Path, raw: RawGraphs, method: str = "diffpool", poolings: int = 2) -> Path:
    """A model directory."""
    from diffpool.data import GraphDataset

    settings = {} if method != "diffpool" else {"poolings": poolings}
    chosen = settings_for(method, raw.name, epochs=2, hidden=8, seed=1, **settings)
    train_once(chosen, GraphDataset.from_raw(raw), folder)
    return folder
