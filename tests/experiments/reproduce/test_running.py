"""Running times: measured once for each row, and shown with their ratio to DiffPool."""

from __future__ import annotations

from pathlib import Path

import pytest

from diffpool.data import embedded
from diffpool.errors import DataError
from diffpool.experiments.reproduce import running
from diffpool.experiments.reproduce.measurements import append_line, read_lines
from diffpool.experiments.reproduce.running import measure_times, time_table, times_file

ORIGIN = {
    "device": "abacus",
    "versions": {"torch": "2"},
    "commit": "abc",
    "date": "2026-01-02",
}


def test_the_table_shows_ratios_to_diffpool_and_names_what_is_missing(tmp_path: Path) -> None:
    for row, seconds in (("diffpool", 2.0), ("set2set-nodes", 25.0)):
        values = {"dataset": "ENZYMES", "row": row, "training": seconds, "forward": seconds / 2}
        append_line(times_file(tmp_path), {**values, **ORIGIN})
    table = time_table(tmp_path, ["ENZYMES", "REDDIT-MULTI-12K"])
    assert [line[0] for line in table.lines] == ["ENZYMES, training", "ENZYMES, forward"]
    assert table.lines[0][1:] == ["2 s (1.0 ×)", "not run", "not run", "25 s (12 ×)"]
    assert any("Set2Set, a step per node: 12 ×" in note for note in table.notes)
    assert any("Missing: 2 measurements" in note for note in table.notes)


def test_every_row_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "TURNS", 1)
    rows = {name: (*row[:3], 1) for name, row in running.ROWS.items()}
    monkeypatch.setattr(running, "ROWS", rows)
    for _ in range(2):
        measure_times(tmp_path, ["embedded"], lambda name: embedded(40, rungs=3), "cpu")
    found = read_lines(times_file(tmp_path))
    assert [row["row"] for row in found] == list(rows)
    assert all(row["training"] > 0 and row["forward"] > 0 for row in found)


def test_the_slow_row_is_measured_after_all_other_rows_and_on_small_graphs_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = {"training": 2.0, "forward": 1.0}
    monkeypatch.setattr(running, "_measure", lambda method, dataset, steps: times)
    measure_times(tmp_path, ["DD", "ENZYMES"], lambda name: embedded(20, rungs=3), "cpu")
    found = [(row["dataset"], row["row"]) for row in read_lines(times_file(tmp_path))]
    quick = ["diffpool", "graphsage", "set2set"]
    assert found == [
        *(("DD", row) for row in quick),
        *(("ENZYMES", row) for row in quick),
        ("ENZYMES", "set2set-nodes"),
        ("DD", "set2set-nodes"),
    ]


def test_a_line_that_is_no_measurement_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = times_file(tmp_path)
    append_line(path, {"dataset": "ENZYMES", "row": "diffpool"})
    with pytest.raises(
        DataError, match=r"time\.jsonl, line 1: expected a measurement with dataset"
    ):
        time_table(tmp_path, ["ENZYMES"])
    path.write_bytes(b"\xff\xfe\n")  # damaged, like an incomplete line
    assert time_table(tmp_path, ["ENZYMES"]).facts == []


def test_a_line_that_a_killed_process_left_incomplete_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "time.jsonl"
    append_line(path, {"a": 1})
    with path.open("a") as file:
        file.write('{"a": ')
    append_line(path, {"a": 2})
    assert read_lines(path) == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize(
    ("factor", "text"),
    [(0.904, "0.90"), (1.0, "1.0"), (9.96, "10"), (1.76, "1.8"), (43.5, "44"), (1281.0, "1,300")],
)
def test_factors_have_two_digits(factor: float, text: str) -> None:
    assert running.two_digits(factor) == text
