"""`diffpool data`, `diffpool train` and `diffpool predict` on your own files, as a new user runs them."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner, Result

from diffpool import GraphDataset, RawGraphs, load_model, read_graphs
from diffpool.cli.commands import app
from diffpool.data import Categories
from diffpool.data.jsonl import write_jsonl
from diffpool.errors import DataError
from diffpool.training import write_predictions
from diffpool.training.predict import _cell

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
    assert list(rows[0]) == ["graph", "prediction", "p_no", "p_yes"]
    assert [int(row["graph"]) for row in rows] == list(range(40))
    expected = load_model(model).predict_proba(read_graphs(file))
    found = np.array([[row["p_no"], row["p_yes"]] for row in rows], dtype=np.float32)
    assert np.array_equal(found, expected)
    names = ["no" if p[0] >= p[1] else "yes" for p in expected]
    assert [row["prediction"] for row in rows] == names


def test_a_file_is_read_in_parts(file: Path, model: Path, tmp_path: Path, monkeypatch) -> None:
    import diffpool.cli.commands

    run("predict", model, file, "--out", tmp_path / "whole.csv")
    monkeypatch.setattr(diffpool.cli.commands, "PART", 7)
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
    assert "1 targets" in " ".join(result.output.split())
    assert "test error" in result.output
    assert run("predict", tmp_path / "m", path, "--out", tmp_path / "p.csv").exit_code == 0
    rows = rows_of(tmp_path / "p.csv")
    assert list(rows[0]) == ["graph", "prediction"]
    assert 90 < float(rows[0]["prediction"]) < 125


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
    assert {_cell(word) for word in ("+x", "@x", "-x", "\tx")} == {"'+x", "'@x", "'-x", "'\tx"}
    assert [_cell(word) for word in ("-1", "+1e5", "a=b", "")] == ["-1", "+1e5", "a=b", ""]


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
