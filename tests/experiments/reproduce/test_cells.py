"""Declared cells: their commands are valid, and only records of the declared evaluation fit them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cell_records import cell, record_of
from typer.testing import CliRunner

from diffpool.baselines.prepare import resolved, wanted
from diffpool.builder import build
from diffpool.cli.commands import app
from diffpool.errors import DiffPoolError, SettingError
from diffpool.experiments.methods import with_settings
from diffpool.experiments.records import Record
from diffpool.experiments.reproduce.cells import (
    DATASETS,
    FINAL_RUNS,
    MEMBERS,
    PROTOCOLS,
    ROWS,
    TRIALS,
    Cell,
    choose,
    declared_cells,
    make_cell,
)
from diffpool.experiments.selection import draw_points

ENZYMES_CELLS = declared_cells(datasets=["ENZYMES"])


@pytest.mark.parametrize("own", ENZYMES_CELLS, ids=lambda own: own.name)
def test_a_record_of_the_declared_evaluation_fits_this_cell_and_no_other(own: Cell) -> None:
    record = record_of(own)
    assert [other.name for other in ENZYMES_CELLS if other.fits(record)] == [own.name]


def changed(part: str, **values: Any) -> Callable[[Record], Record]:
    def change(record: Record) -> Record:
        return replace(
            record, settings={**record.settings, part: {**record.settings[part], **values}}
        )

    return change


OTHERS: dict[str, Callable[[Record], Record]] = {
    "epochs": changed("training", epochs=2),
    "hidden": changed("architecture", hidden=4),
    "link weight": changed("training", link_weight=1.0),
    "seed of the run": lambda r: replace(r, seed=1),
    "features": lambda r: replace(r, features="labels (3)"),
    "data set": lambda r: replace(r, dataset="DD"),
    "folds": lambda r: replace(r, details={**r.details, "folds": "generated"}),
    "no digest of the folds": lambda r: replace(
        r, details={k: v for k, v in r.details.items() if k != "folds"}
    ),
    "trials": lambda r: replace(
        r, details={**r.details, "search": {**r.details["search"], "trials": 24}}
    ),
    "grid": lambda r: replace(r, details={**r.details, "search": {"grid": {}, "trials": TRIALS}}),
    "ensemble": lambda r: replace(r, method="diffpool, ensemble of 3"),
}


@pytest.mark.parametrize("change", OTHERS.values(), ids=OTHERS)
def test_a_record_with_anything_else_does_not_fit(change: Callable[[Record], Record]) -> None:
    own = cell("diffpool")
    assert own.fits(record_of(own))
    assert not own.fits(change(record_of(own)))


def test_a_searched_setting_may_have_any_value() -> None:
    own = cell("diffpool")
    assert own.fits(changed("architecture", readout="max")(record_of(own)))
    assert not cell("diffpool", protocol="paper").fits(
        changed("architecture", readout="max")(record_of(cell("diffpool", protocol="paper")))
    )


def test_a_trial_never_counts_as_the_declared_cell() -> None:
    declared, trial = cell("diffpool"), cell("diffpool", epochs=2)
    assert not declared.fits(record_of(trial))
    assert not trial.fits(record_of(declared))
    assert trial.fits(record_of(trial))


def test_every_row_has_the_same_budget() -> None:
    for protocol in ("paper", "nested"):
        for dataset in DATASETS:
            own = declared_cells(protocols=[protocol], datasets=[dataset])
            assert len({c.settings["epochs"] for c in own}) == 1
            values: dict[str, set[tuple[Any, ...]]] = {}
            for each in own:
                for name, choices in each.grid:
                    values.setdefault(name, set()).add(choices)
            assert all(len(found) == 1 for found in values.values())


@pytest.mark.parametrize(
    "own", [c for c in ENZYMES_CELLS if c.protocol == "nested"], ids=lambda own: own.name
)
def test_every_point_of_the_search_space_can_be_built_with_the_same_preparation(own: Cell) -> None:
    architecture = resolved(own.method.architecture, np.array([30, 40]))
    method = replace(own.method, architecture=architecture)
    for point in draw_points(own.grid, TRIALS):
        tried = with_settings(method, point).architecture
        assert wanted(tried, 40) == wanted(architecture, 40)
        build(tried, 21, 6, 40)


@pytest.mark.usefixtures("no_data")
@pytest.mark.parametrize("own", ENZYMES_CELLS, ids=lambda own: own.name)
def test_the_command_of_a_cell_is_valid(own: Cell) -> None:
    """It fails because there is no data set, and for nothing else."""
    result = CliRunner().invoke(app, own.command("out.jsonl", "cpu"))
    assert isinstance(result.exception, DiffPoolError)
    assert "ENZYMES.zip" in str(result.exception)


@pytest.fixture
def no_data(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DIFFPOOL_CACHE", str(tmp_path))
    monkeypatch.setenv("DIFFPOOL_URL", "http://127.0.0.1:9")  # nothing listens on this port
    monkeypatch.delenv("DIFFPOOL_DATA", raising=False)


def test_ensembles_have_no_cell_under_paper_and_kernels_have_their_own_protocol() -> None:
    assert make_cell(ROWS["diffpool-ensemble"], "ENZYMES", "paper") is None
    assert make_cell(ROWS["wl"], "ENZYMES", "nested") is None
    assert make_cell(ROWS["diffpool"], "ENZYMES", "inner-cv") is None
    assert cell("diffpool-ensemble").models == 10 * (TRIALS + MEMBERS)
    assert cell("diffpool").models == 10 * (TRIALS + FINAL_RUNS)


def test_cells_are_computed_by_priority_then_size() -> None:
    cells = declared_cells()
    assert [c.priority for c in cells] == sorted(c.priority for c in cells)
    first = [c for c in cells if c.priority == 1]
    assert [c.work for c in first] == sorted((c.work for c in first), reverse=True)
    assert {c.row.name for c in first} == {"diffpool", "graphsage", "structure-blind"}
    assert all(c.dataset in ("ENZYMES", "DD", "COLLAB", "PROTEINS") for c in first)


def test_the_cheap_cells_of_all_data_sets_are_computed_before_those_of_nested() -> None:
    nested = [c.protocol == "nested" for c in declared_cells()]
    assert nested == sorted(nested)
    assert any(nested)


def test_a_misspelled_name_gets_a_suggestion() -> None:
    with pytest.raises(SettingError, match=r"expected --methods among .*Did you mean graphsage"):
        choose("diffpool,grapsage", ROWS, "--methods")
    assert choose(None, PROTOCOLS, "--protocol") == list(PROTOCOLS)
