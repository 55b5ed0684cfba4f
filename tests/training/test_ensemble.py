"""Ensembles: members, their mean, its uncertainty, and every way to train and use them."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from diffpool import DiffPoolClassifier, DiffPoolRegressor, load_model
from diffpool.architecture import PAPER
from diffpool.builder import build
from diffpool.cli.commands import app
from diffpool.data import Categories, Fold, GraphDataset, RawGraphs, embedded
from diffpool.data.jsonl import write_jsonl
from diffpool.errors import SettingError
from diffpool.experiments import evaluate, fit, read_records, settings_for
from diffpool.experiments.plan import derived_seed
from diffpool.nn import take
from diffpool.training import ModelCard, TrainedModel, Training, save_model, train
from diffpool.training.ensemble import (
    class_uncertainty,
    ensemble_scores,
    mean_outputs,
    member_fold,
    target_spread,
)
from diffpool.training.metrics import (
    expected_calibration_error,
    reliability,
    sum_reliability,
)
from diffpool.training.model_directory import Part

nx = pytest.importorskip("networkx")

QUICK = {"epochs": 4, "hidden": 8, "features": "degree", "device": "cpu"}


def rings_and_stars(count: int = 40) -> tuple[list, np.ndarray]:
    sizes, y = np.random.default_rng(0).integers(6, 13, count), np.arange(count) % 2
    graphs = [
        nx.cycle_graph(n) if c else nx.star_graph(n - 1) for n, c in zip(sizes, y, strict=True)
    ]
    return graphs, y


@pytest.fixture(scope="module")
def ensemble() -> DiffPoolClassifier:
    graphs, y = rings_and_stars()
    return DiffPoolClassifier(**QUICK, ensemble=3, min_clusters=2).fit(graphs, y)


@pytest.fixture
def dataset() -> GraphDataset:
    return embedded(60, seed=0, rungs=4)


# --- numbers -------------------------------------------------------------------------------------------------------


def test_the_mean_is_weighted() -> None:
    outputs = np.array([[[0.8, 0.2]], [[0.2, 0.8]]])
    assert mean_outputs(outputs)[0].tolist() == pytest.approx([0.5, 0.5])
    assert mean_outputs(outputs, [3, 1])[0].tolist() == pytest.approx([0.65, 0.35])


def test_disagreement_is_the_entropy_that_members_do_not_have_themselves() -> None:
    certain = np.array([[[1.0, 0.0]], [[0.0, 1.0]]])  # each is certain, and they contradict
    found = class_uncertainty(certain)
    assert found["entropy"].tolist() == pytest.approx([np.log(2)])
    assert found["disagreement"].tolist() == pytest.approx([np.log(2)])
    unsure = np.array([[[0.5, 0.5]], [[0.5, 0.5]]])  # neither knows, and they agree
    assert class_uncertainty(unsure)["entropy"].tolist() == pytest.approx([np.log(2)])
    assert class_uncertainty(unsure)["disagreement"].tolist() == pytest.approx([0])


def test_the_spread_of_targets_is_their_standard_deviation() -> None:
    targets = np.array([[[1.0]], [[3.0]], [[5.0]]])
    assert target_spread(targets)[0, 0] == pytest.approx(np.std([1, 3, 5]))


def calibration_error(y: np.ndarray, probabilities: np.ndarray) -> float:
    return expected_calibration_error(reliability(y, probabilities))


def test_calibration_error_of_hand_computed_cases() -> None:
    y = np.array([0, 0, 1, 1])
    honest = np.array([[0.75, 0.25]] * 4)  # certain to 75 %, right in half of the cases
    assert calibration_error(y, honest) == pytest.approx(0.25)
    assert calibration_error(np.array([0, 0, 0, 1]), honest) == pytest.approx(0)
    two_bins = np.array([[0.9, 0.1], [0.9, 0.1], [0.4, 0.6], [0.4, 0.6]])
    assert calibration_error(y, two_bins) == pytest.approx((2 * 0.1 + 2 * 0.4) / 4)
    assert calibration_error(y[:0], honest[:0]) == 0


def test_reliability_counts_of_folds_add_up() -> None:
    y = np.array([0, 1, 1, 0])
    probabilities = np.array([[0.9, 0.1], [0.1, 0.9], [0.52, 0.48], [1.0, 0.0]])
    counts = reliability(y, probabilities)
    assert [(n, g) for n, g in enumerate(counts["graphs"]) if g] == [(7, 1), (13, 2), (14, 1)]
    assert counts["correct"][7] == 0
    assert counts["correct"][13] == 2
    assert counts["confidence"][13] == pytest.approx(1.8)
    parts = [reliability(y[own], probabilities[own]) for own in (slice(0, 1), slice(1, 4))]
    assert sum_reliability(parts) == counts
    assert expected_calibration_error(counts) == pytest.approx((0.52 + 0.2 + 0) / 4)


def test_scores_of_an_ensemble_and_of_its_members() -> None:
    y = np.array([0, 1, 0, 1])
    right = np.array([[0.9, 0.1], [0.1, 0.9], [0.6, 0.4], [0.4, 0.6]])
    wrong = right.copy()
    wrong[2:] = [[0.3, 0.7], [0.7, 0.3]]  # fails on the two uncertain graphs, and more certainly
    scores = ensemble_scores(y, np.stack([right, wrong]))
    assert scores["accuracy"] == 50
    assert scores["certain_half"] == 100
    assert scores["uncertain_half"] == 0
    assert scores["member_accuracies"] == [100, 50]
    assert scores["reliability"]["correct"][13] == 2
    assert sum(scores["member_reliability"]["graphs"]) == 8
    assert scores["log_loss"] == pytest.approx(-np.log([0.9, 0.9, 0.45, 0.45]).mean())


def test_members_validate_on_their_own_stratified_parts() -> None:
    y = np.arange(100) % 2
    fold = Fold(np.arange(80), np.arange(80, 90), np.arange(90, 100))
    parts = [member_fold(fold, y, seed) for seed in range(5)]
    for part in parts:
        assert len(part.validation) == 10
        assert y[part.validation].sum() == 5
        assert np.array_equal(np.union1d(part.train, part.validation), np.arange(90))
        assert np.array_equal(part.test, fold.test)
    assert len({tuple(part.validation) for part in parts}) == 5


def test_members_of_too_few_graphs_share_all_of_them() -> None:
    everything = np.arange(3)
    fold = Fold(everything, everything, everything[:0])
    assert member_fold(fold, np.array([0, 1, 0]), 0) is fold


# --- prediction ----------------------------------------------------------------------------------------------------


def test_an_ensemble_predicts_the_mean_of_its_members(ensemble: DiffPoolClassifier) -> None:
    graphs, _ = rings_and_stars()
    members = ensemble.model_.members
    assert len(members) == 3
    each = np.stack([member.predict_proba(graphs) for member in members])
    assert np.abs(each[0] - each[1]).max() > 1e-3  # they are different models
    np.testing.assert_allclose(ensemble.predict_proba(graphs), each.mean(0), atol=1e-6)
    np.testing.assert_allclose(ensemble.predict_log_proba(graphs), np.log(each.mean(0)), atol=1e-5)


def test_predictions_do_not_depend_on_batch_or_order(ensemble: DiffPoolClassifier) -> None:
    graphs, _ = rings_and_stars()
    together = ensemble.predict_proba(graphs)
    alone = np.concatenate([ensemble.predict_proba([graph]) for graph in graphs])
    np.testing.assert_allclose(together, alone, atol=1e-6)
    np.testing.assert_allclose(together[::-1], ensemble.predict_proba(graphs[::-1]), atol=1e-6)


def test_an_empty_list_has_no_predictions(ensemble: DiffPoolClassifier) -> None:
    raw = RawGraphs.from_edges("none", np.empty(0, int), np.empty(0, int), np.empty(0, int))
    assert ensemble.model_.outputs(raw).values.shape == (0, 2)


def test_uncertainty_embeddings_and_clusters_of_an_ensemble(ensemble: DiffPoolClassifier) -> None:
    graphs, _ = rings_and_stars(6)
    model = ensemble.model_
    found = model.uncertainty(graphs)
    assert found["entropy"].shape == (6,)
    assert (found["disagreement"] >= 0).all()
    assert (found["disagreement"] <= found["entropy"] + 1e-9).all()
    each = [member.embed(graphs) for member in model.members]
    np.testing.assert_allclose(model.embed(graphs), np.concatenate(each, 1), atol=1e-6)
    for own, first in zip(model.clusters(graphs), model.members[0].clusters(graphs), strict=True):
        np.testing.assert_allclose(own[0], first[0], atol=1e-6)


def test_an_ensemble_is_saved_in_one_file_and_loaded(
    ensemble: DiffPoolClassifier, tmp_path: Path
) -> None:
    graphs, _ = rings_and_stars()
    ensemble.save(tmp_path)
    assert len(list(tmp_path.glob("*.safetensors"))) == 1
    loaded = load_model(tmp_path)
    assert repr(loaded) == "TrainedModel(diffpool on graphs, 2 classes, 3 members)"
    np.testing.assert_array_equal(loaded.predict_proba(graphs), ensemble.predict_proba(graphs))
    member = loaded.members[1]
    member.save(tmp_path / "one")
    np.testing.assert_array_equal(
        load_model(tmp_path / "one").predict_proba(graphs), member.predict_proba(graphs)
    )


def test_an_ensemble_of_several_architectures_is_the_weighted_mean(tmp_path: Path) -> None:
    """Two models of one architecture and one of another, as `tune` selects them."""
    dataset = embedded(12, seed=0, rungs=4)
    wide = replace(PAPER, hidden=6, readout="mean")
    parts = (
        Part(replace(PAPER, hidden=4), Training(), (2.0, 1.0)),
        Part(wide, Training(dropout=0.5), (1.0,)),
    )
    card = ModelCard(
        parts=parts,
        num_features=dataset.num_features,
        largest=dataset.largest,
        class_names=("apart", "together"),
        dataset="embedded",
        method="diffpool",
        feature_map=dataset.feature_map,
    )
    torch.manual_seed(0)
    model = card.build()
    assert isinstance(model, nn.ModuleList)
    save_model(tmp_path, model, card)
    loaded = load_model(tmp_path)
    assert loaded.card == card
    assert loaded.card.members == len(loaded.members) == 3
    graphs = [nx.cycle_graph(5), nx.path_graph(7)]
    for graph in graphs:
        nx.set_node_attributes(graph, 1.0, "a")
    raw = as_attributes(graphs, dataset.num_features)
    each = np.stack([m.predict_proba(raw) for m in TrainedModel(model, card).members])
    expected = (2 * each[0] + each[1] + each[2]) / 4
    np.testing.assert_allclose(loaded.predict_proba(raw), expected, atol=1e-6)


def as_attributes(graphs: list, count: int) -> list:
    rng = np.random.default_rng(0)
    for graph in graphs:
        for node in graph:
            graph.nodes[node].clear()
            graph.nodes[node]["x"] = rng.standard_normal(count).tolist()
    return graphs


# --- training ------------------------------------------------------------------------------------------------------


def test_a_member_equals_the_model_with_its_seed_and_fold(dataset: GraphDataset) -> None:
    """In double precision: Adam amplifies the rounding of gradients that are 0."""
    dataset = replace(dataset, graphs=dataset.graphs.to(dtype=torch.float64), x=dataset.x.double())
    method = settings_for("diffpool", "embedded", epochs=3, hidden=6, ensemble=2)
    fold = Fold(np.arange(40), np.arange(40, 50), np.arange(50, 60))
    together = fit(method, dataset, fold)
    assert together.metrics("test")["graphs"] == 10
    assert together.metrics("validation")["graphs"] == len(
        set(together.folds[0].validation) | set(together.folds[1].validation)
    )
    for number in range(2):
        seed = derived_seed(0, "member", number)
        alone = fit(
            settings_for("diffpool", "embedded", epochs=3, hidden=6, seed=seed),
            dataset,
            together.folds[number],
        )
        assert alone.best_epochs[0] == together.best_epochs[number]
        member = take(together.model, [number]).state_dict()
        for name, tensor in alone.model.state_dict().items():
            torch.testing.assert_close(member[name], tensor, rtol=1e-6, atol=1e-6)


def test_the_loop_for_one_model_refuses_an_ensemble(dataset: GraphDataset) -> None:
    model = build(replace(PAPER, hidden=4), dataset.num_features, 2, dataset.largest)
    fold = Fold(np.arange(40), np.arange(40, 50), np.arange(50, 60))
    with pytest.raises(SettingError, match="train trains one model, got ensemble=3"):
        next(train(model, dataset, fold, Training(ensemble=3)))


def test_an_ensemble_of_one_is_the_single_model(dataset: GraphDataset) -> None:
    plain, one = (
        settings_for("diffpool", "embedded", epochs=2, hidden=6, **given)
        for given in ({}, {"ensemble": 1})
    )
    assert plain == one


def test_regression_averages_targets_and_has_a_spread() -> None:
    graphs, _ = rings_and_stars()
    y = np.array([float(len(graph)) for graph in graphs])
    model = DiffPoolRegressor(**QUICK, ensemble=3, min_clusters=2).fit(graphs, y)
    each = np.stack([member.predict(graphs) for member in model.model_.members])
    np.testing.assert_allclose(model.predict(graphs), each.mean(0), rtol=1e-5)
    spread = model.model_.uncertainty(graphs)["sd"]
    np.testing.assert_allclose(spread[:, 0], each.std(0), rtol=1e-4)


def test_train_and_predict_on_the_command_line(tmp_path: Path) -> None:
    graphs, y = rings_and_stars(30)
    file = tmp_path / "graphs.jsonl"
    raw = RawGraphs.from_edges(
        "own",
        [len(g) for g in graphs],
        *_edges(graphs),
        one_way=True,
        classes=Categories.from_values(y.astype(str)),
    )
    write_jsonl(file, raw)
    out = tmp_path / "model"
    words = ["train", str(file), "--out", str(out), "--ensemble", "3", "--epochs", "3"]
    words += ["--hidden", "8", "--device", "cpu"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert "ensemble of 3 models, best epochs" in result.output
    assert (out / "clusters.png").exists()
    report = json.loads((out / "report.json").read_text())
    assert report["members"] == 3
    assert len(report["best_epochs"]) == 3
    assert "Ensemble of 3 models" in (out / "report.md").read_text()
    predictions = tmp_path / "predictions.csv"
    result = CliRunner().invoke(
        app, ["predict", str(out), str(file), "--out", str(predictions), "--device", "cpu"]
    )
    assert result.exit_code == 0, result.output
    with predictions.open() as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == 30
    assert list(rows[0])[-2:] == ["entropy", "disagreement"]
    expected = load_model(out).predict_proba(raw)
    found = np.array([[float(row["p_0"]), float(row["p_1"])] for row in rows])
    np.testing.assert_allclose(found, expected, atol=1e-6)


def _edges(graphs: list) -> tuple[np.ndarray, np.ndarray]:
    ends, start = [], 0
    for graph in graphs:
        ends.append(np.array(graph.edges) + start)
        start += len(graph)
    both = np.concatenate(ends)
    return both[:, 0], both[:, 1]


def test_an_interrupted_ensemble_resumes_to_the_same_members(
    dataset: GraphDataset, tmp_path: Path
) -> None:
    method = settings_for("diffpool", "embedded", epochs=4, hidden=6, ensemble=3)
    fold = Fold(np.arange(40), np.arange(40, 50), np.arange(50, 60))
    whole = fit(method, dataset, fold, tmp_path / "whole")

    def stop(row: object) -> None:
        if getattr(row, "epoch", 0) == 2:
            raise KeyboardInterrupt

    first = fit(method, dataset, fold, tmp_path / "parts", callbacks=[stop])
    assert first.interrupted
    second = fit(method, dataset, fold, tmp_path / "parts", resume=True)
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(tensor, second.model.state_dict()[name])


# --- evaluation ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["tenfold", "nested"])
def test_an_evaluated_ensemble_is_a_row_of_its_own(
    protocol: str, dataset: GraphDataset, tmp_path: Path
) -> None:
    settings = {"epochs": 2, "hidden": 4}
    single = settings_for("diffpool", "embedded", **settings)
    several = settings_for("diffpool", "embedded", **settings, ensemble=3)
    out = tmp_path / "results.jsonl"
    one, many = (evaluate(m, dataset, protocol, out=out) for m in (single, several))
    assert one.key != many.key
    assert (one.method, many.method) == ("diffpool", "diffpool, ensemble of 3")
    for record in many.records:
        assert record.details["members"] == 3
        assert len(set(record.details["seeds"])) == 3
        assert len(record.details["member_accuracies"]) == 3
        assert 0 <= record.details["calibration_error"] <= 1
    again = evaluate(several, dataset, protocol, out=out)
    assert again.records == many.records
    assert len(read_records(out)) == 20


def test_an_evaluated_regression_is_averaged(tmp_path: Path) -> None:
    graphs, _ = rings_and_stars()
    raw = RawGraphs.from_edges(
        "own",
        [len(g) for g in graphs],
        *_edges(graphs),
        one_way=True,
        targets=np.array([[float(len(graph))] for graph in graphs]),
    )
    method = settings_for("diffpool", "own", epochs=2, hidden=4, ensemble=2)
    result = evaluate(method, GraphDataset.from_raw(raw, "degree"), out=tmp_path / "results.jsonl")
    assert result.regression
    for record in result.records:
        each = [own["mae"] for own in record.details["member_metrics"]]
        assert record.details["metrics"]["mae"] <= sum(each) / 2 + 1e-6  # by convexity


def test_the_protocol_of_the_paper_refuses_an_ensemble(
    dataset: GraphDataset, tmp_path: Path
) -> None:
    with pytest.raises(SettingError, match="the protocol paper evaluates single models"):
        evaluate(
            settings_for("diffpool", "embedded", ensemble=2),
            dataset,
            "paper",
            out=tmp_path / "results.jsonl",
        )


def test_members_share_no_memory_with_their_ensemble() -> None:
    model = build(replace(PAPER, hidden=4), 3, 2, 10, models=2)
    member = take(model, [0])
    with torch.no_grad():
        next(member.parameters()).zero_()
    assert bool(next(model.parameters())[0].any())
