"""Speeds from benchmark records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from benchmarks.comparison_tables import OURS, PEERS
from benchmarks.record import RECORDS
from diffpool.errors import DataError
from diffpool.viz import draw_speed
from diffpool.viz.speed import CROSS_VALIDATION, read_speeds


def write(path: Path, *records: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def record(benchmark: str, **rows: dict[str, object]) -> dict[str, object]:
    return {"benchmark": benchmark, "hardware": {"cpu": "abacus", "gpu": None}, "rows": rows}


def test_the_last_row_of_a_data_set_counts_and_failures_are_left_out(tmp_path: Path) -> None:
    path = write(
        tmp_path / "r.jsonl",
        record("cross_validation", A={"cohort": 10.0, "pyg": 1.0}, B={"cohort": 7.0, "pyg": 2.0}),
        record("cross_validation", A={"cohort": 20.0, "pyg": {"failed": "memory"}, "single": 5.0}),
    )
    (speeds,) = read_speeds([path])
    assert speeds.title == "abacus: training"
    assert speeds.rates == {
        "A": {"diffpool, all folds at once": 20.0, "diffpool, one model": 5.0},
        "B": {"diffpool, all folds at once": 7.0, "PyG dense": 2.0},
    }
    draw_speed([path], tmp_path / "s.svg")
    assert (tmp_path / "s.svg").read_text().startswith("<?xml")


def test_the_speeds_of_two_machines_are_two_panels(tmp_path: Path) -> None:
    first = record("cpu_step", A={"default": 10.0, "pyg": 1.0})
    second = {**first, "hardware": {"cpu": "slide rule", "gpu": None}}
    titles = [own.title for own in read_speeds([write(tmp_path / "r.jsonl", first, second)])]
    assert titles == ["abacus: training", "slide rule: training"]


def test_every_column_of_the_benchmark_has_a_name() -> None:
    assert CROSS_VALIDATION.keys() == OURS.keys() | PEERS.keys()


def test_the_records_of_the_repository_are_read() -> None:
    files = [RECORDS / f"{name}.jsonl" for name in ("cross_validation", "cpu_step")]
    gpu, *_, cpu = read_speeds(files)  # a panel for each machine
    assert gpu.rates["ENZYMES"]["diffpool, all folds at once"] > gpu.rates["ENZYMES"]["PyG dense"]
    assert cpu.rates["DD"]["diffpool"] > cpu.rates["DD"]["PyG dense"]


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"compares speeds .* got graclus: choose another file"):
        read_speeds([write(tmp_path / "a.jsonl", {"benchmark": "graclus"})])
    for rows in ({}, {"rows": [1]}, {"rows": {"A": 1}}):
        with pytest.raises(DataError, match="expected a row for each data set in the records of"):
            read_speeds([write(tmp_path / "a.jsonl", {"benchmark": "cpu_step", **rows})])
    (tmp_path / "b.jsonl").write_text("{\n")
    with pytest.raises(DataError, match=r"b\.jsonl, line 1: expected a record, got"):
        read_speeds([tmp_path / "b.jsonl"])
