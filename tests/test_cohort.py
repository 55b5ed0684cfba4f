"""Models trained side by side: each is the model trained alone, whatever its cohort-mates are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from diffpool.data import Fold, GraphDataset, embedded
from diffpool.errors import TrainingError
from diffpool.nn import PAPER, RELEASED, Architecture, GraphClassifier, build, flat
from diffpool.training import Cohort, CohortBatches, Epoch, Training, evaluate, evaluate_cohort

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
    """Folds with different numbers of graphs, one of them too few for a step of its mates."""
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


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_model_in_a_cohort_is_the_model_alone_in_double_precision(
    name: str, dataset: GraphDataset
) -> None:
    """After 20 and more steps: parameters, running statistics, every metric, best epoch."""
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


def test_in_single_precision_it_is_the_same_to_rounding(dataset: GraphDataset) -> None:
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


def test_a_stopped_model_is_left_as_it_is_while_the_others_go_on(dataset: GraphDataset) -> None:
    changed = [replace(c, epochs=e) for c, e in zip(configs(2), (1, 4), strict=True)]
    cohort = Cohort(model_of(SMALL, 2, [0, 1]), dataset, folds(2), changed)
    first = cohort.train_epoch()
    assert all(first)
    after = {name: t.clone() for name, t in cohort.model.state_dict().items()}
    assert cohort.active == [False, True]
    second = cohort.train_epoch()
    assert second[0] is None
    assert second[1] is not None
    now = cohort.model.state_dict()
    same(rows_of(now, 0), rows_of(after, 0), 0)
    assert not torch.equal(now["head.0.weight"][1], after["head.0.weight"][1])
    while not cohort.finished:
        cohort.train_epoch()
    assert cohort.epoch == 4


def test_a_run_goes_on_from_its_state_to_the_bit(dataset: GraphDataset) -> None:
    whole, rows = run(SMALL, dataset, [0, 1, 2], epochs=4)
    half, _ = run(SMALL, dataset, [0, 1, 2], epochs=2)
    saved = {name: t.clone() for name, t in half.state().items()}
    again, _ = run(SMALL, dataset, [0, 1, 2], epochs=1)
    again.load_state(saved)
    rest = [again.train_epoch() for _ in range(2)]
    for name, tensor in whole.state().items():
        assert torch.equal(tensor, again.state()[name]), name
    for a, b in zip(rows[2:], rest, strict=True):
        for mine, theirs in zip(a, b, strict=True):
            assert replace(mine, seconds=0) == replace(theirs, seconds=0)


def test_the_best_epoch_of_each_model_is_restored(dataset: GraphDataset) -> None:
    cohort, rows = run(SMALL, dataset, [0, 1, 2], epochs=6)
    cohort.restore_best()
    scores = evaluate_cohort(cohort.model, cohort.batches, [f.validation for f in cohort.folds])
    for m in range(3):
        best = min(row[m].validation_loss for row in rows)
        assert scores[m].loss == pytest.approx(best, rel=1e-10)
        assert cohort.best_loss[m] == pytest.approx(best)


def test_scores_of_a_cohort_are_those_of_its_models(dataset: GraphDataset) -> None:
    model = model_of(SMALL, 3, [0, 1, 2])
    parts = [np.arange(7), np.arange(7, 40), np.empty(0, np.int64)]
    together = evaluate_cohort(model, CohortBatches(dataset, model.clusters), parts, batch_size=10)
    for m, graphs in enumerate(parts):
        alone = evaluate(model_of(SMALL, 1, [m]), dataset, graphs)
        assert together[m].loss == pytest.approx(alone.loss, rel=1e-10)
        assert together[m].accuracy == alone.accuracy


def test_every_graph_of_every_model_is_in_one_batch_of_an_epoch(dataset: GraphDataset) -> None:
    numbered = replace(dataset, y=torch.arange(60), class_names=tuple(map(str, range(60))))
    parts = [np.array([5, 3, 8, 1, 0, 59, 58]), np.array([2, 7]), np.empty(0, np.int64)]
    seen: list[list[int]] = [[], [], []]
    batches = list(CohortBatches(numbered, ()).batches(parts, [3, 4, 5]))
    assert [b.counts.tolist() for b in batches] == [[3, 2, 0], [3, 0, 0], [1, 0, 0]]
    for batch in batches:
        y = batch.y.view(batch.real.shape)
        for m in range(3):
            seen[m] += y[m][batch.real[m]].tolist()
        rows = batch.graphs.layout
        assert rows.total % 3 == 0
        owned = torch.ones(rows.total, dtype=torch.bool) if rows.real is None else rows.real
        assert (batch.x[~owned] == 0).all()
        assert (batch.graphs.degree[~owned] == 0).all()
    assert seen == [p.tolist() for p in parts]


def test_a_batch_of_a_model_is_that_of_the_data_set(dataset: GraphDataset) -> None:
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
    with pytest.raises(TrainingError, match=r"the loss became (nan|inf) in epoch 1 of model 2"):
        cohort.train_epoch()
