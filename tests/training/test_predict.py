"""`diffpool data`, `diffpool train` and `diffpool predict` on your own files, as a new user runs them."""

from __future__ import annotations

import csv
import io
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner, Result

from diffpool import GraphDataset, RawGraphs, load_model, read_graphs
from diffpool.cli.commands import app
from diffpool.data import Categories, FeatureMap
from diffpool.data.jsonl import write_jsonl
from diffpool.errors import DataError, ModelError, SettingError
from diffpool.experiments import METHODS, settings_for, train_once
from diffpool.training import write_predictions

SMALL = ["--epochs", "2", "--device", "cpu", "--hidden", "8"]


def run(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def own_graphs(count: int = 40, labels: str = "ab", seed: int = 0) -> RawGraphs:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(3, 9, count)
    starts = np.cumsum(sizes) - sizes
    source = np.concatenate([s + np.arange(n - 1) for s, n in zip(starts, sizes, strict=True)])
    kinds = rng.choice(list(labels), int(sizes.sum()))
    return RawGraphs.from_edges(
        "own",
        sizes,
        source,
        source + 1,
        one_way=True,
        node_labels=Categories.from_values(kinds),
        classes=Categories.from_values(np.array(["no", "yes"])[np.arange(count) % 2]),
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write_jsonl(tmp_path / "graphs.jsonl", own_graphs())
    return tmp_path / "graphs.jsonl"


@pytest.fixture
def model(file: Path, tmp_path: Path) -> Path:
    result = run("train", file, "--out", tmp_path / "m", *SMALL)
    assert result.exit_code == 0, result.output
    assert "features: labels (2)" in " ".join(result.output.split())
    return tmp_path / "m"


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_predictions_have_the_names_of_the_classes_and_their_probabilities(
    file: Path, model: Path, tmp_path: Path
) -> None:
    out = tmp_path / "p.csv"
    result = run("predict", model, file, "--out", out)
    assert result.exit_code == 0, result.output
    assert "40 predictions written" in result.output
    rows = rows_of(out)
    assert list(rows[0]) == ["graph", "label", "prediction", "p_no", "p_yes"]
    assert [int(row["graph"]) for row in rows] == list(range(40))
    expected = load_model(model).predict_proba(read_graphs(file))
    found = np.array([[row["p_no"], row["p_yes"]] for row in rows], dtype=np.float32)
    assert np.array_equal(found, expected)
    names = ["no" if p[0] >= p[1] else "yes" for p in expected]
    assert [row["prediction"] for row in rows] == names


def test_a_file_is_read_in_parts(file: Path, model: Path, tmp_path: Path, monkeypatch) -> None:

    run("predict", model, file, "--out", tmp_path / "whole.csv")
    monkeypatch.setattr("diffpool.cli.inputs.PART", 7)
    run("predict", model, file, "--out", tmp_path / "parts.csv")
    whole, parts = rows_of(tmp_path / "whole.csv"), rows_of(tmp_path / "parts.csv")
    assert [r["prediction"] for r in whole] == [r["prediction"] for r in parts]
    for a, b in zip(whole, parts, strict=True):
        assert float(a["p_no"]) == pytest.approx(float(b["p_no"]), abs=1e-5)


def test_graphs_without_classes_are_predicted(model: Path, tmp_path: Path) -> None:
    lines = [
        {"edges": [[0, 1]], "node_labels": ["a", "b"]},
        {"edges": [], "node_labels": ["b"]},
    ]
    (tmp_path / "new.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    result = run("predict", model, tmp_path / "new.jsonl", "--out", tmp_path / "p.csv")
    assert result.exit_code == 0, result.output
    assert len(rows_of(tmp_path / "p.csv")) == 2


def lines_with_ids(count: int = 12) -> list[dict]:
    return [
        {"id": f"mol-{i}", "source": "lab", "edges": [[0, 1]], "node_labels": ["a", "b"], "dose": i}
        for i in range(count)
    ]


def test_ids_and_other_keys_of_json_lines_are_in_the_predictions(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diffpool.cli.inputs.PART", 5)
    lines = lines_with_ids()
    del lines[7]["dose"]
    new = write_lines(tmp_path / "new.jsonl", lines)
    assert run("predict", model, new, "--out", tmp_path / "p.csv").exit_code == 0
    rows = rows_of(tmp_path / "p.csv")
    assert list(rows[0]) == ["graph", "id", "source", "dose", "prediction", "p_no", "p_yes"]
    assert [row["id"] for row in rows] == [f"mol-{i}" for i in range(12)]
    assert [row["dose"] for row in rows] == [str(i) if i != 7 else "" for i in range(12)]
    assert run("predict", model, new, "--out", tmp_path / "p.jsonl").exit_code == 0
    found = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert [line["id"] for line in found] == [row["id"] for row in rows]
    assert [line.get("dose") for line in found] == [i if i != 7 else None for i in range(12)]
    assert [line["prediction"] for line in found] == [row["prediction"] for row in rows]
    assert all(type(line["p_yes"]) is float for line in found)


def test_a_column_that_appears_late_is_refused_for_csv_and_written_as_json_lines(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diffpool.cli.inputs.PART", 5)
    lines = lines_with_ids()
    lines[9]["remark"] = "late"
    new = write_lines(tmp_path / "new.jsonl", lines)
    result = run("predict", model, new, "--out", tmp_path / "p.csv")
    assert "graphs 5 to 9 have a column 'remark'" in str(result.exception)
    assert not (tmp_path / "p.csv").exists()
    assert run("predict", model, new, "--out", tmp_path / "p.jsonl").exit_code == 0
    assert json.loads((tmp_path / "p.jsonl").read_text().splitlines()[9])["remark"] == "late"


def test_formulas_in_csv_are_text_and_numbers_stay_numbers(model: Path, tmp_path: Path) -> None:
    ids = ["=1+1", "@sum", "-1", "-cmd", "+0.5", "a=b"]
    lines = [{**line, "id": name} for line, name in zip(lines_with_ids(6), ids, strict=True)]
    new = write_lines(tmp_path / "new.jsonl", lines)
    assert run("predict", model, new, "--out", tmp_path / "p.csv").exit_code == 0
    found = [row["id"] for row in rows_of(tmp_path / "p.csv")]
    assert found == ["'=1+1", "'@sum", "-1", "'-cmd", "+0.5", "a=b"]
    assert run("predict", model, new, "--out", tmp_path / "p.jsonl").exit_code == 0
    written = (tmp_path / "p.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in written] == ids


def test_a_column_named_like_one_of_ours_is_renamed(model: Path, tmp_path: Path) -> None:
    lines = [{**line, "prediction": "old", "p_no": 7} for line in lines_with_ids(3)]
    new = write_lines(tmp_path / "new.jsonl", lines)
    assert run("predict", model, new, "--out", tmp_path / "p.csv").exit_code == 0
    row = rows_of(tmp_path / "p.csv")[0]
    assert (row["input_prediction"], row["input_p_no"]) == ("old", "7")
    assert row["prediction"] in ("no", "yes")


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_renamed_columns_do_not_replace_others(model: Path, tmp_path: Path, form: str) -> None:
    own = {"prediction": "a", "input_prediction": "b", "input_input_prediction": "c"}
    new = write_lines(tmp_path / "new.jsonl", [{**line, **own} for line in lines_with_ids(3)])
    out = tmp_path / f"p.{form}"
    assert run("predict", model, new, "--out", out).exit_code == 0
    row = rows_of(out)[0] if form == "csv" else json.loads(out.read_text().splitlines()[0])
    assert row.pop("prediction") in ("no", "yes")
    assert {name: row[name] for name in row if "prediction" in name} == {
        "input_input_input_prediction": "a",
        "input_prediction": "b",
        "input_input_prediction": "c",
    }


def test_a_column_has_the_same_name_in_every_part(model: Path) -> None:
    first, second = own_graphs(2), own_graphs(2)
    first = replace(first, columns={"prediction": ["a"] * 2})
    second = replace(second, columns={"input_prediction": ["b"] * 2, "prediction": ["c"] * 2})
    text = io.StringIO()
    write_predictions(load_model(model), [first, second], text, form="jsonl")
    lines = [json.loads(line) for line in text.getvalue().splitlines()]
    assert [line["input_prediction"] for line in lines] == ["a", "a", "c", "c"]
    assert [line.get("input_input_prediction") for line in lines] == [None, None, "b", "b"]
    with pytest.raises(DataError, match="graphs 2 to 3 have a column 'input_prediction', which"):
        write_predictions(load_model(model), [first, second], io.StringIO())


def test_a_column_with_a_number_that_json_lacks_is_null(model: Path) -> None:
    raw = replace(own_graphs(3), columns={"mass": [1.5, float("nan"), float("inf")]})
    text = io.StringIO()
    write_predictions(load_model(model), [raw], text, form="jsonl")
    assert [json.loads(line)["mass"] for line in text.getvalue().splitlines()] == [1.5, None, None]
    assert "NaN" not in text.getvalue()


@pytest.mark.parametrize("link", [False, True])
def test_predictions_never_replace_their_input(
    file: Path, model: Path, tmp_path: Path, link: bool
) -> None:
    before, out = file.read_bytes(), file
    if link:
        out = tmp_path / "other.jsonl"
        out.hardlink_to(file)
    result = run("predict", model, file, "--out", out)
    assert isinstance(result.exception, SettingError)
    assert f"{out} is the input" in str(result.exception)
    assert file.read_bytes() == before


def test_predictions_never_replace_a_file_of_their_input(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "graphs"
    folder.mkdir()
    (folder / "one.edgelist").write_text("0 1\n")
    result = run("predict", model, folder, "--out", folder / "one.edgelist")
    assert isinstance(result.exception, SettingError)
    assert (folder / "one.edgelist").read_text() == "0 1\n"


def test_predictions_without_scores_leave_no_scores_of_earlier_ones(
    file: Path, model: Path, tmp_path: Path
) -> None:
    out, scores = tmp_path / "p.csv", tmp_path / "p.scores.json"
    assert run("predict", model, file, "--out", out).exit_code == 0
    assert scores.exists()
    raw = own_graphs(4)
    write_jsonl(tmp_path / "new.jsonl", replace(raw, classes=None))
    assert run("predict", model, tmp_path / "new.jsonl", "--out", out).exit_code == 0
    assert not scores.exists()


def test_graphs_with_other_answers_than_those_of_the_model_are_reported(
    model: Path, tmp_path: Path
) -> None:
    raw = replace(own_graphs(4), classes=None, targets=np.ones((4, 2)))
    write_jsonl(tmp_path / "targets.jsonl", raw)
    words = ["predict", model, tmp_path / "targets.jsonl", "--out", tmp_path / "p.csv"]
    expected = "not scored: 4 graphs have 2 targets, but the model predicts classes"
    result = run(*words)
    assert result.exit_code == 0
    assert expected in " ".join(result.output.split())
    assert json.loads(run(*words, "--json", "--quiet").stdout)["not_scored"] == [expected]
    assert expected in " ".join(run(*words[:-1], "-").stderr.split())


def test_a_wrong_number_of_targets_is_reported() -> None:
    raw = replace(own_graphs(20), classes=None, targets=np.arange(20.0)[:, None])
    method = settings_for("diffpool", "own", epochs=1, hidden=4)
    trained = train_once(method, GraphDataset.from_raw(raw)).trained
    parts = [raw, replace(raw, targets=np.ones((20, 3))), own_graphs(5), own_graphs(2)]
    written = write_predictions(trained, parts, io.StringIO())
    assert written.not_scored == (
        "not scored: 20 graphs have 3 targets, but the model predicts 1 target",
        "not scored: 7 graphs have classes, but the model predicts 1 target",
    )
    assert written.metrics is not None
    assert written.metrics["graphs"] == 20


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_names_do_not_control_the_terminal_that_predictions_are_written_to(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    lines = [{**line, "id": "\x1b[2J\x9b31m\u202e"} for line in lines_with_ids(2)]
    new = write_lines(tmp_path / "new.jsonl", lines)
    words = ["predict", str(model), str(new), "--out", "-", "--format", form, "--quiet"]
    found = {}
    for terminal in (True, False):
        text = io.StringIO()
        monkeypatch.setattr(text, "isatty", lambda answer=terminal: answer)
        monkeypatch.setattr(sys, "stdout", text)
        app(words, standalone_mode=False)
        found[terminal] = text.getvalue()
    assert not set(found[True]) & set("\x1b\x9b\u202e\r")
    assert found[True].count("\n") == 2 + (form == "csv")
    assert "\\u202e" in found[True]
    assert "\u202e" in found[False]


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_standard_output_has_the_predictions_and_nothing_else(
    file: Path, model: Path, tmp_path: Path, form: str
) -> None:
    assert run("predict", model, file, "--out", tmp_path / f"p.{form}").exit_code == 0
    result = run("predict", model, file, "--out", "-", "--format", form)
    assert result.exit_code == 0
    assert result.stdout.replace("\r", "") == (tmp_path / f"p.{form}").read_text()
    assert "accuracy" in result.stderr
    assert not Path("-").exists()


@pytest.mark.parametrize("name", ["p.parquet", "p.tsv", "p"])
def test_an_unknown_ending_is_an_error(name: str, file: Path, model: Path, tmp_path: Path) -> None:
    out = tmp_path / name
    result = run("predict", model, file, "--out", out)
    assert str(result.exception) == (
        f"expected --out to end in .csv, .jsonl or .txt, got {out}: rename it, or choose --format csv or --format jsonl"
    )
    assert run("predict", model, file, "--out", out, "--format", "csv").exit_code == 0


def test_a_folder_instead_of_a_file_is_an_error(file: Path, model: Path, tmp_path: Path) -> None:
    result = run("predict", model, file, "--out", tmp_path)
    assert str(result.exception) == (
        f"expected --out to be a file, got the folder {tmp_path}: add a name, such as {tmp_path / 'predictions.csv'}"
    )


def test_the_summary_of_predictions_on_standard_output_goes_to_standard_error(
    file: Path, model: Path
) -> None:
    result = run("predict", model, file, "--out", "-", "--json", "--quiet")
    assert result.stdout.startswith("graph,label,prediction")
    facts = json.loads(result.stderr)
    assert (facts["predictions"], facts["out"]) == (40, "-")
    assert facts["scores"]["graphs"] == 40


def test_an_unknown_format_is_an_error(file: Path, model: Path) -> None:
    result = run("predict", model, file, "--out", "-", "--format", "xml")
    assert str(result.exception) == "expected --format to be csv or jsonl, got 'xml'"


def test_training_shows_class_counts_and_warns_about_imbalance(tmp_path: Path) -> None:
    lines = [{"edges": [[0, 1]], "node_labels": ["a", "b"], "label": i % 8 == 0} for i in range(80)]
    file = write_lines(tmp_path / "g.jsonl", lines)
    result = run("train", file, "--out", tmp_path / "m", *SMALL)
    assert result.exit_code == 0, result.output
    assert "graphs per class: False: 70, True: 10\n" in result.output
    assert "warning: the classes are imbalanced: always predicting 'False' has" in result.output
    assert "test accuracy 87.5 %, balanced accuracy 50.0 %" in result.output
    balanced = run("train", file, "--out", tmp_path / "b", "--class-weight", "balanced", *SMALL)
    assert balanced.exit_code == 0, balanced.output
    assert "imbalanced" not in balanced.output
    assert load_model(tmp_path / "b").card.training.class_weight == "balanced"


def test_labeled_graphs_are_scored(file: Path, model: Path, tmp_path: Path) -> None:
    result = run("predict", model, file, "--out", tmp_path / "p.csv")
    rows = rows_of(tmp_path / "p.csv")
    accuracy = np.mean([row["label"] == row["prediction"] for row in rows])
    scores = json.loads((tmp_path / "p.scores.json").read_text())
    assert scores["accuracy"] == pytest.approx(accuracy)
    assert np.sum(scores["confusion"]) == scores["graphs"] == 40
    assert scores["classes"] == ["no", "yes"]
    assert f"accuracy {100 * accuracy:.1f} %, balanced accuracy" in " ".join(result.output.split())


def test_graphs_of_unknown_classes_are_reported_and_not_scored(model: Path, tmp_path: Path) -> None:
    labels = ["no", "yes", "maybe", "maybe"]
    lines = [{**line, "label": labels[i % 4]} for i, line in enumerate(lines_with_ids())]
    new = write_lines(tmp_path / "new.jsonl", lines)
    result = run("predict", model, new, "--out", tmp_path / "p.csv")
    scores = json.loads((tmp_path / "p.scores.json").read_text())
    assert scores["graphs"] == 6
    assert scores["unknown_classes"] == {"maybe": 6}
    assert "not scored: 6 graphs of class 'maybe'" in " ".join(result.output.split())


def test_unseen_labels_are_reported(model: Path, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "new.jsonl", own_graphs(6, labels="abz", seed=1))
    result = run("predict", model, tmp_path / "new.jsonl", "--out", tmp_path / "p.csv")
    assert result.exit_code == 0
    assert "node label 'z'" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"nodes": 2, "edges": [[0, 1]]}', "expected 1 columns of node labels, got none"),
        ('{"edges": [[0, 5]], "node_labels": ["a", "b"]}', "line 1"),
        ("{", "line 1"),
    ],
)
def test_wrong_graphs_give_a_clear_error_and_no_file(
    model: Path, tmp_path: Path, line: str, message: str
) -> None:
    (tmp_path / "new.jsonl").write_text(line + "\n")
    result = run("predict", model, tmp_path / "new.jsonl", "--out", tmp_path / "p.csv")
    assert result.exit_code != 0
    assert message in str(result.exception)
    assert not list(tmp_path.glob("p.csv*"))


def test_an_error_late_in_a_file_keeps_the_old_predictions(
    file: Path, model: Path, tmp_path: Path
) -> None:
    out = tmp_path / "p.csv"
    run("predict", model, file, "--out", out)
    before = out.read_bytes()
    with file.open("a") as stream:
        stream.write("nonsense\n")
    assert run("predict", model, file, "--out", out).exit_code != 0
    assert out.read_bytes() == before


def test_a_file_that_cannot_be_written_is_an_error(file: Path, model: Path, tmp_path: Path) -> None:
    result = run("predict", model, file, "--out", tmp_path / "none" / "p.csv")
    assert "expected --out to be a file in a folder that exists" in str(result.exception)


def test_data_prints_a_table_and_json(file: Path) -> None:
    table = run("data", file)
    assert table.exit_code == 0, table.output
    for word in ("graphs", "no: 20, yes: 20", "largest graph", "labels (2)"):
        assert word in table.output
    facts = json.loads(run("data", file, "--json").output)
    assert facts["graphs"] == 40
    assert facts["classes"] == 2
    assert facts["class_counts"] == {"no": 20, "yes": 20}
    assert facts["max_nodes"] == 8
    assert facts["node_labels"] == [2]


def test_regression_targets_are_trained_on_and_predicted(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    lines = [
        {"nodes": n, "edges": [[i, i + 1] for i in range(n - 1)], "target": 100.0 + n}
        for n in np.random.default_rng(0).integers(3, 12, 40).tolist()
    ]
    path.write_text("\n".join(json.dumps(line) for line in lines))
    result = run("train", path, "--out", tmp_path / "m", "--features", "constant", *SMALL)
    assert result.exit_code == 0, result.output
    assert "1 target," in " ".join(result.output.split())
    assert "test MAE" in result.output
    assert run("predict", tmp_path / "m", path, "--out", tmp_path / "p.csv").exit_code == 0
    rows = rows_of(tmp_path / "p.csv")
    assert list(rows[0]) == ["graph", "target", "prediction"]
    assert 90 < float(rows[0]["prediction"]) < 125
    scores = json.loads((tmp_path / "p.scores.json").read_text())
    errors = [float(row["prediction"]) - float(row["target"]) for row in rows]
    assert scores["mae"] == pytest.approx(np.abs(errors).mean(), rel=1e-4)
    assert scores.keys() == {"graphs", "mae", "rmse", "r2"}


@pytest.mark.parametrize("labels", [[0, 1], [True, False], ["1", "2"]])
def test_classes_keep_their_type_on_the_command_line(labels: list, tmp_path: Path) -> None:
    lines = [
        {"edges": [], "node_labels": ["ab"[i % 2]] * 3, "label": labels[i % 2]} for i in range(40)
    ]
    file = write_lines(tmp_path / "g.jsonl", lines)
    options = ["--epochs", "20", "--learning-rate", "0.05", "--hidden", "8", "--device", "cpu"]
    assert run("train", file, "--out", tmp_path / "m", *options).exit_code == 0
    assert run("predict", tmp_path / "m", file, "--out", tmp_path / "p.jsonl").exit_code == 0
    found = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert [line["prediction"] for line in found] == [line["label"] for line in lines]
    assert {type(line["prediction"]) for line in found} == {type(labels[0])}


@pytest.mark.parametrize("part", [1, 2, 1000])
def test_molecules_that_cannot_be_read_have_empty_predictions_on_request(
    part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rdkit")
    monkeypatch.setattr("diffpool.cli.inputs.PART", part)
    file, new = tmp_path / "m.csv", tmp_path / "new.csv"
    rows = [f"{'C' * (1 + i % 4)}O,{i % 2}" for i in range(40)]
    file.write_text("\n".join(["smiles,active", *rows, "C1,0"]))
    new.write_text("id,smiles\na,C1\nb,CCO\nc,\nd,CO\n")
    train = ["train", file, "--label", "active", "--out", tmp_path / "m", *SMALL]
    assert "--skip-invalid" in str(run(*train).exception)
    trained = run(*train, "--skip-invalid")
    assert trained.exit_code == 0, trained.output
    assert json.loads((tmp_path / "m" / "report.json").read_text())["graphs"] == 40
    out = tmp_path / "p.csv"
    assert "--skip-invalid" in str(run("predict", tmp_path / "m", new, "--out", out).exception)
    result = run("predict", tmp_path / "m", new, "--out", out, "--skip-invalid")
    assert result.exit_code == 0, result.output
    found = rows_of(out)
    assert [(row["graph"], row["id"]) for row in found] == [
        ("0", "a"),
        ("1", "b"),
        ("2", "c"),
        ("3", "d"),
    ]
    assert [bool(row["prediction"]) for row in found] == [False, True, False, True]
    assert [bool(row["p_0"]) for row in found] == [False, True, False, True]
    text = " ".join(result.output.split())
    assert (
        "no prediction for 2 rows, because RDKit cannot read the molecule: line 2, line 4" in text
    )
    result = run(
        "predict", tmp_path / "m", new, "--out", tmp_path / "p.jsonl", "--skip-invalid", "--json"
    )
    assert json.loads(result.stdout)["skipped"] == 2
    lines = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert [line["prediction"] is None for line in lines] == [True, False, True, False]
    assert lines[0].keys() == lines[1].keys()


def test_the_columns_of_a_csv_file_are_in_the_predictions(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    rows = [f"M{i},{'C' * (1 + i % 4)}O,{i % 2},  a b" for i in range(40)]
    file = tmp_path / "m.csv"
    file.write_text("\n".join(["id,smiles,active,note", *rows]))
    train = run("train", file, "--label", "active", "--out", tmp_path / "m", *SMALL)
    assert train.exit_code == 0, train.output
    out = tmp_path / "p.csv"
    assert run("predict", tmp_path / "m", file, "--label", "active", "--out", out).exit_code == 0
    found = rows_of(out)
    columns = ["graph", "id", "smiles", "active", "note", "prediction", "p_0", "p_1"]
    assert list(found[0]) == columns
    assert [",".join(list(row.values())[1:5]) for row in found] == rows
    assert json.loads((tmp_path / "p.scores.json").read_text())["classes"] == [0, 1]
    out = tmp_path / "p.jsonl"
    assert run("predict", tmp_path / "m", file, "--label", "active", "--out", out).exit_code == 0
    line = json.loads(out.read_text().splitlines()[1])
    assert (line["id"], line["active"], type(line["prediction"])) == ("M1", 1, int)


def one_way_cycles(reverse: bool, count: int = 40) -> list[dict]:
    """Cycles whose class is the parity of their length; with `reverse`, every edge also has its reverse."""
    lines = []
    for g in range(count):
        n = 3 + g % 5
        edges = [[i, (i + 1) % n] for i in range(n)] + ([[0, 2]] if n > 3 else [])
        edges += [[j, i] for i, j in edges] if reverse else []
        labels = ["abb"[i % 3] for i in range(n)]
        lines.append({"edges": edges, "node_labels": labels, "directed": True, "label": n % 2})
    return lines


def write_lines(path: Path, lines: list[dict]) -> Path:
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return path


@pytest.mark.parametrize("directed", [True, False])
def test_a_model_predicts_on_edges_as_it_was_trained(directed: bool, tmp_path: Path) -> None:
    """With `--directed`, missing reverse edges are not added, neither in training nor in prediction."""
    one_way = write_lines(tmp_path / "one_way.jsonl", one_way_cycles(reverse=False))
    both = write_lines(tmp_path / "both.jsonl", one_way_cycles(reverse=True))
    options = [*SMALL, *(["--directed"] if directed else [])]
    result = run("train", one_way, "--out", tmp_path / "m", *options)
    assert result.exit_code == 0, result.output
    model = load_model(tmp_path / "m")
    assert model.card.directed == directed
    given, symmetric = (model.predict_proba(read_graphs(path)) for path in (one_way, both))
    assert np.allclose(given, symmetric, atol=1e-6) != directed
    dataset = GraphDataset.from_raw(read_graphs(one_way), directed=directed)
    batch = dataset.batch(range(40))
    with torch.no_grad():
        expected = model.model(batch.graphs, batch.x).logits.softmax(-1).numpy()
    assert np.allclose(given, expected, atol=1e-6)


def test_edge_labels_reach_a_model_trained_with_edge_sage(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    lines = [
        {"nodes": 3, "edges": [[0, 1], [1, 2]], "edge_labels": ["x", "xy"[i % 2]], "label": i % 2}
        for i in range(40)
    ]
    path.write_text("\n".join(json.dumps(line) for line in lines))
    result = run("train", path, "--out", tmp_path / "m", "--conv", "edge-sage", *SMALL)
    assert result.exit_code == 0, result.output
    assert "edges: labels" in " ".join(result.output.split())
    assert run("predict", tmp_path / "m", path, "--out", tmp_path / "p.csv").exit_code == 0


def test_an_output_that_is_not_finite_is_an_error_that_names_the_graph(model: Path) -> None:
    trained = load_model(model)
    graphs = read_graphs(model.parent / "graphs.jsonl")
    with torch.no_grad():
        trained.model.inputs.mean.fill_(0)
        trained.model.inputs.inverse_sd.fill_(3e38)
        trained.model.head[-1].weight.fill_(3e38)
        trained.model.head[-1].bias.fill_(-3e38)
    for output in (trained.predict_proba, trained.predict_log_proba):
        with pytest.raises(ModelError, match=r"the output of the model for graph \d+ "):
            output(graphs)


def test_embeddings_and_clusters_that_are_not_finite_are_errors_that_name_the_graph(
    model: Path,
) -> None:
    trained = load_model(model)
    graphs = read_graphs(model.parent / "graphs.jsonl")
    apply, several = FeatureMap.apply, np.concatenate([np.arange(40)] * 3)

    def broken(self: FeatureMap, raw: RawGraphs) -> Any:
        features = apply(self, raw)
        if len(raw) == 20:  # the second batch
            features.x[raw.sizes[:7].sum() : raw.sizes[:8].sum()] = np.nan
        return features

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FeatureMap, "apply", broken)
        for output, what in (
            (trained.predict, "output"),
            (trained.predict_log_proba, "output"),
            (trained.embed, "embedding"),
            (trained.clusters, "cluster assignment"),
        ):
            with pytest.raises(ModelError, match=rf"graphs: the {what} of .*for graph 107 "):
                output(graphs[several])


@pytest.mark.parametrize("method", METHODS)
def test_no_graphs_have_no_outputs_of_the_right_width(method: str) -> None:
    graphs = own_graphs(12)
    dataset = GraphDataset.from_raw(graphs)
    trained = train_once(settings_for(method, "own", epochs=1, hidden=4), dataset).trained
    none = graphs[0:0]
    assert trained.predict(none).shape == (0,)
    assert trained.predict_proba(none).shape == (0, 2)
    assert trained.predict_log_proba(none).shape == (0, 2)
    assert trained.embed(none).shape == (0, trained.embed(graphs).shape[1])
    assert trained.clusters(none) == []


def test_threads_that_share_a_model_have_their_own_embeddings(model: Path) -> None:
    trained = load_model(model)
    graphs = read_graphs(model.parent / "graphs.jsonl")
    parts = [graphs[start : start + 10] for start in range(0, 40, 10)] * 5
    alone = [trained.embed(part) for part in parts]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(trained.embed, parts))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_too_little_memory_is_an_error_that_names_the_graphs(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = load_model(model)

    def fail(*inputs: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 PB")

    monkeypatch.setattr(trained.model, "forward", fail)
    with pytest.raises(ModelError, match=r"not enough memory for the model on graphs 0 to 39 with"):
        trained.predict(read_graphs(model.parent / "graphs.jsonl"))


@pytest.mark.parametrize("device", ["/dev/null", "/dev/full"])
def test_predictions_are_not_written_to_a_device(file: Path, model: Path, device: str) -> None:
    result = run("predict", model, file, "--out", device)
    assert isinstance(result.exception, DataError)
    assert f"cannot write predictions to {device} (it is a device" in str(result.exception)


def test_names_are_no_formulas_in_a_spreadsheet(tmp_path: Path) -> None:
    names = ["=HYPERLINK(1)", "-1.5"]
    raw = own_graphs()
    assert raw.classes is not None
    raw = replace(raw, classes=Categories(raw.classes.codes, (tuple(names),)))
    write_jsonl(tmp_path / "g.jsonl", raw)
    assert run("train", tmp_path / "g.jsonl", "--out", tmp_path / "m", *SMALL).exit_code == 0
    found = load_model(tmp_path / "m")
    write_predictions(found, [raw], tmp_path / "p.csv")
    expected = ["'=HYPERLINK(1)" if name[0] == "=" else name for name in found.predict(raw)]
    assert [row["prediction"] for row in rows_of(tmp_path / "p.csv")] == expected


# --- names that a terminal would obey


NAMES = ["\x1b[2J\x1b]0;title\x07$_{", "[/b] [bold]b[/bold] :smile:", "a\u202eb"]


@pytest.mark.filterwarnings("ignore:Glyph")
def test_names_are_printed_as_text(tmp_path: Path) -> None:
    lines = [
        {"nodes": 2, "edges": [[0, 1]], "label": NAMES[g % 3], "node_labels": [NAMES[g % 2], "x"]}
        for g in range(40)
    ]
    (tmp_path / "[").mkdir()  # so that paths have [/b] in them
    path = tmp_path / "[" / "b] {0}.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines))
    unseen = tmp_path / "new.jsonl"
    unseen.write_text(json.dumps({"edges": [], "node_labels": ["\x1b[31mnew [/b]"]}))
    model = tmp_path / "[" / "b] m"
    outputs = []
    for words in (
        ["data", path],
        ["train", path, "--out", model, *SMALL],
        ["predict", model, unseen, "--out", tmp_path / "[" / "b].csv"],
        ["evaluate", path, "--method", "wl", "--out", tmp_path / "[" / "b].jsonl"],
    ):
        result = run(*words)
        assert result.exit_code == 0, (words, result.output, result.exception)
        outputs.append(result.output)
    for text in outputs:
        assert not set(text) & set("\x1b\x07\u202e")
    assert "\\x1b[2J" in outputs[0]
    assert "[/b] [bold]b[/bold] :smile:" in " ".join(outputs[0].replace("│", " ").split())
    assert "new [/b]" in outputs[2]
