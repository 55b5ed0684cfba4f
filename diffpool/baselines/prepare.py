"""Precomputed structures: what an architecture needs from the graphs before training starts."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array

from diffpool.architecture import Architecture, cluster_counts
from diffpool.baselines.adjacency import Watch, adjacency_matrices
from diffpool.baselines.cache import Arrays, cached
from diffpool.baselines.ecc.pyramid import KronLevel, kron_pyramid, with_pyramid
from diffpool.baselines.graclus import hierarchy
from diffpool.baselines.patchy_san.receptive_fields import field_edges, receptive_fields
from diffpool.errors import SettingError
from diffpool.graphs import Prepared, SparseGraphs
from diffpool.nn import Clusters

SORTED_QUANTILE = 0.4  # of the graph sizes: 60 % of the graphs have more nodes than SortPool keeps (Zhang et al., 2018)
LEVEL_FIELDS = ("parent", "sizes", "indptr", "source", "weights")  # of a `KronLevel`


def resolved(architecture: Architecture, sizes: np.ndarray) -> Architecture:
    """Fill in the settings that depend on the graph sizes [B] of the data set."""
    sizes = sizes if len(sizes) else np.ones(1)
    if architecture.readout == "sort" and architecture.sorted_nodes == 0:
        kept = int(np.quantile(sizes, SORTED_QUANTILE, method="higher"))
        architecture = replace(architecture, sorted_nodes=max(kept, 1))
    if architecture.readout == "fields" and architecture.field_count == 0:
        architecture = replace(architecture, field_count=max(round(float(sizes.mean())), 1))
    return architecture


def prepare(
    architecture: Architecture,
    graphs: SparseGraphs,
    largest: int | None = None,
    watch: Watch = lambda fraction: None,
    keep: bool = True,
) -> SparseGraphs:
    """Attach the precomputed structures that this architecture needs (`Prepared`); unchanged graphs if it needs none.

    `largest` is the number of nodes of the largest graph that the models are built for; by default, of these graphs.
    `watch` is called with the fraction done. With `keep`, results are read from the cache and written to it.
    """
    largest = graphs.layout.largest if largest is None else largest
    settings = wanted(architecture, largest)
    if settings is None:
        return graphs
    what = json.dumps(settings, sort_keys=True)
    if graphs.prepared.what == what:
        return graphs
    if graphs.prepared.what:
        raise SettingError(
            "expected graphs without precomputed structures, got graphs prepared for other settings: load them again"
        )
    if graphs.adj_t is not graphs.adj:
        raise SettingError(
            f"expected undirected graphs for {settings['kind']}, got directed graphs: "
            "omit --directed, or use another method"
        )
    compute = {"pyramid": _pyramid, "fields": _fields}.get(settings["kind"], _clusters)
    result = compute(settings, graphs.to("cpu"), watch, keep)
    result = replace(result, prepared=replace(result.prepared, what=what))
    return result.to(graphs.degree.device)


def wanted(architecture: Architecture, largest: int) -> dict[str, Any] | None:
    """The settings that determine the precomputed structures; None for an architecture that needs none."""
    a = architecture
    if not a.wants_preparation:
        return None
    if a.readout == "fields":
        shape = {"count": a.field_count, "size": a.field_size}
        return {"kind": "fields", **shape, "labeling": a.labeling}
    if a.pooler == "pyramid":
        return {"kind": "pyramid", "levels": a.poolings}
    clusters = [asdict(c) for c in cluster_counts(a, largest)]
    if a.min_clusters == 1:  # so that structures cached before this setting existed are found
        clusters = [{k: v for k, v in c.items() if k != "min_count"} for c in clusters]
    return {"kind": a.pooler, "clusters": clusters}


def _clusters(
    settings: dict[str, Any], graphs: SparseGraphs, watch: Watch, keep: bool
) -> SparseGraphs:
    sizes = [graphs.layout.sizes.numpy()]
    for clusters in settings["clusters"]:
        sizes.append(Clusters(**clusters).counts(sizes[-1]))
    counts = np.stack(sizes[1:], 1)  # [B, L]
    cluster = hierarchy if settings["kind"] == "graclus" else random_clusters

    def compute() -> Arrays:
        # an empty graph has 0 clusters, which `graclus` rejects
        at_least_one = counts.clip(min=1).tolist()
        matrices = adjacency_matrices(graphs, watch)
        parts = [cluster(a, c) for a, c in zip(matrices, at_least_one, strict=True)]
        return {"clusters": np.concatenate([np.empty((0, counts.shape[1]), np.int64), *parts])}

    arrays = cached(graphs, settings, compute, keep)
    return replace(graphs, prepared=Prepared(nodes=torch.from_numpy(arrays["clusters"])))


def random_clusters(adjacency: csr_array, counts: Sequence[int]) -> np.ndarray:
    """A control: put each node in one of `counts[0]` clusters, each cluster in one of `counts[1]`, …: [n, L].

    The draw is seeded by the graph, so the same graph always gets the same clusters.
    """
    seed = zlib.crc32(adjacency.indptr.tobytes() + adjacency.indices.tobytes())
    rng = np.random.default_rng(seed)
    size = adjacency.shape[0]
    cluster, columns = np.arange(size), []
    for count in counts:
        cluster = rng.integers(count, size=size)[cluster]
        columns.append(cluster)
        size = count
    return np.stack(columns, 1).astype(np.int64)


def _pyramid(
    settings: dict[str, Any], graphs: SparseGraphs, watch: Watch, keep: bool
) -> SparseGraphs:
    levels = range(settings["levels"])

    def compute() -> Arrays:
        pyramid = kron_pyramid(graphs, len(levels), watch)
        return {f"{l}.{name}": getattr(pyramid[l], name) for l in levels for name in LEVEL_FIELDS}

    arrays = cached(graphs, settings, compute, keep)
    pyramid = [KronLevel(**{name: arrays[f"{l}.{name}"] for name in LEVEL_FIELDS}) for l in levels]
    return with_pyramid(graphs, pyramid)


def _fields(
    settings: dict[str, Any], graphs: SparseGraphs, watch: Watch, keep: bool
) -> SparseGraphs:
    count, size = settings["count"], settings["size"]
    edges = bool(graphs.channels)

    def compute() -> Arrays:
        rows = [np.empty((0, count * size * (1 + size * edges)), np.int64)]
        for adjacency in adjacency_matrices(graphs, watch):
            fields = receptive_fields(adjacency, count, size, settings["labeling"])
            parts = [fields, field_edges(adjacency, fields)] if edges else [fields]
            rows.append(np.concatenate([part.reshape(1, -1) for part in parts], 1))
        return {"fields": np.concatenate(rows)}

    arrays = cached(graphs, {**settings, "edges": edges}, compute, keep)
    return replace(graphs, prepared=Prepared(graphs=torch.from_numpy(arrays["fields"])))
