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
from diffpool.data import Categories, GraphDataset, RawGraphs, embedded
from diffpool.data.jsonl import write_jsonl
from diffpool.errors import SettingError
from diffpool.experiments import Status, make_grid, read_records, settings_for, tune

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


def test_the_test_scores_are_those_of_the_saved_model(tmp_path: Path) -> None:
    raw = paths()
    dataset = GraphDataset.from_raw(raw, "degree")
    result = tune(METHOD, dataset, out=tmp_path, space=SPACE, trials=4, ensemble=3)
    record = read_records(tmp_path / "record.jsonl")[0]
    assert record.accuracy == pytest.approx(100 * result.test["accuracy"])
    assert record.method == "diffpool, ensemble of 3"
    from diffpool.data import single_split

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


def test_after_the_deadline_no_trials_are_started(dataset: GraphDataset, tmp_path: Path) -> None:
    result = tune(
        METHOD, dataset, out=tmp_path, space=SPACE, trials=6, ensemble=2, cohort=2, max_seconds=0
    )
    tried = [trial for trial in result.trials if trial.validation_loss is not None]
    assert len(tried) == 2  # the first cohort
    assert all(trial.members == 0 for trial in result.trials if trial not in tried)


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
        ({"ensemble": 1}, "expected ensemble to be an integer from 2"),
        ({"inner_folds": 1.5}, "expected inner_folds to be an integer"),
    ],
)
def test_wrong_numbers_are_refused(
    wrong: dict, message: str, dataset: GraphDataset, tmp_path: Path
) -> None:
    with pytest.raises(SettingError, match=message):
        tune(METHOD, dataset, out=tmp_path / "out", space=SPACE, **wrong)


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
    words[3] = str(tmp_path / "new")
    refused = CliRunner().invoke(app, [*words, "--hidden", "4"])
    assert "hidden is given both as a setting and in the grid" in str(refused.exception)
    refused = CliRunner().invoke(app, [*words, "--ensemble", "1"])
    assert "expected ensemble to be an integer from 2" in str(refused.exception)
    assert not (tmp_path / "new").exists()


def test_the_command_prints_json(tmp_path: Path) -> None:
    words = ["tune", "embedded", "--out", str(tmp_path / "m"), "--trials", "1", "--ensemble", "2"]
    words += ["--epochs", "1", "--grid", "hidden=4", "--device", "cpu", "--json", "--quiet"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert facts["members"] == 2
    assert facts["best_settings"] == {"hidden": 4}
