"""The tables of docs/analysis.md: what section 4.4 of the paper says, and what the records of `clusters` show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

from scipy.stats import spearmanr

from benchmarks.clusters import OBJECTIVES, VARIANTS
from benchmarks.record import records_of, where

USUAL = "25 %"  # the clusters of the figure in section 4.4
TWICE = "25 %; two poolings"
SMALLEST, LARGEST = "5 %", "50 %"
HOPS = 2  # convolutions of the pooling network, except in the variants with other depths


@dataclass(frozen=True)
class Data:
    """The last record of one data set."""

    name: str
    row: dict[str, Any]
    record: dict[str, Any]

    def models(self, variant: str, objective: str) -> dict[str, Any]:
        """The models of a variant with one objective; empty if they were not measured."""
        found: dict[str, Any] = self.row["variants"].get(variant, {}).get("objectives", {})
        return found.get(objective, {})

    def of(
        self, name: str, objective: str = "link 1", variant: str = USUAL, level: int = 0
    ) -> list:
        """A measure of each seed; empty if it was not measured or is undefined."""
        own = self.models(variant, objective)
        if name in ("test", "train"):
            return own.get(name, [])
        levels = own.get("poolings", [])
        return levels[level].get(name, []) if level < len(levels) else []

    def structure(self, name: str) -> float | None:
        return self.row["structure"].get(name)


# A figure and, for each seed, whether the claim holds; the list is empty if the measure is undefined.
Found = tuple[str, list[bool]]


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, what is measured, and the rule that decides for each seed whether it holds."""

    quote: str
    measured: str
    look: Callable[[Data], Found] | None = None  # None if nothing is measured


def _less(low: Sequence[float], high: Sequence[float]) -> list[bool]:
    return [a < b for a, b in zip(low, high, strict=False)]


def _show(values: Sequence[float], form: str = ".2f") -> str:
    return f"{mean(values):{form}}" if values else "–"


def _against(
    name: str, better: str, worse: str, higher: bool = True, form: str = ".2f"
) -> Callable[[Data], Found]:
    """A measure with two objectives, or before training."""

    def look(data: Data) -> Found:
        a, b = data.of(name, better), data.of(name, worse)
        decided = _less(b, a) if higher else _less(a, b)
        return f"{_show(a, form)} / {_show(b, form)}", decided

    return look


def _reference(data: Data) -> str:
    """The communities to compare with: planted ones, if there are any."""
    return "planted_ari" if data.of("planted_ari") else "louvain_ari"


def _communities(data: Data) -> Found:
    name = _reference(data)
    figures, decided = [], []
    for level in range(2):
        own = data.of(name, "class only", TWICE, level)
        before = data.of(name, "untrained", TWICE, level)
        figures.append(f"{_show(own)} / {_show(before)}")
        decided.append(_less(before, own))
    return ", ".join(figures), [a and b for a, b in zip(*decided, strict=False)]


def _link_quality(data: Data) -> Found:
    return _against(_reference(data), "link 1", "link 0")(data)


def _hard(data: Data) -> Found:
    values = data.of("entropy")
    return _show(values), [value < 0.5 for value in values]


def _uneven(data: Data) -> Found:
    pairs = list(zip(data.of("effective"), data.of("used"), strict=False))
    return f"{_show([a / b for a, b in pairs])}", [a < 0.9 * b for a, b in pairs]


def _dense_collapse(data: Data) -> Found:
    share = data.of("dense_collapses_more")
    if not share:
        return "–", []
    dense, sparse = data.of("dense_spread"), data.of("sparse_spread")
    return f"{_show(dense)} / {_show(sparse)}; {_percent(share)}", [v > 0.5 for v in share]


def _contraction(data: Data) -> Found:
    values = data.of("overlap_correlation")
    before = data.of("overlap_correlation", "untrained")
    return f"{_show(values)} ({_show(before)})", [value > 0 for value in values]


def _adjacent(data: Data) -> Found:
    dense, sparse = data.of("dense_adjacent"), data.of("sparse_adjacent")
    if not dense:
        return "–", []
    return f"{_percent(dense)} / {_percent(sparse)}", [value >= 0.9 for value in dense]


def _useful(data: Data) -> Found:
    """Over all models, with the mean of each variant subtracted."""
    collapse: list[float] = []
    accuracy: list[float] = []
    for variant in VARIANTS:
        pairs = []
        for objective in OBJECTIVES:
            name = "overlap_correlation"
            pairs += list(
                zip(
                    data.of(name, objective, variant),
                    data.of("test", objective, variant),
                    strict=False,
                )
            )
        if pairs:
            a, b = (mean(values) for values in zip(*pairs, strict=True))
            collapse += [pair[0] - a for pair in pairs]
            accuracy += [pair[1] - b for pair in pairs]
    if len(collapse) < 4 or len(set(collapse)) < 2 or len(set(accuracy)) < 2:
        return "–", []
    test = spearmanr(collapse, accuracy)
    figure = f"{test.statistic:.2f} (p = {test.pvalue:.2g}, {len(collapse)} models)"
    return figure, [bool(test.statistic > 0 and test.pvalue < 0.05)]


def _dense_diameter(data: Data) -> Found:
    dense = data.structure("dense_diameter")
    return ("–", []) if dense is None else (f"{dense:.1f}", [dense <= HOPS])


def _diameter(data: Data) -> Found:
    dense, sparse = data.structure("dense_diameter"), data.structure("sparse_diameter")
    if sparse is None:
        return "–", []
    shown = "–" if dense is None else f"{dense:.1f}"
    return f"{shown} / {sparse:.1f}", [sparse > 2 * HOPS]


def _sparse_spread(data: Data) -> Found:
    values, before = data.of("sparse_spread"), data.of("sparse_spread", "untrained")
    if not values or not data.of(
        "dense_spread"
    ):  # without dense parts, there is nothing to compare
        return "–", []
    return f"{_show(values)} ({_show(before)})", [value >= 1 for value in values]


def _similar(data: Data) -> Found:
    values = data.of("view_correlation")
    return _show(values), [value > 0 for value in values]


def _alike(data: Data) -> Found:
    views, features = data.of("far_alike"), data.of("far_features_alike")
    figure = f"{_show(views)} / {_show(features)}" if views else "–"
    return figure, [value < 1 for value in views]


def _twins(data: Data) -> Found:
    values = data.of("twin_difference")
    return (f"{max(values):.0e}" if values else "–"), [value < 1e-3 for value in values]


def _disconnected(data: Data) -> Found:
    values = data.of("split_clusters")
    return _percent(values), [value > 0 for value in values]


def _identifiable(data: Data) -> Found:
    own, view = data.structure("unique_features"), data.structure("unique_views")
    if own is None or view is None:
        return "–", []
    return f"{_percent([own])} / {_percent([view])}", [view > 0.9]


def _moments(data: Data) -> Found:
    means, views = data.structure("unique_means"), data.structure("unique_views")
    if means is None or views is None:
        return "–", []
    return f"{_percent([means])} / {_percent([views])}", [views - means >= 0.01]


def _distance(data: Data) -> Found:
    if not data.of("far_ratio"):
        return "–", []
    return _against("far_ratio", "link 1", "link 0", higher=False)(data)


def _varies(data: Data) -> Found:
    variants = [SMALLEST, LARGEST, "25 %; one layer", "25 %; four layers"]
    found = [data.of("used", variant=variant) for variant in variants]
    figure = ", ".join(_show(values, ".1f") for values in found)
    pairs = zip(*found, strict=False)
    return figure, [abs(a - b) > 0.1 * a and abs(c - d) > 0.1 * c for a, b, c, d in pairs]


def _complex(data: Data) -> Found:
    name = "effective"
    small, large = data.of(name, variant=SMALLEST), data.of(name, variant=LARGEST)
    train = [data.of("train", variant=variant) for variant in (SMALLEST, LARGEST)]
    accuracy = f"training accuracy {_show(train[0], '.0f')} → {_show(train[1], '.0f')} %"
    return f"{_show(small, '.1f')} → {_show(large, '.1f')}; {accuracy}", _less(small, large)


def _noise(data: Data) -> Found:
    sds = []
    for variant in (SMALLEST, LARGEST):
        own = [data.of("test", objective, variant) for objective in OBJECTIVES]
        found = [stdev(values) for values in own if len(values) > 1]
        sds.append(mean(found) if found else None)
    if None in sds:
        return "–", []
    tests = [data.of("test", variant=variant) for variant in (SMALLEST, LARGEST)]
    shown = f"accuracy {_show(tests[0], '.1f')} → {_show(tests[1], '.1f')} %"
    return f"sd {sds[0]:.1f} → {sds[1]:.1f}; {shown}", [sds[0] < sds[1]]


def _efficiency(data: Data) -> Found:
    times = [data.row["variants"].get(v, {}).get("epoch_s") for v in (SMALLEST, LARGEST)]
    if None in times:
        return "–", []
    return f"{times[1] / times[0]:.1f} ×", [times[1] > times[0]]


def _appropriate(data: Data) -> Found:
    used = [data.of("used", variant=variant) for variant in (SMALLEST, LARGEST)]
    allowed = [data.of("clusters", variant=variant) for variant in (SMALLEST, LARGEST)]
    figure = [f"{_show(u, '.1f')} of {_show(c, '.1f')}" for u, c in zip(used, allowed, strict=True)]
    communities = data.of("louvain_communities")
    decided = [
        large / small < most / least
        for small, large, least, most in zip(*used, *allowed, strict=False)
    ]
    return f"{' → '.join(figure)}; Louvain {_show(communities, '.1f')}", decided


def _follows(data: Data) -> Found:
    own, before = data.of("follows_communities"), data.of("follows_communities", "untrained")
    figure = f"{_show(own)} ({_show(before)})" if own else "–"
    return figure, [value > 0 for value in own]


def _unused(data: Data) -> Found:
    used, allowed = data.of("used"), data.of("clusters")
    return f"{_show(used, '.1f')} of {_show(allowed, '.1f')}", _less(used, allowed)


def _low_columns(data: Data) -> Found:
    unused, used = data.of("unused_peak"), data.of("used_peak")
    decided = [a < b / 2 for a, b in zip(unused, used, strict=False)]
    return f"{_show(unused)} / {_show(used)}", decided


def _three(data: Data) -> Found:
    values = data.of("clusters_of_most")
    return _show(values, ".1f"), [value <= 3.5 for value in values]


def _percent(values: Sequence[float]) -> str:
    return f"{100 * mean(values):.0f} %" if values else "–"


HIERARCHY = (
    Claim(
        "we investigated the extent to which DiffPool learns meaningful node clusters by visualizing the cluster "
        "assignments in different layers",
        "`diffpool train` draws such a figure, clusters.png; the rows below measure it",
    ),
    Claim(
        "Node cluster membership is determined by taking the argmax of its cluster assignment probabilities.",
        "entropy of the rows of S / log k; holds below 0.5; the argmax says little about a nearly uniform row",
        _hard,
    ),
    Claim(
        "even when learning cluster assignment based solely on the graph classification objective, DiffPool can still "
        "capture the hierarchical community structure",
        "adjusted Rand index with the planted (otherwise Louvain) communities, after each of two poolings: "
        "classification loss alone / before training; holds if training increases both",
        _communities,
    ),
    Claim(
        "significant improvement in membership assignment quality with link prediction auxiliary objectives",
        "adjusted Rand index, link weight 1 / 0; holds if higher with 1",
        _link_quality,
    ),
)
DENSITY = (
    Claim(
        "DiffPool learns to collapse nodes into soft clusters in a non-uniform way",
        "effective number of clusters / number of used clusters; holds below 0.9",
        _uneven,
    ),
    Claim(
        "with a tendency to collapse densely-connected subgraphs into clusters",
        "number of distinct clusters compared with chance, dense / sparse parts; share of graphs in which it is lower "
        "for dense parts; holds if the share is above 50 %",
        _dense_collapse,
    ),
    Claim(
        "a tendency to collapse densely-connected subgraphs",
        "correlation over edges between the share of common neighbors and lying within a cluster (before training); "
        "holds above 0",
        _contraction,
    ),
    Claim(
        "GNNs can efficiently perform message-passing on dense, clique-like subgraphs (due to their small diameters)",
        f"mean diameter of dense parts; holds up to {HOPS}, the number of layers of the pooling network",
        _dense_diameter,
    ),
    Claim(
        "pooling together nodes in such a dense subgraph is not likely to lead to any loss of structural information",
        "share of adjacent pairs among the pairs of nodes pooled together, dense / sparse parts; holds if at least "
        "90 % in dense parts",
        _adjacent,
    ),
    Claim(
        "This intuitively explains why collapsing dense subgraphs is a useful pooling strategy",
        "rank correlation over models between that tendency (the correlation over edges) and the test accuracy; holds "
        "above 0 with p < 0.05",
        _useful,
    ),
    Claim(
        "given the high-diameter induced by sparsity, GNN message-passing may fail to capture these structures",
        f"mean diameter of dense / sparse parts; holds above {2 * HOPS} in sparse parts, where no node is within reach "
        "of both ends",
        _diameter,
    ),
    Claim(
        "by separately pooling distinct parts of a sparse subgraph, DiffPool can learn to capture the meaningful "
        "structures",
        "number of distinct clusters in sparse parts compared with chance (before training); holds from 1",
        _sparse_spread,
    ),
)
SIMILARITY = (
    Claim(
        "nodes with both similar input features and neighborhood structure will have similar cluster assignment",
        "correlation over pairs of nodes between the difference of their neighborhoods and the difference of their "
        "rows of S; holds above 0",
        _similar,
    ),
    Claim(
        "will have similar cluster assignment",
        "difference between the neighborhoods / features of distant nodes in the same cluster, relative to those in "
        "different clusters; holds below 1 for neighborhoods",
        _alike,
    ),
    Claim(
        "2 nodes, although far away, have exactly the same neighborhood structure and features […] the pooling network "
        "is forced to assign them into the same cluster",
        "largest difference between their rows of S; holds below 0.001; also checked in `tests/analysis/test_views.py`",
        _twins,
    ),
    Claim(
        "In some cases we do observe that disconnected nodes are pooled together.",
        "share of used clusters whose nodes are not connected within the cluster; holds above 0",
        _disconnected,
    ),
    Claim(
        "nodes are identifiable via their features. This holds in many real datasets",
        "share of nodes that differ from all others in their graph, by features / by neighborhood; holds above 90 % by "
        "neighborhood",
        _identifiable,
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
        _distance,
    ),
    Claim(
        "it is possible to use more sophisticated GNN aggregation function such as high-order moments to distinguish "
        "nodes that are similar in structure and feature space",
        "share of nodes that means / arbitrary aggregations can at best distinguish from all others; holds if the "
        "second is higher by at least one percentage point",
        _moments,
    ),
    Claim(
        "The overall framework remains unchanged.",
        "a property of the design; for example, `--conv gin`",
    ),
)
NUMBERS = (
    Claim(
        "the assignment varies according to the depth of the network and C",
        f"number of used clusters with C = {SMALLEST}, {LARGEST}; with one layer, four layers; holds if both pairs "
        "differ by more than 10 %",
        _varies,
    ),
    Claim(
        "With larger C, the pooling GNN can model more complex hierarchical structure.",
        f"effective number of clusters, C = {SMALLEST} → {LARGEST}; holds if it grows",
        _complex,
    ),
    Claim(
        "The trade-off is that very large C results in more noise",
        f"sd of the test accuracy over seeds, C = {SMALLEST} → {LARGEST}; holds if it grows",
        _noise,
    ),
    Claim(
        "and less efficiency",
        f"time per epoch, C = {LARGEST} / {SMALLEST}; holds above 1",
        _efficiency,
    ),
    Claim(
        "the pooling net learns to use the appropriate number of clusters by end-to-end training",
        f"used of allowed clusters, C = {SMALLEST} → {LARGEST}; holds if the used ones grow more slowly; for "
        "comparison, the number of Louvain communities",
        _appropriate,
    ),
    Claim(
        "although we globally set the number of clusters to be 25 % of the nodes, the assignment GNN automatically "
        "learns the appropriate number of meaningful clusters to assign for these different graphs",
        "correlation over graphs between the share of used clusters and the number of Louvain communities per node "
        "(before training); holds above 0",
        _follows,
    ),
    Claim(
        "some clusters might not be used by the assignment matrix",
        f"used of allowed clusters, C = {USUAL}; holds if fewer are used",
        _unused,
    ),
    Claim(
        "Column corresponding to unused cluster has low values for all nodes.",
        "largest entry in the column of an unused / used cluster; holds if that of unused clusters is less than half",
        _low_columns,
    ),
    Claim(
        "nodes are assigned predominantly into 3 clusters",
        f"number of clusters that hold 90 % of the nodes, C = {USUAL}; holds up to 3.5",
        _three,
    ),
)


def claims(chosen: Sequence[Claim]) -> str | None:
    """One row for each claim: the quote, the figures of every data set, and where it holds."""
    found = data_sets()
    if not found:
        return None
    lines = [
        f"| the paper | measured | {' | '.join(data.name for data in found)} | holds |",
        f"|---|---|{'---|' * len(found)}---|",
    ]
    for claim in chosen:
        figures, verdict = ["–"] * len(found), "–"
        if claim.look is not None:
            looked = [claim.look(data) for data in found]
            figures = [f"{figure}{_mark(decided)}" for figure, decided in looked]
            verdict = _verdict([decided for _, decided in looked])
        lines.append(f"| “{claim.quote}” | {claim.measured} | {' | '.join(figures)} | {verdict} |")
    return "\n" + "\n".join(lines) + "\n"


def summary() -> str | None:
    """How many sentences hold."""
    found = data_sets()
    if not found:
        return None
    counts = {"**yes**": 0, "**no**": 0, "other": 0}
    for claim in (*HIERARCHY, *DENSITY, *SIMILARITY, *NUMBERS):
        if claim.look is not None:
            verdict = _verdict([claim.look(data)[1] for data in found])
            if verdict != "not measured":
                counts[verdict if verdict in counts else "other"] += 1
    return (
        f"\nStatements that were measured: {sum(counts.values())}. Hold on every data set on which they can be "
        f"measured: {counts['**yes**']}; on none: {counts['**no**']}; on some, or in some seeds: {counts['other']}.\n"
    )


def _mark(decided: list[bool]) -> str:
    """A mark after the figure of a data set: whether the claim holds for all, no or some seeds."""
    if not decided:
        return ""
    return " ✓" if all(decided) else " ~" if any(decided) else " ✗"


def _verdict(decided: list[list[bool]]) -> str:
    known = [own for own in decided if own]
    if not known:
        return "not measured"
    held = sum(all(own) for own in known)
    if held == len(known):
        return "**yes**"
    if not any(any(own) for own in known):
        return "**no**"
    return f"on {held} of {len(known)}" if held else "in some seeds"


def sizes() -> str | None:
    """Accuracy, clusters used and time by the maximum number of clusters, with and without the link loss."""
    found = data_sets()
    if not found:
        return None
    lines = [
        "| data set | C | used of allowed, link 1 | link 0 | test accuracy, link 1 | link 0 | ms per epoch and model "
        "| parameters |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for data in found:
        for variant, own in data.row["variants"].items():
            if "failed" in own:
                lines.append(f"| {data.name} | {variant} | {own['failed']} |" + " |" * 5)
                continue
            cells = [data.name, variant]
            for objective in ("link 1", "link 0"):
                used, allowed = (data.of(n, objective, variant) for n in ("used", "clusters"))
                cells.append(f"{_show(used, '.1f')} of {_show(allowed, '.1f')}")
            cells += [_spread(data.of("test", o, variant)) for o in ("link 1", "link 0")]
            time = own["epoch_s"]
            cells += ["–" if time is None else f"{1e3 * time:,.0f}", f"{own['parameters']:,}"]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n" + "\n".join(lines) + "\n"


MEASURES = (
    ("clusters used", "used", ".1f"),
    ("entropy / log k", "entropy", ".2f"),
    ("ARI, planted", "planted_ari", ".2f"),
    ("ARI, Louvain", "louvain_ari", ".2f"),
    ("modularity", "modularity", ".2f"),
    ("dense parts", "dense_spread", ".2f"),
    ("sparse parts", "sparse_spread", ".2f"),
    ("distant pairs", "far_ratio", ".2f"),
    ("their difference", "far_alike", ".2f"),
)


def objectives() -> str | None:
    """The main measures with each objective, and before training."""
    found = data_sets()
    if not found:
        return None
    titles = [title for title, *_ in MEASURES]
    lines = [
        f"| data set | objective | test accuracy, % | {' | '.join(titles)} |",
        f"|---|---|---|{'---|' * len(titles)}",
    ]
    for data in found:
        for objective in ("untrained", *OBJECTIVES):
            if data.models(USUAL, objective):
                cells = [_show(data.of(name, objective), form) for _, name, form in MEASURES]
                name = "before training" if objective == "untrained" else objective
                accuracy = _spread(data.of("test", objective))
                lines.append(f"| {data.name} | {name} | {accuracy} | {' | '.join(cells)} |")
    return "\n" + "\n".join([*lines, "", *origins(found)]) + "\n"


def _spread(values: Sequence[float]) -> str:
    """Mean ± sd."""
    if not values:
        return "–"
    return f"{mean(values):.1f} ± {stdev(values):.1f}" if len(values) > 1 else f"{values[0]:.1f}"


def data_sets() -> list[Data]:
    """The last record of every data set."""
    found = {}
    for record in records_of("clusters"):
        for name, row in record["rows"].items():
            found[name] = Data(name, row, record)
    return list(found.values())


def origins(found: list[Data]) -> list[str]:
    """What was trained on each data set, and where."""
    lines = []
    for data in found:
        row = data.row
        lines.append(
            f"{data.name}: {row['graphs']:,} graphs, {row['analyzed']} analyzed for each seed; number of seeds: "
            f"{row['seeds']}; at most {row['epochs']} epochs, {row['models']} models side by side."
        )
    return [*lines, *dict.fromkeys(where(data.record) for data in found)]
