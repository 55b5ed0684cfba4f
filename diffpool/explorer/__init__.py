"""An interactive page about a trained model and its graphs, as one HTML file. Names are imported on first use."""

from typing import TYPE_CHECKING

from diffpool.lazy import lazy_names

if TYPE_CHECKING:
    from diffpool.explorer.live import Live
    from diffpool.explorer.write import Written, explore

__all__ = ["Live", "Written", "explore"]

__getattr__ = lazy_names(__name__, {"live": "Live", "write": "Written explore"})
