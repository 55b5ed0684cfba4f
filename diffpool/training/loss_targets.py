"""The classes or targets of a batch, prepared for the loss of M models: scaled targets and a weight for each graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from diffpool.data import Fold, GraphDataset
from diffpool.errors import SettingError
from diffpool.training.settings import Training


@dataclass(frozen=True, eq=False)
class LossTargets:
    """Maps rows of `CohortBatches.y` to the classes or targets in the loss, and to the weights of the graphs."""

    regression: bool
    packed: bool = False  # whether column 0 of y holds the weight of each graph; see `packed`
    weighted: bool = False  # whether to use these weights
    class_weights: Tensor | None = None  # [M, C]
    mean: Tensor | None = (
        None  # [M, 1, T] float64: mean of the targets of each model's training graphs
    )
    sd: Tensor | None = None
    dtype: torch.dtype = torch.float32  # type of the weights and targets in the loss

    @classmethod
    def for_training(
        cls,
        dataset: GraphDataset,
        folds: Sequence[Fold],
        configs: Sequence[Training],
        target_folds: Sequence[Fold] | None = None,
    ) -> LossTargets:
        """The targets for training one model on each fold.

        Targets are scaled to mean 0 and sd 1 on the training graphs of `target_folds`.
        """
        mean = sd = None
        if target_folds is not None and dataset.regression:
            scales = [target_scale(dataset, fold) for fold in target_folds]
            mean, sd = (torch.stack(part)[:, None] for part in zip(*scales, strict=True))
        return cls(
            regression=dataset.regression,
            packed=dataset.weights is not None,
            weighted=dataset.weights is not None,
            class_weights=_class_weights(dataset, folds, configs),
            mean=mean,
            sd=sd,
            dtype=dataset.dtype,
        )

    @classmethod
    def for_scores(cls, dataset: GraphDataset) -> LossTargets:
        """The targets for scoring: unscaled, and all graphs have the same weight."""
        return cls(dataset.regression, packed=dataset.weights is not None, dtype=dataset.dtype)

    def __call__(self, y: Tensor, models: int) -> tuple[Tensor, Tensor | None]:
        """Classes [M · B] or targets [M · B, T], and weights [M · B], or None if all weights are 1."""
        weights = None
        if self.packed:
            weights = y[:, 0].to(self.dtype) if self.weighted else None
            y = y[:, 1:] if self.regression else y[:, 1].long()
        if self.mean is not None and self.sd is not None:
            scaled = (y.view(models, -1, y.shape[-1]) - self.mean) / self.sd  # in float64
            y = scaled.view(y.shape)
        if self.regression:
            y = y.to(self.dtype)
        if self.class_weights is not None:
            class_weights = self.class_weights.gather(1, y.view(models, -1)).view(-1)
            weights = class_weights if weights is None else weights * class_weights
        return y, weights


def packed(dataset: GraphDataset) -> Tensor:
    """The classes or targets as one tensor, with the weight of each graph as column 0 if the graphs have weights.

    A training step reads rows of a single tensor, also on a GPU. Classes up to 2²⁴ are exact in float32.
    """
    if dataset.weights is None:
        return dataset.y
    y = dataset.y.view(len(dataset), -1)
    y = y if dataset.regression else y.to(dataset.device, dataset.dtype)
    return torch.cat([dataset.weights[:, None].to(y), y], 1)


def target_scale(dataset: GraphDataset, fold: Fold) -> tuple[Tensor, Tensor]:
    """Mean and sd of the targets of the training graphs, each [T], in float64; the sd of constant targets is 1."""
    targets = dataset.y[torch.as_tensor(fold.train, device=dataset.y.device)].double()
    mean, sd = targets.mean(0), targets.std(0, correction=0)
    varies = sd > 1e-13 * targets.abs().amax(0)  # rounding gives constant targets a tiny sd
    return mean, torch.where(varies, sd, 1.0)


def _class_weights(
    dataset: GraphDataset, folds: Sequence[Fold], configs: Sequence[Training]
) -> Tensor | None:
    """[M, C]: balanced weights n / (C · n_c) of the C classes among the training graphs of each model.

    Other classes have weight 1, the mean weight of a training graph. So a validation graph of such a class counts, but
    it does not dominate the validation loss.
    """
    if all(config.class_weight is None for config in configs):
        return None
    if dataset.regression:
        raise SettingError(
            f"class_weight needs classes, but {dataset.name} has regression targets. Remove the setting."
        )
    y = dataset.y.cpu().numpy()
    rows = []
    for fold, config in zip(folds, configs, strict=True):
        counts = np.bincount(y[fold.train], minlength=dataset.num_classes)
        balanced = len(fold.train) / (max((counts > 0).sum(), 1) * counts.clip(min=1))
        balanced = np.where(counts > 0, balanced, 1.0)
        rows.append(balanced if config.class_weight == "balanced" else np.ones(len(counts)))
    return torch.from_numpy(np.stack(rows)).to(dataset.device, dataset.dtype)
