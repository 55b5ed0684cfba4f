"""`--run`: what is missing is computed, several cells at a time, and an interruption loses nothing."""

from __future__ import annotations

import json
import sys
import textwrap
from dataclasses import asdict
from pathlib import Path

import pytest
from cell_records import cell, record_of

from diffpool.experiments import append_records, read_records
from diffpool.experiments.reproduce import run
from diffpool.experiments.reproduce.cells import Cell, declared_cells
from diffpool.experiments.reproduce.run import Progress, Workspace, missing_cells, run_cells

# Stands in for `diffpool`: copies the records that were prepared for a cell, one fold at a time, and goes on after the
# last one that is there; counts its starts.
PROGRAM = """
import pathlib, sys, time
out = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
prepared = pathlib.Path(sys.argv[1]) / out.name
with prepared.with_suffix(".starts").open("a") as file:
    file.write("start ")
lines = prepared.read_text().splitlines(keepends=True)
if "fail" in lines[0]:
    print("diffpool: not enough memory")
    sys.exit(2)
done = len(out.read_text().splitlines()) if out.exists() else 0
try:
    for number in range(done, len(lines)):
        print(f"folds 0/10, models {number}/10, 1 in training, epoch 0/5, at most 1 s left", flush=True)
        time.sleep(float(sys.argv[2]))
        with out.open("a") as file:
            file.write(lines[number])
except KeyboardInterrupt:
    print("diffpool: stopped")
    sys.exit(130)
"""


@pytest.fixture
def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for prepared records; the program takes no time for a fold."""
    folder = tmp_path / "prepared"
    folder.mkdir()
    (tmp_path / "program.py").write_text(textwrap.dedent(PROGRAM))
    pace(monkeypatch, folder, 0)
    monkeypatch.setattr(run, "POLL", 0.02)
    monkeypatch.setattr(run, "START_SECONDS", 0.0)
    return folder


def pace(monkeypatch: pytest.MonkeyPatch, folder: Path, seconds: float) -> None:
    program = (sys.executable, str(folder.parent / "program.py"), str(folder), str(seconds))
    monkeypatch.setattr(run, "PROGRAM", program)


def prepare(folder: Path, own: Cell, text: str | None = None) -> None:
    lines = [json.dumps(asdict(record_of(own, fold))) + "\n" for fold in range(10)]
    (folder / f"{own.name}.jsonl").write_text("".join(lines) if text is None else text)


def starts(folder: Path, own: Cell) -> int:
    return len((folder / f"{own.name}.starts").read_text().split())


CELLS = [cell("diffpool", protocol="paper"), cell("graphsage", protocol="paper")]


def test_missing_cells_are_computed_and_merged_and_then_nothing_is_left_to_do(
    prepared: Path, tmp_path: Path
) -> None:
    for own in CELLS:
        prepare(prepared, own)
    workspace = Workspace(tmp_path / "records")
    seen: list[Progress] = []
    outcome = run_cells(CELLS, workspace, jobs=2, watch=seen.append)
    assert sorted(outcome.complete) == sorted(own.name for own in CELLS)
    assert [p.name for p in workspace.records.iterdir()] == ["reproduce.jsonl"]
    assert len(read_records(workspace.records / "reproduce.jsonl")) == 20
    assert seen[-1].share == pytest.approx(1.0)
    assert missing_cells(CELLS, workspace) == []
    assert run_cells(CELLS, workspace).complete == []
    assert starts(prepared, CELLS[0]) == 1


def test_at_the_deadline_cells_are_interrupted_and_the_next_call_continues(
    prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for own in CELLS:
        prepare(prepared, own)
    workspace = Workspace(tmp_path / "records")
    pace(monkeypatch, prepared, 0.2)
    outcome = run_cells(CELLS, workspace, jobs=1, max_seconds=0.8)
    assert sorted(outcome.open) == sorted(own.name for own in CELLS)
    recorded = len(read_records(workspace.file(CELLS[0])))
    assert 1 <= recorded < 10
    pace(monkeypatch, prepared, 0)
    assert len(run_cells(CELLS, workspace).complete) == 2
    assert starts(prepared, CELLS[0]) == 2
    found = [r for r in read_records(workspace.records / "reproduce.jsonl") if CELLS[0].fits(r)]
    assert sorted(record.fold for record in found) == list(range(10))


def test_a_cell_that_was_complete_when_a_run_was_killed_is_merged_without_a_start(
    prepared: Path, tmp_path: Path
) -> None:
    own, workspace = CELLS[0], Workspace(tmp_path / "records")
    append_records(workspace.file(own), [record_of(own, fold) for fold in range(10)])
    assert run_cells([own], workspace).complete == []
    assert missing_cells([own], workspace) == []
    assert not (prepared / f"{own.name}.starts").exists()


def test_a_failure_is_reported_with_its_reason_and_the_others_continue(
    prepared: Path, tmp_path: Path
) -> None:
    prepare(prepared, CELLS[0], "fail")
    prepare(prepared, CELLS[1])
    workspace = Workspace(tmp_path / "records")
    outcome = run_cells(CELLS, workspace)
    assert outcome.failed == {CELLS[0].name: "not enough memory"}
    assert outcome.complete == [CELLS[1].name]
    prepare(prepared, CELLS[0])
    assert run_cells(CELLS, workspace).complete == [CELLS[0].name]
    assert not (workspace.records / "reproduce").exists()


def test_records_of_other_settings_do_not_complete_a_cell(prepared: Path, tmp_path: Path) -> None:
    own, other = CELLS[0], cell("diffpool", protocol="paper", epochs=2)
    lines = [json.dumps(asdict(record_of(other, fold))) + "\n" for fold in range(10)]
    prepare(prepared, own, "".join(lines))
    outcome = run_cells([own], Workspace(tmp_path / "records"))
    assert outcome.failed == {own.name: "the records do not have the declared settings"}


def test_what_a_cell_needs_is_said_before_anything_is_started(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, data_dir=str(tmp_path), folds_dir=str(tmp_path))
    assert "REDDIT-MULTI-12K.zip" in str(
        workspace.blocked(cell("gcn", "REDDIT-MULTI-12K", "paper"))
    )
    assert "ENZYMES_splits.json" in str(workspace.blocked(cell("gcn")))
    (tmp_path / "ENZYMES_splits.json").touch()
    assert workspace.blocked(cell("gcn")) is None
    assert run_cells([cell("gcn", "DD")], workspace).blocked.keys() == {"nested-DD-gcn"}


def test_a_real_cell_is_computed(tmp_path: Path) -> None:
    """On the generated data set, with other settings than the declared ones: they are kept apart."""
    (own,) = declared_cells(
        ["table1"], ["paper"], ["embedded"], ["graphsage"], {"epochs": 1, "hidden": 2}
    )
    workspace = Workspace(tmp_path, "cpu")
    assert run_cells([own], workspace).complete == [own.name]
    assert [path.name for path in tmp_path.iterdir()] == ["reproduce.changed.jsonl"]
    (declared,) = declared_cells(["table1"], ["paper"], ["embedded"], ["graphsage"])
    assert missing_cells([declared], workspace) == [declared]
