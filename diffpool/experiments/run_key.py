"""The key of a run: two runs with one key have one result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from torch import Tensor

from diffpool.data import Categories, Fold, GraphDataset, RawGraphs
from diffpool.experiments.methods import KernelMethod
from diffpool.experiments.origin import versions
from diffpool.experiments.protocols import InnerCV, Protocol
from diffpool.experiments.tasks import Plan
from diffpool.training import ARCHITECTURE_LATER, TRAINING_LATER

KERNEL_PACKAGES = ("numpy", "scipy", "scikit-learn")  # that a kernel's result comes from


def run_key(plan: Plan, dataset: GraphDataset, protocol: Protocol) -> str:
    """A hash of everything that determines the result: settings, data, folds, protocol, seed, versions, device."""
    training = asdict(
        replace(plan.method.training, seed=0)
    )  # each model has its own, from the plan's
    architecture = asdict(plan.method.architecture)
    for values, later in ((training, TRAINING_LATER), (architecture, ARCHITECTURE_LATER)):
        for name, usual in later.items():  # runs from before these were settings keep their keys
            if values[name] == usual:
                del values[name]
    known = versions()
    about = {
        "method": plan.method.name,
        "architecture": architecture,
        "training": training,
        "dataset": dataset.name,
        "features": dataset.features,
        "data": fingerprint(dataset),
        "protocol": {"name": protocol.name, **asdict(protocol)},
        "folds": _fold_digests(plan.folds),
        "seed": plan.seed,
        "versions": [known["torch"], known["diffpool"]],
        "device": dataset.x.device.type,
    }
    return _hash(about)


def kernel_run_key(
    method: KernelMethod,
    protocol: InnerCV,
    raw: RawGraphs,
    folds: Sequence[Sequence[Fold]],
    seed: int,
) -> str:
    """The same for a kernel with an SVM."""
    known = versions(*KERNEL_PACKAGES)
    tables = [t.codes if isinstance(t, Categories) else t for t in vars(raw).values()]
    about = {
        "method": method.settings(),
        "dataset": raw.name,
        "data": _digest(t for t in tables if isinstance(t, np.ndarray)),
        "protocol": {"name": protocol.name, **asdict(protocol)},
        "folds": _fold_digests(folds),
        "seed": seed,
        "versions": [known[name] for name in ("diffpool", *KERNEL_PACKAGES)],
    }
    return _hash(about)


def _hash(about: dict[str, Any]) -> str:
    text = json.dumps(about, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=10).hexdigest()


def _fold_digests(folds: Sequence[Sequence[Fold]]) -> list[str]:
    return [_digest(p for f in own for p in (f.train, f.validation, f.test)) for own in folds]


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
