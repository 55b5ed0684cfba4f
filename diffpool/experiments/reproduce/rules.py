"""The rules that decide whether a sentence of section 4.4 holds.

A rule takes the record of `benchmarks.clusters` for a data set. It returns the figure to show and, for each seed,
whether the sentence holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

from scipy.stats import spearmanr

# The models that are trained on each data set: settings of the architecture, and weights of the losses.
VARIANTS: dict[str, dict[str, Any]] = {
    "5 %": {"ratio": 0.05},
    "10 %": {"ratio": 0.1},
    "25 %": {"ratio": 0.25},
    "50 %": {"ratio": 0.5},
    "5": {"clusters": (5,)},
    "20": {"clusters": (20,)},
    "50": {"clusters": (50,)},
    "25 %; one layer": {"ratio": 0.25, "layers_before": 1},
    "25 %; four layers": {"ratio": 0.25, "layers_before": 4},
    "25 %; two poolings": {"ratio": 0.25, "poolings": 2},
}
OBJECTIVES: dict[str, dict[str, float]] = {
    "link 1": {"link_weight": 1.0},
    "link 0.1": {"link_weight": 0.1},
    "link 0": {"link_weight": 0.0},
    "class only": {"link_weight": 0.0, "entropy_weight": 0.0},
}
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

    def values(
        self, name: str, objective: str = "link 1", variant: str = USUAL, level: int = 0
    ) -> list:
        """A measure of each seed; empty if it was not measured or is undefined."""
        models = self.models(variant, objective)
        if name in ("test", "train"):
            return models.get(name, [])
        levels = models.get("poolings", [])
        return levels[level].get(name, []) if level < len(levels) else []

    def structure(self, name: str) -> float | None:
        return self.row["structure"].get(name)


# A figure and, for each seed, whether the claim holds; the list is empty if the measure is undefined.
Found = tuple[str, list[bool]]


def less(low: Sequence[float], high: Sequence[float]) -> list[bool]:
    return [a < b for a, b in zip(low, high, strict=False)]


def show(values: Sequence[float], form: str = ".2f") -> str:
    return f"{mean(values):{form}}" if values else "–"


def against(
    name: str, better: str, worse: str, higher: bool = True, form: str = ".2f"
) -> Callable[[Data], Found]:
    """A measure with two objectives, or before training."""

    def look(data: Data) -> Found:
        a, b = data.values(name, better), data.values(name, worse)
        decided = less(b, a) if higher else less(a, b)
        return f"{show(a, form)} / {show(b, form)}", decided

    return look


def reference(data: Data) -> str:
    """The communities to compare with: planted ones, if there are any."""
    return "planted_ari" if data.values("planted_ari") else "louvain_ari"


def communities(data: Data) -> Found:
    name = reference(data)
    figures, decided = [], []
    for level in range(2):
        after = data.values(name, "class only", TWICE, level)
        before = data.values(name, "untrained", TWICE, level)
        figures.append(f"{show(after)} / {show(before)}")
        decided.append(less(before, after))
    return ", ".join(figures), [a and b for a, b in zip(*decided, strict=False)]


def link_quality(data: Data) -> Found:
    return against(reference(data), "link 1", "link 0")(data)


def hard(data: Data) -> Found:
    values = data.values("entropy")
    return show(values), [value < 0.5 for value in values]


def uneven(data: Data) -> Found:
    pairs = list(zip(data.values("effective"), data.values("used"), strict=False))
    return f"{show([a / b for a, b in pairs])}", [a < 0.9 * b for a, b in pairs]


def dense_collapse(data: Data) -> Found:
    share = data.values("dense_collapses_more")
    if not share:
        return "–", []
    dense, sparse = data.values("dense_spread"), data.values("sparse_spread")
    return f"{show(dense)} / {show(sparse)}; {percent(share)}", [v > 0.5 for v in share]


def contraction(data: Data) -> Found:
    values = data.values("overlap_correlation")
    before = data.values("overlap_correlation", "untrained")
    return f"{show(values)} ({show(before)})", [value > 0 for value in values]


def adjacent(data: Data) -> Found:
    dense, sparse = data.values("dense_adjacent"), data.values("sparse_adjacent")
    if not dense:
        return "–", []
    return f"{percent(dense)} / {percent(sparse)}", [value >= 0.9 for value in dense]


def useful(data: Data) -> Found:
    """Over all models, with the mean of each variant subtracted."""
    collapse: list[float] = []
    accuracy: list[float] = []
    for variant in VARIANTS:
        pairs = []
        for objective in OBJECTIVES:
            name = "overlap_correlation"
            pairs += list(
                zip(
                    data.values(name, objective, variant),
                    data.values("test", objective, variant),
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


def dense_diameter(data: Data) -> Found:
    dense = data.structure("dense_diameter")
    return ("–", []) if dense is None else (f"{dense:.1f}", [dense <= HOPS])


def diameter(data: Data) -> Found:
    dense, sparse = data.structure("dense_diameter"), data.structure("sparse_diameter")
    if sparse is None:
        return "–", []
    shown = "–" if dense is None else f"{dense:.1f}"
    return f"{shown} / {sparse:.1f}", [sparse > 2 * HOPS]


def sparse_spread(data: Data) -> Found:
    values, before = data.values("sparse_spread"), data.values("sparse_spread", "untrained")
    if not values or not data.values(
        "dense_spread"
    ):  # without dense parts, there is nothing to compare
        return "–", []
    return f"{show(values)} ({show(before)})", [value >= 1 for value in values]


def similar(data: Data) -> Found:
    values = data.values("view_correlation")
    return show(values), [value > 0 for value in values]


def alike(data: Data) -> Found:
    views, features = data.values("far_alike"), data.values("far_features_alike")
    figure = f"{show(views)} / {show(features)}" if views else "–"
    return figure, [value < 1 for value in views]


def twins(data: Data) -> Found:
    values = data.values("twin_difference")
    return (f"{max(values):.0e}" if values else "–"), [value < 1e-3 for value in values]


def disconnected(data: Data) -> Found:
    values = data.values("split_clusters")
    return percent(values), [value > 0 for value in values]


def identifiable(data: Data) -> Found:
    features, view = data.structure("unique_features"), data.structure("unique_views")
    if features is None or view is None:
        return "–", []
    return f"{percent([features])} / {percent([view])}", [view > 0.9]


def moments(data: Data) -> Found:
    means, views = data.structure("unique_means"), data.structure("unique_views")
    if means is None or views is None:
        return "–", []
    return f"{percent([means])} / {percent([views])}", [views - means >= 0.01]


def distance(data: Data) -> Found:
    if not data.values("far_ratio"):
        return "–", []
    return against("far_ratio", "link 1", "link 0", higher=False)(data)


def varies(data: Data) -> Found:
    variants = [SMALLEST, LARGEST, "25 %; one layer", "25 %; four layers"]
    found = [data.values("used", variant=variant) for variant in variants]
    figure = ", ".join(show(values, ".1f") for values in found)
    pairs = zip(*found, strict=False)
    return figure, [abs(a - b) > 0.1 * a and abs(c - d) > 0.1 * c for a, b, c, d in pairs]


def complex(data: Data) -> Found:
    name = "effective"
    small, large = data.values(name, variant=SMALLEST), data.values(name, variant=LARGEST)
    train = [data.values("train", variant=variant) for variant in (SMALLEST, LARGEST)]
    accuracy = f"training accuracy {show(train[0], '.0f')} → {show(train[1], '.0f')} %"
    return f"{show(small, '.1f')} → {show(large, '.1f')}; {accuracy}", less(small, large)


def noise(data: Data) -> Found:
    sds: list[float] = []
    for variant in (SMALLEST, LARGEST):
        accuracies = [data.values("test", objective, variant) for objective in OBJECTIVES]
        found = [stdev(values) for values in accuracies if len(values) > 1]
        if not found:
            return "–", []
        sds.append(mean(found))
    tests = [data.values("test", variant=variant) for variant in (SMALLEST, LARGEST)]
    shown = f"accuracy {show(tests[0], '.1f')} → {show(tests[1], '.1f')} %"
    return f"sd {sds[0]:.1f} → {sds[1]:.1f}; {shown}", [sds[0] < sds[1]]


def efficiency(data: Data) -> Found:
    times = [data.row["variants"].get(v, {}).get("epoch_s") for v in (SMALLEST, LARGEST)]
    if None in times:
        return "–", []
    return f"{times[1] / times[0]:.1f} ×", [times[1] > times[0]]


def appropriate(data: Data) -> Found:
    used = [data.values("used", variant=variant) for variant in (SMALLEST, LARGEST)]
    allowed = [data.values("clusters", variant=variant) for variant in (SMALLEST, LARGEST)]
    figure = [f"{show(u, '.1f')} of {show(c, '.1f')}" for u, c in zip(used, allowed, strict=True)]
    communities = data.values("louvain_communities")
    decided = [
        large / small < many / few for small, large, few, many in zip(*used, *allowed, strict=False)
    ]
    return f"{' → '.join(figure)}; Louvain {show(communities, '.1f')}", decided


def follows(data: Data) -> Found:
    after, before = (
        data.values("follows_communities"),
        data.values("follows_communities", "untrained"),
    )
    figure = f"{show(after)} ({show(before)})" if after else "–"
    return figure, [value > 0 for value in after]


def unused(data: Data) -> Found:
    used, allowed = data.values("used"), data.values("clusters")
    return f"{show(used, '.1f')} of {show(allowed, '.1f')}", less(used, allowed)


def low_columns(data: Data) -> Found:
    unused, used = data.values("unused_peak"), data.values("used_peak")
    decided = [a < b / 2 for a, b in zip(unused, used, strict=False)]
    return f"{show(unused)} / {show(used)}", decided


def three(data: Data) -> Found:
    values = data.values("clusters_of_most")
    return show(values, ".1f"), [value <= 3.5 for value in values]


def percent(values: Sequence[float]) -> str:
    return f"{100 * mean(values):.0f} %" if values else "–"
