"""The sentences of section 4.4 of the paper about the learned clusters, each with the rule that decides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from diffpool.experiments.reproduce import rules
from diffpool.experiments.reproduce.rules import HOPS, LARGEST, SMALLEST, USUAL, Data, Found


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, what is measured, and the rule that decides for each seed whether it holds."""

    quote: str
    measured: str
    rule: Callable[[Data], Found] | None = None  # None if nothing is measured


_HIERARCHY = (
    Claim(
        "we investigated the extent to which DiffPool learns meaningful node clusters by visualizing the cluster "
        "assignments in different layers",
        "`diffpool train` draws such a figure, clusters.png; the rows below measure it",
    ),
    Claim(
        "Node cluster membership is determined by taking the argmax of its cluster assignment probabilities.",
        "entropy of the rows of S / log k; holds below 0.5; the argmax says little about a nearly uniform row",
        rules.hard,
    ),
    Claim(
        "even when learning cluster assignment based solely on the graph classification objective, DiffPool can still "
        "capture the hierarchical community structure",
        "adjusted Rand index with the planted (otherwise Louvain) communities, after each of two poolings: "
        "classification loss alone / before training; holds if training increases both",
        rules.communities,
    ),
    Claim(
        "significant improvement in membership assignment quality with link prediction auxiliary objectives",
        "adjusted Rand index, link weight 1 / 0; holds if higher with 1",
        rules.link_quality,
    ),
)
_DENSITY = (
    Claim(
        "DiffPool learns to collapse nodes into soft clusters in a non-uniform way",
        "effective number of clusters / number of used clusters; holds below 0.9",
        rules.uneven,
    ),
    Claim(
        "with a tendency to collapse densely-connected subgraphs into clusters",
        "number of distinct clusters compared with chance, dense / sparse parts; share of graphs in which it is lower "
        "for dense parts; holds if the share is above 50 %",
        rules.dense_collapse,
    ),
    Claim(
        "a tendency to collapse densely-connected subgraphs",
        "correlation over edges between the share of common neighbors and lying within a cluster (before training); "
        "holds above 0",
        rules.contraction,
    ),
    Claim(
        "GNNs can efficiently perform message-passing on dense, clique-like subgraphs (due to their small diameters)",
        f"mean diameter of dense parts; holds up to {HOPS}, the number of layers of the pooling network",
        rules.dense_diameter,
    ),
    Claim(
        "pooling together nodes in such a dense subgraph is not likely to lead to any loss of structural information",
        "share of adjacent pairs among the pairs of nodes pooled together, dense / sparse parts; holds if at least "
        "90 % in dense parts",
        rules.adjacent,
    ),
    Claim(
        "This intuitively explains why collapsing dense subgraphs is a useful pooling strategy",
        "rank correlation over models between that tendency (the correlation over edges) and the test accuracy; holds "
        "above 0 with p < 0.05",
        rules.useful,
    ),
    Claim(
        "given the high-diameter induced by sparsity, GNN message-passing may fail to capture these structures",
        f"mean diameter of dense / sparse parts; holds above {2 * HOPS} in sparse parts, where no node is within reach "
        "of both ends",
        rules.diameter,
    ),
    Claim(
        "by separately pooling distinct parts of a sparse subgraph, DiffPool can learn to capture the meaningful "
        "structures",
        "number of distinct clusters in sparse parts compared with chance (before training); holds from 1",
        rules.sparse_spread,
    ),
)
_SIMILARITY = (
    Claim(
        "nodes with both similar input features and neighborhood structure will have similar cluster assignment",
        "correlation over pairs of nodes between the difference of their neighborhoods and the difference of their "
        "rows of S; holds above 0",
        rules.similar,
    ),
    Claim(
        "will have similar cluster assignment",
        "difference between the neighborhoods / features of distant nodes in the same cluster, relative to those in "
        "different clusters; holds below 1 for neighborhoods",
        rules.alike,
    ),
    Claim(
        "2 nodes, although far away, have exactly the same neighborhood structure and features […] the pooling network "
        "is forced to assign them into the same cluster",
        "largest difference between their rows of S; holds below 0.001; also checked in `tests/analysis/test_views.py`",
        rules.twins,
    ),
    Claim(
        "In some cases we do observe that disconnected nodes are pooled together.",
        "share of used clusters whose nodes are not connected within the cluster; holds above 0",
        rules.disconnected,
    ),
    Claim(
        "nodes are identifiable via their features. This holds in many real datasets",
        "share of nodes that differ from all others in their graph, by features / by neighborhood; holds above 90 % by "
        "neighborhood",
        rules.identifiable,
    ),
    Claim(
        "some chemistry molecular graph datasets contain many nodes that are structurally similar, and assignment "
        "network is observed to pool together nodes that are far away",
        "not measured here, because the records contain no molecules; `diffpool analyze` measures it on any data",
    ),
    Claim(
        "The auxiliary link prediction objective is observed to also help discouraging nodes that are far away to be "
        "pooled together.",
        "share of distant pairs within clusters relative to all pairs, link weight 1 / 0; holds if lower with 1",
        rules.distance,
    ),
    Claim(
        "it is possible to use more sophisticated GNN aggregation function such as high-order moments to distinguish "
        "nodes that are similar in structure and feature space",
        "share of nodes that means / arbitrary aggregations can at best distinguish from all others; holds if the "
        "second is higher by at least one percentage point",
        rules.moments,
    ),
    Claim(
        "The overall framework remains unchanged.",
        "a property of the design; for example, `--conv gin`",
    ),
)
_NUMBERS = (
    Claim(
        "the assignment varies according to the depth of the network and C",
        f"number of used clusters with C = {SMALLEST}, {LARGEST}; with one layer, four layers; holds if both pairs "
        "differ by more than 10 %",
        rules.varies,
    ),
    Claim(
        "With larger C, the pooling GNN can model more complex hierarchical structure.",
        f"effective number of clusters, C = {SMALLEST} → {LARGEST}; holds if it grows",
        rules.complex,
    ),
    Claim(
        "The trade-off is that very large C results in more noise",
        f"sd of the test accuracy over seeds, C = {SMALLEST} → {LARGEST}; holds if it grows",
        rules.noise,
    ),
    Claim(
        "and less efficiency",
        f"time per epoch, C = {LARGEST} / {SMALLEST}; holds above 1",
        rules.efficiency,
    ),
    Claim(
        "the pooling net learns to use the appropriate number of clusters by end-to-end training",
        f"used of allowed clusters, C = {SMALLEST} → {LARGEST}; holds if the used ones grow more slowly; for "
        "comparison, the number of Louvain communities",
        rules.appropriate,
    ),
    Claim(
        "although we globally set the number of clusters to be 25 % of the nodes, the assignment GNN automatically "
        "learns the appropriate number of meaningful clusters to assign for these different graphs",
        "correlation over graphs between the share of used clusters and the number of Louvain communities per node "
        "(before training); holds above 0",
        rules.follows,
    ),
    Claim(
        "some clusters might not be used by the assignment matrix",
        f"used of allowed clusters, C = {USUAL}; holds if fewer are used",
        rules.unused,
    ),
    Claim(
        "Column corresponding to unused cluster has low values for all nodes.",
        "largest entry in the column of an unused / used cluster; holds if that of unused clusters is less than half",
        rules.low_columns,
    ),
    Claim(
        "nodes are assigned predominantly into 3 clusters",
        f"number of clusters that hold 90 % of the nodes, C = {USUAL}; holds up to 3.5",
        rules.three,
    ),
)


CLAIMS = {
    "hierarchy": _HIERARCHY,
    "density": _DENSITY,
    "similarity": _SIMILARITY,
    "numbers": _NUMBERS,
}
