"""Tuning: trials, the ensemble of the chosen settings, interruptions, the command."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from diffpool import load_model
from diffpool.cli.commands import app
from diffpool.data import Categories, GraphDataset, RawGraphs, embedded, single_split
from diffpool.data.jsonl import write_jsonl
from diffpool.errors import SettingError
from diffpool.experiments import (
    Nested,
    Status,
    choose_protocol,
    evaluate,
    make_grid,
    read_records,
    settings_for,
    tune,
)
from diffpool.experiments.methods import with_settings
from diffpool.experiments.plan import Plan, member_tasks
from diffpool.experiments.selection import draw_points

SPACE = make_grid(
    {"readout": ["sum", "max"], "hidden": [4, 6], "dropout": [0.0, 0.5], "clip": [1.0, 2.0]}
)
METHOD = settings_for("diffpool", "embedded", epochs=4)


@pytest.fixture(scope="module")
def dataset() -> GraphDataset:
    return embedded(60, seed=0, rungs=4)


def paths(count: int = 60) -> RawGraphs:
    """Paths of 3 to 12 nodes, of which the class says whether they are long."""
    sizes = np.random.default_rng(0).integers(3, 13, count)
    starts = np.cumsum(sizes) - sizes
    source = np.concatenate([s + np.arange(n - 1) for s, n in zip(starts, sizes, strict=True)])
    words = np.where(sizes > 7, "long", "short")
    classes = Categories.from_values(words)
    return RawGraphs.from_edges("own", sizes, source, source + 1, one_way=True, classes=classes)


def same_model(a: Path, b: Path) -> bool:
    one, other = (load_model(path).model.state_dict() for path in (a, b))
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


def test_the_ensemble_has_the_settings_of_the_selected_trials(
    dataset: GraphDataset, tmp_path: Path
) -> None:
    result = tune(METHOD, dataset, out=tmp_path, space=SPACE, trials=6, ensemble=4)
    assert len(result.trials) == 6
    assert sum(trial.members for trial in result.trials) == 4
    wanted = sorted(
        (t.settings["readout"], t.settings["hidden"])
        for t in result.trials
        for _ in range(t.members)
    )
    parts = load_model(tmp_path).card.parts
    found = [(p.architecture.readout, p.architecture.hidden) for p in parts for _ in p.weights]
    assert sorted(found) == wanted
    ranks = [(-(t.validation_accuracy or 0), t.validation_loss) for t in result.trials]
    assert ranks == sorted(ranks)
    assert result.best_settings == result.trials[0].settings
    assert result.test["graphs"] == 6
    assert {p.name for p in tmp_path.iterdir()} - {".lock"} == {
        "config.json",
        "record.jsonl",
        "trials.csv",
        "tuning.json",
        next(tmp_path.glob("model-*")).name,
    }
    with (tmp_path / "trials.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["trial"]) for row in rows] == [trial.number for trial in result.trials]
    assert json.loads((tmp_path / "tuning.json").read_text())["test"] == result.test


@pytest.mark.parametrize("inner_folds", [1, 2])
def test_a_tuned_evaluation_chooses_in_each_fold_as_tune_does_on_its_training_part(
    inner_folds: int, dataset: GraphDataset, tmp_path: Path
) -> None:
    method = with_settings(METHOD, {"epochs": 8, "ensemble": 3})
    grid = ["readout=sum,max", "hidden=4,6", "dropout=0,0.5", "clip=1,2"]
    protocol = choose_protocol("nested", grid, trials=8, inner_folds=inner_folds, tuned=method)
    folds = [single_split(dataset.y, seed) for seed in (0, 1)]
    evaluate(method, dataset, protocol, out=tmp_path / "r.jsonl", folds=folds)
    found = read_records(tmp_path / "r.jsonl")[0]
    tune(
        method,
        dataset,
        out=tmp_path / "m",
        space=SPACE,
        trials=8,
        ensemble=3,
        inner_folds=inner_folds,
    )
    alone = read_records(tmp_path / "m" / "record.jsonl")[0]
    assert found.details["chosen_points"] == alone.details["chosen_points"]
    assert found.accuracy == alone.accuracy
    assert found.details["search"] == alone.details["search"]
    assert found.details["search"]["halving"]


def test_the_test_scores_are_those_of_the_saved_model(tmp_path: Path) -> None:
    raw = paths()
    dataset = GraphDataset.from_raw(raw, "degree")
    result = tune(METHOD, dataset, out=tmp_path, space=SPACE, trials=4, ensemble=3)
    record = read_records(tmp_path / "record.jsonl")[0]
    assert record.accuracy == pytest.approx(100 * result.test["accuracy"])
    assert record.method == "diffpool, ensemble of 3"
    test = single_split(dataset.y, 0).test
    found = load_model(tmp_path).predict([raw[int(g) : int(g) + 1] for g in test])
    assert raw.classes is not None
    assert np.mean(found == np.array(raw.classes.words())[test]) == result.test["accuracy"]


def test_tuning_interrupted_five_times_ends_with_the_same_model(
    dataset: GraphDataset, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"space": SPACE, "trials": 6, "ensemble": 3, "cohort": 2}
    settings["checkpoint_seconds"] = 0
    whole = tune(METHOD, dataset, out=tmp_path / "whole", **settings)
    epochs = 0

    def stop_after(limit: int) -> Any:
        def watch(status: Status) -> None:
            nonlocal epochs
            epochs += 1
            if epochs == limit:
                raise KeyboardInterrupt

        return watch

    for limit in (1, 3, 2, 6, 4):
        epochs = 0
        with pytest.raises(KeyboardInterrupt):
            tune(METHOD, dataset, out=tmp_path / "parts", watch=stop_after(limit), **settings)
        assert not (tmp_path / "parts" / "config.json").exists()
    parts = tune(METHOD, dataset, out=tmp_path / "parts", **settings)
    assert same_model(tmp_path / "whole", tmp_path / "parts")
    assert parts.test == whole.test
    assert [t.settings for t in parts.trials] == [t.settings for t in whole.trials]


def test_a_tuned_directory_is_replaced_only_on_request(
    dataset: GraphDataset, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"space": SPACE, "trials": 2, "ensemble": 2}
    tune(METHOD, dataset, out=tmp_path, **settings)
    before = load_model(tmp_path).model.state_dict()
    with pytest.raises(SettingError, match="already holds a model"):
        tune(METHOD, dataset, out=tmp_path, **settings)
    tune(METHOD, dataset, out=tmp_path, overwrite=True, **settings)  # trains again
    after = load_model(tmp_path).model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_after_the_deadline_trials_end_and_no_others_are_started(
    dataset: GraphDataset, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"space": SPACE, "trials": 6, "ensemble": 2, "cohort": 2}
    result = tune(METHOD, dataset, out=tmp_path, max_seconds=1e-6, **settings)
    assert [trial.epochs for trial in result.trials] == [1, 1]  # the first cohort
    assert all(trial.stopped for trial in result.trials)
    assert sum(trial.members for trial in result.trials) == 2


def test_a_time_without_a_number_of_trials_tries_until_it_ends(
    dataset: GraphDataset, tmp_path: Path
) -> None:
    result = tune(METHOD, dataset, out=tmp_path, ensemble=2, max_seconds=1e-6)
    assert 0 < len(result.trials) <= 4  # the variants of one architecture


def test_the_time_before_an_interruption_counts(dataset: GraphDataset, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"space": SPACE, "trials": 6, "ensemble": 2, "cohort": 2}
    settings |= {"checkpoint_seconds": 0, "out": tmp_path}

    def watch(status: Status) -> None:
        assert status.search is not None
        if status.search.tried == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(METHOD, dataset, watch=watch, max_seconds=600.0, **settings)
    result = tune(METHOD, dataset, max_seconds=1e-6, **settings)
    assert sorted(trial.number for trial in result.trials) != list(range(6))


@pytest.mark.parametrize("inner_folds", [1, 3])
def test_the_models_of_the_trials_can_be_the_members(
    inner_folds: int, dataset: GraphDataset, tmp_path: Path
) -> None:
    own: dict[str, Any] = {"space": SPACE, "trials": 4, "ensemble": 3, "inner_folds": inner_folds}
    kept = tune(METHOD, dataset, out=tmp_path / "kept", refit="none", **own)
    trained = tune(METHOD, dataset, out=tmp_path / "trained", **own)
    assert [t.members for t in kept.trials] == [t.members for t in trained.trials]
    chosen = [trial for trial in kept.trials if trial.members]
    weights = [weight for part in kept.model.card.parts for weight in part.weights]
    assert len(weights) == len(chosen) * inner_folds
    assert sum(weights) == pytest.approx(3)
    assert kept.test["graphs"] == 6
    assert not (tmp_path / "kept" / "record.jsonl").exists()  # no other model was tested
    assert not list((tmp_path / "kept").glob("*.checkpoints"))


@pytest.mark.parametrize("refit", ["train", "none"])
def test_a_single_model_has_the_settings_of_the_lowest_loss(
    refit: str, dataset: GraphDataset, tmp_path: Path
) -> None:
    result = tune(METHOD, dataset, out=tmp_path, space=SPACE, trials=4, ensemble=1, refit=refit)
    assert load_model(tmp_path).card.members == 1
    best = min(result.trials, key=lambda trial: trial.validation_loss or 0.0)
    assert [trial.members for trial in result.trials if trial is best] == [1]
    assert sum(trial.members for trial in result.trials) == 1


def test_members_can_be_trained_on_all_graphs(tmp_path: Path) -> None:
    raw = paths(40)
    dataset = GraphDataset.from_raw(raw, "degree")
    own: dict[str, Any] = {"space": SPACE, "trials": 2, "ensemble": 3}
    everything = tune(METHOD, dataset, out=tmp_path / "all", refit="all", **own)
    kept = tune(METHOD, dataset, out=tmp_path / "none", refit="none", **own)
    assert everything.test == kept.test  # of the models of the trials
    assert everything.model.card.members == 3
    facts = json.loads((tmp_path / "all" / "tuning.json").read_text())
    assert facts["refit"] == "all"
    protocol = Nested(grid=SPACE, trials=2, refit="all")
    method = settings_for("diffpool", "own", ensemble=3)
    plan = Plan(method, 0, dataset.y.numpy(), ((single_split(dataset.y, 0),),))
    for task in member_tasks(plan, 0, 0, "final", on_all=protocol.refit == "all"):
        assert len(task.split.train) + len(task.split.validation) == 40
        assert not len(task.split.test)


def test_points_are_drawn_in_three_ways(dataset: GraphDataset, tmp_path: Path) -> None:
    space = make_grid({"hidden": [4, 6, 8], "dropout": [0.0, 0.25, 0.5], "clip": [1.0, 2.0, 3.0]})
    method = settings_for("diffpool", "embedded", epochs=1)
    random, other = (draw_points(space, 5, "random", seed) for seed in (0, 1))
    assert random != other
    assert random == draw_points(space, 5, "random", 0)
    settings: dict[str, Any] = {"ensemble": 2, "space": space}
    found = tune(method, dataset, out=tmp_path / "r", points="random", trials=5, **settings)
    tried = sorted(found.trials, key=lambda trial: trial.number)
    assert [trial.settings for trial in tried] == random
    small = make_grid({"hidden": [4, 6], "dropout": [0.0, 0.25]})
    grid = tune(method, dataset, out=tmp_path / "g", points="grid", space=small, ensemble=2)
    assert len(grid.trials) == 4


def test_the_worse_half_of_an_architecture_stops_early(
    dataset: GraphDataset, tmp_path: Path
) -> None:
    space = make_grid({"learning_rate": [1e-5, 3e-5, 1e-2, 3e-2]})
    method = settings_for("diffpool", "embedded", epochs=8, hidden=4)
    result = tune(method, dataset, out=tmp_path, space=space, trials=4, ensemble=2)
    assert sorted(trial.epochs for trial in result.trials) == [1, 1, 2, 8]


def test_targets_are_tuned_in_their_units(tmp_path: Path) -> None:
    raw = paths()
    targets = 1000.0 + 50.0 * raw.sizes[:, None]
    raw = RawGraphs.from_edges("own", raw.sizes, *_ends(raw), one_way=True, targets=targets)
    dataset = GraphDataset.from_raw(raw, "degree")
    method = settings_for("diffpool", "own", epochs=30, learning_rate=0.01)
    result = tune(method, dataset, out=tmp_path, space=SPACE, trials=4, ensemble=3)
    assert result.test["mae"] < 100  # the sd of the targets is 144
    found = load_model(tmp_path).predict(raw)
    assert np.abs(found - targets[:, 0]).mean() < 100


def _ends(raw: RawGraphs) -> tuple[np.ndarray, np.ndarray]:
    starts = np.cumsum(raw.sizes) - raw.sizes
    source = np.concatenate([s + np.arange(n - 1) for s, n in zip(starts, raw.sizes, strict=True)])
    return source, source + 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"trials": 0}, "expected trials to be an integer from 1"),
        ({"ensemble": 0}, "expected ensemble to be an integer from 1"),
        ({"inner_folds": 1.5}, "expected inner_folds to be an integer"),
        ({"cohort": 0}, "expected cohort to be an integer from 1"),
        (
            {"max_seconds": 0},
            "expected the time for trying settings to be a number of seconds above",
        ),
        ({"max_seconds": float("nan")}, "got nan"),
        ({"points": "sprad"}, "got 'sprad'. Did you mean spread?"),
        ({"points": "grid", "trials": 3}, "expected all points of the grid or 3 trials, got both"),
        ({"refit": "full"}, "expected refit to be one of train, all, none, got 'full'"),
        ({"inner_folds": 80}, "expected at most 54 inner folds"),
        (
            {"space": make_grid({"pooler": ["graclus"]})},
            "must not change what diffpool precomputes",
        ),
    ],
)
def test_wrong_numbers_are_refused(
    wrong: dict, message: str, dataset: GraphDataset, tmp_path: Path
) -> None:
    with pytest.raises(SettingError, match=message):
        tune(METHOD, dataset, out=tmp_path / "out", **{"space": SPACE, **wrong})


def test_the_command_tunes_own_graphs_and_predicts(tmp_path: Path) -> None:
    file, out = tmp_path / "graphs.jsonl", tmp_path / "tuned"
    write_jsonl(file, paths())
    words = ["tune", str(file), "--out", str(out), "--trials", "3", "--ensemble", "2"]
    words += ["--epochs", "2", "--grid", "hidden=4,8", "--grid", "dropout=0,0.5"]
    result = CliRunner().invoke(app, [*words, "--device", "cpu"])
    assert result.exit_code == 0, result.output
    assert "test accuracy" in result.output
    predictions = tmp_path / "predictions.csv"
    again = CliRunner().invoke(app, ["predict", str(out), str(file), "--out", str(predictions)])
    assert again.exit_code == 0, again.output
    assert len(predictions.read_text().splitlines()) == 61
    assert (out / "tuning.png").exists()
    assert "the best of 3 trials" in result.output
    words[3] = str(tmp_path / "new")
    refused = CliRunner().invoke(app, [*words, "--hidden", "4"])
    assert "hidden is given both as a setting and in the grid" in str(refused.exception)
    refused = CliRunner().invoke(app, [*words, "--ensemble", "0"])
    assert "expected ensemble to be an integer from 1" in str(refused.exception)
    assert not (tmp_path / "new").exists()
    for wrong, message in (
        (["--trials", "0"], "expected trials to be an integer from 1"),
        (["--max-time", "0m"], "(a number alone is in seconds), got '0m'"),
        (["--refit", "al"], "expected refit to be one of train, all, none, got 'al'. Did you mean"),
        (
            ["--poolings", "0", "--ratio", "0.5"],
            "expected no --ratio with diffpool and --poolings 0",
        ),
    ):
        refused = CliRunner().invoke(app, [*words, *wrong])
        assert message in str(refused.exception)
        assert not (tmp_path / "new").exists()


def test_the_command_prints_json(tmp_path: Path) -> None:
    words = ["tune", "embedded", "--out", str(tmp_path / "m"), "--trials", "1", "--ensemble", "2"]
    words += ["--epochs", "1", "--grid", "hidden=4", "--device", "cpu", "--json", "--quiet"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert facts["members"] == 2
    assert facts["best_settings"] == {"hidden": 4}
    result = CliRunner().invoke(app, [*words, "--refit", "none", "--overwrite"])
    members = json.loads((tmp_path / "m" / "tuning.json").read_text())["members"]
    assert json.loads(result.stdout)["members"] == members == 1  # the model of the only trial
