"""What an architecture wants computed of the graphs before any training, and what it takes from the data set."""

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
from diffpool.baselines.cache import Arrays, cached
from diffpool.baselines.ecc.pyramid import KronLevel, kron_pyramid, with_pyramid
from diffpool.baselines.graclus import hierarchy
from diffpool.baselines.matrices import Watch, matrices
from diffpool.baselines.patchy_san.receptive_fields import field_edges, receptive_fields
from diffpool.errors import SettingError
from diffpool.graphs import Prepared, SparseGraphs
from diffpool.nn import Clusters

SORTED = 0.4  # the quantile of the sizes that SortPool keeps: 60 % of the graphs have more nodes (Zhang et al., 2018)
LEVEL = ("parent", "sizes", "indptr", "source", "weights")  # of a `KronLevel`


def resolved(architecture: Architecture, sizes: np.ndarray) -> Architecture:
    """The architecture with the numbers that it takes from the sizes [B] of the data set's graphs."""
    sizes = sizes if len(sizes) else np.ones(1)
    if architecture.readout == "sort" and architecture.sorted_nodes == 0:
        kept = int(np.quantile(sizes, SORTED, method="higher"))
        architecture = replace(architecture, sorted_nodes=max(kept, 1))
    if architecture.readout == "fields" and architecture.field_count == 0:
        architecture = replace(architecture, field_count=max(round(float(sizes.mean())), 1))
    return architecture


def prepare(
    architecture: Architecture,
    graphs: SparseGraphs,
    largest: int | None = None,
    watch: Watch = lambda share: None,
    keep: bool = True,
) -> SparseGraphs:
    """The graphs with what models of this architecture want of them (`Prepared`), if anything.

    `largest`: nodes of the largest graph that the models are made for, by default of these. `keep`: what is computed
    is kept in the cache, and found there the next time.
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
            "expected graphs as they were read, got some prepared for other settings: load them again"
        )
    if graphs.adj_t is not graphs.adj:
        raise SettingError(
            f"expected undirected graphs for {settings['kind']}, got directed ones: "
            "leave out --directed, or use another method"
        )
    here = graphs.to("cpu")
    make = {"pyramid": _pyramid, "fields": _fields}.get(settings["kind"], _clusters)
    made = make(settings, here, watch, keep)
    made = replace(made, prepared=replace(made.prepared, what=what))
    return made.to(graphs.degree.device)


def wanted(architecture: Architecture, largest: int) -> dict[str, Any] | None:
    """Everything that decides what is computed, besides the graphs; None for an architecture that wants nothing."""
    a = architecture
    if not a.wants_preparation:
        return None
    if a.readout == "fields":
        shape = {"count": a.field_count, "size": a.field_size}
        return {"kind": "fields", **shape, "labelling": a.labelling}
    if a.pooler == "pyramid":
        return {"kind": "pyramid", "levels": a.poolings}
    return {"kind": a.pooler, "clusters": [asdict(c) for c in cluster_counts(a, largest)]}


def _clusters(
    settings: dict[str, Any], graphs: SparseGraphs, watch: Watch, keep: bool
) -> SparseGraphs:
    sizes = [graphs.layout.sizes.numpy()]
    for own in settings["clusters"]:
        sizes.append(Clusters(**own).counts(sizes[-1]))
    counts = np.stack(sizes[1:], 1)  # [B, L]
    make = hierarchy if settings["kind"] == "graclus" else random_clusters

    def compute() -> Arrays:
        wanted_of = counts.clip(min=1).tolist()  # an empty graph has no nodes to ask about
        parts = [make(a, c) for a, c in zip(matrices(graphs, watch), wanted_of, strict=True)]
        return {"clusters": np.concatenate([np.empty((0, counts.shape[1]), np.int64), *parts])}

    arrays = cached(graphs, settings, compute, keep)
    return replace(graphs, prepared=Prepared(nodes=torch.from_numpy(arrays["clusters"])))


def random_clusters(adjacency: csr_array, counts: Sequence[int]) -> np.ndarray:
    """A control: each node in any of `counts[0]` clusters, each of these in any of `counts[1]`, …: [n, L].

    The same graph gets the same clusters.
    """
    known = zlib.crc32(adjacency.indptr.tobytes() + adjacency.indices.tobytes())
    rng = np.random.default_rng(known)
    before = adjacency.shape[0]
    place, columns = np.arange(before), []
    for count in counts:
        place = rng.integers(count, size=before)[place]
        columns.append(place)
        before = count
    return np.stack(columns, 1).astype(np.int64)


def _pyramid(
    settings: dict[str, Any], graphs: SparseGraphs, watch: Watch, keep: bool
) -> SparseGraphs:
    levels = range(settings["levels"])

    def compute() -> Arrays:
        made = kron_pyramid(graphs, len(levels), watch)
        return {f"{l}.{name}": getattr(made[l], name) for l in levels for name in LEVEL}

    arrays = cached(graphs, settings, compute, keep)
    return with_pyramid(
        graphs, [KronLevel(**{name: arrays[f"{l}.{name}"] for name in LEVEL}) for l in levels]
    )


def _fields(
    settings: dict[str, Any], graphs: SparseGraphs, watch: Watch, keep: bool
) -> SparseGraphs:
    count, size = settings["count"], settings["size"]
    edges = bool(graphs.channels)

    def compute() -> Arrays:
        rows = [np.empty((0, count * size * (1 + size * edges)), np.int64)]
        for adjacency in matrices(graphs, watch):
            own = receptive_fields(adjacency, count, size, settings["labelling"])
            parts = [own, field_edges(adjacency, own)] if edges else [own]
            rows.append(np.concatenate([part.reshape(1, -1) for part in parts], 1))
        return {"fields": np.concatenate(rows)}

    arrays = cached(graphs, {**settings, "edges": edges}, compute, keep)
    return replace(graphs, prepared=Prepared(graphs=torch.from_numpy(arrays["fields"])))
