"""Figures: clusters of graphs, training curves, accuracy and speed. Needs Matplotlib and NetworkX.

Names are imported on first use, so that modules without Matplotlib, such as `palette`, can be imported alone.
"""

from typing import TYPE_CHECKING, Any

from diffpool.lazy import lazy_names

if TYPE_CHECKING:
    from diffpool.viz.accuracy import draw_accuracy, draw_cluster_counts
    from diffpool.viz.cluster_numbers import draw_cluster_numbers
    from diffpool.viz.clusters import draw_clusters
    from diffpool.viz.curves import draw_curves, read_curves
    from diffpool.viz.figure import check_form
    from diffpool.viz.reproduced import draw_figures
    from diffpool.viz.runs import read_runs
    from diffpool.viz.scores import draw_scores
    from diffpool.viz.speed import draw_speed
    from diffpool.viz.tables import draw_table
    from diffpool.viz.tuning import draw_tuning

__all__ = [
    "check_form",
    "draw_accuracy",
    "draw_cluster_counts",
    "draw_cluster_numbers",
    "draw_clusters",
    "draw_curves",
    "draw_figures",
    "draw_scores",
    "draw_speed",
    "draw_table",
    "draw_tuning",
    "read_curves",
    "read_runs",
]

_get = lazy_names(
    __name__,
    {
        "accuracy": "draw_accuracy draw_cluster_counts",
        "cluster_numbers": "draw_cluster_numbers",
        "clusters": "draw_clusters",
        "curves": "draw_curves read_curves",
        "figure": "check_form",
        "reproduced": "draw_figures",
        "runs": "read_runs",
        "scores": "draw_scores",
        "speed": "draw_speed",
        "tables": "draw_table",
        "tuning": "draw_tuning",
    },
)


def __getattr__(name: str) -> Any:
    try:
        return _get(name)
    except ImportError as error:
        raise ImportError(
            f"figures need Matplotlib and NetworkX ({error.name} is missing): run `pip install 'diffpool[plot]'`",
            name=error.name,
        ) from error
