"""The command line, as a user sees it."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import diffpool.cli.commands
from diffpool import load_model
from diffpool.cli.commands import app, evaluate, main, train
from diffpool.data import embedded
from diffpool.errors import SettingError
from diffpool.experiments import KERNEL_METHODS, METHODS, read_records
from diffpool.experiments.methods import METHOD_SETTINGS
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
    files = {"model.safetensors", "config.json", "metrics.jsonl", "report.json", "report.md"}
    assert names == files | {"clusters.png"}
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
    first, second = ((tmp_path / n / "model.safetensors").read_bytes() for n in ("a", "b"))
    assert first == second


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
    assert found["architecture"] == {**found["architecture"], **architecture}
    assert found["training"] == {**found["training"], **training}


@pytest.mark.parametrize("command", [train, evaluate])
def test_every_setting_is_an_option(command: Any) -> None:
    assert METHOD_SETTINGS.keys() <= inspect.signature(command).parameters.keys()


@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_help_lists_the_options_by_group_and_ends_with_the_methods(command: str) -> None:
    environment = {"COLUMNS": "100", "TERM": "dumb"}
    text = CliRunner().invoke(app, [command, "--help"], env=environment).stdout
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


# --- mistakes ----------------------------------------------------------------------------------------------------


def test_version() -> None:
    assert shell("--version").stdout.strip() == f"diffpool {VERSION}"


def test_a_mistake_in_a_shell_gives_one_line_and_exit_code_2() -> None:
    result = shell("train", "--epochs", "0")
    assert result.returncode == 2
    assert result.stderr == "diffpool: expected epochs of at least 1, got 0\n"


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
    "a seed by --set": (["train", "--set", "seed=3"], "expected --seed 3, got --set seed=3"),
    "an unknown device": (["train", "--device", "abacus"], "abacus"),
    "an unknown precision": (
        ["train", "--precision", "float8"],
        "expected --precision to be tf32 or float32, got 'float8'",
    ),
    "out is a file": (["train", "--out", __file__], "--out"),
    "an unknown option": (["train", "--no-such-option"], "no-such-option"),
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
