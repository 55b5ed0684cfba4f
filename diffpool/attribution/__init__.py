"""Why a model predicts a class: scores of clusters, nodes and edges at every level. Names are imported on first use."""

from typing import TYPE_CHECKING

from diffpool.lazy import lazy_names

if TYPE_CHECKING:
    from diffpool.attribution.collection import explain, iter_explanations
    from diffpool.attribution.explanation import Explanation, LevelScores, first_choices, spread
    from diffpool.attribution.files import check_explanations_file, write_explanations
    from diffpool.attribution.gated import GatedGraphs
    from diffpool.attribution.gradients import LevelGradients, integrated_gradients
    from diffpool.attribution.inputs import LevelInputs
    from diffpool.attribution.names import METHODS
    from diffpool.attribution.subgraphs import induced, subgraph_outputs

__all__ = [
    "METHODS",
    "Explanation",
    "GatedGraphs",
    "LevelGradients",
    "LevelInputs",
    "LevelScores",
    "check_explanations_file",
    "explain",
    "first_choices",
    "induced",
    "integrated_gradients",
    "iter_explanations",
    "spread",
    "subgraph_outputs",
    "write_explanations",
]

__getattr__ = lazy_names(
    __name__,
    {
        "collection": "explain iter_explanations",
        "explanation": "Explanation LevelScores first_choices spread",
        "files": "check_explanations_file write_explanations",
        "gated": "GatedGraphs",
        "gradients": "LevelGradients integrated_gradients",
        "inputs": "LevelInputs",
        "names": "METHODS",
        "subgraphs": "induced subgraph_outputs",
    },
)
