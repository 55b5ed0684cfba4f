"""The origin of a result: the key of its run (everything that determines it), commit, versions, device, memory."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch

from diffpool.data import Categories, Fold, GraphDataset, RawGraphs
from diffpool.experiments.methods import KernelMethod, Method
from diffpool.experiments.plan import Plan
from diffpool.experiments.protocols import InnerCV, Protocol
from diffpool.version import VERSION

PACKAGE = Path(__file__).resolve().parent.parent
KERNEL_PACKAGES = (
    "numpy",
    "scipy",
    "scikit-learn",
)  # the result of a kernel depends on their versions

# Settings that did not exist when the first results were recorded. With these values a model is the same as before, so
# they are left out of the key: otherwise every new setting would change the keys of all existing records.
LATER_TRAINING: dict[str, Any] = {
    "dropout": 0.0,
    "class_weight": None,
    "ensemble": 1,
    "monitor": "loss",
    "batch_statistics": "synchronized",
}
LATER_PROTOCOL: dict[str, Any] = {
    "trials": None,
    "inner_folds": 1,
    "halving": False,
    "sampler": "spread",
    "sampler_seed": 0,
    "refit": "train",
}
LATER_ARCHITECTURE: dict[str, Any] = {
    "min_clusters": 1,
    "pooler": "diffpool",
    "assignment": "soft",
    "assignment_conv": None,
    "assignment_layers": None,
    "set2set_steps": 3,
    "sorted_nodes": 0,
    "field_count": 0,
    "field_size": 10,
    "labeling": "wl",
}


def run_key(
    plan: Plan, dataset: GraphDataset, protocol: Protocol, device: str | None = None
) -> str:
    """A hash of everything that determines the result: settings, data, folds, protocol, seed, versions, device.

    Two runs with the same key have the same result. `device` is the type that trains, by default that of the data set.
    """
    # The seed of the method itself is not used: every model has its own, derived from the seed of the plan.
    training = asdict(replace(plan.method.training, seed=0))
    known = versions()
    about = {
        "method": plan.method.name,
        "architecture": _without(LATER_ARCHITECTURE, asdict(plan.method.architecture)),
        "training": _without(LATER_TRAINING, training),
        "dataset": dataset.name,
        "features": dataset.features,
        "data": fingerprint(dataset),
        "protocol": {"name": protocol.name, **_without(LATER_PROTOCOL, asdict(protocol))},
        "folds": fold_digests(plan.folds),
        "seed": plan.seed,
        "versions": [known["torch"], known["diffpool"]],
        "device": device or dataset.device.type,
    }
    return _hash(about)


def training_key(method: Method, dataset: GraphDataset, fold: Fold) -> str:
    """A hash of everything that determines the epochs of a single training run; more epochs do not change it."""
    known = versions()
    training = asdict(replace(method.training, epochs=1, patience=1))
    about = {
        "method": method.name,
        "architecture": asdict(method.architecture),
        "training": _without({"batch_statistics": "synchronized"}, training),
        "data": fingerprint(dataset),
        "fold": fold_digests([[fold]]),
        "versions": [known["torch"], known["diffpool"]],
        "device": dataset.device.type,
    }
    return _hash(about)


def kernel_run_key(
    method: KernelMethod,
    protocol: InnerCV,
    raw: RawGraphs,
    folds: Sequence[Sequence[Fold]],
    seed: int,
) -> str:
    """Like `run_key`, for a graph kernel with an SVM."""
    known = versions(*KERNEL_PACKAGES)
    tables = [t.codes if isinstance(t, Categories) else t for t in vars(raw).values()]
    about = {
        "method": method.settings(),
        "dataset": raw.name,
        "data": _digest(t for t in tables if isinstance(t, np.ndarray)),
        "protocol": {"name": protocol.name, **asdict(protocol)},
        "folds": fold_digests(folds),
        "seed": seed,
        "versions": [known[name] for name in ("diffpool", *KERNEL_PACKAGES)],
    }
    return _hash(about)


def fingerprint(dataset: GraphDataset) -> str:
    """A digest of graphs, features and labels."""
    return _digest(dataset.arrays)


def _without(defaults: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """The values without those that equal their default."""
    absent = object()
    return {name: v for name, v in values.items() if defaults.get(name, absent) != v}


def _hash(about: dict[str, Any]) -> str:
    text = json.dumps(about, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=10).hexdigest()


def fold_digests(folds: Sequence[Sequence[Fold]]) -> list[str]:
    """A digest of the folds of each repeat."""
    return [_digest(p for f in repeat for p in (f.train, f.validation, f.test)) for repeat in folds]


def _digest(arrays: Iterable[np.ndarray]) -> str:
    digest = hashlib.blake2b(digest_size=20)
    for array in arrays:
        digest.update(f"{array.dtype} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def commit() -> str | None:
    """The commit of the source tree, with `-changed` if the package differs from it; None outside a source tree.

    The environment variable DIFFPOOL_COMMIT overrides it, for a copy of the tree without its history.
    """
    if named := os.environ.get("DIFFPOOL_COMMIT"):
        return named
    if not (PACKAGE.parent / ".git").exists():
        return None
    try:
        changed = _git("status", "--porcelain", "--", str(PACKAGE))
        return _git("rev-parse", "HEAD") + ("-changed" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(*words: str) -> str:
    command = ["git", *words]
    run = subprocess.run(
        command, cwd=PACKAGE.parent, capture_output=True, text=True, check=True, timeout=30
    )
    return run.stdout.strip()


def versions(*packages: str) -> dict[str, str]:
    """The versions of Python, torch, this package, and the given packages."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "diffpool": VERSION,
        **{name: metadata.version(name) for name in packages},
    }


def device_name(device: torch.device) -> str:
    """The name of the GPU, with its matrix product precision if it is not float32, or the name of the processor."""
    if device.type == "cuda":
        exact = torch.get_float32_matmul_precision() == "highest"
        return torch.cuda.get_device_name(device) + ("" if exact else ", products in TF32")
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def peak_memory(device: torch.device) -> int | None:
    """Peak memory use in bytes, of the GPU or of this process; None if the system does not report it."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
