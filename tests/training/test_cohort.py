"""Models trained side by side: every model is identical to one trained on its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from diffpool.architecture import PAPER, RELEASED, Architecture, flat
from diffpool.builder import build
from diffpool.data import Fold, GraphDataset, embedded
from diffpool.errors import ModelError, TrainingError
from diffpool.graphs import Graphs
from diffpool.nn import GraphClassifier, Random, mlp
from diffpool.training import (
    Cohort,
    CohortBatches,
    Epoch,
    Training,
    is_out_of_memory,
    score,
    score_cohort,
    train,
)

SMALL = replace(PAPER, hidden=6)
ARCHITECTURES = {
    "paper": SMALL,
    "two poolings": replace(SMALL, poolings=2, ratio=0.25),
    "clusters of the data set": replace(SMALL, poolings=2, clusters="dataset"),
    "given clusters": replace(SMALL, poolings=2, clusters=(5, 2)),
    "flat": flat(SMALL),
    "gcn": replace(SMALL, conv="gcn", concat=True, every_level=True, readout="mean"),
    "gin": replace(SMALL, conv="gin", readout="max"),
    "linear assignment": replace(SMALL, assignment_linear=True, head=(4,), ratio=0.25),
    "released": replace(RELEASED, hidden=5),
}


@pytest.fixture(scope="module")
def dataset() -> GraphDataset:
    """Graphs of very different sizes, in double precision: the generated ones with some of their nodes."""
    whole = embedded(60, seed=3, rungs=3)
    from diffpool.graphs import SparseGraphs

    rng = np.random.default_rng(0)
    sizes = rng.integers(0, 25, 60)
    sizes[[4, 9]] = 0, 1
    source, target, start = [], [], 0
    for n in sizes:
        adj = np.triu(rng.random((n, n)) < 0.3, 1)
        i, j = np.nonzero(adj)
        source += [start + i, start + j]
        target += [start + j, start + i]
        start += n
    graphs = SparseGraphs.from_edges(sizes, np.concatenate(source), np.concatenate(target))
    return replace(
        whole,
        graphs=graphs.to(dtype=torch.float64),
        x=torch.from_numpy(rng.normal(size=(start, 6))),
        communities=None,
    )


def folds(count: int) -> list[Fold]:
    """Folds with different numbers of graphs, so that some models have no graphs in the last steps."""
    made = []
    for m in range(count):
        order = np.random.default_rng([7, m]).permutation(60)
        train = order[: 33 - 3 * m]
        made.append(Fold(train, order[33:45], order[45:]))
    return made


def configs(count: int) -> list[Training]:
    return [
        Training(
            epochs=10,
            patience=10,
            batch_size=6 + m,
            seed=m,
            learning_rate=0.001 * (m + 1),
            weight_decay=0.01 * m,
            link_weight=1.0 + m,
            entropy_weight=0.5,
            clip=2.0 / (m + 1),
        )
        for m in range(count)
    ]


def model_of(architecture: Architecture, models: int, seeds: list[int]) -> GraphClassifier:
    """Each model has the initial parameters of its seed."""
    single = []
    for seed in seeds:
        torch.manual_seed(seed)
        single.append(build(architecture, 6, 2, largest=24).double().state_dict())
    model = build(architecture, 6, 2, largest=24, models=models).double()
    model.load_state_dict({name: torch.cat([s[name] for s in single]) for name in single[0]})
    return model


def run(
    architecture: Architecture, dataset: GraphDataset, members: list[int], epochs: int
) -> tuple[Cohort, list[list[Epoch | None]]]:
    model = model_of(architecture, len(members), members)
    cohort = Cohort(
        model, dataset, [folds(4)[m] for m in members], [configs(4)[m] for m in members]
    )
    return cohort, [cohort.train_epoch() for _ in range(epochs)]


def rows_of(state: dict[str, Tensor], number: int) -> dict[str, Tensor]:
    return {name: t[number : number + 1] for name, t in state.items()}


def same(a: dict[str, Tensor], b: dict[str, Tensor], tolerance: float) -> None:
    assert a.keys() == b.keys()
    for name in a:
        torch.testing.assert_close(a[name], b[name], rtol=tolerance, atol=tolerance, msg=name)


def same_state(a: Cohort, b: Cohort) -> None:
    """To the bit, except for the time."""
    left, right = a.state(), b.state()
    assert left.keys() == right.keys()
    for name in left.keys() - {"run.seconds"}:
        assert torch.equal(left[name], right[name]), name


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_model_in_a_cohort_equals_the_model_trained_alone_in_double_precision(
    name: str, dataset: GraphDataset
) -> None:
    """After at least 20 steps: parameters, running statistics, every metric, best epoch."""
    together, rows = run(ARCHITECTURES[name], dataset, [0, 1, 2, 3], epochs=5)
    assert (
        sum(-(-len(f.train) // c.batch_size) for f, c in zip(folds(1), configs(1), strict=True)) * 5
        >= 20
    )
    for m in range(4):
        alone, own = run(ARCHITECTURES[name], dataset, [m], epochs=5)
        same(rows_of(together.model.state_dict(), m), alone.model.state_dict(), 1e-9)
        same(rows_of(together.best, m), alone.best, 1e-9)
        for mine, theirs in zip(own, rows, strict=True):
            for field in ("train_loss", "train_class_loss", "train_accuracy", "validation_loss"):
                assert getattr(mine[0], field) == pytest.approx(getattr(theirs[m], field), rel=1e-8)
            assert mine[0].validation_accuracy == theirs[m].validation_accuracy
            assert mine[0].best == theirs[m].best


def test_in_single_precision_it_is_equal_up_to_rounding(dataset: GraphDataset) -> None:
    single = replace(dataset, graphs=dataset.graphs.to(dtype=torch.float32), x=dataset.x.float())

    def losses(members: list[int]) -> list[list[float]]:
        model = model_of(SMALL, len(members), members).float()
        cohort = Cohort(
            model, single, [folds(3)[m] for m in members], [configs(3)[m] for m in members]
        )
        rows = [cohort.train_epoch() for _ in range(3)]
        return [[row[i].train_loss for row in rows] for i in range(len(members))]

    together = losses([0, 1, 2])
    for m in range(3):
        assert together[m] == pytest.approx(losses([m])[0], rel=1e-3)


def test_a_stopped_model_does_not_change_while_the_others_continue(dataset: GraphDataset) -> None:
    """One of three: it is not dropped, because more than half of the models continue."""
    changed = [replace(c, epochs=e) for c, e in zip(configs(3), (1, 4, 4), strict=True)]
    cohort = Cohort(model_of(SMALL, 3, [0, 1, 2]), dataset, folds(3), changed)
    first = cohort.train_epoch()
    assert all(first)
    after = {name: t.clone() for name, t in cohort.model.state_dict().items()}
    assert cohort.active == [False, True, True]
    second = cohort.train_epoch()
    assert second[0] is None
    assert second[1] is not None
    assert cohort.members == [0, 1, 2]
    now = cohort.model.state_dict()
    same(rows_of(now, 0), rows_of(after, 0), 0)
    assert not torch.equal(now["head.0.weight"][1], after["head.0.weight"][1])
    while not cohort.finished:
        cohort.train_epoch()
    assert cohort.epoch == 4


def test_a_run_continues_from_its_state_to_the_bit(dataset: GraphDataset) -> None:
    whole, rows = run(SMALL, dataset, [0, 1, 2], epochs=4)
    half, _ = run(SMALL, dataset, [0, 1, 2], epochs=2)
    saved = {name: t.clone() for name, t in half.state().items()}
    again, _ = run(SMALL, dataset, [0, 1, 2], epochs=1)
    again.load_state(saved)
    rest = [again.train_epoch() for _ in range(2)]
    same_state(whole, again)
    for a, b in zip(rows[2:], rest, strict=True):
        for mine, theirs in zip(a, b, strict=True):
            assert replace(mine, seconds=0) == replace(theirs, seconds=0)


def test_curves_are_the_validation_metrics_of_every_epoch(dataset: GraphDataset) -> None:
    """The mean curve counts a stopped model with its last accuracy."""
    changed = [replace(c, epochs=e) for c, e in zip(configs(3), (1, 4, 4), strict=True)]
    cohort = Cohort(model_of(SMALL, 3, [0, 1, 2]), dataset, folds(3), changed)
    rows = to_the_end(cohort)
    for m, curve in enumerate(cohort.curves):
        own = [row[m] for row in rows if row[m] is not None]
        assert curve == [(row.validation_loss, row.validation_accuracy) for row in own]
    padded = [curve + curve[-1:] * (4 - len(curve)) for curve in cohort.curves]
    assert cohort.mean_accuracies == pytest.approx(np.array(padded)[:, :, 1].mean(0))
    assert cohort.seconds == pytest.approx(sum(row[1].seconds for row in rows))


def test_the_best_epoch_of_each_model_is_restored(dataset: GraphDataset) -> None:
    cohort, rows = run(SMALL, dataset, [0, 1, 2], epochs=6)
    cohort.restore_best()
    scores = score_cohort(cohort.model, cohort.batches, [f.validation for f in cohort.folds])
    for m in range(3):
        best = min(row[m].validation_loss for row in rows)
        assert scores[m].loss == pytest.approx(best, rel=1e-10)
        assert cohort.best_loss[m] == pytest.approx(best)


def test_scores_of_a_cohort_equal_those_of_its_models(dataset: GraphDataset) -> None:
    model = model_of(SMALL, 3, [0, 1, 2])
    parts = [np.arange(7), np.arange(7, 40), np.empty(0, np.int64)]
    together = score_cohort(model, CohortBatches(dataset, model.clusters), parts, batch_size=10)
    for m, graphs in enumerate(parts):
        alone = score(model_of(SMALL, 1, [m]), dataset, graphs)
        assert together[m].loss == pytest.approx(alone.loss, rel=1e-10)
        assert together[m].accuracy == alone.accuracy


def test_every_graph_of_every_model_is_in_one_batch_of_an_epoch(dataset: GraphDataset) -> None:
    numbered = replace(dataset, y=torch.arange(60), class_names=tuple(map(str, range(60))))
    parts = [np.array([5, 3, 8, 1, 0, 59, 58]), np.array([2, 7]), np.empty(0, np.int64)]
    seen: list[list[int]] = [[], [], []]
    batches = list(CohortBatches(numbered, ()).batches(parts, [3, 4, 5]))
    assert [b.counts.tolist() for b in batches] == [[3, 2, 0], [3, 0, 0], [1, 0, 0]]
    sizes = dataset.graphs.layout.sizes
    for batch in batches:
        y = batch.y.view(batch.real.shape)
        for m in range(3):
            own = y[m][batch.real[m]].tolist()
            assert own == sorted(own, key=lambda g: -int(sizes[g]))  # the large ones first
            seen[m] += own
        rows = batch.graphs.layout
        assert rows.total % 3 == 0
        owned = torch.ones(rows.total, dtype=torch.bool) if rows.real is None else rows.real
        assert (batch.x[~owned] == 0).all()
        assert (batch.graphs.degree[~owned] == 0).all()
    assert [sorted(s) for s in seen] == [sorted(p.tolist()) for p in parts]
    assert sorted(seen[0][:3]) == [3, 5, 8]


def test_a_batch_of_a_model_equals_that_of_the_data_set(dataset: GraphDataset) -> None:
    batch = CohortBatches(dataset, ()).batch(np.array([[3, 10, 20], [20, -1, -1]]))
    whole = dataset.batch([3, 10, 20])
    n = whole.graphs.num_nodes
    assert torch.equal(batch.x[:n], whole.x)
    assert torch.equal(batch.graphs.adj.indices[: whole.graphs.num_edges], whole.graphs.adj.indices)
    single = CohortBatches(dataset, ()).batch(np.array([[3, 10, 20, -1]]))
    assert single.graphs.layout.complete
    assert torch.equal(single.x, whole.x)


def test_a_loss_that_is_not_a_number_names_the_model(dataset: GraphDataset) -> None:
    changed = [configs(1)[0], replace(configs(1)[0], learning_rate=1e300)]
    cohort = Cohort(model_of(SMALL, 2, [0, 1]), dataset, folds(2), changed)
    message = r"the loss became (nan|inf) in epoch 1 of model 2"
    with pytest.raises(TrainingError, match=message) as caught:
        cohort.train_epoch()
    assert caught.value.model == 1


# --- dropout -------------------------------------------------------------------------------------------------------

RATES = (0.3, 0.0, 0.6, 0.5)
TWO_LAYERS = replace(SMALL, head=(5,))


@pytest.mark.parametrize(("models", "words"), [(3, "3 models side by side"), (1, "one model")])
def test_too_little_memory_is_refused_in_words(
    dataset: GraphDataset, models: int, words: str
) -> None:
    def full(*_: object) -> None:
        raise MemoryError

    made = Cohort(
        model_of(PAPER, models, [0, 1, 2][:models]), dataset, folds(models), configs(models)
    )
    made.in_training.register_forward_pre_hook(full)
    with pytest.raises(TrainingError, match=f"not enough memory to train {words}") as caught:
        made.train_epoch()
    assert is_out_of_memory(caught.value)  # so that an evaluation can divide the cohort


def members_of(
    members: list[int],
    dataset: GraphDataset,
    architecture: Architecture = TWO_LAYERS,
    **changes: Any,
) -> Cohort:
    """Some of four models, each with its own dropout; a change is one value, or a tuple of one value per model."""
    own = []
    for m in members:
        values = {k: v[m] if isinstance(v, tuple) else v for k, v in changes.items()}
        own.append(replace(configs(4)[m], **{"dropout": RATES[m], **values}))
    model = model_of(architecture, len(members), members)
    return Cohort(model, dataset, [folds(4)[m] for m in members], own)


def to_the_end(cohort: Cohort) -> list[list[Epoch | None]]:
    rows = []
    while not cohort.finished:
        rows.append(cohort.train_epoch())
    return rows


def same_as_alone(cohort: Cohort, rows: list[list[Epoch | None]], alone: Cohort, m: int) -> None:
    """The best parameters and every metric of model m."""
    own = to_the_end(alone)
    same(rows_of(cohort.best, m), alone.best, 1e-9)
    assert cohort.best_epoch[m] == alone.best_epoch[0]
    theirs = [row[m] for row in rows if row[m] is not None]
    assert len(own) == len(theirs)
    for mine, other in zip(own, theirs, strict=True):
        for field in ("train_loss", "train_class_loss", "train_accuracy", "validation_loss"):
            assert getattr(mine[0], field) == pytest.approx(getattr(other, field), rel=1e-8)
        assert mine[0].validation_accuracy == other.validation_accuracy


def test_dropout_in_a_cohort_equals_dropout_of_the_model_trained_alone(
    dataset: GraphDataset,
) -> None:
    """In double precision, over at least 15 steps, with four rates."""
    cohort = members_of([0, 1, 2, 3], dataset, epochs=5)
    rows = to_the_end(cohort)
    assert cohort.optimizer.steps.min() >= 15
    assert cohort.optimizer.steps.max() >= 30
    for m in range(4):
        alone = members_of([m], dataset, epochs=5)
        same_as_alone(cohort, rows, alone, m)


def test_every_model_has_its_own_dropout_rate(
    dataset: GraphDataset,
) -> None:
    dropped, plain = (
        members_of([0, 1, 2, 3], dataset, epochs=2, **c) for c in ({}, {"dropout": 0.0})
    )
    to_the_end(dropped), to_the_end(plain)
    for m, rate in enumerate(RATES):
        a, b = (c.model.state_dict()["head.0.weight"][m] for c in (dropped, plain))
        assert torch.allclose(a, b, rtol=1e-9, atol=1e-9) == (rate == 0)


def test_each_model_draws_new_masks_in_each_of_its_own_steps(dataset: GraphDataset) -> None:
    cohort = members_of([0, 1, 2, 3], dataset, epochs=3)
    configs, seeds = cohort.configs, [c.seed for c in cohort.configs]
    steps = torch.tensor(
        [-(-len(folds(4)[m].train) // c.batch_size) for m, c in enumerate(configs)]
    )
    assert len(set(steps.tolist())) > 1
    for epoch in range(3):
        expected = Random(seeds, epoch * steps[:, None], RATES)
        assert torch.equal(cohort.random.kept(0, 9, 9), expected.kept(0, 9, 9))
        cohort.train_epoch()


def test_other_seeds_drop_other_entries(dataset: GraphDataset) -> None:
    """One model, with all graphs in one step, so that their order does not matter."""
    losses = []
    for seed in (0, 0, 1):
        cohort = members_of([0], dataset, seed=seed, batch_size=60, epochs=1)
        losses.append(cohort.train_epoch()[0].train_loss)
    assert losses[0] == losses[1]
    assert losses[0] != pytest.approx(losses[2], rel=1e-6)


def test_scores_are_computed_without_dropout(dataset: GraphDataset) -> None:
    cohort = members_of([0], dataset, epochs=3)
    last = to_the_end(cohort)[-1][0]
    assert last is not None
    assert last.validation_loss == score(cohort.model, dataset, folds(4)[0].validation).loss


def test_dropout_adds_no_parameters(dataset: GraphDataset) -> None:
    names = model_of(TWO_LAYERS, 1, [0]).state_dict().keys()
    cohort = members_of([0], dataset, epochs=1)
    to_the_end(cohort)
    assert cohort.model.state_dict().keys() == names


# --- stopped models are dropped ------------------------------------------------------------------------------------

STOPS = (2, 7, 3, 4)  # epochs of each


def test_models_that_continue_after_others_have_stopped_equal_models_trained_alone(
    dataset: GraphDataset,
) -> None:
    """In double precision, with dropout: two of four are dropped after three epochs, another after four."""
    cohort = members_of([0, 1, 2, 3], dataset, epochs=STOPS)
    rows, members = [], []
    while not cohort.finished:
        rows.append(cohort.train_epoch())
        members.append(cohort.members)
    assert members == [[0, 1, 2, 3]] * 3 + [[1, 3]] + [[1]] * 3
    assert cohort.best_epoch[3] == 4  # at another index in a smaller model
    assert cohort.best_epoch[1] > 4
    for m in range(4):
        same_as_alone(cohort, rows, members_of([m], dataset, epochs=STOPS), m)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_architecture_continues_with_half_of_its_models(
    name: str, dataset: GraphDataset
) -> None:
    epochs = (1, 3, 1, 3)
    cohort = members_of([0, 1, 2, 3], dataset, ARCHITECTURES[name], epochs=epochs)
    rows = to_the_end(cohort)
    assert cohort.members == [1, 3]
    for m in (1, 3):
        alone = members_of([m], dataset, ARCHITECTURES[name], epochs=epochs)
        same_as_alone(cohort, rows, alone, m)
        own = rows_of(cohort.in_training.state_dict(), [1, 3].index(m))
        same(own, alone.model.state_dict(), 1e-9)


def test_a_step_computes_the_remaining_models_only(
    dataset: GraphDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    step = Cohort.step

    def spy(cohort: Cohort, *batch: Any) -> None:
        seen.append((batch[0].layout.models, len(cohort.optimizer.parameters)))
        step(cohort, *batch)

    monkeypatch.setattr(Cohort, "step", spy)
    to_the_end(members_of([0, 1, 2, 3], dataset, epochs=STOPS))
    assert sorted(set(seen), reverse=True) == [(4, 4), (2, 2), (1, 1)]


def test_models_stopped_by_their_patience_are_dropped_too(dataset: GraphDataset) -> None:
    cohort = members_of(
        [0, 1, 2, 3], dataset, epochs=40, patience=(1, 30, 1, 1), learning_rate=0.03
    )
    rows = to_the_end(cohort)
    assert cohort.members == [1]
    for m in range(4):
        trained = sum(row[m] is not None for row in rows)
        assert trained == min(cohort.best_epoch[m] + cohort.configs[m].patience, 40)


def test_a_run_that_drops_stopped_models_continues_from_every_epoch_to_the_bit(
    dataset: GraphDataset,
) -> None:
    """Also in single precision: when a model is dropped depends on the state alone."""
    single = replace(dataset, graphs=dataset.graphs.to(dtype=torch.float32), x=dataset.x.float())

    def start() -> Cohort:
        cohort = members_of([0, 1, 2, 3], single, epochs=STOPS)
        return Cohort(cohort.model.float(), single, cohort.folds, cohort.configs)

    whole = start()
    states: list[dict[str, Tensor]] = []
    while not whole.finished:
        states.append({name: t.clone() for name, t in whole.state().items()})
        whole.train_epoch()
    for epoch, state in enumerate(states):
        again = start()
        again.load_state(state)
        assert again.epoch == epoch
        to_the_end(again)
        same_state(whole, again)
    # also in a cohort that has dropped models itself
    again.load_state(states[1])
    assert again.in_training is again.model
    to_the_end(again)
    same_state(whole, again)


def test_the_best_epochs_of_dropped_models_are_restored(dataset: GraphDataset) -> None:
    cohort = members_of([0, 1, 2, 3], dataset, epochs=STOPS)
    rows = to_the_end(cohort)
    cohort.restore_best()
    scores = score_cohort(cohort.model, cohort.batches, [f.validation for f in cohort.folds])
    for m in range(4):
        best = min(row[m].validation_loss for row in rows if row[m] is not None)
        assert scores[m].loss == pytest.approx(best, rel=1e-10)


# --- custom modules ------------------------------------------------------------------------------------------------


class Own(nn.Module):
    """An encoder without parts of this package: X W, scaled by a running mean of |X W|, for each of M models."""

    def __init__(self, num_inputs: int, num_outputs: int, models: int):
        super().__init__()
        self.matrix = nn.Parameter(torch.randn(models, num_inputs, num_outputs).double() / 3)
        self.register_buffer("seen", torch.ones(models).double())

    def forward(self, graphs: Graphs, x: Tensor) -> Tensor:
        x = x.unflatten(0, (len(self.matrix), -1)) @ self.matrix
        if self.training:
            real = graphs.layout.real
            ones = torch.ones(x.shape[:2]) if real is None else real.view(x.shape[:2])
            means = (x.detach().abs().mean(-1) * ones).sum(1) / ones.sum(1).clamp(min=1)
            self.seen += 0.1 * (means - self.seen) * (ones.sum(1) > 0)
        return (x / self.seen[:, None, None]).flatten(0, 1)


def test_a_custom_encoder_trains_side_by_side_and_without_stopped_models(
    dataset: GraphDataset,
) -> None:
    def cohort(members: list[int]) -> Cohort:
        states = []
        for m in members:
            torch.manual_seed(m)
            states.append(classifier(1).state_dict())
        model = classifier(len(members))
        model.load_state_dict({name: torch.cat([s[name] for s in states]) for name in states[0]})
        own = [replace(configs(4)[m], epochs=STOPS[m], dropout=RATES[m]) for m in members]
        return Cohort(model, dataset, [folds(4)[m] for m in members], own)

    def classifier(models: int) -> GraphClassifier:
        head = mlp(5, [4], 2, models=models).double()
        return GraphClassifier([Own(6, 5, models)], [], [], head, readout="mean")

    together = cohort([0, 1, 2, 3])
    rows = to_the_end(together)
    assert together.members == [1]
    for m in range(4):
        same_as_alone(together, rows, cohort([m]), m)


class Plain(nn.Module):
    """An encoder of plain PyTorch layers, without a leading axis: for a single model."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(6, 5), nn.BatchNorm1d(5)

    def forward(self, graphs: Graphs, x: Tensor) -> Tensor:
        return self.norm(self.linear(x))


def test_a_single_model_may_consist_of_any_modules(dataset: GraphDataset) -> None:
    """Its best epoch is restored, although its parameters have no leading axis."""
    torch.manual_seed(0)
    model = GraphClassifier([Plain()], [], [], mlp(5, [], 2), readout="mean").double()
    config = replace(configs(1)[0], learning_rate=0.1, epochs=8)
    rows = list(train(model, dataset, folds(1)[0], config))
    best = min(rows, key=lambda row: row.validation_loss)
    assert best.epoch < rows[-1].epoch
    found = score(model, dataset, folds(1)[0].validation)
    assert found.loss == pytest.approx(best.validation_loss, rel=1e-10)


def test_several_models_without_a_leading_axis_are_rejected(dataset: GraphDataset) -> None:
    model = GraphClassifier([Plain()], [], [], mlp(5, [], 2, models=2), readout="mean")
    message = r"leading axis of 2 models .*, got encoders.0.linear.weight of shape \(5, 6\)"
    with pytest.raises(ModelError, match=message):
        Cohort(model, dataset, folds(2), configs(2))
