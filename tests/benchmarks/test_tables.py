"""Tables show what the records say: dashes for missing values, reasons for failures, the origin of every row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import comparison_tables, record, tables

ORIGIN: dict[str, Any] = {
    "commit": "abc",
    "date": "2026-01-02",
    "versions": {"torch": "2"},
    "hardware": {"cpu": "abacus", "threads": 2, "gpu": "beads"},
}
OLD = {  # a record from before there were other peers
    "cohort": 1000.0,
    "single": 200.0,
    "pyg": 100.0,
    "cohort_mib": 30.0,
    "single_mib": 0.0,
    "pyg_mib": 7.0,
    "models": 10,
    "ratio": 10.0,
    "ratio_single": 2.0,
}
NEW = {
    **OLD,
    "pyg-compile": {"failed": "not done after 60 s"},
    "tgp": 250.0,
    "tgp_mib": 9.0,
    "inference": {
        "20": {"ours": 5000.0, "pyg": 1000.0, "ratio": 5.0},
        "100": {"ours": 9000.0, "pyg": {"failed": "OutOfMemoryError: too large"}, "ratio": None},
    },
}


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(record, "RECORDS", tmp_path)

    def write(name: str, *results: dict[str, Any]) -> None:
        text = "".join(json.dumps({**ORIGIN, **result}) + "\n" for result in results)
        (tmp_path / f"{name}.jsonl").write_text(text)

    return write


def cells(table: str | None, row: str) -> list[str]:
    assert table is not None
    line = next(line for line in table.splitlines() if line.startswith(f"| {row} |"))
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_an_old_record_is_read_with_dashes_for_the_other_peers(write: Any) -> None:
    write("cv", {"rows": {"A": OLD}})
    row = cells(comparison_tables.throughput("cv"), "A")
    assert row == ["1,000", "200", "100", *"–––––", "**10.0 ×**", "2.0 ×", "–"]
    assert cells(comparison_tables.memory("cv"), "A") == ["30", "–", "7", *"–––––"]
    assert comparison_tables.inference("cv") is None


def test_a_new_record_has_every_peer_and_lists_failures(write: Any) -> None:
    write("cv", {"rows": {"A": NEW}, "workers": 16})
    table = comparison_tables.throughput("cv")
    row = cells(table, "A")
    assert row == ["1,000", "200", "100", *"–––", "250", "–", "**10.0 ×**", "2.0 ×", "4.0 ×"]
    assert table is not None
    assert "Not measured: PyG compiled on A (not done after 60 s)." in table
    assert "16 workers; beads; abacus" in table
    assert cells(comparison_tables.inference("cv"), "A") == [
        *("5,000", "1,000", "5.0 ×"),
        *("9,000", "–", "–"),
    ]


def test_each_data_set_is_shown_from_its_last_record(write: Any) -> None:
    newer = {**NEW, "cohort": 2000.0, "ratio": 20.0}
    write("cv", {"rows": {"A": OLD, "B": OLD}}, {"rows": {"B": newer}, "commit": "def"})
    table = comparison_tables.throughput("cv")
    assert cells(table, "A")[0] == "1,000"
    assert cells(table, "B")[0] == "2,000"
    assert table is not None
    assert "- A: beads; abacus, 2 threads; torch 2; commit abc" in table
    assert "- B: beads; abacus, 2 threads; torch 2; commit def" in table


def test_a_record_of_one_part_leaves_the_other_part_to_older_ones(write: Any) -> None:
    write("cv", {"rows": {"A": OLD}}, {"rows": {"A": {"inference": NEW["inference"]}}})
    assert cells(comparison_tables.throughput("cv"), "A")[0] == "1,000"
    assert cells(comparison_tables.inference("cv"), "A")[0] == "5,000"


def test_our_models_may_fail_too(write: Any) -> None:
    failed = {"failed": "OutOfMemoryError: too large"}
    write("cv", {"rows": {"A": {**NEW, "cohort": failed, "ratio": None}}})
    table = comparison_tables.throughput("cv")
    assert cells(table, "A")[0] == "–"
    assert cells(table, "A")[-3] == "**–**"
    assert table is not None
    assert "ten models on A (OutOfMemoryError: too large)" in table


def test_scaling_is_shown_by_size_and_by_models() -> None:
    ours = {"rate": 2000.0, "ms": 10.0, "mib": 50.0}
    sizes = [
        {"nodes": 100, "ours": ours, "pyg": {"ms": 40.0, "mib": None}, "ratio": 4.0},
        {"nodes": 10_000, "ours": ours, "pyg": {"failed": "too large"}, "ratio": None},
    ]
    table = comparison_tables.sizes({**ORIGIN, "sizes": sizes})
    assert cells(table, "100") == ["10.0", "40.0", "4.0 ×", "50", "–"]
    assert cells(table, "10,000") == ["10.0", "–", "–", "50", "–"]
    assert "PyG dense with 10,000 nodes (too large)" in table
    models = [{"models": 5, **ours}, {"models": 100, "failed": "too many"}]
    table = comparison_tables.models({**ORIGIN, "models": models})
    assert cells(table, "5") == ["10.00", "2,000", "50"]
    assert cells(table, "100") == ["–", "–", "–"]


SLOW = {"failed": "not done after 600 s", "at_least": 600.0}
MATRIX = {"seconds": 0.25, "mb": 1234.4, "repeats": 3}
KERNEL = {"ours": MATRIX, "every_h": {**MATRIX, "seconds": 1.5}, "grakel": {**MATRIX, "seconds": 2}}


def test_kernels_are_shown_with_their_memory_and_the_ratio_to_grakel(write: Any) -> None:
    without = {"ours": MATRIX, "grakel": {"failed": "MemoryError: too large"}}
    write("k", {"rows": {"A": {"wl": KERNEL, "graphlet": without}}})
    table = comparison_tables.kernels("k")
    assert cells(table, "A | wl") == [
        "wl",
        "0.25 (1,234)",
        "1.50 (1,234)",
        "2.00 (1,234)",
        "**8.0 ×**",
    ]
    assert cells(table, "A | graphlet") == ["graphlet", "0.25 (1,234)", "–", "–", "–"]
    assert table is not None
    assert "Not measured: GraKeL, A, graphlet (MemoryError: too large)." in table
    assert comparison_tables.kernels("nothing") is None


def test_a_stopped_call_is_shown_as_more_than_its_limit(write: Any) -> None:
    write(
        "k",
        {"rows": {"A": {"wl": {"ours": MATRIX, "grakel": SLOW}, "b": {**KERNEL, "ours": SLOW}}}},
    )
    table = comparison_tables.kernels("k")
    assert cells(table, "A | wl") == ["wl", "0.25 (1,234)", "–", "> 600", "> 2,400 ×"]
    assert cells(table, "A | b")[1:] == ["> 600", "1.50 (1,234)", "2.00 (1,234)", "–"]
    assert table is not None
    assert "Not measured" not in table


def test_an_interrupted_kernel_leaves_its_row_to_older_records(write: Any) -> None:
    newer = {"wl": {"ours": {**MATRIX, "seconds": 9.0}}, "wl-oa": KERNEL}
    write("k", {"rows": {"A": {"wl": KERNEL}}}, {"rows": {"A": newer}, "commit": "def"})
    table = comparison_tables.kernels("k")
    assert cells(table, "A | wl")[1] == "0.25 (1,234)"
    assert table is not None
    assert "- A wl: beads" in table
    assert "- A wl-oa: beads" in table


def test_a_table_without_a_record_says_so(write: Any) -> None:
    page = "a <!-- generated: scaling_sizes -->old<!-- end --> b <!-- generated: other -->c"
    assert tables.filled(page) == page.replace("old", "\nNot measured yet.\n")


def test_tables_are_written_where_their_markers_are(write: Any) -> None:
    data = {"graphs": 5, "mean_nodes": 3.0, "mean_edges": 4.0, "largest": 9}
    result = {"folds": 10, "graphs_trained": 45, "seconds": 2.5, "graphs_a_second": 18}
    write("reddit_shape", {"data": data, **result, "mib": 7000, "mib_with_data": None})
    filled = tables.filled("x<!-- generated: reddit_shape --><!-- end -->y")
    assert cells(filled, "5") == ["3.0", "4.0", "9", "10", "45", "2.5", "18", "7,000", "–"]
    assert tables.filled(filled) == filled


def test_the_table_of_the_layer_has_a_row_for_each_model_and_the_reasons_of_failures(
    write: Any,
) -> None:
    fine = {"rate": 1105.4, "mib": 63.0, "reserved": 76.0, "ratio": 1.0, "memory": 1.0, "lines": 34}
    ours = {"rate": 929.1, "mib": 8.0, "ratio": 0.841, "memory": 0.127, "lines": 15}
    failed = {"failed": "tgp is not installed", "ratio": None, "memory": None, "lines": 52}
    row = {"batch": 20, "models": {"pyg": fine, "tgp": failed, "ours": ours}}
    write("layer", {"rows": {"A": [row]}})
    table = comparison_tables.layer("layer")
    assert table is not None
    found = [line for line in table.splitlines() if line.startswith("| A, batch 20 |")]
    assert [line.split(" | ", 2)[2] for line in found] == [
        "1,105 | 1.00 × | 63 | 1.000 × | 76 | 34 |",
        "– | – | – | – | – | 52 |",
        "929 | **0.84 ×** | 8 | **0.127 ×** | – | 15 |",
    ]
    assert "torch-geometric-pool on A, batch 20 (tgp is not installed)" in table
    assert comparison_tables.layer("none") is None


def test_the_table_of_data_sets_on_disk_has_the_last_record_of_every_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def measured(graphs: int, seconds: float) -> dict[str, Any]:
        memory = {"private_gib": 0.25, "mapped_gib": 1.5}
        rows = [{"step": s, "seconds": seconds, **memory} for s in ("generate", "convert")]
        disk = {"json_lines": 0.3, "stored": 0.6}
        return {"graphs": graphs, "disk_gib": disk, "rows": rows, **ORIGIN}

    records = [measured(2000, 9), measured(1000, 4), measured(2000, 10)]
    monkeypatch.setattr(comparison_tables, "records_of", lambda source: records)
    table = comparison_tables.on_disk("on_disk")
    assert table is not None
    assert table.splitlines()[3:5] == [
        "| 1,000 | convert | 4 | 250 | 0.25 | 1.50 |",
        "| 2,000 | convert | 10 | 200 | 0.25 | 1.50 |",
    ]
    assert "2,000 graphs take 0.30 GiB as JSON lines and 0.60 GiB in the folder." in table
    assert "abacus, 2 threads; torch 2; commit abc" in table
    monkeypatch.setattr(comparison_tables, "records_of", lambda source: [])
    assert comparison_tables.on_disk("on_disk") is None


def test_the_tables_of_ensembles_say_how_settings_were_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "results").mkdir()
    monkeypatch.setattr(tables, "ROOT", tmp_path)
    points = [
        {"readout": "sum", "dropout": 0, "hidden": 8, "clip": 2.0},
        {"readout": "max", "dropout": 0.5, "hidden": 4, "clip": 2.0},
    ]
    found = {"member_accuracies": [70.0, 80.0], "member_calibration_errors": [0.1, 0.3]}
    found |= {"calibration_error": 0.1, "certain_half": 90.0, "uncertain_half": 60.0}
    lines, tuned = [], {"grid": {"clip": [2.0]}, "halving": True, "inner_folds": 3}
    for key, search in (("plain", {}), ("tuned", tuned)):
        for fold, poolings in enumerate((1, 2)):
            settings = {"architecture": {"poolings": poolings}, "training": {"epochs": 5}}
            record = {"key": key, "repeat": 0, "fold": fold, "dataset": "D", "settings": settings}
            record |= {"method": "diffpool, ensemble of 2", "protocol": "nested", "features": "f"}
            record |= {"accuracy": 75.0, "device": "abacus", "commit": "abc"}
            details = {**found, "members": 2, "chosen_points": points, "search": search}
            lines.append(json.dumps(record | {"details": details}))
    (tmp_path / "results" / "ensembles.jsonl").write_text("\n".join(lines))
    plain, other = str(tables.ensembles()).splitlines()[-2:]
    assert "| readout, dropout and hidden |" in plain
    assert "| readout, dropout and hidden; with `--tune`; 3 inner folds |" in other
    assert "| f; 1 or 2 poolings, at most 5 epochs |" in tables.results()
    own = "at most 5 epochs; each fold's own clip; with `--tune`; 3 inner folds |"
    assert own in tables.results()


def test_the_ratios_of_a_layer_come_from_the_last_record_of_each_data_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def record(**ratios: float) -> dict[str, Any]:
        rows = {name: [{"models": {"ours": {"ratio": r}}}] for name, r in ratios.items()}
        return {"rows": rows}

    records = [record(A=0.714, B=3.0), record(B=10.495, C=1.5), {"rows": {"A": [{"models": {}}]}}]
    monkeypatch.setattr(comparison_tables, "records_of", lambda source: records)
    assert (
        comparison_tables.layer_ratios("layer", "ours") == "0.71 × (A), 10.5 × (B) and 1.50 × (C)"
    )
    assert comparison_tables.layer_ratios("layer", "other") is None


def test_the_range_of_ratios_includes_all_runs_against_pyg(write: Any) -> None:
    def rows(**ratios: float) -> dict[str, Any]:
        return {"rows": {name: {"cohort": 1.0, "ratio": ratio} for name, ratio in ratios.items()}}

    write("all", rows(A=254.9, B=89.1, C=10.0), rows(A=200.4))
    write("some", rows(A=119.6, B=74.6), rows(A=225.0))
    assert comparison_tables.ratio_ranges("all", "some") == "120 to 225 × (A) and 75 to 89 × (B)"
