"""The command line, as a user sees it."""

from __future__ import annotations

import errno
import inspect
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import diffpool.cli.commands
from diffpool import load_model
from diffpool.cli.commands import app, evaluate, main, train
from diffpool.data import embedded
from diffpool.errors import SettingError
from diffpool.experiments import KERNEL_METHODS, METHODS, read_records, single_run
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
    assert names == {"model.safetensors", "config.json", "metrics.jsonl", "clusters.png"}
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

    monkeypatch.setattr(diffpool.cli.commands, "read_raw", fail)
    assert message in complaint(capsys, monkeypatch, "data", "x.jsonl")


def test_a_bug_still_shows_its_traceback(monkeypatch: Any) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(diffpool.cli.commands, "read_raw", fail)
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
    write = single_run.save_model

    def full(directory: Any, *rest: Any) -> None:
        if Path(directory) == out:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(directory, *rest)

    monkeypatch.setattr(single_run, "save_model", full)
    line = complaint(capsys, monkeypatch, "train", "--out", out, *SMALL)
    (folder,) = spare.iterdir()
    assert f"the model is trained, but {out} cannot be written (No space left on device)" in line
    assert f"it is in {folder} instead" in line
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
