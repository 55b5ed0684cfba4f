"""The benchmark of ensembles: its data and its table."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import tables
from benchmarks.ensemble import rings_with_chords

RECORD: dict[str, Any] = {
    "graphs": 1000,
    "members": 5,
    "rows": {
        "training, 10 epochs": {
            "one": {"median": 1.0, "epochs": [10, 10], "accuracy": 90.0},
            "ensemble": {"median": 2.04, "epochs": [10, 10], "accuracy": 95.5},
            "ratio": 2.04,
        },
        "prediction": {"one": {"median": 0.1}, "ensemble": {"median": 0.3}, "ratio": 3.0},
    },
    "commit": "abc",
    "date": "2026-01-02",
    "versions": {"torch": "2"},
    "hardware": {"cpu": "abacus", "threads": 2, "gpu": None},
}


def test_the_graphs_are_small_and_have_two_classes() -> None:
    raw = rings_with_chords(50)
    assert raw.sizes.min() >= 10
    assert raw.sizes.max() <= 30
    assert raw.classes is not None
    assert set(raw.classes.words()) == {"near", "far"}
    again = rings_with_chords(50)
    assert np.array_equal(raw.source, again.source)


def test_the_table_compares_one_model_with_the_ensemble() -> None:
    table = tables.ensemble(RECORD)
    assert "| training, 10 epochs | 1.00 | 2.04 | **2.04 ×** | 10, 10 | 90.0, 95.5 |" in table
    assert "| prediction | 0.10 | 0.30 | **3.00 ×** | – | – |" in table
    assert tables.ensemble_ratio(RECORD) == "2.0"
