"""`evaluate`: the records depend neither on the cohorts nor on interruptions."""

from __future__ import annotations

import json
import os
import re
import weakref
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import diffpool.cli.inputs
from diffpool.architecture import Architecture
from diffpool.cli.commands import app, main
from diffpool.cli.evaluate_display import line, sparkline
from diffpool.data import GraphDataset, embedded, stratified_folds
from diffpool.errors import SettingError, TrainingError
from diffpool.experiments import (
    Evaluation,
    Method,
    Nested,
    Record,
    Status,
    choose_protocol,
    evaluate,
    make_grid,
    read_records,
    records,
    settings_for,
    train_once,
)
from diffpool.experiments.checkpoint import checkpoint_path, only_process
from diffpool.experiments.methods import with_settings
from diffpool.experiments.plan import make_plan
from diffpool.experiments.provenance import (
    LATER_ARCHITECTURE,
    LATER_TRAINING,
    commit,
    fingerprint,
    run_key,
)
from diffpool.experiments.records import Heading, RunRecords
from diffpool.experiments.single_run import fit
from diffpool.training import Cohort, Optimizer, Training, is_out_of_memory

NESTED = Nested(make_grid({"learning_rate": [1e-2, 1e-3], "hidden": [4, 6]}), final_runs=2)
PROTOCOLS: dict[str, Any] = {"paper": "paper", "tenfold": "tenfold", "nested": NESTED}


@pytest.fixture(scope="module")
def dataset() -> GraphDataset:
    return embedded(40, rungs=2)


@pytest.fixture(scope="module")
def method() -> Method:
    return settings_for("diffpool", "embedded", hidden=4, epochs=3, patience=2, batch_size=10)


def comparable(found: tuple[Record, ...] | list[Record]) -> list[dict[str, Any]]:
    return [record.comparable for record in found]


def count_cohorts(monkeypatch: Any) -> list[int]:
    """The number of models side by side, whenever it changes: that makes a new optimizer."""
    sizes, construct = [], Optimizer.__init__

    def counted(optimizer: Optimizer, model: Any, configs: Any) -> None:
        sizes.append(len(configs))
        construct(optimizer, model, configs)

    monkeypatch.setattr(Optimizer, "__init__", counted)
    return sizes


@pytest.mark.parametrize("name", PROTOCOLS)
def test_results_do_not_depend_on_the_cohorts(
    name: str, dataset: GraphDataset, method: Method, tmp_path: Path
) -> None:
    """In double precision, where rounding does not decide between epochs or settings."""
    exact = replace(
        dataset, graphs=dataset.graphs.to(dtype=torch.float64), x=dataset.x.double(), name="exact"
    )
    protocol = PROTOCOLS[name]
    if name == "nested":
        protocol = Nested(make_grid({"hidden": [4, 6]}), final_runs=1)
    found = [
        evaluate(method, exact, protocol, out=tmp_path / f"{size}.jsonl", cohort=size)
        for size in (1, 3, 10)
    ]
    for other in found[1:]:
        assert comparable(other.records) == comparable(found[0].records)
        assert other.key == found[0].key


@pytest.mark.parametrize("name", PROTOCOLS)
def test_an_interrupted_run_continues_to_the_bit(
    name: str, dataset: GraphDataset, method: Method, tmp_path: Path
) -> None:
    """Interrupted after every second epoch, repeatedly, in several cohorts."""
    options: dict[str, Any] = {"cohort": 7, "checkpoint_seconds": 0}
    whole = evaluate(method, dataset, PROTOCOLS[name], out=tmp_path / "whole.jsonl", **options)
    calls = 0

    def interrupt(status: Status) -> None:
        nonlocal calls
        calls += 1
        if calls % 2 == 0:
            raise KeyboardInterrupt

    out = tmp_path / "parts.jsonl"
    for _ in range(100):
        try:
            parts = evaluate(method, dataset, PROTOCOLS[name], out=out, watch=interrupt, **options)
            break
        except KeyboardInterrupt:
            assert checkpoint_path(out, whole.key).exists()
    assert calls >= 6
    assert comparable(parts.records) == comparable(whole.records)
    assert comparable(read_records(out)) == comparable(read_records(tmp_path / "whole.jsonl"))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["parts.jsonl", "whole.jsonl"]


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_run_that_dies_between_checkpoint_and_record_loses_nothing(
    name: str, dataset: GraphDataset, method: Method, tmp_path: Path, monkeypatch: Any
) -> None:
    append, out = records.append_records, tmp_path / "r.jsonl"
    whole = evaluate(method, dataset, PROTOCOLS[name], out=tmp_path / "whole.jsonl", cohort=7)

    def torn(path: Path, new: list[Record]) -> None:
        """The first half of what was to be written, cut within a line."""
        append(path, new)
        if new:
            os.truncate(path, path.stat().st_size * 2 // 3)
            raise KeyboardInterrupt

    monkeypatch.setattr(records, "append_records", torn)
    with pytest.raises(KeyboardInterrupt):
        evaluate(method, dataset, PROTOCOLS[name], out=out, cohort=7)
    monkeypatch.setattr(records, "append_records", append)
    again = evaluate(method, dataset, PROTOCOLS[name], out=out, cohort=7)
    assert comparable(again.records) == comparable(whole.records)


def test_a_finished_run_is_not_trained_again(
    dataset: GraphDataset, method: Method, tmp_path: Path, monkeypatch: Any
) -> None:
    first = evaluate(method, dataset, out=tmp_path / "r.jsonl")
    monkeypatch.setattr(Cohort, "__init__", lambda *a: pytest.fail("trained again"))
    assert evaluate(method, dataset, out=tmp_path / "r.jsonl").records == first.records


def test_files_left_by_a_process_killed_after_its_last_record_are_removed(
    dataset: GraphDataset, method: Method, tmp_path: Path
) -> None:
    out = tmp_path / "r.jsonl"
    first = evaluate(method, dataset, out=out)
    path = checkpoint_path(out, first.key)
    path.parent.mkdir()
    for name in (path.name, f".{path.name}.7.part", path.with_suffix(".lock").name):
        (path.parent / name).write_bytes(b"left")
    with only_process(path):  # another process is using it
        assert evaluate(method, dataset, out=out).records == first.records
        assert path.exists()
    path.parent.mkdir(exist_ok=True)
    assert evaluate(method, dataset, out=out).records == first.records
    assert [p.name for p in tmp_path.iterdir()] == ["r.jsonl"]


def test_the_key_changes_with_everything_that_changes_the_result(
    dataset: GraphDataset, method: Method
) -> None:
    other_x, other_y = dataset.x.clone(), dataset.y.clone()
    other_x[0, 0] += 1e-3
    other_y[0] = 1 - other_y[0]

    def key(m: Method = method, d: GraphDataset = dataset, p: Any = NESTED, **plan: Any) -> str:
        return run_key(make_plan(m, d, **plan), d, p)

    keys = {
        key(),
        key(settings_for("graphsage", "embedded", epochs=3)),
        key(settings_for("diffpool", "embedded", hidden=5)),
        key(replace(method, training=replace(method.training, learning_rate=0.5))),
        key(replace(method, training=replace(method.training, dropout=0.5))),
        key(d=replace(dataset, x=other_x)),
        key(d=replace(dataset, y=other_y)),
        key(d=replace(dataset, name="other")),
        key(p=replace(NESTED, final_runs=3)),
        key(repeats=2),
        key(seed=1),
        key(folds=stratified_folds(dataset.y, seed=9)),
    }
    assert len(keys) == 12
    assert key() == key(replace(method, training=replace(method.training, seed=5)))
    assert fingerprint(dataset) == fingerprint(embedded(40, rungs=2))


def test_settings_at_the_values_left_out_of_the_key_are_the_defaults() -> None:
    """So the key of a run with default settings is the same as before these settings existed."""
    for defaults, later in ((Training(), LATER_TRAINING), (Architecture(), LATER_ARCHITECTURE)):
        for name, value in later.items():
            assert getattr(defaults, name) == value


def test_records_say_where_they_come_from(
    dataset: GraphDataset, method: Method, tmp_path: Path
) -> None:
    result = evaluate(method, dataset, out=tmp_path / "r.jsonl", repeats=2, seed=3)
    assert [(r.repeat, r.fold) for r in result.records] == [
        (r, f) for r in range(2) for f in range(10)
    ]
    record = result.records[4]
    assert record.settings["architecture"]["hidden"] == 4
    assert record.settings["training"]["epochs"] == 3
    assert record.seed == 3
    assert 0 <= record.accuracy <= 100
    assert 1 <= record.epoch <= 3
    assert record.parameters > 100
    assert record.seconds > 0
    assert record.graphs_per_second > 0
    assert record.peak_memory is None or record.peak_memory > 2**20
    assert record.versions["torch"] == torch.__version__
    assert result.mean == pytest.approx(np.mean(result.accuracies))
    assert result.sd == pytest.approx(np.std(result.accuracies, ddof=1))
    means = [np.mean(result.accuracies[:10]), np.mean(result.accuracies[10:])]
    assert result.sd_of_repeats == pytest.approx(np.std(means, ddof=1))
    assert "folds; ± " in str(result)
    assert str(result).endswith(" over 2 repeats)")
    seeds = {r.settings["training"]["seed"] for r in result.records}
    assert len(seeds) == 20


def test_the_commit_is_none_without_git(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit() is None


@pytest.mark.parametrize("name", ["tenfold", "nested"])
def test_an_interrupted_run_that_drops_stopped_models_continues_to_the_bit(
    name: str, dataset: GraphDataset, tmp_path: Path, monkeypatch: Any
) -> None:
    """Interrupted after every epoch, with dropout, which is also in the grid."""
    changes: dict[str, Any] = {"epochs": 20, "patience": 1, "dropout": 0.3, "learning_rate": 0.01}
    method = settings_for("diffpool", "embedded", hidden=4, batch_size=10, **changes)
    protocol: Any = name
    if name == "nested":
        protocol = Nested(make_grid({"dropout": [0, 0.5]}), final_runs=1)
    sizes = count_cohorts(monkeypatch)
    options: dict[str, Any] = {"cohort": 10, "checkpoint_seconds": 0}
    whole = evaluate(method, dataset, protocol, out=tmp_path / "whole.jsonl", **options)
    assert len([n for n in sizes if n < 10]) >= 2  # some models were dropped

    def interrupt(status: Status) -> None:
        raise KeyboardInterrupt

    options |= {"out": tmp_path / "parts.jsonl", "watch": interrupt}
    interruptions = 0
    while True:
        try:
            parts = evaluate(method, dataset, protocol, **options)
            break
        except KeyboardInterrupt:
            interruptions += 1
    assert interruptions >= 4
    assert comparable(parts.records) == comparable(whole.records)


# --- memory --------------------------------------------------------------------------------------------------------


class ScarceMemory:
    """Makes cohorts of more than `limit` models fail at one stage, and lists the number of models of each cohort."""

    def __init__(self, monkeypatch: Any, stage: str, limit: int):
        self.limit = limit
        self.sizes: list[int] = []
        self.failed: list[weakref.ref[Optimizer]] = []
        self.steps = 0
        construct, step = Optimizer.__init__, Optimizer.step

        def counted_construct(optimizer: Optimizer, model: Any, configs: Any) -> None:
            self.sizes.append(len(configs))
            self.steps = 0
            optimizer.cycle = optimizer  # as between a cohort and its captured steps
            construct(optimizer, model, configs)
            self.failed = [weakref.ref(optimizer)]
            if stage == "construction":
                self.check(self.sizes[-1])

        def counted_step(optimizer: Optimizer, *words: Any) -> None:
            self.steps += 1
            if stage == "step" and self.steps == 7:
                self.check(len(optimizer.parameters))
            step(optimizer, *words)

        monkeypatch.setattr(Optimizer, "__init__", counted_construct)
        monkeypatch.setattr(Optimizer, "step", counted_step)

    def check(self, models: int) -> None:
        if models > self.limit:
            try:
                raise torch.OutOfMemoryError("no memory")
            except torch.OutOfMemoryError:  # as at the end of an aborted capture
                raise RuntimeError("operation failed due to a previous error") from None


@pytest.mark.parametrize("stage", ["construction", "step"])
def test_a_cohort_that_does_not_fit_into_memory_is_halved(
    stage: str, dataset: GraphDataset, method: Method, tmp_path: Path, monkeypatch: Any
) -> None:
    """The records are those of a run with this many models side by side from the start, to the bit."""
    method = replace(method, training=replace(method.training, patience=3))  # no model stops early
    expected = evaluate(method, dataset, out=tmp_path / "three.jsonl", cohort=3)
    scarce = ScarceMemory(monkeypatch, stage, limit=3)
    notices: list[str] = []

    def notify(text: str) -> None:
        notices.append(text)
        assert scarce.failed[0]() is None, "the memory of what failed is still held"

    result = evaluate(method, dataset, out=tmp_path / "r.jsonl", cohort=10, notify=notify)
    assert scarce.sizes == [10, 5, 3, 3, 3, 1]
    assert notices == [
        "not enough memory for 10 models side by side: restarting with 5 at a time",
        "not enough memory for 5 models side by side: restarting with 3 at a time",
    ]
    assert comparable(result.records) == comparable(expected.records)


@pytest.mark.parametrize("stage", ["construction", "step"])
def test_too_little_memory_for_one_model_is_an_error_that_says_what_to_do(
    stage: str, dataset: GraphDataset, method: Method, tmp_path: Path, monkeypatch: Any
) -> None:
    scarce = ScarceMemory(monkeypatch, stage, limit=0)
    with (
        pytest.warns(UserWarning, match="not enough memory for 2 models side by side"),
        pytest.raises(TrainingError, match="not enough memory to train one model: try a small"),
    ):
        evaluate(method, dataset, out=tmp_path / "r.jsonl", cohort=2)
    assert scarce.sizes == [2, 1]
    with pytest.raises(TrainingError, match="not enough memory to train one model: try a small"):
        train_once(method, dataset)


def test_an_interrupted_run_remembers_how_many_models_fit_into_memory(
    dataset: GraphDataset, method: Method, tmp_path: Path, monkeypatch: Any
) -> None:
    """It continues with the cohorts of an uninterrupted run, even if more memory is free now."""
    options: dict[str, Any] = {"cohort": 10, "repeats": 2, "notify": lambda text: None}
    method = replace(method, training=replace(method.training, patience=3))
    scarce = ScarceMemory(monkeypatch, "construction", limit=4)
    whole = evaluate(method, dataset, out=tmp_path / "whole.jsonl", **options)
    assert scarce.sizes == [10, 5, 3, 3, 3, 3, 3, 3, 2]

    def interrupt(status: Status) -> None:
        raise KeyboardInterrupt

    scarce.sizes.clear()
    out = tmp_path / "r.jsonl"
    with pytest.raises(KeyboardInterrupt):
        evaluate(method, dataset, out=out, watch=interrupt, **options)
    assert scarce.sizes == [10, 5, 3]
    scarce.limit = 10
    result = evaluate(method, dataset, out=out, **options)
    assert scarce.sizes == [10, 5, 3, 3, 3, 3, 3, 3, 3, 2]
    assert comparable(result.records) == comparable(whole.records)


def test_other_errors_are_not_mistaken_for_a_lack_of_memory(
    dataset: GraphDataset, method: Method, tmp_path: Path, monkeypatch: Any
) -> None:
    def broken(*words: Any) -> Any:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    monkeypatch.setattr(Optimizer, "step", broken)
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        evaluate(method, dataset, out=tmp_path / "r.jsonl")
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        train_once(method, dataset)


def test_out_of_memory_errors_are_recognized_by_type_message_or_cause() -> None:
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory"))
    assert is_out_of_memory(MemoryError())
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**58, dtype=torch.uint8)
    assert is_out_of_memory(caught.value)
    later = RuntimeError("capture failed")
    later.__context__ = torch.OutOfMemoryError("CUDA out of memory")
    assert is_out_of_memory(later)
    assert not is_out_of_memory(RuntimeError("capture failed"))
    assert not is_out_of_memory(ValueError("can't allocate memory"))


# --- errors --------------------------------------------------------------------------------------------------------


def test_a_failing_fold_fails_the_run_and_is_named(dataset: GraphDataset, tmp_path: Path) -> None:
    method = settings_for("diffpool", "embedded", hidden=4, epochs=3, learning_rate=1e30)
    with pytest.raises(
        TrainingError, match=r"repeat 0, fold 0: the loss became (nan|inf)"
    ) as caught:
        evaluate(method, dataset, "tenfold", out=tmp_path / "r.jsonl")
    assert caught.value.model == 0
    assert read_records(tmp_path / "r.jsonl") == []


@pytest.mark.parametrize("ensemble", [1, 2])
def test_a_test_graph_without_a_finite_output_fails_the_run_and_is_named(
    dataset: GraphDataset, method: Method, tmp_path: Path, monkeypatch: Any, ensemble: int
) -> None:
    method = with_settings(method, {"ensemble": ensemble})
    (fold, *_), *_ = make_plan(method, dataset).folds
    graph = int(fold.test[2])
    restore = Cohort.restore_best

    def damaged(self: Cohort) -> None:
        restore(self)
        rows = self.dataset.graphs.layout.graph_of_row == graph
        self.batches.x[:-1][rows] = torch.nan

    monkeypatch.setattr(Cohort, "restore_best", damaged)
    with pytest.raises(
        TrainingError,
        match=rf"repeat 0, fold 0.*: the output of the model for graph {graph} of embedded",
    ):
        evaluate(method, dataset, "tenfold", out=tmp_path / "r.jsonl")
    assert read_records(tmp_path / "r.jsonl") == []


def test_a_mean_is_over_all_folds_or_it_is_an_error(
    dataset: GraphDataset, method: Method, tmp_path: Path
) -> None:
    result = evaluate(method, dataset, out=tmp_path / "r.jsonl")
    found = list(result.records)
    known = {field.name: getattr(found[0], field.name) for field in fields(Heading)}
    run = RunRecords(tmp_path / "r.jsonl", Heading(**known), [(0, fold) for fold in range(10)])

    def evaluation(changed: list[Record]) -> Evaluation:
        run.found = changed
        return Evaluation.from_records(run)

    assert evaluation(found[::-1]).accuracies == result.accuracies
    for wrong in (found[:-1], [*found, found[0]], []):
        with pytest.raises(TrainingError, match="expected one record for each of 10 folds, got"):
            evaluation(wrong)
    with pytest.raises(TrainingError, match=r"expected accuracies .* in folds \[3\]"):
        evaluation([replace(r, accuracy=float("nan")) if r.fold == 3 else r for r in found])


def test_a_second_process_on_the_same_run_is_told_to_wait(
    dataset: GraphDataset, method: Method, tmp_path: Path
) -> None:
    out = tmp_path / "r.jsonl"
    key = run_key(make_plan(method, dataset), dataset, choose_protocol("tenfold"))
    with (
        only_process(checkpoint_path(out, key)),
        pytest.raises(SettingError, match="another process is working on this run"),
    ):
        evaluate(method, dataset, out=out)
    assert len(evaluate(method, dataset, out=out).records) == 10


def test_a_damaged_checkpoint_is_reported_and_ignored(
    dataset: GraphDataset, method: Method, tmp_path: Path
) -> None:
    out = tmp_path / "r.jsonl"
    whole = evaluate(method, dataset, out=tmp_path / "whole.jsonl")
    path = checkpoint_path(out, whole.key)
    path.parent.mkdir()
    path.write_bytes(b"\x10" * 100)
    messages: list[str] = []
    found = evaluate(method, dataset, out=out, notify=messages.append)
    assert comparable(found.records) == comparable(whole.records)
    (message,) = messages
    assert message.startswith(f"{path} is damaged")
    assert message.endswith("training the unfinished models again")


def test_settings_out_of_range_are_errors(
    dataset: GraphDataset, method: Method, tmp_path: Path
) -> None:
    for name in ("repeats", "cohort"):
        with pytest.raises(SettingError, match=f"expected {name} from 1 to 10000, got 0"):
            evaluate(method, dataset, out=tmp_path / "r.jsonl", **{name: 0})


def of_targets(dataset: GraphDataset) -> GraphDataset:
    """Two targets of very different sizes, the second 1000 more than the first."""
    y = torch.linspace(0, 10, len(dataset))[:, None] + torch.tensor([0, 1000])
    return replace(dataset, y=y, class_names=())


def test_a_regression_is_evaluated_by_mae_rmse_and_r2(
    dataset: GraphDataset, method: Method, tmp_path: Path
) -> None:
    given, out = of_targets(dataset), tmp_path / "r.jsonl"
    result = evaluate(method, given, out=out, repeats=2)
    assert result.regression
    assert [record.accuracy for record in result.records] == [None] * 20
    assert 0 < result.metrics["mae"]["mean"] <= result.metrics["rmse"]["mean"] < 100
    assert len(result.metrics["r2"]["folds"]) == 20
    assert re.search(r"MAE .* ± .*, RMSE .*, R² .* \(mean ± sd over 20 folds\)", str(result))
    assert evaluate(method, given, out=out, repeats=2).metrics == result.metrics  # from the file
    assert result.to_json()["mae"]["mean"] == result.metrics["mae"]["mean"]


def test_a_fold_of_a_regression_equals_a_single_training(
    dataset: GraphDataset, method: Method, tmp_path: Path
) -> None:
    """Targets are scaled on the training graphs of the fold in both."""
    given = of_targets(dataset)
    record = evaluate(method, given, out=tmp_path / "r.jsonl", seed=3, cohort=1).records[2]
    plan = make_plan(method, given, seed=3)
    task = choose_protocol("tenfold").tasks(plan, {})[2]
    outcome = fit(task.method, given, task.split)
    assert record.details["metrics"]["mae"] == pytest.approx(
        outcome.metrics("test")["mae"], rel=1e-5
    )


def test_the_protocol_of_the_paper_needs_classes(
    dataset: GraphDataset, method: Method, tmp_path: Path
) -> None:
    with pytest.raises(SettingError, match=r"protocol paper needs classes, but .* tenfold"):
        evaluate(method, of_targets(dataset), "paper", out=tmp_path / "r.jsonl")


def test_nested_chooses_the_settings_of_a_regression_by_the_loss(
    dataset: GraphDataset, method: Method, tmp_path: Path
) -> None:
    result = evaluate(method, of_targets(dataset), "nested", out=tmp_path / "r.jsonl")
    assert result.regression
    for record in result.records:
        runs = [run["metrics"]["mae"] for run in record.details["runs"]]
        assert record.details["metrics"]["mae"] == pytest.approx(sum(runs) / 3)


@pytest.mark.parametrize("json_output", [True, False])
def test_the_command_evaluates_targets(json_output: bool, tmp_path: Path) -> None:
    lines = [{"nodes": 2 + i % 5, "edges": [[0, 1]], "target": float(i % 5)} for i in range(40)]
    file = tmp_path / "g.jsonl"
    file.write_text("\n".join(json.dumps(line) for line in lines))
    words = [
        "--epochs",
        "2",
        "--hidden",
        "4",
        "--device",
        "cpu",
        "--out",
        str(tmp_path / "r.jsonl"),
    ]
    words += ["--json"] if json_output else []
    result = CliRunner().invoke(app, ["evaluate", str(file), *words])
    assert result.exit_code == 0, result.output
    if json_output:
        assert json.loads(result.stdout)["rmse"].keys() == {"mean", "sd", "folds"}
    else:
        assert "protocol tenfold: MAE " in result.stdout
        assert "nan" not in result.stdout


# --- scores of imbalanced classes ------------------------------------------------------------------------------------


def test_a_fold_has_the_scores_of_a_single_training(
    dataset: GraphDataset, method: Method, tmp_path: Path
) -> None:
    result = evaluate(method, dataset, out=tmp_path / "r.jsonl", seed=3)
    task = choose_protocol("tenfold").tasks(make_plan(method, dataset, seed=3), {})[2]
    expected = fit(task.method, dataset, task.split).metrics("test")
    assert expected is not None
    found = result.records[2].details["scores"]
    assert found == {
        "balanced_accuracy": pytest.approx(100 * expected["balanced_accuracy"]),
        "macro_f1": pytest.approx(expected["macro_f1"]),
        "roc_auc": pytest.approx(expected["roc_auc"]),
    }
    folds = [record.details["scores"]["macro_f1"] for record in result.records]
    assert result.scores["macro_f1"] == {
        "mean": pytest.approx(np.mean(folds)),
        "sd": pytest.approx(np.std(folds, ddof=1)),
        "folds": folds,
    }
    assert result.to_json()["scores"] == result.scores


@pytest.mark.parametrize(("protocol", "members"), [("tenfold", 2), ("nested", 1), ("nested", 2)])
def test_runs_and_ensembles_have_scores(
    protocol: str, members: int, dataset: GraphDataset, method: Method, tmp_path: Path
) -> None:
    several = replace(method, training=replace(method.training, ensemble=members))
    result = evaluate(several, dataset, PROTOCOLS[protocol], out=tmp_path / "r.jsonl")
    assert result.scores.keys() == {"balanced_accuracy", "macro_f1", "roc_auc"}
    # every test part has as many graphs of one class as of the other
    assert result.scores["balanced_accuracy"]["folds"] == pytest.approx(result.accuracies)


def test_records_of_earlier_versions_have_no_scores(
    dataset: GraphDataset, method: Method, tmp_path: Path
) -> None:
    result = evaluate(method, dataset, out=tmp_path / "r.jsonl")
    old = tuple(replace(record, details={}) for record in result.records)
    assert replace(result, records=old).scores == {}
    assert "scores" not in replace(result, records=old).to_json()


def test_the_command_warns_of_imbalance_and_prints_the_scores(tmp_path: Path) -> None:
    lines = [{"nodes": 2 + i % 3, "edges": [[0, 1]], "label": int(i % 5 == 0)} for i in range(50)]
    file, out = tmp_path / "g.jsonl", tmp_path / "r.jsonl"
    file.write_text("\n".join(json.dumps(line) for line in lines))
    small = ["--epochs", "1", "--hidden", "4", "--device", "cpu", "--out", str(out)]
    result = CliRunner().invoke(app, ["evaluate", str(file), *small])
    assert result.exit_code == 0, result.output
    text = " ".join(result.stdout.split())
    assert "warning: the classes are imbalanced: always predicting '0' has an accuracy" in text
    assert "warning: pooling is trivial: 100 % of the graphs" in text
    pattern = (
        r"balanced accuracy [\d.]+ ± [\d.]+ %, macro F1 [\d.]+ ± [\d.]+, ROC AUC [\d.]+ ± [\d.]+"
    )
    assert re.search(pattern, text)


# --- the command ---------------------------------------------------------------------------------------------------


@pytest.fixture
def command(monkeypatch: Any, tmp_path: Path) -> Callable[..., Any]:
    monkeypatch.setattr(
        diffpool.cli.inputs, "embedded", lambda seed: embedded(40, seed=seed, rungs=2)
    )
    monkeypatch.chdir(tmp_path)
    small = ["--epochs", "2", "--hidden", "4", "--device", "cpu", "--out", "r.jsonl"]

    def run(*words: str) -> Any:
        return CliRunner().invoke(app, ["evaluate", "embedded", *small, *words])

    return run


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_command_prints_mean_and_sd_and_at_once_the_second_time(
    protocol: str, command: Any
) -> None:
    words = ["--protocol", protocol]
    words += ["--grid", "learning_rate=0.01,0.001"] if protocol == "nested" else []
    result = command(*words)
    assert result.exit_code == 0, result.output
    assert f"diffpool on embedded, protocol {protocol}: " in result.output
    assert "(mean ± sd over 10 folds)" in result.output
    assert "epoch 1/2" in result.output
    assert len(read_records("r.jsonl")) == 10
    again = command(*words, "--json")
    found = json.loads(again.stdout)
    assert found["protocol"] == protocol
    assert found["dataset"] == "embedded"
    assert found["method"] == "diffpool"
    assert found["folds"] == [r.accuracy for r in read_records("r.jsonl")]
    assert found["mean"] == pytest.approx(np.mean(found["folds"]))
    assert "epoch 1/2" not in again.output


def test_the_command_reports_that_memory_does_not_suffice(command: Any, monkeypatch: Any) -> None:
    ScarceMemory(monkeypatch, "construction", limit=5)
    result = command("--cohort", "10", "--json")
    assert result.exit_code == 0, result.output
    notice = "not enough memory for 10 models side by side: restarting with 5 at a time"
    assert notice in result.stderr.splitlines()
    assert len(json.loads(result.stdout)["folds"]) == 10


def test_the_command_searches_over_dropout_and_takes_it(command: Any) -> None:
    nested = ("--protocol", "nested", "--grid", "dropout=0,0.5")
    assert command(*nested, "--weight-decay", "0.01").exit_code == 0
    for record in read_records("r.jsonl"):
        assert record.details["points"] == 2
        assert record.settings["training"]["dropout"] == record.details["chosen"]["dropout"]
    assert command("--dropout", "0.25").exit_code == 0
    assert read_records("r.jsonl")[-1].settings["training"]["dropout"] == 0.25
    refused = command(*nested, "--dropout", "0.25")
    assert "dropout is given both as a setting and in the grid" in str(refused.exception)
    refused = command("--protocol", "nested", "--grid", "dropout=0,1")
    assert "expected dropout of at least 0 and below 1, got 1" in str(refused.exception)


def test_the_command_takes_published_folds(command: Any) -> None:
    y = embedded(40, seed=0, rungs=2).y
    folds = [
        {
            "test": f.test.tolist(),
            "model_selection": [{"train": f.train.tolist(), "validation": f.validation.tolist()}],
        }
        for f in stratified_folds(y, seed=5)
    ]
    Path("folds.json").write_text(json.dumps(folds))
    result = command("--folds", "folds.json", "--repeats", "2", "--cohort", "20", "--json")
    assert result.exit_code == 0, result.output
    assert len(json.loads(result.stdout)["folds"]) == 20
    Path("folds.json").write_text(json.dumps(folds[1:]))
    result = command("--folds", "folds.json")
    assert "folds.json: expected a list of 10 outer folds, got 9" in str(result.exception)


def test_a_failing_fold_ends_the_command_with_exit_code_2(
    monkeypatch: Any, command: Any, capsys: Any
) -> None:
    words = ["evaluate", "embedded", "--epochs", "2", "--learning-rate", "1e30", "--device", "cpu"]
    monkeypatch.setattr("sys.argv", ["diffpool", *words])
    with pytest.raises(SystemExit) as stop:
        main()
    captured = capsys.readouterr()
    assert stop.value.code == 2
    assert "fold 0: the loss became" in captured.err
    assert "±" not in captured.out


# --- the display ---------------------------------------------------------------------------------------------------


def test_a_sparkline_goes_from_the_lowest_to_the_highest_value() -> None:
    assert sparkline([0.0, 0.5, 1.0]) == "▁▅█"
    assert sparkline([0.3, 0.3]) == "▁▁"
    assert len(sparkline(list(range(1000)), width=40)) == 40
    assert sparkline([*([0.0] * 999), 1.0], width=40)[-1] == "█"


def test_the_live_view_shows_folds_epoch_curve_and_speed(
    dataset: GraphDataset, method: Method, tmp_path: Path
) -> None:
    from rich.console import Console

    from diffpool.cli.evaluate_display import evaluation_display

    console = Console(force_terminal=True, width=100, record=True)
    seen: list[Status] = []
    with console.capture() as captured, evaluation_display(console, "a title") as watch:

        def both(status: Status) -> None:
            seen.append(status)
            watch(status)

        evaluate(method, dataset, out=tmp_path / "r.jsonl", cohort=5, watch=both)
    text = captured.get()
    for word in ("a title", "folds", "epoch", "validation", "graphs/s", "left"):
        assert word in text
    assert [len(s.records) for s in seen] == sorted(len(s.records) for s in seen)
    assert seen[-1].finished == 5
    assert "folds 5/10, models 5/10" in line(seen[-1])
    assert seen[0].seconds_left > 0


# --- points of a grid that fail

DIVERGING = Nested(make_grid({"learning_rate": [1e-2, 1e300], "dropout": [0.0]}), final_runs=1)


def test_a_point_of_the_grid_that_diverges_is_recorded_and_never_chosen(
    dataset: GraphDataset, method: Method, tmp_path: Path
) -> None:
    dataset = replace(dataset, x=dataset.x.double(), graphs=dataset.graphs.to(dtype=torch.float64))
    found = evaluate(method, dataset, DIVERGING, out=tmp_path / "both.jsonl")
    alone = Nested(make_grid({"learning_rate": [1e-2], "dropout": [0.0]}), final_runs=1)
    without = evaluate(method, dataset, alone, out=tmp_path / "one.jsonl")
    for record, other in zip(found.records, without.records, strict=True):
        assert record.details["failed"] == [{"learning_rate": 1e300, "dropout": 0.0}]
        assert record.details["chosen"] == {"learning_rate": 1e-2, "dropout": 0.0}
        assert record.details["validation_accuracy"] == other.details["validation_accuracy"]
        assert record.details["runs"] == other.details["runs"]
        assert other.details["failed"] == []


def test_an_interrupted_run_with_a_failed_point_continues_to_the_bit(
    dataset: GraphDataset, method: Method, tmp_path: Path
) -> None:
    whole = evaluate(method, dataset, DIVERGING, out=tmp_path / "whole.jsonl")

    def interrupt(status: Status) -> None:
        raise KeyboardInterrupt

    options: dict[str, Any] = {"out": tmp_path / "parts.jsonl", "checkpoint_seconds": 0}
    for _ in range(100):
        try:
            parts = evaluate(method, dataset, DIVERGING, watch=interrupt, **options)
            break
        except KeyboardInterrupt:
            continue
    assert comparable(parts.records) == comparable(whole.records)


def test_a_grid_of_which_every_point_fails_is_an_error(
    dataset: GraphDataset, method: Method, tmp_path: Path
) -> None:
    protocol = Nested(make_grid({"learning_rate": [1e300]}), final_runs=1)
    with pytest.raises(
        TrainingError, match="repeat 0, fold 0: the loss became infinite or NaN for"
    ):
        evaluate(method, dataset, protocol, out=tmp_path / "r.jsonl")
