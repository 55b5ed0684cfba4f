from diffpool.viz.clusters import draw_clusters

__all__ = ["draw_clusters"]
