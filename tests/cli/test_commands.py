"""The command line as a new user meets it."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from diffpool import load_model
from diffpool.cli.commands import app
from diffpool.version import VERSION

SMALL = ["--epochs", "2", "--device", "cpu"]


@pytest.fixture
def small_embedded(monkeypatch):
    """The generated data set with few graphs."""
    import diffpool.cli.commands
    from diffpool.data.embedded import embedded

    monkeypatch.setattr(diffpool.cli.commands, "embedded", lambda seed: embedded(60, seed=seed))


def run(*words):
    return CliRunner().invoke(app, ["train", *words])


def shell(*words):
    return subprocess.run(
        [sys.executable, "-m", "diffpool.cli.commands", *words],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.usefixtures("small_embedded")
def test_training_writes_a_model_directory_and_prints_the_test_accuracy(tmp_path):
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
def test_a_run_repeats_to_the_bit(tmp_path):
    for name in ("a", "b"):
        assert run("--out", str(tmp_path / name), "--seed", "3", *SMALL).exit_code == 0
    first, second = ((tmp_path / n / "model.safetensors").read_bytes() for n in ("a", "b"))
    assert first == second


@pytest.mark.usefixtures("small_embedded")
@pytest.mark.parametrize(
    "method", ["diffpool-nolp", "diffpool-released", "graphsage", "gcn", "gin"]
)
def test_every_method_trains(method, tmp_path):
    result = run("--method", method, "--out", str(tmp_path / "m"), *SMALL)
    assert result.exit_code == 0, result.output


@pytest.mark.usefixtures("small_embedded")
def test_options_reach_the_model(tmp_path):
    words = ["--poolings", "2", "--hidden", "8", "--clusters", "7,3", "--link-weight", "0.5"]
    words += ["--dropout", "0.25", "--weight-decay", "0.01"]
    assert run("--out", str(tmp_path / "m"), *words, *SMALL).exit_code == 0
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    assert config["architecture"]["clusters"] == [7, 3]
    assert config["architecture"]["hidden"] == 8
    assert config["training"]["link_weight"] == 0.5
    assert config["training"]["dropout"] == 0.25
    assert config["training"]["weight_decay"] == 0.01


def test_version():
    assert shell("--version").stdout.strip() == f"diffpool {VERSION}"


def test_help_teaches():
    text = shell("train", "--help").stdout
    for word in ("graphsage", "clusters.png", "Examples", "DIFFPOOL_DATA", "--learning-rate"):
        assert word in text


MISTAKES = {
    "unknown data set": (["train", "NOSUCH", "--data-dir", "."], "NOSUCH.zip"),
    "no folder for it": (["train", "ENZYMES", "--data-dir", "no-such-folder"], "no-such-folder"),
    "unknown method": (["train", "--method", "magic"], "magic"),
    "no epochs": (["train", "--epochs", "0"], "epochs"),
    "a ratio above one": (["train", "--ratio", "1.5"], "ratio"),
    "clusters that are no numbers": (["train", "--clusters", "many"], "many"),
    "too few cluster numbers": (["train", "--poolings", "2", "--clusters", "5"], "2 poolings"),
    "a learning rate of zero": (["train", "--learning-rate", "0"], "learning_rate"),
    "dropout of everything": (["train", "--dropout", "1"], "dropout of at least 0 and below 1"),
    "an unknown device": (["train", "--device", "abacus"], "abacus"),
    "out is a file": (["train", "--out", __file__], "--out"),
    "an unknown option": (["train", "--no-such-option"], "no-such-option"),
}


@pytest.mark.parametrize(("words", "named"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_gives_a_clear_message_and_exit_code_2(words, named, tmp_path):
    environment = {"DIFFPOOL_DATA": ""}
    out = [] if "--out" in words else ["--out", str(tmp_path / "m")]
    result = subprocess.run(
        [
            sys.executable,
            "-m",
            "diffpool.cli.commands",
            *words,
            *(out if words[0] == "train" else []),
        ],
        capture_output=True,
        text=True,
        check=False,
        env={**__import__("os").environ, **environment},
    )
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert named in result.stderr
