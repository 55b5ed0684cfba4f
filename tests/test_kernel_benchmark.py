"""The benchmark of the kernels: each measurement in a process, what fails is said, speedups by kernel and data set."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import kernels, reddit_shape
from benchmarks.kernels import as_grakel, generate, measure, read, speedup, work_of
from diffpool.data import RawGraphs
from diffpool.kernels import KERNELS


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


@pytest.mark.parametrize("kernel", KERNELS)
def test_everybody_has_the_same_work(kernel: str, small: Path) -> None:
    pytest.importorskip("grakel", reason="GraKeL is not installed")
    raw = read("generated", small, small)
    ours, theirs = work_of("ours", kernel, raw)(), work_of("grakel", kernel, raw)()
    assert isinstance(ours, np.ndarray)
    if kernel != "graphlet":  # it starts the count of a kind at 2 where its first graph has it not
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_a_graph_for_grakel_has_all_its_nodes() -> None:
    raw = RawGraphs.from_edges("g", [2, 1], np.array([0]), np.array([1]), one_way=True)
    assert as_grakel(raw, labels=False) == [
        [{0: {1: 1.0}, 1: {0: 1.0}}, {0: 1, 1: 1}],
        [{0: {}}, {0: 0}],
    ]


def test_what_takes_too_long_or_fails_is_said(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_raw() -> RawGraphs:
        return read("generated", small, small)

    found = measure("ours", "wl", read_raw, limit=60, gib=1)
    assert found["seconds"] > 0
    assert found["mb"] > 10

    def fail(*_: object) -> Any:
        raise MemoryError("too large")

    monkeypatch.setattr(kernels, "work_of", lambda *_: fail)
    assert measure("ours", "wl", read_raw, limit=60, gib=1) == {"failed": "MemoryError: too large"}
    monkeypatch.setattr(kernels, "work_of", fail)
    assert measure("ours", "wl", read_raw, limit=60, gib=1) == {"failed": "MemoryError: too large"}


def test_a_speedup_needs_both() -> None:
    assert speedup({"ours": {"seconds": 2.0}, "grakel": {"seconds": 11.0}}) == 5.5
    assert speedup({"ours": {"seconds": 2.0}, "grakel": {"failed": "slow"}}) is None
    assert speedup({"ours": {"seconds": 2.0}}) is None


def test_a_run_writes_a_record_and_prints_json(tmp_path: Path) -> None:
    words = ["--datasets", "generated", "--graphs", "12", "--who", "ours,every_h", "--repeats", "1"]
    words += [
        "--generated-kernels",
        "wl-oa",
        "--data-dir",
        str(tmp_path),
        "--records",
        str(tmp_path),
    ]
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.kernels", "--json", *words],
        cwd=Path(kernels.__file__).parent.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    printed = json.loads(run.stdout.splitlines()[-1])
    (record,) = map(json.loads, (tmp_path / "kernels.jsonl").read_text().splitlines())
    assert printed["rows"] == record["rows"]
    row = record["rows"]["generated"]["wl-oa"]
    assert set(row) == {"ours", "every_h"}
    assert row["ours"]["peak_mb"] > 10
    assert record["speedup"] == {}
