"""Runs of a graph kernel with an SVM: C and h are chosen on the training part, and records survive interruptions."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
from sklearn.svm import SVC
from typer.testing import CliRunner

import diffpool.cli.evaluate
import diffpool.experiments.svm_run as svm_run
from diffpool.baselines.graph_kernels import KERNELS
from diffpool.cli import main as command_line
from diffpool.cli.commands import app
from diffpool.cli.evaluate_display import evaluation_display, line
from diffpool.data import Categories, RawGraphs, stratified_folds
from diffpool.errors import DataError, SettingError
from diffpool.experiments import (
    KERNEL_METHODS,
    Evaluation,
    InnerCV,
    KernelMethod,
    KernelStatus,
    Record,
    evaluate_kernel,
    read_records,
)
from diffpool.experiments.checkpoint import checkpoint_path, only_process
from diffpool.experiments.plan import derived_seed
from diffpool.experiments.svm_run import in_threads
from tests.command_line import listen_to_interrupts

METHOD = KernelMethod("wl", "small", depths=(0, 2), costs=(1e-2, 1.0, 100.0))
PROTOCOL = InnerCV(folds=3)  # fewer inner folds than the default, to save time
CLASSES = 3


def graphs(count: int = 60, seed: int = 0) -> RawGraphs:
    """Random graphs of three classes with increasing density."""
    rng = np.random.default_rng(seed)
    y, sizes = rng.integers(0, CLASSES, count), rng.integers(4, 9, count)
    starts, pairs = np.cumsum(sizes) - sizes, []
    for start, size, k in zip(starts, sizes, y, strict=True):
        i, j = np.triu_indices(size, 1)
        chosen = rng.random(len(i)) < 0.2 + 0.15 * k
        pairs.append(start + np.stack([i[chosen], j[chosen]]))
    source, target = np.concatenate(pairs, 1)
    classes = Categories.from_values(y)
    return RawGraphs.from_edges("random", sizes, source, target, one_way=True, classes=classes)


@pytest.fixture(autouse=True)
def _no_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every record names the commit; asking git for it takes longer than the fits of a small fold."""
    monkeypatch.setenv("DIFFPOOL_COMMIT", "tests")


@pytest.fixture(scope="module")
def raw() -> RawGraphs:
    return graphs()


def run(
    raw: RawGraphs,
    out: Path,
    method: KernelMethod = METHOD,
    protocol: InnerCV = PROTOCOL,
    **options: Any,
) -> Evaluation:
    return evaluate_kernel(method, raw, protocol, out=out, **options)


def cheap(name: str) -> KernelMethod:
    """A kernel with a single C and at most two values of h."""
    method = KERNEL_METHODS[name]
    return replace(method, depths=method.depths[:2], costs=(1.0,))


def comparable(records: tuple[Record, ...] | list[Record]) -> list[dict[str, Any]]:
    return [record.comparable for record in records]


# --- the choice ----------------------------------------------------------------------------------------------------


def plain_loop(raw: RawGraphs, method: KernelMethod, seed: int) -> list[dict[str, Any]]:
    """The protocol as it is described, with ten inner folds and nothing shared between fits."""
    grams = svm_run.gram_matrices(method.name, raw)
    y = raw.classes.codes[:, 0]
    found = []
    for number, fold in enumerate(stratified_folds(y, derived_seed(seed, "folds", 0))):
        outer = np.sort(np.concatenate([fold.train, fold.validation]))
        inner = stratified_folds(y[outer], derived_seed(seed, "inner", 0, number))
        best = (-1.0, None, 0.0)
        for h in method.depths:
            for c in method.costs:
                right = 0
                for part in inner:
                    test = outer[part.test]
                    train = np.array([g for g in outer if g not in set(test)])
                    model = SVC(C=c, kernel="precomputed")
                    model.fit(grams[h][train][:, train], y[train])
                    right += (model.predict(grams[h][test][:, train]) == y[test]).sum()
                if right > best[0]:
                    best = (right, h, c)
        right, h, c = best
        model = SVC(C=c, kernel="precomputed").fit(grams[h][outer][:, outer], y[outer])
        hit = model.predict(grams[h][fold.test][:, outer]) == y[fold.test]
        details = {"C": c, "h": h, "inner_accuracy": 100 * right / len(outer)}
        details = {name: value for name, value in details.items() if value is not None}
        found.append({"accuracy": 100 * hit.mean(), "details": details})
    return found


@pytest.mark.parametrize("name", ["wl", "shortest-path"])
def test_accuracies_and_choices_equal_those_of_a_plain_loop(
    name: str, raw: RawGraphs, tmp_path: Path
) -> None:
    method = replace(METHOD, name=name, depths=METHOD.depths if name == "wl" else (None,))
    result = run(raw, tmp_path / "r.jsonl", method, InnerCV(), seed=4)
    expected = plain_loop(raw, method, seed=4)
    assert [record.details for record in result.records] == [e["details"] for e in expected]
    assert result.accuracies == pytest.approx([e["accuracy"] for e in expected])
    assert len({json.dumps(e["details"]) for e in expected}) > 3


def test_inner_parts_are_stratified_and_cover_the_training_part_once(raw: RawGraphs) -> None:
    y = raw.classes.codes[:, 0]
    fold = stratified_folds(y, 3)[0]
    part = svm_run.make_part(y, fold, 5, 10)
    assert np.array_equal(np.sort(np.concatenate(part.held_out)), part.graphs)
    assert not set(part.graphs) & set(part.test)
    assert len(part.graphs) + len(part.test) == len(raw)
    for k in range(CLASSES):
        counts = [(y[held_out] == k).sum() for held_out in part.held_out]
        assert max(counts) - min(counts) <= 1
    other = svm_run.make_part(y, fold, 6, 10)
    assert any((a != b).any() for a, b in zip(part.held_out, other.held_out, strict=True))


# --- records -------------------------------------------------------------------------------------------------------


def test_records_contain_the_candidates_and_the_choice(raw: RawGraphs, tmp_path: Path) -> None:
    result = run(raw, tmp_path / "r.jsonl", repeats=2, seed=3)
    assert [(r.repeat, r.fold) for r in result.records] == [
        (r, f) for r in range(2) for f in range(10)
    ]
    assert read_records(tmp_path / "r.jsonl") == list(result.records)
    record = result.records[4]
    assert (record.method, record.dataset, record.protocol) == ("wl", "random", "inner-cv")
    assert record.settings == {
        "kernel": {"name": "wl", "h": [0, 2]},
        "svm": {"C": [1e-2, 1.0, 100.0]},
    }
    assert record.details["h"] in METHOD.depths
    assert record.details["C"] in METHOD.costs
    assert 0 <= record.details["inner_accuracy"] <= 100
    assert (record.features, record.seed) == ("degrees", 3)
    assert record.epoch is None
    assert record.parameters is None
    assert record.seconds > 0
    assert record.graphs_per_second > 0
    assert {"scikit-learn", "scipy", "numpy", "diffpool"} <= record.versions.keys()
    assert comparable(result.records[:10]) != comparable(result.records[10:])


@pytest.mark.parametrize("name", KERNEL_METHODS)
@pytest.mark.parametrize("labeled", [True, False])
def test_the_features_of_a_record_are_those_used_by_the_kernel(
    name: str, labeled: bool, raw: RawGraphs, tmp_path: Path
) -> None:
    labels = Categories.from_values(np.arange(raw.num_nodes) % 2) if labeled else None
    given = replace(raw, node_labels=labels)
    record = run(given, tmp_path / "r.jsonl", cheap(name)).records[0]
    words = {"labels": "node labels", "degree": "degrees", "none": "none"}
    assert record.features == words[KERNELS[name]().fit(given).labels_]
    assert ("h" in record.details) == (name in ("wl", "wl-oa"))


def test_several_fits_at_a_time_give_the_records_of_one_at_a_time(
    raw: RawGraphs, tmp_path: Path
) -> None:
    found = [run(raw, tmp_path / f"{jobs}.jsonl", jobs=jobs) for jobs in (1, 2, 5)]
    for jobs, other in zip((2, 5), found[1:], strict=True):
        assert comparable(other.records) == comparable(found[0].records)
        written = comparable(read_records(tmp_path / f"{jobs}.jsonl"))
        assert written == comparable(found[0].records)  # in this order


def test_the_key_changes_with_everything_that_changes_the_result(
    raw: RawGraphs, tmp_path: Path
) -> None:
    labeled = replace(raw, node_labels=Categories.from_values(np.arange(raw.num_nodes) % 2))
    codes = raw.classes.codes.copy()
    codes[0] = (codes[0] + 1) % CLASSES
    small = replace(METHOD, depths=(0,), costs=(1.0,))
    folds = stratified_folds(raw.classes.codes[:, 0], 9)
    keys = {
        run(g, tmp_path / "r.jsonl", method, **options).key
        for g, method, options in (
            (raw, small, {}),
            (raw, replace(small, name="wl-oa"), {}),
            (raw, replace(small, depths=(1,)), {}),
            (raw, replace(small, costs=(2.0,)), {}),
            (raw, small, {"seed": 1}),
            (raw, small, {"repeats": 2}),
            (raw, small, {"folds": folds}),
            (raw, small, {"protocol": InnerCV(folds=2)}),
            (labeled, small, {}),
            (replace(raw, name="other"), small, {}),
            (replace(raw, classes=Categories(codes, raw.classes.names)), small, {}),
        )
    }
    assert len(keys) == 11


# --- runs that end early -------------------------------------------------------------------------------------------


def test_an_interrupted_run_continues_with_the_missing_folds(
    raw: RawGraphs, tmp_path: Path
) -> None:
    whole, out = run(raw, tmp_path / "whole.jsonl"), tmp_path / "parts.jsonl"

    def interrupt(status: KernelStatus) -> None:
        if len(status.records) >= limit:
            raise KeyboardInterrupt

    for limit in (1, 4, 9):
        with pytest.raises(KeyboardInterrupt):
            run(raw, out, watch=interrupt, jobs=2)
        assert len(read_records(out)) == limit
    seen: list[KernelStatus] = []
    assert comparable(run(raw, out, watch=seen.append).records) == comparable(whole.records)
    assert comparable(read_records(out)) == comparable(whole.records)
    assert seen[-1].fits == 3 * 2 * 3  # only those of the last fold
    assert sorted(p.name for p in tmp_path.iterdir()) == ["parts.jsonl", "whole.jsonl"]


def test_a_finished_run_computes_nothing(raw: RawGraphs, tmp_path: Path) -> None:
    first = run(raw, tmp_path / "r.jsonl")
    again = run(raw, tmp_path / "r.jsonl", make_grams=lambda *a: pytest.fail("computed again"))
    assert again.records == first.records


def main(folder: Path, kills: int) -> None:
    """Kill runs at random moments, starting a new one whenever one finishes; then let the last one finish."""
    rng, given = random.Random(0), graphs()
    begin = time.monotonic()
    run(given, folder / "alone.jsonl")
    usual, number = time.monotonic() - begin, 0
    while kills:
        child = os.fork()
        if child == 0:
            run(given, folder / f"killed-{number}.jsonl", jobs=2)
            os._exit(0)
        time.sleep(rng.uniform(0.05, 0.4) * usual)
        os.kill(
            child, signal.SIGKILL
        )  # a finished child is a zombie until waitpid, so the pid is still its own
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            kills -= 1
        else:
            assert os.WEXITSTATUS(status) == 0
            number += 1
    run(given, folder / f"killed-{number}.jsonl")


def script(*words: str) -> subprocess.Popen[str]:
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command,
        stdout=pipe,
        stderr=pipe,
        text=True,
        env=environment,
        preexec_fn=listen_to_interrupts,
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_run_killed_at_random_moments_has_the_same_records_in_the_end(tmp_path: Path) -> None:
    process = script("kill", str(tmp_path), "8")
    _, errors = process.communicate(timeout=200)
    assert process.returncode == 0, errors
    alone = comparable(read_records(tmp_path / "alone.jsonl"))
    assert len(alone) == 10
    killed = sorted(tmp_path.glob("killed-*.jsonl"))
    assert killed
    for path in killed:
        assert comparable(read_records(path)) == alone
    assert not list(tmp_path.glob("*.checkpoints"))


def endless(name: str, raw: RawGraphs, watch: Any) -> dict[int | None, np.ndarray]:
    """A Gram matrix of random points on a line: with a large C, LIBSVM takes minutes."""
    rng = np.random.default_rng(0)
    x = np.stack([np.ones(len(raw)), rng.normal(size=len(raw))], 1)
    return dict.fromkeys((None, *range(6)), x @ x.T)


def interrupted() -> None:
    """Run `diffpool evaluate` with such a fit."""
    method = KernelMethod("wl", "", depths=(0,), costs=(1e8,))
    diffpool.cli.evaluate.kernel_method = lambda name: method
    svm_run.gram_matrices = endless
    diffpool.cli.evaluate.read_input = lambda *a: graphs(3000)
    sys.argv = ["diffpool", "evaluate", "X", "--method", "wl", "--out", sys.argv[2], "--jobs", "1"]
    fit = SVC.fit
    SVC.fit = lambda *a: print("fitting", flush=True) or fit(*a)
    command_line()


@pytest.mark.skipif(os.name == "nt", reason="needs SIGINT")
def test_an_interrupt_does_not_wait_for_a_long_fit(tmp_path: Path) -> None:
    process = script("interrupt", str(tmp_path / "r.jsonl"))
    assert process.stdout is not None
    while process.stdout.readline() != "fitting\n":
        assert process.poll() is None, process.communicate()[1]
    time.sleep(0.5)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=100)
    assert time.monotonic() - begin < 10
    assert process.returncode == 130
    (line,) = errors.splitlines()
    assert line.startswith("diffpool: stopped. Finished folds are recorded")


def test_a_second_process_with_the_same_run_is_rejected(raw: RawGraphs, tmp_path: Path) -> None:
    out, small = tmp_path / "r.jsonl", replace(METHOD, depths=(0,), costs=(1.0,))
    key = run(raw, tmp_path / "other.jsonl", small).key
    with (
        only_process(checkpoint_path(out, key)),
        pytest.raises(SettingError, match="another process is working on this run"),
    ):
        run(raw, out, small)


def test_threads_make_calls_in_order_and_pass_on_errors() -> None:
    made: list[int] = []

    def call(number: int) -> Callable[[], int]:
        return lambda: made.append(number) or 10 // (number - 3)

    with in_threads([call(n) for n in range(6)], 1) as futures:
        assert [f.result() for f in futures[:3]] == [-4, -5, -10]
        with pytest.raises(ZeroDivisionError):
            futures[3].result()
        assert futures[5].result() == 5
    assert made == list(range(6))


def test_calls_that_have_not_started_are_dropped_at_the_end() -> None:
    begun, go = Event(), Event()

    def wait() -> bool:
        begun.set()
        return go.wait(10)

    with in_threads([wait, lambda: pytest.fail("begun")], 1) as futures:
        begun.wait(10)
    go.set()
    assert futures[0].result(10)
    assert isinstance(futures[1], Future)
    assert not futures[1].done()


# --- errors ----------------------------------------------------------------------------------------------------------


def test_invalid_arguments_are_errors(raw: RawGraphs, tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    with pytest.raises(
        SettingError, match=r"expected the kernel to be one of graphlet, .*, got 'diffpool'"
    ):
        evaluate_kernel("diffpool", raw, out=out)
    with pytest.raises(SettingError, match="expected the protocol inner-cv for a kernel, got 'pa"):
        evaluate_kernel("wl", raw, "paper", out=out)
    for name in ("repeats", "jobs"):
        with pytest.raises(SettingError, match=f"expected {name} from 1 to 10000, got 0"):
            run(raw, out, **{name: 0})
    with pytest.raises(SettingError, match="expected seed from 0 to 18446744073709551615, got -1"):
        run(raw, out, seed=-1)
    with pytest.raises(SettingError, match="need classes, but random has targets"):
        run(replace(raw, classes=None, targets=np.zeros((len(raw), 1))), out)
    with pytest.raises(DataError, match="random has no classes"):
        run(replace(raw, classes=None), out)
    with pytest.raises(DataError, match="expected at least 10 graphs for 10 folds, got 8"):
        run(raw[:8], out)
    for wrong in ({"costs": ()}, {"costs": (0.0,)}, {"depths": ()}):
        with pytest.raises(SettingError, match="expected values of h, and values of C above 0"):
            replace(METHOD, **wrong)


# --- the command ---------------------------------------------------------------------------------------------------


@pytest.fixture
def command(raw: RawGraphs, monkeypatch: Any, tmp_path: Path) -> Callable[..., Any]:
    monkeypatch.setattr(diffpool.cli.evaluate, "kernel_method", cheap)
    monkeypatch.setattr(diffpool.cli.evaluate, "read_input", lambda *a: raw)
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> Any:
        return CliRunner().invoke(app, ["evaluate", "random", "--out", "r.jsonl", *words])

    return run


@pytest.mark.parametrize("name", KERNEL_METHODS)
def test_the_command_prints_mean_and_sd_and_reuses_finished_runs(name: str, command: Any) -> None:
    result = command("--method", name)
    assert result.exit_code == 0, result.output
    assert f"{name} on random, protocol inner-cv: " in result.output
    assert "(mean ± sd over 10 folds)" in " ".join(result.output.split())
    assert "folds 1/10, fits " in result.output
    again = command("--method", name, "--json", "--protocol", "inner-cv", "--jobs", "1")
    found = json.loads(again.stdout)
    assert found["folds"] == [r.accuracy for r in read_records("r.jsonl")]
    assert found["mean"] == pytest.approx(np.mean(found["folds"]))
    assert found["sd"] == pytest.approx(np.std(found["folds"], ddof=1))
    assert found["sd_of_repeats"] is None
    assert "fits" not in again.output


def test_no_labels_makes_the_command_ignore_node_labels(
    command: Any, raw: RawGraphs, monkeypatch: Any
) -> None:
    labeled = replace(raw, node_labels=Categories.from_values(np.arange(raw.num_nodes) % 3))
    monkeypatch.setattr(diffpool.cli.evaluate, "read_input", lambda *a: labeled)
    for name, features in (("wl", "degrees"), ("shortest-path", "none")):
        result = command("--method", name, "--no-labels", "--json")
        assert result.exit_code == 0, result.output
        own = evaluate_kernel(cheap(name), raw, out="own.jsonl")
        assert json.loads(result.stdout)["folds"] == own.to_json()["folds"]
        command("--method", name, "--json")  # another run, with its own records
        records = [r for r in read_records("r.jsonl") if r.method == name]
        assert [r.features for r in records] == [features] * 10 + ["node labels"] * 10


def test_the_command_takes_published_folds(command: Any, raw: RawGraphs) -> None:
    own = stratified_folds(raw.classes.codes[:, 0], seed=5)
    folds = [
        {
            "test": f.test.tolist(),
            "model_selection": [{"train": f.train.tolist(), "validation": f.validation.tolist()}],
        }
        for f in own
    ]
    Path("folds.json").write_text(json.dumps(folds))
    words = ("--method", "wl", "--folds", "folds.json", "--repeats", "2")
    result = command(*words, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert len(found["folds"]) == 20
    assert found["repeats"] == 2
    sizes = [len(f.test) for f in own]
    for accuracy, size in zip(found["folds"], [*sizes, *sizes], strict=True):
        assert accuracy * size / 100 == pytest.approx(round(accuracy * size / 100))
    Path("folds.json").write_text(json.dumps(folds[1:]))
    assert "expected a list of 10 outer folds, got 9" in str(command(*words).exception)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--epochs", "3"), "--epochs does not apply to the kernel wl"),
        (("--hidden", "64"), "--hidden does not apply to the kernel wl"),
        (("--grid", "hidden=3"), "--grid does not apply to the kernel wl"),
        (("--cohort", "3"), "--cohort does not apply to the kernel wl"),
        (("--device", "auto"), "--device does not apply to the kernel wl"),
        (("--features", "auto"), "--features does not apply to the kernel wl"),
        (("--directed",), "--directed does not apply to the kernel wl"),
        (("--protocol", "tenfold"), "expected the protocol inner-cv for a kernel, got 'tenfold'"),
        (("--method", "gin", "--jobs", "2"), "--jobs applies to kernels only"),
        (("--method", "gin", "--no-labels"), "--no-labels applies to kernels only"),
        (
            ("--method", "gin", "--protocol", "inner-cv"),
            "expected one of the protocols paper, tenfold, nested, got 'inner-cv', which is for kernels only",
        ),
    ],
)
def test_options_that_do_not_apply_are_named_in_the_error(
    words: Any, message: str, command: Any
) -> None:
    assert message in str(command("--method", "wl", *words).exception)
    assert not Path("r.jsonl").exists()


def test_kernels_reject_the_generated_data_set_and_training(command: Any) -> None:
    refused = CliRunner().invoke(app, ["evaluate", "embedded", "--method", "wl"])
    assert "the data set embedded cannot be used with a kernel" in str(refused.exception)
    refused = CliRunner().invoke(app, ["train", "ENZYMES", "--method", "wl"])
    assert isinstance(refused.exception, SettingError)
    for word in ("got the kernel 'wl'", "`diffpool evaluate`", "diffpool.baselines.graph_kernels"):
        assert word in str(refused.exception)


def test_the_help_lists_both_kinds_of_methods() -> None:
    text = CliRunner().invoke(app, ["evaluate", "--help"]).output
    for word in ("diffpool-nolp", "wl-oa", "shortest-path", "inner-cv"):
        assert word in text


def test_the_live_view_shows_gram_matrices_folds_and_fits(raw: RawGraphs, tmp_path: Path) -> None:
    from rich.console import Console

    console = Console(force_terminal=True, width=100, record=True)
    seen: list[KernelStatus] = []
    with console.capture() as captured, evaluation_display(console, "a title") as watch:

        def both(status: KernelStatus) -> None:
            seen.append(status)
            watch(status)

        run(raw, tmp_path / "r.jsonl", watch=both)
    for word in ("a title", "Gram matrices", "folds", "fits"):
        assert word in captured.get()
    assert [s.fitted for s in seen] == sorted(s.fitted for s in seen)
    assert [s.gram for s in seen] == sorted(s.gram for s in seen)
    assert line(seen[-1]) == "folds 9/10, fits 180/180, about 0 s left"
    assert line(replace(seen[0], gram=0.5)) == "folds 0/10, Gram matrices 50 %"


if __name__ == "__main__":
    if sys.argv[1] == "kill":
        main(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        interrupted()
