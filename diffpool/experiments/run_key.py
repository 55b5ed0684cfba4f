"""The key of a run: two runs with one key have one result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, replace

import numpy as np
from torch import Tensor

from diffpool.data import GraphDataset
from diffpool.experiments.origin import versions
from diffpool.experiments.protocols import Protocol
from diffpool.experiments.tasks import Plan


def run_key(plan: Plan, dataset: GraphDataset, protocol: Protocol) -> str:
    """A hash of everything that determines the result: settings, data, folds, protocol, seed, versions, device."""
    training = asdict(
        replace(plan.method.training, seed=0)
    )  # each model has its own, from the plan's
    if not training["dropout"]:
        del training["dropout"]  # so that runs from before it was a setting keep their keys
    known = versions()
    about = {
        "method": plan.method.name,
        "architecture": asdict(plan.method.architecture),
        "training": training,
        "dataset": dataset.name,
        "features": dataset.features,
        "data": fingerprint(dataset),
        "protocol": {"name": protocol.name, **asdict(protocol)},
        "folds": [
            _digest(p for f in folds for p in (f.train, f.validation, f.test))
            for folds in plan.folds
        ],
        "seed": plan.seed,
        "versions": [known["torch"], known["diffpool"]],
        "device": dataset.x.device.type,
    }
    text = json.dumps(about, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=10).hexdigest()


def fingerprint(dataset: GraphDataset) -> str:
    """A digest of graphs, features and labels."""
    graphs = dataset.graphs
    tensors: list[Tensor | None] = [graphs.layout.sizes, dataset.x, dataset.y]
    tensors += [graphs.adj.indptr, graphs.adj.indices, graphs.adj.values]
    tensors += [channel.values for channel in graphs.channels]
    return _digest(np.empty(0) if t is None else t.cpu().numpy() for t in tensors)


def _digest(arrays: Iterable[np.ndarray]) -> str:
    digest = hashlib.blake2b(digest_size=20)
    for array in arrays:
        digest.update(f"{array.dtype} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
