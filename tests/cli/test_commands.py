"""What all commands have in common: help, JSON, the messages about mistakes."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import SMALL
from typer.testing import CliRunner

from diffpool.cli.commands import app, main
from diffpool.cli.evaluate import evaluate
from diffpool.cli.train import train
from diffpool.errors import SettingError
from diffpool.experiments import KERNEL_METHODS, METHODS
from diffpool.experiments.methods import METHOD_SETTINGS
from diffpool.version import VERSION


def shell(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "diffpool", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


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

    for command in ("train", "evaluate"):
        monkeypatch.setattr(f"diffpool.cli.{command}.settings_for", settings_for)
    out = ["--out", str(tmp_path / "m")]
    options = ["--epochs", "3", "--clusters", "20,5", "--dropout", "0"]
    for words in (
        ["train", *out],
        ["train", *out, *options],
        ["evaluate", "embedded", "--ratio", "0.5", "--seed", "3"],
    ):
        CliRunner().invoke(app, words)
    assert seen == [
        {"seed": 0},
        {"seed": 0, "epochs": 3, "clusters": (20, 5), "dropout": 0.0},
        {"ratio": 0.5},
    ]
    assert type(seen[1]["dropout"]) is float


@pytest.mark.usefixtures("small_embedded")
def test_every_command_prints_json(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["train", "--out", str(tmp_path / "m"), "--json", *SMALL])
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
    "statistics of shards in a single process": (
        ["train", "--batch-statistics", "shard"],
        "expected no --batch-statistics without torchrun, because a single process has the whole batch: leave it out",
    ),
    "statistics of shards of many models": (
        ["tune", "embedded", "--set", "batch_statistics=shard"],
        "expected no --batch-statistics without torchrun",
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
        message = f"completion works for the installed command only: run `diffpool {option}`"
        assert result.stderr == f"diffpool: {message}\n"
