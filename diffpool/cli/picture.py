"""The picture at the end of training: a test graph and its coarsened graphs."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from diffpool.errors import DiffPoolError

if TYPE_CHECKING:
    from diffpool.experiments import Outcome

MAX_DRAWN = 1000  # nodes; a larger graph takes longer to draw than to train on


def draw_test_graph(outcome: Outcome, picture: Path, shown: Console) -> Path | None:
    """Draw the first test graph with its clusters and return the file; without one, None after a remark why."""
    with suppress(OSError):
        picture.unlink(missing_ok=True)  # of an older model
    try:
        from diffpool.viz import draw_clusters
    except ImportError:
        shown.print(
            f"no picture: to get {picture.name}, run `pip install 'diffpool[plot]'`", markup=False
        )
        return None
    sizes = outcome.dataset.sizes
    suited = [g for g in outcome.fold.test.tolist() if 0 < sizes[g] <= MAX_DRAWN]
    if not suited:
        shown.print(f"no picture: no test graph has 1 to {MAX_DRAWN} nodes")
        return None
    batch = outcome.dataset.batch(suited[:1])
    try:
        model = outcome.trained.members[0].parts[0]  # of an ensemble: the first member
        draw_clusters(model, batch, picture, class_names=outcome.dataset.class_names)
    except OSError as error:
        shown.print(f"no picture: {picture} cannot be written ({error.strerror})")
        return None
    except DiffPoolError as error:
        shown.print(f"no picture: {error}")
        return None
    return picture
