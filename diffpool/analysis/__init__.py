"""Measures of the clusters of a trained model (section 4.4 of the paper). Names are imported on first use."""

from typing import TYPE_CHECKING

from diffpool.lazy import lazy_names

if TYPE_CHECKING:
    from diffpool.analysis.collection import Analysis, Summary, analyze
    from diffpool.analysis.communities import agreement, modularity
    from diffpool.analysis.density import contraction, region_spread
    from diffpool.analysis.distance import pair_measures
    from diffpool.analysis.graph import Graph, graphs_of
    from diffpool.analysis.measures import measure
    from diffpool.analysis.usage import composed, usage_measures
    from diffpool.analysis.views import identifiability, view_colors

__all__ = [
    "Analysis",
    "Graph",
    "Summary",
    "agreement",
    "analyze",
    "composed",
    "contraction",
    "graphs_of",
    "identifiability",
    "measure",
    "modularity",
    "pair_measures",
    "region_spread",
    "usage_measures",
    "view_colors",
]

__getattr__ = lazy_names(
    __name__,
    {
        "collection": "Analysis Summary analyze",
        "communities": "agreement modularity",
        "density": "contraction region_spread",
        "distance": "pair_measures",
        "graph": "Graph graphs_of",
        "measures": "measure",
        "usage": "composed usage_measures",
        "views": "identifiability view_colors",
    },
)
