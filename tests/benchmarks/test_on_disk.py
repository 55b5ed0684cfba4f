"""The benchmark of data sets on disk, with few graphs."""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks import on_disk
from diffpool.cli.commands import app
from diffpool.data.jsonl import parse_lines


def in_process(command: list[str], threads: int, every: float) -> dict[str, Any]:
    """Instead of `measure`: the same command without a process of its own, which is quicker."""
    if "--write" in command:
        Path(command[3]).write_text("".join(on_disk.lines(int(command[5]))))
    else:
        result = CliRunner().invoke(app, command[2:])
        assert result.exit_code == 0, result.output
    return {"seconds": 1.0, "private_gib": 0.5, "mapped_gib": 0.1, "curve": [[0.0, 0.5, 0.1]]}


def test_all_steps_run_and_finished_ones_are_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_disk, "measure", in_process)
    chosen = argparse.Namespace(graphs=60, batch_size=20, threads=1, every=0.01)
    result = on_disk.run(tmp_path, chosen)
    assert [row["step"] for row in result["rows"]] == list(on_disk.STEPS)
    assert result["disk_gib"].keys() == {"json_lines", "stored"}
    assert 0 <= result["accuracy"] <= 1
    (tmp_path / "graphs.jsonl").unlink()  # the first steps would fail now
    (tmp_path / "graphs.jsonl").write_text("")
    assert on_disk.run(tmp_path, chosen)["rows"] == result["rows"]
    chosen.graphs = 61
    with pytest.raises(SystemExit, match="expected 61 predictions, got 60"):
        on_disk.run(tmp_path, chosen)


def test_the_generated_graphs_are_valid_and_their_first_ones_do_not_depend_on_their_number() -> (
    None
):
    text = list(on_disk.lines(6_000))
    assert len(text) == 6_000
    numbered = ((n, line.encode()) for n, line in enumerate(text[:500], 1))
    raw = next(parse_lines(Path("g.jsonl"), numbered, None))
    assert 15 <= raw.sizes.min() < raw.sizes.max() <= 25
    assert raw.classes is not None
    assert set(raw.classes.labels()) == {0, 1}
    assert list(itertools.islice(on_disk.lines(10_000), 6_000))[:5_000] == text[:5_000]


def test_the_memory_curve_is_thinned_by_maxima() -> None:
    points = [[float(t), float(t % 7), 1.0] for t in range(600)]
    curve = on_disk.thinned(points)
    assert len(curve) == 60
    assert curve[0] == [9.0, 6.0, 1.0]
    assert np.max(curve, 0)[1] == 6


def test_a_step_that_fails_ends_the_benchmark() -> None:
    with pytest.raises(SystemExit, match="failed with exit code 3"):
        on_disk.measure(["-c", "raise SystemExit(3)"], 1, 0.01)
    words = ["-c", "x = bytearray(2**28); import time; time.sleep(0.3)"]
    assert on_disk.measure(words, 1, 0.02)["private_gib"] > 0.25
