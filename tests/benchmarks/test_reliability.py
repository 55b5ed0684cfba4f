"""The reliability figure: counts of all folds together, from the records that have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diffpool.training.ensemble import ensemble_scores

pytest.importorskip("matplotlib")

from benchmarks import reliability


def run_of(method: str, name: str, folds: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(len(name))
    records = []
    for fold in range(folds):
        y, outputs = rng.integers(0, 3, 40), rng.dirichlet([1, 1, 1], (5, 40))
        details = ensemble_scores(y, outputs)
        row = {"method": method, "dataset": name, "protocol": "nested", "fold": fold}
        records.append({**row, "details": details})
    return records


def test_the_figure_has_the_runs_with_counts_and_adds_up_their_folds(tmp_path: Path) -> None:
    old = run_of("graphsage, ensemble of 5", "DD", 2)
    for record in old:
        del record["details"]["reliability"]
    single = [{**record, "details": {}} for record in run_of("diffpool", "DD", 2)]
    runs = [
        run_of("diffpool, ensemble of 5", "ENZYMES", 3),
        old,
        single,
        run_of("gin, ensemble of 5", "DD", 1),
    ]
    found = reliability.counts(runs)
    assert {method: list(panels) for method, panels in found.items()} == {
        "diffpool, ensemble of 5": ["ENZYMES"],
        "gin, ensemble of 5": ["DD"],
    }
    counts = found["diffpool, ensemble of 5"]["ENZYMES"]
    assert sum(counts["reliability"]["graphs"]) == 3 * 40
    assert sum(counts["member_reliability"]["graphs"]) == 3 * 5 * 40
    reliability.draw(found, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_the_help_draws_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(reliability, "PICTURE", tmp_path / "picture.png")
    monkeypatch.setattr("sys.argv", ["reliability", "--help"])
    with pytest.raises(SystemExit) as stopped:
        reliability.main()
    assert stopped.value.code == 0
    assert not list(tmp_path.iterdir())
