"""Tables show what the records say: means over the folds, reasons for missing cells, one protocol in each."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from statistics import stdev
from typing import Any

import pytest
from cell_records import cell, record_of

from diffpool.errors import DataError, SettingError
from diffpool.experiments import append_records
from diffpool.experiments.reproduce import as_csv, as_json, as_markdown
from diffpool.experiments.reproduce.found import default_folder
from diffpool.experiments.reproduce.render import PlainTable
from diffpool.experiments.reproduce.tables import Table, accuracy_tables

ACCURACIES = [50.0 + fold for fold in range(10)]


def write(folder: Path, row: str, name: str = "a.jsonl", add: float = 0.0, **where: Any) -> None:
    own = cell(row, **where)
    records = [record_of(own, fold, a + add) for fold, a in enumerate(ACCURACIES)]
    append_records(folder / name, records)


def one_table(folder: Path, protocol: str = "nested", **options: Any) -> Table:
    (table,) = accuracy_tables("table1", [protocol], folder, **options)
    return table


def entries(table: Table, title: str) -> Any:
    return next(row for row in table.rows if row.title == title).entries


def test_a_cell_is_the_mean_and_sd_over_the_folds_next_to_the_published_number(
    tmp_path: Path,
) -> None:
    write(tmp_path, "diffpool")
    entry = entries(one_table(tmp_path), "DiffPool")["ENZYMES"]
    assert entry.text == f"54.5 ± {stdev(ACCURACIES):.1f} (59.5 ± 5.6)"


def test_the_gain_is_over_the_data_sets_that_both_rows_have(tmp_path: Path) -> None:
    write(tmp_path, "graphsage")
    write(tmp_path, "graphsage", dataset="DD")
    write(tmp_path, "gin", add=4)
    write(tmp_path, "gin", dataset="PROTEINS", add=30)
    row = next(row for row in one_table(tmp_path).rows if row.title == "GIN")
    assert (row.gain, row.gain_sets) == (pytest.approx(4.0), 1)
    assert row.published_gain == pytest.approx((1.4 + 2.4 + 0.3 + 1.7) / 4)


def test_an_unfinished_run_is_missing_and_says_how_far_it_got(tmp_path: Path) -> None:
    append_records(tmp_path / "a.jsonl", [record_of(cell("gin"), fold) for fold in range(7)])
    table = one_table(tmp_path)
    assert entries(table, "GIN")["ENZYMES"].text == "7 of 10 folds (59.6 ± 4.5)"
    assert any("7 of 10 folds are recorded" in note for note in table.notes)


def test_every_missing_cell_has_a_reason(tmp_path: Path) -> None:
    failed = tmp_path / "reproduce" / "cells" / "nested-DD-gcn.failed"
    failed.parent.mkdir(parents=True)
    failed.write_text("not enough\x1b memory\n")
    table = one_table(tmp_path)
    found = {fact["dataset"]: fact["missing"] for fact in table.facts if fact["method"] == "GCN"}
    assert found["DD"] == "failed: not enough\\x1b memory"
    assert "put REDDIT-MULTI-12K.zip into" in found["REDDIT-MULTI-12K"]
    assert found["ENZYMES"] == "no records with the declared settings: use --run"


def test_the_number_of_repeats_is_shown_and_the_run_with_the_most_is_taken(tmp_path: Path) -> None:
    own = cell("wl", protocol="inner-cv")
    records = [
        replace(record_of(own, fold, 40.0), key=key, repeat=repeat)
        for key, repeats in (("three", 3), ("one", 1))
        for repeat in range(repeats)
        for fold in range(10)
    ]
    append_records(tmp_path / "a.jsonl", records)
    entry = entries(one_table(tmp_path, "inner-cv"), "1-WL")["ENZYMES"]
    assert entry.text == "40.0 ± 0.0 ×3 (53.43)"


def test_records_of_other_settings_have_a_row_of_their_own(tmp_path: Path) -> None:
    for number, add in enumerate((1.0, 9.0, 4.0)):
        own = cell("diffpool", protocol="paper", hidden=8 + number)
        records = [record_of(own, fold, a + add) for fold, a in enumerate(ACCURACIES)]
        append_records(tmp_path / "a.jsonl", [replace(r, key=f"{number}") for r in records])
    table = one_table(tmp_path, "paper")
    assert entries(table, "DiffPool")["ENZYMES"].ours == "not run"
    tuned = entries(table, "DiffPool, tuned on test folds")["ENZYMES"]
    assert tuned.text == f"63.5 ± {stdev(ACCURACIES):.1f}, best of 3"


def test_nested_records_of_other_folds_are_in_no_row(tmp_path: Path) -> None:
    own = cell("diffpool", hidden=8)
    for number, digest in enumerate((own_folds := record_of(own, 0).details["folds"], "f" * 40)):
        records = [record_of(own, fold, a + 10 * number) for fold, a in enumerate(ACCURACIES)]
        records = [
            replace(r, key=digest, details=r.details | {"folds": digest}, seed=7 * number)
            for r in records
        ]
        append_records(tmp_path / "a.jsonl", records)
    assert own_folds != "f" * 40
    table = one_table(tmp_path)
    entry = entries(table, "DiffPool, another search space")["ENZYMES"]
    assert entry.text == f"54.5 ± {stdev(ACCURACIES):.1f}"
    assert any(note.startswith("Another search space: the last run on") for note in table.notes)


def test_a_trial_is_shown_only_with_its_settings(tmp_path: Path) -> None:
    write(tmp_path, "diffpool", "reproduce.changed.jsonl", epochs=2)
    assert entries(one_table(tmp_path), "DiffPool")["ENZYMES"].ours == "not run"
    table = one_table(tmp_path, changes={"epochs": 2})
    assert entries(table, "DiffPool")["ENZYMES"].run is not None
    assert "WITH OTHER SETTINGS THAN THE DECLARED ONES: epochs=2" in table.caption


def test_a_trial_shows_the_declared_records_of_rows_that_it_does_not_change(tmp_path: Path) -> None:
    write(tmp_path, "graphsage")
    write(tmp_path, "diffpool", "reproduce.changed.jsonl", add=3, ratio=0.5)
    table = one_table(tmp_path, changes={"ratio": 0.5})
    assert entries(table, "GraphSAGE")["ENZYMES"].run is not None
    assert next(row.gain for row in table.rows if row.title == "DiffPool") == pytest.approx(3.0)


def test_trials_with_different_settings_have_different_files(tmp_path: Path) -> None:
    names = {cell("diffpool", epochs=epochs).name for epochs in (2, 3)}
    assert len({*names, cell("diffpool").name}) == 3
    assert cell("diffpool", epochs=2).name in names


def test_every_caption_names_one_protocol_and_tables_never_mix_them(tmp_path: Path) -> None:
    write(tmp_path, "diffpool")
    write(tmp_path, "diffpool", protocol="paper", add=10)
    tables = accuracy_tables("table1", records=tmp_path)
    assert [table.protocol for table in tables] == ["inner-cv", "paper", "nested"]
    for table in tables:
        assert f"protocol {table.protocol}" in table.caption
        runs = [entry.run for row in table.rows for entry in row.entries.values() if entry.run]
        assert {run.first.protocol for run in runs} <= {table.protocol}


def test_other_files_in_the_folder_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "other.jsonl").write_text('{"a": 1}\n')
    write(tmp_path, "diffpool")
    assert entries(one_table(tmp_path), "DiffPool")["ENZYMES"].run is not None
    with (tmp_path / "a.jsonl").open("a") as file:
        file.write('{"a": 1}\n')
    with pytest.raises(DataError, match=r"a.jsonl, line 11: expected a record"):
        one_table(tmp_path)


def test_a_file_instead_of_a_folder_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    file.touch()
    with pytest.raises(SettingError, match="expected --records to be a folder"):
        accuracy_tables("table1", records=file)


def test_the_project_comes_with_records_of_every_kernel() -> None:
    (table,) = accuracy_tables("table1", ["inner-cv"], default_folder())
    for row in table.rows[:5]:
        assert all(e.run for name, e in row.entries.items() if name != "REDDIT-MULTI-12K")


# --- formats -------------------------------------------------------------------------------------


def test_csv_and_json_have_a_line_for_each_number(tmp_path: Path) -> None:
    write(tmp_path, "diffpool")
    table = one_table(tmp_path, datasets=["ENZYMES", "DD"])
    rows = list(csv.DictReader(io.StringIO(as_csv([table]))))
    assert len(rows) == 2 * len(table.rows)
    own = next(r for r in rows if (r["method"], r["dataset"]) == ("DiffPool", "ENZYMES"))
    assert (float(own["mean"]), own["folds"], own["repeats"]) == (54.5, "10", "1")
    assert (own["published"], own["protocol"]) == ("59.5", "nested")
    (parsed,) = json.loads(as_json([table]))
    assert len(parsed["numbers"]) == len(rows)


def test_a_bar_does_not_break_a_markdown_table() -> None:
    text = as_markdown([PlainTable("t", "caption", ["a|b", "c"], [["1", "2|3"]])])
    assert "| a\\|b | c |\n|---|---|\n| 1 | 2\\|3 |" in text
