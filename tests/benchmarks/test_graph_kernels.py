"""The benchmark of graph kernels: processes, messages, errors, and speedups by kernel and data set."""

from __future__ import annotations

import argparse
import json
import mmap
import multiprocessing
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks import graph_kernels, reddit_shape
from benchmarks.graph_kernels import (
    COMPARED,
    WHO,
    as_grakel,
    generate,
    measure,
    messages_of,
    read,
    result_of,
    speedup,
    work_of,
)
from diffpool.data import RawGraphs


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(reddit_shape, "LARGEST", 60)
    generate(tmp_path / "generated.npz", 30)
    return tmp_path


def test_the_generated_set_is_written_and_read(small: Path) -> None:
    raw = read("generated", small, small)
    assert len(raw) == 30
    assert raw.sizes.max() == 60
    again = RawGraphs.from_edges("again", raw.sizes, raw.source, raw.target)
    assert not again.directed
    np.testing.assert_array_equal(again.source, raw.source)


@pytest.mark.parametrize("kernel", COMPARED)
def test_all_competitors_compute_the_same_matrix(kernel: str, small: Path) -> None:
    pytest.importorskip("grakel", reason="GraKeL is not installed")
    raw = read("generated", small, small)
    ours, theirs = work_of("ours", kernel, raw)(), work_of("grakel", kernel, raw)()
    assert isinstance(ours, np.ndarray)
    if (
        kernel != "graphlet"
    ):  # GraKeL starts counting at 2 for a graphlet that is not in its first graph
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_a_graph_for_grakel_has_all_its_nodes() -> None:
    raw = RawGraphs.from_edges("g", [2, 1], np.array([0]), np.array([1]), one_way=True)
    assert as_grakel(raw, labels=False) == [
        [{0: {1: 1.0}, 1: {0: 1.0}}, {0: 1, 1: 1}],
        [{0: {}}, {0: 0}],
    ]


def test_every_call_reports_its_seconds_and_memory() -> None:
    told: list[dict[str, Any]] = []

    def work() -> None:
        np.ndarray(4 << 20, buffer=mmap.mmap(-1, 32 << 20)).fill(1.0)  # 32 MB of new memory

    measure(lambda: work, repeats=3, limit=60, report=told.append)
    assert told[0] == {"ready": True}
    assert [set(words) for words in told[1:]] == [{"seconds", "mb"}] * 3
    assert 30 < max(words["mb"] for words in told[1:]) < 100
    assert result_of(told)["repeats"] == 3


def test_long_calls_are_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_kernels, "LONG", 0)
    told: list[dict[str, Any]] = []
    measure(lambda: lambda: None, repeats=3, limit=60, report=told.append)
    assert len(told) == 2


def test_errors_are_reported(small: Path) -> None:
    def fail() -> Any:
        raise MemoryError("too large")

    told: list[dict[str, Any]] = []
    measure(lambda: fail, repeats=3, limit=60, report=told.append)
    assert told == [{"ready": True}, {"failed": "MemoryError: too large"}]
    assert result_of(told) == {"failed": "MemoryError: too large"}
    told.clear()
    measure(fail, repeats=3, limit=60, report=told.append)
    assert told == [{"failed": "MemoryError: too large"}]


def test_a_process_that_takes_too_long_is_stopped_and_its_messages_are_kept() -> None:
    def slow(report: Any) -> None:
        report({"ready": True})
        report({"seconds": 0.5, "mb": 7.0})
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM, signal.SIGTERM])
        time.sleep(60)

    start = time.perf_counter()
    found = messages_of(slow, grace=30, limit=0.2)
    assert time.perf_counter() - start < 15
    assert found[-1] == {"failed": "not done after 0 s", "at_least": 0.2}
    assert result_of(found) == {"seconds": 0.5, "mb": 7.0, "repeats": 1}
    assert multiprocessing.active_children() == []
    assert result_of(messages_of(lambda report: time.sleep(60), grace=0.2, limit=30)) == {
        "failed": "not ready after 0 s"
    }


def test_a_killed_process_is_reported() -> None:
    def killed(report: Any) -> None:
        report({"ready": True})
        os.kill(os.getpid(), signal.SIGKILL)

    assert result_of(messages_of(killed, grace=30, limit=30)) == {"failed": "ended with -9"}
    assert result_of(messages_of(lambda report: None, grace=30, limit=30)) == {
        "failed": "no message"
    }


def test_an_interrupted_run_records_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def result(who: str, kernel: str, *_: object) -> dict[str, Any]:
        if (kernel, who) == ("wl", "every_h"):
            raise KeyboardInterrupt
        return {"seconds": 2.0 if who == "grakel" else 1.0, "mb": 3.0, "repeats": 1}

    monkeypatch.setattr(graph_kernels, "result", result)
    chosen = argparse.Namespace(
        kernels="graphlet,wl,wl-oa", who=WHO, limit=5, records=tmp_path, no_record=False, json=False
    )
    with pytest.raises(KeyboardInterrupt):
        graph_kernels.run("ENZYMES", chosen, tmp_path)
    (record,) = map(json.loads, (tmp_path / "kernels.jsonl").read_text().splitlines())
    row = record["rows"]["ENZYMES"]
    assert {kernel: set(own) for kernel, own in row.items()} == {
        "graphlet": {"ours", "grakel"},
        "wl": {"ours"},
    }
    assert record["speedup"] == {"graphlet": {"ENZYMES": 2.0}}


def test_a_speedup_needs_both_times() -> None:
    assert speedup({"ours": {"seconds": 2.0}, "grakel": {"seconds": 11.0}}) == 5.5
    assert speedup({"ours": {"seconds": 2.0}, "grakel": {"failed": "slow"}}) is None
    assert speedup({"ours": {"seconds": 2.0}}) is None


def test_a_run_writes_a_record_and_prints_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reddit_shape, "LARGEST", 60)
    words = ["--datasets", "generated", "--graphs", "12", "--who", "ours,every_h", "--repeats", "1"]
    words += ["--generated-kernels", "wl-oa", "--data-dir", str(tmp_path), "--json"]
    words += ["--records", str(tmp_path), "--precision", "float32"]
    words += ["--threads", str(torch.get_num_threads())]
    monkeypatch.setattr(sys, "argv", ["kernels", *words])
    before = signal.getsignal(signal.SIGTERM)
    try:
        graph_kernels.main()
    finally:
        signal.signal(signal.SIGTERM, before)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[:3]] == [
        ["generated"],
        ["wl-oa", "ours"],
        ["wl-oa", "every_h"],
    ]
    (record,) = map(json.loads, (tmp_path / "kernels.jsonl").read_text().splitlines())
    assert json.loads(lines[-1])["rows"] == record["rows"]
    row = record["rows"]["generated"]["wl-oa"]
    assert set(row) == {"ours", "every_h"}
    assert row["ours"]["seconds"] > 0
    assert row["ours"]["repeats"] == 1
    assert record["speedup"] == {}
