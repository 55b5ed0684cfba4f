"""`diffpool train`, as a user sees it."""

from __future__ import annotations

import errno
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from command_line import SMALL, complaint, listen_to_interrupts
from model_files import weights_file
from typer.testing import CliRunner

from diffpool import load_model
from diffpool.cli.commands import app
from diffpool.errors import ModelError, SettingError
from diffpool.training import model_directory, reserve_directory


def run(*words: str) -> Any:
    return CliRunner().invoke(app, ["train", *words])


def config(directory: Path) -> dict[str, Any]:
    return json.loads((directory / "config.json").read_text())


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
        "labeling": "betweenness",
        "order": ["relu", "batch"],
    }
    training = {"link_weight": 0.5, "dropout": 0.25, "weight_decay": 0.0, "clip": 1.0, "seed": 4}
    assert found["parts"][0]["architecture"] == {
        **found["parts"][0]["architecture"],
        **architecture,
    }
    assert found["parts"][0]["training"] == {**found["parts"][0]["training"], **training}


@pytest.mark.usefixtures("small_embedded")
def test_progress_is_plain_lines_where_the_output_is_no_terminal(tmp_path: Path) -> None:
    lines = run("--out", str(tmp_path / "m"), *SMALL).stdout.splitlines()
    assert any(re.fullmatch(r"diffpool: epoch 2/2, loss .* %, val .* %", line) for line in lines)
    best = next(i for i, line in enumerate(lines) if line.startswith("best epoch"))
    assert not re.search("[━╸]", "".join(lines[:best]))  # no bar; a table of scores follows


def test_the_picture_is_of_a_test_graph_with_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs, out = tmp_path / "graphs.jsonl", str(tmp_path / "m")
    empty = {"nodes": 0, "edges": []}
    lines = [{**empty, "label": i % 2} for i in range(20)]
    lines += [{"nodes": 3, "edges": [[0, 1]], "label": i % 2} for i in range(20)]
    graphs.write_text("".join(json.dumps(line) + "\n" for line in lines))
    words = (str(graphs), "--out", out, "--overwrite", "--hidden", "4", *SMALL)
    for seed in "012":  # the first test graph has nodes, or has none
        result = run(*words, "--seed", seed)
        assert result.exit_code == 0, result.exception
        assert (tmp_path / "m" / "clusters.png").exists()
    monkeypatch.setattr("diffpool.cli.picture.MAX_DRAWN", 2)
    result = run(*words)
    assert "no picture: no test graph has 1 to 2 nodes" in result.stdout
    assert not (tmp_path / "m" / "clusters.png").exists()


@pytest.mark.usefixtures("small_embedded")
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "no space left"), ModelError("diverged")])
def test_a_picture_that_cannot_be_drawn_leaves_the_result_and_the_json(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise error

    monkeypatch.setattr("diffpool.viz.draw_clusters", fail)
    result = run("--out", str(tmp_path / "m"), *SMALL, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["out"] == str(tmp_path / "m")
    assert "no picture: " in result.stderr


@pytest.mark.usefixtures("small_embedded")
def test_quiet_prints_the_result_only(tmp_path: Path) -> None:
    result = run("--out", str(tmp_path / "m"), "--quiet", *SMALL)
    first, second, *table = result.stdout.splitlines()
    assert first.startswith("best epoch")
    assert second.startswith("test accuracy")
    assert "predicted class" in table[0]
    assert result.stderr == ""


@pytest.mark.usefixtures("small_embedded")
def test_training_that_stops_early_says_so(tmp_path: Path) -> None:
    result = run("--out", str(tmp_path / "m"), "--epochs", "99", "--patience", "2", "--hidden", "4")
    pattern = r"stopped after epoch \d+: no lower validation loss for 2 epochs"
    assert re.search(pattern, " ".join(result.stdout.split()))


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
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, stderr=pipe, stdout=pipe, text=True, preexec_fn=listen_to_interrupts
    )
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
    assert f"{out} already holds the model of an interrupted training run: " in refused
    assert "--resume" in refused
    more = [*words, "--epochs", str(done + 2), "--patience", "100000", "--resume", "--json"]
    result = CliRunner().invoke(app, more)
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert (facts["epochs"], facts["interrupted"]) == (done + 2, False)
    assert len(metrics.read_text().splitlines()) == done + 2


@pytest.mark.parametrize("device", ["gpu", "GPU", "tpu"])
def test_the_message_about_a_device_lists_the_usual_ones(
    device: str, capsys: Any, monkeypatch: Any, tmp_path: Path
) -> None:
    words = ("train", "--device", device, "--out", tmp_path / "m")
    line = complaint(capsys, monkeypatch, *words)
    assert line.endswith(f"got {device!r}: use cpu, cuda or auto")


@pytest.mark.parametrize("device", ["foo", "meta", "hpu", "privateuseone", "cuda:99", "", "xla"])
def test_an_unknown_device_is_one_line(device: str, capsys: Any, monkeypatch: Any) -> None:
    line = complaint(capsys, monkeypatch, "train", "--device", device)
    assert f"expected --device to be available on this machine, got {device!r}" in line
    assert len(line) < 400


@pytest.mark.parametrize("words", [("missing.jsonl",), ("--method", "ecc", "--device", "gpu")])
def test_a_training_that_fails_leaves_no_empty_folder(
    words: tuple[str, ...], capsys: Any, monkeypatch: Any, tmp_path: Path
) -> None:
    complaint(capsys, monkeypatch, "train", *words, "--out", tmp_path / "runs" / "m")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "old").mkdir()
    complaint(capsys, monkeypatch, "train", *words, "--out", tmp_path / "old")
    assert list(tmp_path.iterdir()) == [tmp_path / "old"]  # it was there before


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


@pytest.mark.usefixtures("small_embedded")
@pytest.mark.parametrize("layers", ["33", "100"])
def test_deep_networks_train(layers: str, tmp_path: Path) -> None:
    """The C kernels take up to 32 layers; the reference takes over."""
    words = ("--layers-before", layers, "--hidden", "4", "--learning-rate", "0.0001")
    result = run("--out", str(tmp_path / "m"), *words, "--epochs", "1", "--device", "cpu")
    assert result.exit_code == 0, result.exception


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


def logged(out: Path) -> list[tuple[int, float]]:
    """The epochs and validation losses that TensorBoard shows."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(out / "tensorboard")).Reload()
    return [(event.step, event.value) for event in events.Scalars("loss/validation")]


@pytest.mark.usefixtures("small_embedded")
@pytest.mark.parametrize("more", [[], ["--ensemble", "2"]], ids=" ".join)
def test_the_log_has_the_same_numbers_as_the_metrics(more: list[str], tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    out = tmp_path / "m"
    result = run("--out", str(out), "--log", "tensorboard", "--hidden", "4", *SMALL, *more)
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [step for step, _ in logged(out)] == [1, 2]
    assert [v for _, v in logged(out)] == pytest.approx([row["validation_loss"] for row in rows])
    words = ("--out", str(out), "--overwrite", "--hidden", "4", *SMALL)
    assert run(*words).exit_code == 0
    assert not (out / "tensorboard").exists()  # it was the log of the replaced model


def test_an_unknown_log_and_a_missing_package_are_one_line(
    capsys: Any, monkeypatch: Any, tmp_path: Path
) -> None:
    out = tmp_path / "m"
    words = ("train", "missing.jsonl", "--out", out, "--log")
    found = complaint(capsys, monkeypatch, *words, "tensorbord")
    assert "expected --log to be tensorboard, got 'tensorbord'. Did you mean" in found
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    found = complaint(capsys, monkeypatch, *words, "tensorboard")
    assert "pip install 'diffpool[tensorboard]'" in found
    assert not out.exists()
