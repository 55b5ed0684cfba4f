"""The command line, as a user sees it."""

from __future__ import annotations

import errno
import inspect
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
from model_files import weights_file
from typer.testing import CliRunner

import diffpool.cli.commands
from diffpool import load_model
from diffpool.cli.commands import app, evaluate, main, train
from diffpool.cli.display import counted
from diffpool.data import embedded
from diffpool.errors import SettingError
from diffpool.experiments import KERNEL_METHODS, METHODS, read_records
from diffpool.experiments.methods import METHOD_SETTINGS
from diffpool.training import Cohort, model_directory, reserve_directory
from diffpool.version import VERSION

SMALL = ["--epochs", "2", "--device", "cpu"]


@pytest.fixture
def small_embedded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The generated data set with few graphs."""
    monkeypatch.setattr(diffpool.cli.commands, "embedded", lambda seed: embedded(60, seed=seed))


def run(*words: str) -> Any:
    return CliRunner().invoke(app, ["train", *words])


def shell(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "diffpool", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def config(directory: Path) -> dict[str, Any]:
    return json.loads((directory / "config.json").read_text())


# --- training ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_embedded")
def test_training_writes_a_model_directory_and_prints_the_test_accuracy(tmp_path: Path) -> None:
    result = run("--out", str(tmp_path / "m"), *SMALL)
    assert result.exit_code == 0, result.output
    assert "test accuracy" in result.output
    names = {path.name for path in (tmp_path / "m").iterdir()}
    files = {"config.json", "metrics.jsonl", "report.json", "report.md", "clusters.png"}
    assert names == files | {weights_file(tmp_path / "m").name}
    rows = [
        json.loads(line) for line in (tmp_path / "m" / "metrics.jsonl").read_text().splitlines()
    ]
    assert [row["epoch"] for row in rows] == [1, 2]
    assert (tmp_path / "m" / "clusters.png").read_bytes().startswith(b"\x89PNG")
    trained = load_model(tmp_path / "m")
    assert trained.card.method == "diffpool"
    assert trained.card.dataset == "embedded"
    assert len(trained.model.poolers) == 1


@pytest.mark.usefixtures("small_embedded")
def test_a_run_repeats_to_the_bit(tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert run("--out", str(tmp_path / name), "--seed", "3", *SMALL).exit_code == 0
    first, second = (weights_file(tmp_path / n).read_bytes() for n in ("a", "b"))
    assert first == second


@pytest.mark.usefixtures("small_embedded")
def test_a_model_is_replaced_with_overwrite_only(tmp_path: Path) -> None:
    out = tmp_path / "m"
    assert run("--out", str(out), *SMALL).exit_code == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    refused = run("--out", str(out), "--seed", "1", *SMALL)
    assert isinstance(refused.exception, SettingError)
    assert f"{out} already holds a model" in str(refused.exception)
    assert "--overwrite" in str(refused.exception)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert run("--out", str(out), "--seed", "1", "--overwrite", *SMALL).exit_code == 0
    assert load_model(out).card.training.seed == 1
    assert len(list(out.iterdir())) == len(before)


def test_a_warning_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def read(*options: object) -> None:
        warnings.warn("the file \x1b[2J is\ndamaged: reading it again", stacklevel=1)
        raise SettingError("stop here")

    monkeypatch.setattr(diffpool.cli.commands, "read_input", read)
    monkeypatch.setattr("sys.argv", ["diffpool", "data", "X"])
    before = warnings.showwarning
    with pytest.raises(SystemExit):
        main()
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "diffpool: warning: the file \\x1b[2J is damaged: reading it again",
        "diffpool: stop here",
    ]
    assert warnings.showwarning is before


def test_two_trainings_into_one_folder_are_refused(tmp_path: Path) -> None:
    with reserve_directory(tmp_path / "m"):
        refused = run("missing.jsonl", "--out", str(tmp_path / "m"))  # before the data is read
        forced = run("missing.jsonl", "--out", str(tmp_path / "m"), "--overwrite")
    for result in (refused, forced):
        assert isinstance(result.exception, SettingError)
        assert "another process is writing a model to" in str(result.exception)


@pytest.mark.usefixtures("small_embedded")
@pytest.mark.parametrize(
    "method", ["diffpool-nolp", "diffpool-released", "graphsage", "gcn", "gin"]
)
def test_every_method_trains(method: str, tmp_path: Path) -> None:
    result = run("--method", method, "--out", str(tmp_path / "m"), *SMALL)
    assert result.exit_code == 0, result.output


# --- an option for every setting ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_embedded")
def test_options_reach_the_model(tmp_path: Path) -> None:
    words = ["--poolings", "2", "--hidden", "8", "--clusters", "7,3", "--link-weight", "0.5"]
    words += ["--dropout", "0.25", "--weight-decay", "0", "--seed", "4", "--assignment", "gumbel"]
    words += ["--head", "6,5", "--concat", "true", "--labeling", "betweenness", "--clip", "1"]
    words += ["--set", "order=relu,batch", "--set", "hidden=9"]
    result = run("--out", str(tmp_path / "m"), *words, *SMALL)
    assert result.exit_code == 0, result.output
    found = config(tmp_path / "m")
    architecture = {
        "poolings": 2,
        "hidden": 9,  # --set comes after the option
        "clusters": [7, 3],
        "assignment": "gumbel",
        "head": [6, 5],
        "concat": True,
        "labelling": "betweenness",
        "order": ["relu", "batch"],
    }
    training = {"link_weight": 0.5, "dropout": 0.25, "weight_decay": 0.0, "clip": 1.0, "seed": 4}
    assert found["parts"][0]["architecture"] == {
        **found["parts"][0]["architecture"],
        **architecture,
    }
    assert found["parts"][0]["training"] == {**found["parts"][0]["training"], **training}


@pytest.mark.parametrize("command", [train, evaluate])
def test_every_setting_is_an_option(command: Any) -> None:
    assert METHOD_SETTINGS.keys() <= inspect.signature(command).parameters.keys()


def help_of(*words: str) -> str:
    return CliRunner().invoke(app, words, env={"COLUMNS": "100", "TERM": "dumb"}).stdout


@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_help_leaves_out_the_advanced_options(command: str) -> None:
    for _ in range(2):  # the help of all options changes nothing
        text = help_of(command, "--help")
        assert "─ Training ─" in text
        assert "--help-all" in text
        assert "─ Advanced ─" not in text
        assert "--clip" not in text
        assert "--clip" in help_of(command, "--help-all")


@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_help_lists_the_options_by_group_and_ends_with_the_methods(command: str) -> None:
    text = help_of(command, "--help-all")
    titles = ("Options", "Training", "Architecture", "Data", "Advanced")
    places = [text.index(f"─ {title} ─") for title in titles]
    assert places == sorted(places)
    assert "Maximum number of epochs. [default: 200; 40 for embedded]" in text
    for word in ("Examples", "DIFFPOOL_DATA", *(s.option for s in METHOD_SETTINGS.values())):
        assert word in text
    methods = {**METHODS, **(KERNEL_METHODS if command == "evaluate" else {})}
    for method in methods.values():
        assert f"• {method.name}: {method.summary}" in text[places[-1] :]


def test_no_settings_are_given_by_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []

    def settings_for(name: str, dataset: str, **changes: Any) -> None:
        seen.append(changes)
        raise SettingError("stop here")

    monkeypatch.setattr(diffpool.cli.commands, "settings_for", settings_for)
    run("--out", str(tmp_path / "m"))
    run("--out", str(tmp_path / "m"), "--epochs", "3", "--clusters", "20,5", "--dropout", "0")
    CliRunner().invoke(app, ["evaluate", "embedded", "--ratio", "0.5", "--seed", "3"])
    assert seen == [
        {"seed": 0},
        {"seed": 0, "epochs": 3, "clusters": (20, 5), "dropout": 0.0},
        {"ratio": 0.5},
    ]
    assert type(seen[1]["dropout"]) is float


@pytest.mark.usefixtures("small_embedded")
def test_advanced_settings_are_evaluated_and_recorded(tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    words = ["--hidden", "4", "--head", "3", "--every-level", "true", "--out", str(out), *SMALL]
    result = CliRunner().invoke(app, ["evaluate", "embedded", *words])
    assert result.exit_code == 0, result.output
    settings = read_records(out)[0].settings["architecture"]
    assert (settings["head"], settings["every_level"]) == ([3], True)


# --- what is printed ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_embedded")
def test_progress_is_plain_lines_where_the_output_is_no_terminal(tmp_path: Path) -> None:
    lines = run("--out", str(tmp_path / "m"), *SMALL).stdout.splitlines()
    assert any(re.fullmatch(r"diffpool: epoch 2/2, loss .* %, val .* %", line) for line in lines)
    best = next(i for i, line in enumerate(lines) if line.startswith("best epoch"))
    assert not re.search("[━╸]", "".join(lines[:best]))  # no bar; a table of scores follows


@pytest.mark.usefixtures("small_embedded")
def test_quiet_prints_the_result_only(tmp_path: Path) -> None:
    result = run("--out", str(tmp_path / "m"), "--quiet", *SMALL)
    first, second, *table = result.stdout.splitlines()
    assert first.startswith("best epoch")
    assert second.startswith("test accuracy")
    assert "predicted class" in table[0]
    assert result.stderr == ""


@pytest.mark.usefixtures("small_embedded")
def test_every_command_prints_json(tmp_path: Path) -> None:
    result = run("--out", str(tmp_path / "m"), "--json", *SMALL)
    facts = json.loads(result.stdout)
    assert facts["out"] == str(tmp_path / "m")
    assert facts["epochs"] == 2
    assert 0 <= facts["test_accuracy"] <= 1
    report = json.loads((tmp_path / "m" / "report.json").read_text())
    for part in ("validation", "test"):
        assert facts[part] == report[part]
        assert {"balanced_accuracy", "macro_f1", "roc_auc", "confusion"} <= facts[part].keys()
    assert "epoch 2/2" in result.stderr
    graphs = tmp_path / "graphs.jsonl"
    line = '{"nodes": 3, "edges": [[0, 1]%s], "label": "%s"}\n'
    graphs.write_text((line % ("", "a") + line % (", [1, 2]", "b")) * 20)
    mine = ["--out", str(tmp_path / "mine"), "--quiet", *SMALL]
    assert CliRunner().invoke(app, ["train", str(graphs), *mine]).exit_code == 0
    words = ["predict", str(tmp_path / "mine"), str(graphs), "--out", str(tmp_path / "p.csv")]
    facts = json.loads(CliRunner().invoke(app, [*words, "--json", "--quiet"]).stdout)
    assert facts.pop("scores")["graphs"] == 40
    assert facts == {"predictions": 40, "out": str(tmp_path / "p.csv"), "unseen": {}, "skipped": 0}
    facts = json.loads(CliRunner().invoke(app, ["data", str(graphs), "--json"]).stdout)
    assert facts["graphs"] == 40


def test_graph_files_are_trained_on_and_predicted_with_chosen_attributes(tmp_path: Path) -> None:
    nx = pytest.importorskip("networkx")
    for name, make in (("ring", nx.cycle_graph), ("star", nx.star_graph)):
        (tmp_path / "set" / name).mkdir(parents=True)
        for n in range(5, 17):
            graph = make(n)
            nx.set_node_attributes(graph, {v: f"{name} {n} {v}" for v in graph}, "key")
            nx.set_node_attributes(graph, {v: v / n for v in graph}, "height")
            nx.write_gml(graph, tmp_path / "set" / name / f"{n}.gml")
    data, out = str(tmp_path / "set"), str(tmp_path / "m")
    result = CliRunner().invoke(app, ["train", data, "--out", out, *SMALL])
    assert "attribute 'key' to be a label that nodes share" in str(result.exception)
    chosen = ["--node-attributes", "height"]
    result = CliRunner().invoke(app, ["train", data, "--out", out, *chosen, *SMALL])
    assert result.exit_code == 0, result.output
    predictions = tmp_path / "p.csv"
    graph = str(tmp_path / "set" / "ring" / "7.gml")
    words = ["predict", out, graph, "--out", str(predictions), *chosen]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert len(predictions.read_text().splitlines()) == 2
    facts = json.loads(CliRunner().invoke(app, ["data", data, "--json", *chosen]).stdout)
    assert facts["class_counts"] == {"ring": 12, "star": 12}


def test_warnings_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    graphs = tmp_path / "graphs.jsonl"
    names = [{"edges": [], "node_labels": [f"{g} {n}" for n in range(4)]} for g in range(20)]
    graphs.write_text("".join(json.dumps(graph) + "\n" for graph in names))
    monkeypatch.setattr("sys.argv", ["diffpool", "data", str(graphs)])
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("diffpool: warning: graphs: node label 1 has 80 distinct strings")


@pytest.mark.usefixtures("small_embedded")
def test_training_that_stops_early_says_so(tmp_path: Path) -> None:
    result = run("--out", str(tmp_path / "m"), "--epochs", "99", "--patience", "2", "--hidden", "4")
    pattern = r"stopped after epoch \d+: no lower validation loss for 2 epochs"
    assert re.search(pattern, " ".join(result.stdout.split()))


def test_numbers_and_nouns_agree() -> None:
    assert counted(1, "class", "classes") == "1 class"
    assert counted(2, "class", "classes") == "2 classes"
    assert counted(0, "graph") == "0 graphs"


# --- Ctrl-C -------------------------------------------------------------------------------------------------------


def test_ctrl_c_keeps_the_model_and_resume_continues(tmp_path: Path) -> None:
    graphs, out = tmp_path / "graphs.jsonl", tmp_path / "m"
    lines = [
        {"nodes": 4, "edges": [[0, 1], [1, 2], [2, i]], "label": i}
        for i in (0, 3)
        for _ in "0" * 20
    ]
    graphs.write_text("".join(json.dumps(line) + "\n" for line in lines))
    words = ["train", str(graphs), "--out", str(out), "--device", "cpu", "--hidden", "4"]
    forever = [*words, "--epochs", "100000", "--patience", "100000"]
    command = [sys.executable, "-m", "diffpool", *forever]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    metrics = out / "metrics.jsonl"
    deadline = time.monotonic() + 60
    while not (metrics.exists() and metrics.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    found = re.search(r"diffpool: stopped after epoch (\d+): the best model so far is in", stderr)
    assert found is not None, stderr
    assert "with --resume" in stderr
    assert "test accuracy" in stdout
    done = int(found[1])
    assert load_model(out).card.dataset == "graphs"
    refused = str(CliRunner().invoke(app, words).exception)
    assert f"{out} already holds a model, of an interrupted training: " in refused
    assert "--resume" in refused
    more = [*words, "--epochs", str(done + 2), "--patience", "100000", "--resume", "--json"]
    result = CliRunner().invoke(app, more)
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert (facts["epochs"], facts["interrupted"]) == (done + 2, False)
    assert len(metrics.read_text().splitlines()) == done + 2


@pytest.mark.usefixtures("small_embedded")
def test_ctrl_c_during_an_evaluation_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(self: Cohort) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Cohort, "train_epoch", stop)
    words = ["evaluate", "embedded", "--out", str(tmp_path / "r.jsonl"), *SMALL]
    monkeypatch.setattr("sys.argv", ["diffpool", *words])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 130
    assert "run the same command again to continue" in capsys.readouterr().err


# --- mistakes ----------------------------------------------------------------------------------------------------


def test_version() -> None:
    assert shell("--version").stdout.strip() == f"diffpool {VERSION}"


def test_a_mistake_in_a_shell_gives_one_line_and_exit_code_2() -> None:
    result = shell("train", "--epochs", "0")
    assert result.returncode == 2
    assert result.stderr == "diffpool: expected epochs from 1 to 1000000, got 0\n"


MISTAKES = {
    "unknown data set": (["train", "NOSUCH", "--data-dir", "."], "NOSUCH.zip"),
    "no folder for it": (["train", "ENZYMES", "--data-dir", "no-such-folder"], "no-such-folder"),
    "unknown method": (["train", "--method", "magic"], "magic"),
    "unknown method to evaluate": (
        ["evaluate", "embedded", "--method", "magic"],
        "expected the method to be one of diffpool,",
    ),
    "unknown protocol": (
        ["evaluate", "embedded", "--protocol", "magic"],
        "expected one of the protocols paper, tenfold, nested, got 'magic'",
    ),
    "no epochs": (["train", "--epochs", "0"], "epochs"),
    "epochs that are no number": (["train", "--epochs", "many"], "--epochs"),
    "a ratio above one": (["train", "--ratio", "1.5"], "ratio"),
    "clusters that are no numbers": (["train", "--clusters", "many"], "many"),
    "too few cluster numbers": (["train", "--poolings", "2", "--clusters", "5"], "2 poolings"),
    "a learning rate of zero": (["train", "--learning-rate", "0"], "learning_rate"),
    "dropout of everything": (["train", "--dropout", "1"], "dropout of at least 0 and below 1"),
    "an unknown convolution": (["train", "--conv", "gat"], "expected conv to be one of sage,"),
    "neither true nor false": (["train", "--concat", "maybe"], "concat to be true or false"),
    "a set without value": (["train", "--set", "concat"], "expected --set NAME=VALUE"),
    "a set of the wrong type": (["train", "--set", "hidden=wide"], "hidden to be an integer"),
    "a seed by --set": (
        ["train", "--set", "seed=3"],
        "--set does not accept seed, got --set seed=3: use --seed 3",
    ),
    "an unknown device": (["train", "--device", "abacus"], "abacus"),
    "an unknown precision": (
        ["train", "--precision", "float8"],
        "expected --precision to be tf32 or float32, got 'float8'",
    ),
    "out is a file": (["train", "--out", __file__], "--out"),
    "an unknown option": (["train", "--no-such-option"], "no-such-option"),
    "a misspelled command": (["trian"], "Did you mean 'train'?"),
    "a misspelled option": (["train", "--epcohs", "3"], "--epcohs. Did you mean --epochs?"),
    "a misspelled method": (["train", "--method", "grapsage"], "Did you mean graphsage?"),
    "a misspelled kernel": (
        ["evaluate", "ENZYMES", "--method", "graphlte"],
        "Did you mean graphlet or graphsage or graphlet-degree?",
    ),
    "a misspelled protocol": (
        ["evaluate", "embedded", "--protocol", "ten-fold"],
        "Did you mean tenfold?",
    ),
    "a misspelled setting": (["train", "--set", "hiden=3"], "Did you mean hidden?"),
    "a misspelled setting in a grid": (
        ["evaluate", "embedded", "--protocol", "nested", "--grid", "learning-rat=1"],
        "Did you mean learning_rate?",
    ),
    "a misspelled choice": (["train", "--readout", "maen"], "Did you mean mean?"),
    "a misspelled word in a list": (["train", "--order", "batch,reul"], "Did you mean relu?"),
    "a ratio and numbers of clusters": (
        ["train", "--ratio", "0.5", "--clusters", "5"],
        "expected --ratio or --clusters 5, got both",
    ),
    "a minimum and numbers of clusters": (
        ["evaluate", "embedded", "--min-clusters", "4", "--clusters", "5"],
        "expected --min-clusters or --clusters 5, got both",
    ),
    "a ratio without pooling": (
        ["train", "--method", "graphsage", "--ratio", "0.5"],
        "expected no --ratio with graphsage, which has no pooling: leave it out",
    ),
    "clusters without pooling": (
        ["evaluate", "embedded", "--method", "gin", "--set", "clusters=dataset"],
        "expected no --clusters with gin, which has no pooling: leave it out",
    ),
    "a minimum without pooling": (
        ["train", "--poolings", "0", "--min-clusters", "4"],
        "expected no --min-clusters with diffpool and --poolings 0: leave it out",
    ),
    "a link loss without pooling": (
        ["train", "--method", "gcn", "--link-weight", "1"],
        "expected no --link-weight with gcn",
    ),
    "an entropy loss without pooling": (
        ["train", "--method", "set2set", "--entropy-weight", "0"],
        "expected no --entropy-weight with set2set",
    ),
    "an integer in letters": (
        ["train", "--epochs", "three"],
        "expected --epochs to be an integer, got 'three'",
    ),
    "a number in letters": (
        ["train", "--dropout", "half"],
        "expected --dropout to be a number, got 'half'",
    ),
    "a misspelled precision": (["train", "--precision", "flaot32"], "Did you mean float32?"),
}


@pytest.mark.parametrize(("words", "named"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_gives_a_clear_message_and_exit_code_2(
    words: list[str],
    named: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("DIFFPOOL_DATA", "")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["diffpool", *words])
    with pytest.raises(SystemExit) as stop:
        main()
    message = capsys.readouterr().err
    assert stop.value.code == 2
    assert message.startswith("diffpool: ")
    assert named in message


def test_completion_is_installed_by_the_installed_command_only() -> None:
    for option in ("--install-completion", "--show-completion"):
        result = shell(option)
        assert result.returncode == 2
        message = f"completion is for the installed command: run `diffpool {option}`"
        assert result.stderr == f"diffpool: {message}\n"


@pytest.mark.parametrize("device", ["gpu", "GPU", "tpu"])
def test_the_message_about_a_device_lists_the_usual_ones(
    device: str, capsys: Any, monkeypatch: Any, tmp_path: Path
) -> None:
    words = ("train", "--device", device, "--out", tmp_path / "m")
    line = complaint(capsys, monkeypatch, *words)
    assert line.endswith(f"got {device!r}: use cpu, cuda or auto")


@pytest.mark.parametrize("words", [("missing.jsonl",), ("--method", "ecc", "--device", "gpu")])
def test_a_training_that_fails_leaves_no_empty_folder(
    words: tuple[str, ...], capsys: Any, monkeypatch: Any, tmp_path: Path
) -> None:
    complaint(capsys, monkeypatch, "train", *words, "--out", tmp_path / "runs" / "m")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "old").mkdir()
    complaint(capsys, monkeypatch, "train", *words, "--out", tmp_path / "old")
    assert list(tmp_path.iterdir()) == [tmp_path / "old"]  # it was there before


# --- classes that are none ----------------------------------------------------------------------------------------


@pytest.fixture
def molecules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table with an id, a class, a number and a column with a single value."""
    pytest.importorskip("rdkit")
    monkeypatch.chdir(tmp_path)
    rows = [f"M{n},{'C' * (n % 9 + 1)}O,{n % 2},{n / 7:.3f},x" for n in range(60)]
    file = tmp_path / "m.csv"
    file.write_text("\n".join(["id,smiles,active,logp,batch", *rows]) + "\n")
    return file


@pytest.mark.parametrize("command", ["train", "evaluate"])
@pytest.mark.parametrize(
    ("options", "message"),
    {
        "none": (
            [],
            "name the column of the class with --label, or of a number to predict with --target. "
            "The file has id, smiles, active, logp, batch",
        ),
        "id": (
            ["--label", "id"],
            "m: 60 graphs have 60 different classes: for numbers to predict use --target, for classes name another "
            "column with --label",
        ),
        "number": (["--label", "logp"], "m: 60 graphs have 60 different classes: "),
        "constant": (["--label", "batch"], "m: all 60 graphs have the class 'x': "),
        "both": (
            ["--label", "active", "--target", "logp"],
            "expected --label or --target, got both",
        ),
    }.values(),
    ids=["none", "id", "number", "constant", "both"],
)
def test_a_column_that_cannot_be_the_class_is_one_line(
    command: str, options: list[str], message: str, molecules: Path, capsys: Any, monkeypatch: Any
) -> None:
    line = complaint(capsys, monkeypatch, command, molecules, *options, *SMALL)
    assert message in line
    assert len(line) < 400


@pytest.mark.parametrize("label", ["id", "batch"])
def test_a_kernel_refuses_a_column_that_cannot_be_the_class(
    label: str, molecules: Path, capsys: Any, monkeypatch: Any
) -> None:
    line = complaint(capsys, monkeypatch, "evaluate", molecules, "--method", "wl", "--label", label)
    assert line.startswith(f"diffpool: m: {'60 graphs have 60' if label == 'id' else 'all 60'}")


# --- what goes wrong outside of the program -----------------------------------------------------------------------


def complaint(capsys: pytest.CaptureFixture[str], monkeypatch: Any, *words: object) -> str:
    """The one line that the command prints before it exits with code 2."""
    monkeypatch.setattr(sys, "argv", ["diffpool", *map(str, words)])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    (line,) = [x for x in capsys.readouterr().err.splitlines() if x.startswith("diffpool: ")]
    return line


@pytest.mark.parametrize("device", ["foo", "meta", "hpu", "privateuseone", "cuda:99", "", "xla"])
def test_an_unknown_device_is_one_line(device: str, capsys: Any, monkeypatch: Any) -> None:
    line = complaint(capsys, monkeypatch, "train", "--device", device)
    assert f"expected --device to be available on this machine, got {device!r}" in line
    assert len(line) < 400


@pytest.mark.parametrize(
    "words",
    [
        "assignment_layers=101",
        "layers_before=1000",
        "hidden=20000",
        "poolings=11",
        "head=1000000000",
        "clusters=1000000000",
        "batch_size=1000000000000",
        "epochs=1000000000000000000000",
        "set2set_steps=1000000",
        "order=" + ",".join(["relu"] * 101),
        "clip=1e400",
    ],
)
def test_an_absurd_setting_is_one_line(words: str, capsys: Any, monkeypatch: Any) -> None:
    line = complaint(capsys, monkeypatch, "train", "--set", words)
    assert f"expected {words.split('=')[0]} " in line


@pytest.mark.parametrize("option", ["repeats", "cohort"])
def test_an_absurd_count_is_one_line(
    option: str, capsys: Any, monkeypatch: Any, tmp_path: Path
) -> None:
    words = ("evaluate", "embedded", "--out", tmp_path / "r.jsonl", f"--{option}", 10**12)
    line = complaint(capsys, monkeypatch, *words)
    assert f"expected {option} from 1 to 10000, got 1000000000000" in line


@pytest.mark.usefixtures("small_embedded")
@pytest.mark.parametrize("layers", ["33", "100"])
def test_deep_networks_train(layers: str, tmp_path: Path) -> None:
    """The C kernels take up to 32 layers; the reference takes over."""
    words = ("--layers-before", layers, "--hidden", "4", "--learning-rate", "0.0001")
    result = run("--out", str(tmp_path / "m"), *words, "--epochs", "1", "--device", "cpu")
    assert result.exit_code == 0, result.exception


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(28, "No space left on device", "/x/[/b]\x1b"), "/x/[/b]\\x1b: No space left on"),
        (MemoryError(), "not enough memory"),
        (RuntimeError("DefaultCPUAllocator: not enough memory: you tried"), "not enough memory"),
        (RuntimeError("std::bad_alloc"), "not enough memory"),
    ],
)
def test_what_the_machine_lacks_is_one_line(
    error: Exception, message: str, capsys: Any, monkeypatch: Any
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(diffpool.cli.commands, "read_input", fail)
    assert message in complaint(capsys, monkeypatch, "data", "x.jsonl")


def test_a_bug_still_shows_its_traceback(monkeypatch: Any) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(diffpool.cli.commands, "read_input", fail)
    monkeypatch.setattr(sys, "argv", ["diffpool", "data", "x.jsonl"])
    with pytest.raises(ZeroDivisionError):
        main()


@pytest.mark.usefixtures("small_embedded")
def test_a_full_disk_does_not_lose_the_trained_model(
    capsys: Any, monkeypatch: Any, tmp_path: Path
) -> None:
    out, spare = tmp_path / "m", tmp_path / "spare"
    spare.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(spare))
    write = model_directory.atomic_write

    def full(path: Path) -> Any:
        if path.parent == out:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(path)

    monkeypatch.setattr(model_directory, "atomic_write", full)
    line = complaint(capsys, monkeypatch, "train", "--out", out, *SMALL)
    (folder,) = spare.iterdir()
    assert f"the model is trained, but {out} cannot be written (No space left on device)" in line
    assert f"the model is in {folder} instead" in line
    assert load_model(folder).card.method == "diffpool"
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    line = complaint(capsys, monkeypatch, "train", "--out", out, *SMALL)
    assert "nor the folder for temporary files" in line


@pytest.mark.parametrize("folds", ["[" * 100_000, "[1e400]", "9" * 5000])
def test_folds_that_json_cannot_hold_are_one_line(
    folds: str, capsys: Any, monkeypatch: Any, tmp_path: Path
) -> None:
    (tmp_path / "folds.json").write_text(folds)
    words = ("evaluate", "embedded", "--out", tmp_path / "r.jsonl")
    line = complaint(capsys, monkeypatch, *words, "--folds", tmp_path / "folds.json")
    assert "folds.json: " in line
