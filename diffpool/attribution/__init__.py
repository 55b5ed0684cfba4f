"""Why a model predicts a class: scores of clusters, nodes and edges at every level. Names are imported on first use."""

from typing import TYPE_CHECKING

from diffpool.lazy import lazy_names

if TYPE_CHECKING:
    from diffpool.attribution.collection import METHODS, explain, iter_explanations
    from diffpool.attribution.explanation import Explanation, LevelScores, spread
    from diffpool.attribution.gated import GatedGraphs
    from diffpool.attribution.gradients import LevelGradients, integrated_gradients
    from diffpool.attribution.inputs import LevelInputs
    from diffpool.attribution.subgraphs import induced, subgraph_outputs

__all__ = [
    "METHODS",
    "Explanation",
    "GatedGraphs",
    "LevelGradients",
    "LevelInputs",
    "LevelScores",
    "explain",
    "induced",
    "integrated_gradients",
    "iter_explanations",
    "spread",
    "subgraph_outputs",
]

__getattr__ = lazy_names(
    __name__,
    {
        "collection": "METHODS explain iter_explanations",
        "explanation": "Explanation LevelScores spread",
        "gated": "GatedGraphs",
        "gradients": "LevelGradients integrated_gradients",
        "inputs": "LevelInputs",
        "subgraphs": "induced subgraph_outputs",
    },
)
