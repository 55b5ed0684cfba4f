from diffpool.viz.clusters import draw_clusters
from diffpool.viz.tuning import draw_tuning

__all__ = ["draw_clusters", "draw_tuning"]
