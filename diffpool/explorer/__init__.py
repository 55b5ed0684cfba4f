"""Interactive pages: a model and its graphs, a training, results. Names are imported on first use."""

from typing import TYPE_CHECKING

from diffpool.lazy import lazy_names

if TYPE_CHECKING:
    from diffpool.explorer.live import Live
    from diffpool.explorer.results import results_page
    from diffpool.explorer.write import Written, explore

__all__ = ["Live", "Written", "explore", "results_page"]

__getattr__ = lazy_names(
    __name__, {"live": "Live", "results": "results_page", "write": "Written explore"}
)
