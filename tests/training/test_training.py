"""The training loop: reproducible, stops early, restores the best epoch, and reports errors."""

from __future__ import annotations

import copy
import math
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from diffpool.architecture import PAPER
from diffpool.builder import build
from diffpool.data import Fold, GraphDataset, embedded, single_split
from diffpool.errors import SettingError, TrainingError
from diffpool.experiments import METHODS, Method, train_once
from diffpool.nn import GraphClassifier, Prediction
from diffpool.training import (
    Epoch,
    Optimizer,
    Scorer,
    Scores,
    Training,
    score,
    total_loss,
    train,
)

QUICK = Training(epochs=3, batch_size=8, learning_rate=0.01)


@pytest.fixture(scope="module")
def dataset() -> GraphDataset:
    return embedded(40, seed=3, rungs=3)


@pytest.fixture(scope="module")
def fold(dataset: GraphDataset) -> Fold:
    return single_split(dataset.y, seed=0)


def model_for(dataset: GraphDataset) -> GraphClassifier:
    architecture = replace(PAPER, hidden=8)
    return build(architecture, dataset.num_features, dataset.num_classes, dataset.largest)


def method(**changes: float) -> Method:
    training = replace(QUICK, **changes)
    return replace(METHODS["diffpool"], architecture=replace(PAPER, hidden=8), training=training)


def without_seconds(rows: tuple[Epoch, ...]) -> list[dict]:
    return [{k: v for k, v in asdict(row).items() if k != "seconds"} for row in rows]


def state(model: GraphClassifier) -> dict[str, Tensor]:
    return copy.deepcopy(model.state_dict())


def equal(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return all(torch.equal(a[key], b[key]) for key in a)


# --- seeds -------------------------------------------------------------------------------------------------------


def test_two_runs_with_the_same_seed_are_identical_to_the_bit(dataset: GraphDataset) -> None:
    a, b = train_once(method(seed=1), dataset), train_once(method(seed=1), dataset)
    assert without_seconds(a.epochs) == without_seconds(b.epochs)
    assert a.test == b.test
    assert equal(state(a.model), state(b.model))


def test_another_seed_changes_split_parameters_and_metrics(
    dataset: GraphDataset,
) -> None:
    a, b = train_once(method(seed=1), dataset), train_once(method(seed=2), dataset)
    assert without_seconds(a.epochs) != without_seconds(b.epochs)
    assert not np.array_equal(a.fold.test, b.fold.test)
    assert not equal(state(a.model), state(b.model))


def test_the_seed_determines_the_order_of_the_graphs(dataset: GraphDataset, fold: Fold) -> None:
    model = model_for(dataset)
    runs = [
        list(train(copy.deepcopy(model), dataset, fold, replace(QUICK, epochs=1, seed=seed)))
        for seed in (0, 0, 1)
    ]
    losses = [rows[0].train_loss for rows in runs]
    assert losses[0] == losses[1]
    assert losses[0] != losses[2]


def test_training_does_not_change_the_global_random_state(dataset: GraphDataset) -> None:
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    train_once(method(epochs=1), dataset)
    assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(np.random.get_state()[1], numpy_before)  # noqa: NPY002


# --- early stopping ----------------------------------------------------------------------------------------------


def scripted(
    monkeypatch: pytest.MonkeyPatch, losses: list[float], accuracies: list[float] | None = None
) -> None:
    """Replace the validation losses and accuracies by these."""
    remaining = zip(losses, accuracies or [0.5] * len(losses), strict=True)
    monkeypatch.setattr(Scorer, "__call__", lambda *args: [Scores(*next(remaining))])


def test_training_stops_after_patience_epochs_without_a_lower_validation_loss(
    dataset: GraphDataset, fold: Fold, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, [1.0, 0.5, 0.7, 0.5, 0.6, 0.1])
    model = model_for(dataset)
    rows, states = [], []
    for row in train(model, dataset, fold, replace(QUICK, epochs=6, patience=3)):
        rows.append(row)
        states.append(state(model))
    assert [row.epoch for row in rows] == [1, 2, 3, 4, 5]
    assert [row.best for row in rows] == [True, True, False, False, False]
    assert equal(state(model), states[1])
    assert not equal(states[1], states[4])


def test_a_lower_validation_loss_within_patience_keeps_the_training_going(
    dataset: GraphDataset, fold: Fold, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, [1.0, 1.1, 0.9, 1.1, 0.8])
    rows = list(train(model_for(dataset), dataset, fold, replace(QUICK, epochs=5, patience=2)))
    assert [row.best for row in rows] == [True, False, True, False, True]


def test_the_accuracy_decides_if_it_is_monitored_and_the_loss_between_equal_accuracies(
    dataset: GraphDataset, fold: Fold, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, [0.5, 0.9, 0.8, 0.1, 0.8], [0.5, 0.75, 0.75, 0.5, 0.75])
    model, states, rows = model_for(dataset), [], []
    config = replace(QUICK, epochs=9, patience=2, monitor="accuracy")
    for row in train(model, dataset, fold, config):
        rows.append(row)
        states.append(state(model))
    assert [row.best for row in rows] == [True, True, True, False, False]
    assert equal(state(model), states[2])


def test_accuracy_cannot_be_monitored_in_regression(dataset: GraphDataset, fold: Fold) -> None:
    targets = replace(dataset, y=dataset.y[:, None].float(), class_names=())
    config = replace(QUICK, monitor="accuracy")
    with pytest.raises(
        SettingError, match=r"^monitor=accuracy needs classes, but .* use monitor=loss$"
    ):
        next(train(model_for(targets), targets, fold, config))


def test_the_restored_model_has_the_validation_loss_of_the_best_epoch(
    dataset: GraphDataset, fold: Fold
) -> None:
    model = model_for(dataset)
    config = replace(QUICK, epochs=50, patience=1, learning_rate=0.1)
    rows = list(train(model, dataset, fold, config))
    best = min(rows, key=lambda row: row.validation_loss)
    assert [row for row in rows if row.best][-1] == best
    scores = score(model, dataset, fold.validation)
    assert scores.loss == best.validation_loss
    assert scores.accuracy == best.validation_accuracy
    assert best != rows[-1]  # otherwise nothing was restored


def test_closing_the_iterator_restores_the_best_epoch_too(
    dataset: GraphDataset, fold: Fold, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, [0.5, 0.9, 0.9])
    model = model_for(dataset)
    rows = train(model, dataset, fold, QUICK)
    next(rows)
    first = state(model)
    next(rows)
    assert not equal(state(model), first)
    rows.close()
    assert equal(state(model), first)


# --- losses and gradients ----------------------------------------------------------------------------------------


def prediction_with(losses: dict[str, list[float]]) -> tuple[Prediction, Tensor]:
    logits = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
    tensors = {name: torch.tensor(values) for name, values in losses.items()}
    return Prediction(logits, (), (), tensors, logits), torch.tensor([0, 0])


def test_the_loss_is_the_cross_entropy_plus_the_weighted_losses_of_the_poolers() -> None:
    prediction, y = prediction_with({"link": [10.0, 20.0], "entropy": [1.0, 2.0], "own": [7.0, 8]})
    loss = total_loss(prediction, y, {"link": 0.5, "entropy": 3.0})
    cross_entropy = [math.log(1 + math.exp(-2)), math.log(1 + math.exp(1))]
    expected = torch.tensor([cross_entropy[0] + 5 + 3 + 7, cross_entropy[1] + 10 + 6 + 8])
    torch.testing.assert_close(loss, expected)


def test_a_loss_with_weight_zero_is_skipped_even_if_it_is_not_a_number() -> None:
    prediction, y = prediction_with({"link": [math.nan, math.inf]})
    loss = total_loss(prediction, y, {"link": 0.0})
    torch.testing.assert_close(loss, F.cross_entropy(prediction.logits, y, reduction="none"))


@pytest.mark.parametrize(("link", "entropy"), [(1.0, 1.0), (0.25, 0.0), (0.0, 2.0), (0.0, 0.0)])
def test_the_training_loss_uses_the_weights(
    dataset: GraphDataset, fold: Fold, link: float, entropy: float
) -> None:
    """One step over all graphs: the metrics are those of the model before the step."""
    data = replace(dataset, graphs=dataset.graphs.to(dtype=torch.float64), x=dataset.x.double())
    model = model_for(dataset).double()
    batch = data.batch(fold.train)
    before = copy.deepcopy(model).train()(batch.graphs, batch.x)
    config = Training(epochs=1, batch_size=100, link_weight=link, entropy_weight=entropy)
    (row,) = train(model, data, fold, config)
    class_loss = F.cross_entropy(before.logits, batch.y)
    extra = link * before.losses["link"].mean() + entropy * before.losses["entropy"].mean()
    assert row.train_class_loss == pytest.approx(class_loss.item(), rel=1e-10)
    assert row.train_loss == pytest.approx((class_loss + extra).item(), rel=1e-10)
    right = (before.logits.argmax(-1) == batch.y).double().mean().item()
    assert row.train_accuracy == pytest.approx(right, rel=1e-12)


@pytest.fixture
def norms(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The norm of the gradient that Adam gets at each step, from what it does to the first moment."""
    found: list[float] = []
    step = Optimizer.step

    def spy(self, *args, **kwargs):
        before = self.mean.clone()
        step(self, *args, **kwargs)
        found.append(((self.mean - 0.9 * before) / 0.1).norm().item())

    monkeypatch.setattr(Optimizer, "step", spy)
    return found


def test_the_norm_of_the_gradient_is_clipped(
    dataset: GraphDataset, fold: Fold, norms: list[float]
) -> None:
    model = model_for(dataset)
    for clip in (1e6, 1e7, 0.01):
        list(train(copy.deepcopy(model), dataset, fold, replace(QUICK, epochs=1, clip=clip)))
    assert len(norms) == 3 * 4  # 32 graphs in batches of 8
    assert norms[:4] == norms[4:8]  # a gradient below the limit is not changed
    assert min(norms[:4]) > 0.1
    assert norms[8:] == pytest.approx([0.01] * 4, rel=1e-3)


def test_a_step_equals_adam_on_the_clipped_gradient_of_the_mean_loss(
    dataset: GraphDataset, fold: Fold
) -> None:
    """Compared with PyTorch's clipping and optimizer, in double precision."""
    data = replace(dataset, graphs=dataset.graphs.to(dtype=torch.float64), x=dataset.x.double())
    config = Training(epochs=2, batch_size=8, learning_rate=0.01, weight_decay=0.1, clip=0.5)
    model = model_for(dataset).double()
    twin = copy.deepcopy(model)
    with_lower_loss = [row.best for row in train(model, data, fold, config)]
    matrices = [p for p in twin.parameters() if p.dim() > 2]
    others = [p for p in twin.parameters() if p.dim() <= 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others}]
    adam = torch.optim.Adam(groups, lr=0.01)
    for epoch, best in enumerate(with_lower_loss, start=1):
        twin.train()
        order = np.random.default_rng([config.seed, epoch]).permutation(fold.train)
        for start in range(0, len(order), 8):
            batch = data.batch(order[start : start + 8])
            loss = total_loss(twin(batch.graphs, batch.x), batch.y, config.loss_weights).mean()
            adam.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(twin.parameters(), 0.5)
            adam.step()
        if best:
            expected = state(twin)
    for key, value in state(model).items():
        torch.testing.assert_close(value, expected[key], rtol=1e-7, atol=1e-7)


def test_frozen_parameters_do_not_change(dataset: GraphDataset, fold: Fold) -> None:
    """Even with weight decay."""
    model = model_for(dataset)
    for parameter in model.poolers.parameters():
        parameter.requires_grad_(False)
    before = state(model)
    list(train(model, dataset, fold, replace(QUICK, weight_decay=0.1, epochs=2)))
    for key, parameter in model.named_parameters():
        assert torch.equal(parameter, before[key]) == key.startswith("poolers."), key


# --- errors ------------------------------------------------------------------------------------------------------


def test_a_loss_that_is_not_a_number_is_an_error_that_names_the_learning_rate(
    dataset: GraphDataset, fold: Fold
) -> None:
    model = model_for(dataset)
    before = state(model)
    config = replace(QUICK, learning_rate=1e38)
    with pytest.raises(TrainingError, match=r"the loss became (nan|inf) in epoch 1.*1e\+38"):
        list(train(model, dataset, fold, config))
    assert equal(state(model), before)


def test_after_a_loss_that_is_not_a_number_the_best_epoch_is_restored(
    dataset: GraphDataset, fold: Fold, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, [0.5, 0.7, math.nan])
    model = model_for(dataset)
    states = []
    epochs = (states.append(state(model)) for _ in train(model, dataset, fold, QUICK))
    with pytest.raises(TrainingError, match=r"became nan in epoch 3.*learning rate below 0\.01"):
        list(epochs)
    assert len(states) == 2
    assert equal(state(model), states[0])
    assert all(torch.isfinite(value).all() for value in state(model).values())


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("epochs", 0, "expected epochs from 1 to 1000000, got 0"),
        ("patience", 0, "expected patience from 1 to 1000000, got 0"),
        ("batch_size", 0, "expected batch_size from 1 to 1048576, got 0"),
        ("seed", -1, "expected seed from 0 to 18446744073709551615, got -1"),
        ("learning_rate", 0.0, "expected learning_rate above 0, got 0"),
        ("learning_rate", math.inf, "expected learning_rate above 0, got inf"),
        ("learning_rate", math.nan, "expected learning_rate above 0, got nan"),
        ("clip", -1.0, "expected clip above 0, got -1"),
        ("weight_decay", -0.1, "expected weight_decay of at least 0, got -0.1"),
        ("link_weight", -1.0, "expected link_weight of at least 0, got -1"),
        ("entropy_weight", math.nan, "expected entropy_weight of at least 0, got nan"),
        ("dropout", -0.1, "expected dropout of at least 0 and below 1, got -0.1"),
        ("dropout", 1.0, "expected dropout of at least 0 and below 1, got 1.0"),
        ("dropout", math.nan, "expected dropout of at least 0 and below 1, got nan"),
    ],
)
def test_invalid_training_settings_are_rejected(field: str, value: float, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        Training(**{field: value})


# --- scores ------------------------------------------------------------------------------------------------------


def test_the_accuracy_of_outputs_that_are_not_numbers_is_not_a_number(
    dataset: GraphDataset,
) -> None:
    x = dataset.x.clone()
    x[-1] = torch.nan
    scores = score(model_for(dataset), replace(dataset, x=x), np.arange(len(dataset)))
    assert math.isnan(scores.loss)
    assert scores.accuracy is not None
    assert math.isnan(scores.accuracy)


def test_the_scores_do_not_depend_on_the_batch_size(dataset: GraphDataset) -> None:
    data = replace(dataset, graphs=dataset.graphs.to(dtype=torch.float64), x=dataset.x.double())
    model = model_for(dataset).double()
    graphs = np.arange(len(data))
    one, all_of_them = (score(model, data, graphs, batch_size=size) for size in (1, 40))
    assert one.loss == pytest.approx(all_of_them.loss, rel=1e-10)
    assert one.accuracy == all_of_them.accuracy
    batch = data.batch(graphs)
    logits = model.eval()(batch.graphs, batch.x).logits
    assert one.loss == pytest.approx(F.cross_entropy(logits, batch.y).item(), rel=1e-10)
    assert one.accuracy == (logits.argmax(-1) == batch.y).double().mean().item()
