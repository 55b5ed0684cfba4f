"""Our model and its peers on one data set, for `contest`: training steps and evaluation.

All use the architecture, losses and batches of `cpu_step`. Peers train one model; ours trains M models side by side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader

from benchmarks.cpu_step import BATCH, HIDDEN, RATIO, architecture
from benchmarks.pyg_dense import PygDiffPool, to_pyg, train_on
from benchmarks.tgp_pool import TgpDiffPool
from diffpool.builder import build
from diffpool.data import Fold, GraphDataset
from diffpool.training import Cohort, Scorer, Training

CONFIG = Training(batch_size=BATCH)


@dataclass(frozen=True, eq=False)
class Setting:
    """The input of every competitor."""

    dataset: GraphDataset  # on the host
    device: str = "cpu"
    workers: int = 0  # processes that collate batches, for `pyg-loader`

    @cached_property
    def on_device(self) -> GraphDataset:
        return self.dataset.to(self.device)

    @cached_property
    def graphs(self) -> list[Data]:
        """All graphs as PyG data objects."""
        return to_pyg(self.dataset, range(len(self.dataset)))

    @property
    def clusters(self) -> tuple[int, int]:
        """One number of clusters per pooling for the whole data set, which the peers require."""
        first = math.ceil(RATIO * self.dataset.largest)
        return first, math.ceil(RATIO * first)

    @property
    def shape(self) -> tuple[int, int, int, tuple[int, int]]:
        """The arguments of a peer's model: features, hidden size, classes, clusters."""
        dataset = self.dataset
        return dataset.num_features, HIDDEN, dataset.num_classes, self.clusters


def rehearsals_on(device: str) -> int:
    """How often our model rehearses: on a GPU, a step is captured the second time its size occurs."""
    return 2 if device == "cuda" else 0


class Ours:
    """M of our models side by side, with ceil(25 %) of each graph's own nodes as its clusters."""

    def __init__(self, setting: Setting, models: int = 1):
        dataset = setting.on_device
        shape = (dataset.num_features, dataset.num_classes, dataset.largest)
        model = build(architecture("graph"), *shape, models=models).to(dataset.x.device)
        everything, nothing = np.arange(len(dataset)), np.empty(0, np.int64)
        folds = [Fold(everything, nothing, nothing)] * models
        self.cohort = Cohort(model, dataset, folds, [CONFIG] * models)
        self.scorers: dict[int, Scorer] = {}  # by the size of a batch

    def steps(self, chosen: np.ndarray) -> None:
        """Training steps on these graphs, [steps, M, B], as an epoch of them alone."""
        self.cohort.train_on(_orders(chosen))

    def evaluate(self, chosen: np.ndarray) -> None:
        """Scores on these graphs without gradients: [batches, M, B]."""
        cohort, (_, models, size) = self.cohort, chosen.shape
        if size not in self.scorers:
            self.scorers[size] = Scorer(cohort.model, cohort.batches, models, size)
        self.scorers[size](_orders(chosen))


def _orders(chosen: np.ndarray) -> list[np.ndarray]:
    """The graphs of each model in one sequence."""
    return list(chosen.transpose(1, 0, 2).reshape(chosen.shape[1], -1))


Batches = Callable[[np.ndarray], Iterable[Batch]]  # graph numbers [steps, B] → batches


class Peer:
    """One model of a peer, with a source of batches."""

    def __init__(self, setting: Setting, model: nn.Module, batches: Batches):
        self.device, self.batches = setting.device, batches
        self.model = model.to(self.device).train()
        self.optimizer = torch.optim.Adam(model.parameters(), CONFIG.learning_rate)

    def steps(self, chosen: np.ndarray) -> None:
        """Training steps on these graphs: [steps, 1, B]."""
        for batch in self.batches(chosen[:, 0]):
            batch = batch.to(self.device, non_blocking=True)
            train_on(self.model, self.optimizer, batch, CONFIG.clip)

    @torch.no_grad()
    def evaluate(self, chosen: np.ndarray) -> int:
        """The number of correctly classified graphs among these: [batches, 1, B]."""
        self.model.eval()
        right = torch.zeros((), dtype=torch.int64, device=self.device)
        for batch in self.batches(chosen[:, 0]):
            batch = batch.to(self.device)
            right += (self.model(batch)[0].argmax(-1) == batch.y).sum()
        return int(right)


def collated(setting: Setting) -> Batches:
    """Batches collated one by one between the steps."""

    def batches(chosen: np.ndarray) -> Iterator[Batch]:
        for own in chosen:
            yield Batch.from_data_list([setting.graphs[g] for g in own])

    return batches


def loaded(setting: Setting) -> Batches:
    """Batches collated in advance by the worker processes of PyG's loader."""
    order: list[list[int]] = []
    loader = DataLoader(
        setting.graphs,
        batch_sampler=order,
        num_workers=setting.workers,
        persistent_workers=setting.workers > 0,
        pin_memory=setting.device == "cuda",
    )

    def batches(chosen: np.ndarray) -> DataLoader:
        order[:] = chosen.tolist()
        return loader

    return batches


def pyg(setting: Setting) -> Peer:
    """PyG's dense operator: the peer that all ratios refer to."""
    return Peer(setting, PygDiffPool(*setting.shape), collated(setting))


class Exact(Peer):
    """A peer with PyTorch's default precision: full float32 products, even if the others use TF32."""

    def steps(self, chosen: np.ndarray) -> None:
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")
        try:
            super().steps(chosen)
        finally:
            torch.set_float32_matmul_precision(before)


def pyg_float32(setting: Setting) -> Peer:
    """`pyg` with full float32 products."""
    return Exact(setting, PygDiffPool(*setting.shape), collated(setting))


def pyg_compiled(setting: Setting) -> Peer:
    """`pyg` with everything after the padding compiled; padded sizes differ from batch to batch."""
    model = PygDiffPool(*setting.shape)
    model.dense = torch.compile(model.dense, dynamic=True)  # type: ignore[method-assign]
    return Peer(setting, model, collated(setting))


def pyg_loader(setting: Setting) -> Peer:
    """`pyg` with batches from worker processes."""
    return Peer(setting, PygDiffPool(*setting.shape), loaded(setting))


def tgp(setting: Setting) -> Peer:
    """torch-geometric-pool, batched."""
    return Peer(setting, TgpDiffPool(*setting.shape, batched=True), collated(setting))


def tgp_unbatched(setting: Setting) -> Peer:
    """torch-geometric-pool, unbatched."""
    return Peer(setting, TgpDiffPool(*setting.shape, batched=False), collated(setting))


PEERS: dict[str, Callable[[Setting], Peer]] = {
    "pyg": pyg,
    "pyg-float32": pyg_float32,
    "pyg-loader": pyg_loader,
    "tgp": tgp,
    "tgp-unbatched": tgp_unbatched,
    "pyg-compile": pyg_compiled,  # last, because compiling would disturb the warm-up of the others
}
