"""Runs from results files: which are compared, how they are named, and the figures of their accuracy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from statistics import stdev
from typing import Any

import pytest

pytest.importorskip("matplotlib")

from diffpool.errors import DataError, SettingError
from diffpool.experiments import METHODS, Record
from diffpool.experiments.records import append_records
from diffpool.viz import draw_accuracy, draw_cluster_counts, read_runs
from diffpool.viz.figure import new_figure
from diffpool.viz.runs import labels, panels


def records(
    key: str, method: str = "diffpool", dataset: str = "ENZYMES", **changes: Any
) -> list[Record]:
    """Three folds of a run, with the default settings of diffpool and some changes."""
    network = METHODS["diffpool"]
    settings = {part: asdict(getattr(network, part)) for part in ("architecture", "training")}
    for name, value in changes.items():
        settings["training" if name in settings["training"] else "architecture"][name] = value
    return [
        Record(
            key=key,
            method=method,
            dataset=dataset,
            features="labels",
            protocol="tenfold",
            fold=fold,
            repeat=0,
            seed=0,
            settings=settings,
            accuracy=50.0 + 3 * fold,
            epoch=2,
            parameters=10,
            seconds=0.1,
            graphs_per_second=100.0,
            peak_memory=None,
            commit=None,
            device="abacus",
            versions={},
        )
        for fold in range(3)
    ]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "r.jsonl"
    append_records(path, records("a"))
    append_records(path, records("b", clusters=(5,)))
    append_records(path, records("c", clusters=(20,)))
    append_records(path, records("d", clusters=(5,), link_weight=0.0))
    append_records(path, records("e", "gin", poolings=0))
    append_records(path, records("f", dataset="DD"))
    return path


def test_a_run_has_the_mean_and_sd_of_its_folds(path: Path) -> None:
    run = read_runs([path], "DD")[0]
    assert run.values == [50.0, 53.0, 56.0]
    assert (run.mean, run.sd) == (53.0, stdev([50, 53, 56]))


def test_runs_are_compared_within_a_data_set_and_named_by_what_differs(path: Path) -> None:
    found = panels(read_runs([path]))
    assert [(dataset, protocol) for dataset, protocol, _ in found] == [
        ("ENZYMES", "tenfold"),
        ("DD", "tenfold"),
    ]
    names = labels(next(iter(found.values())))
    assert names == [
        "diffpool",
        "diffpool (clusters 5)",
        "diffpool (clusters 20)",
        "diffpool (clusters 5, link_weight 0)",
        "gin",
    ]


def test_equal_names_get_numbers(path: Path) -> None:
    runs = read_runs([path], "DD")
    assert labels(runs * 2) == ["diffpool, run 1", "diffpool, run 2"]


def test_the_same_run_in_two_files_counts_once(path: Path) -> None:
    copy = path.with_name("copy.jsonl")
    copy.write_bytes(path.read_bytes())
    assert [len(run.records) for run in read_runs([path.parent])] == [3] * 6


def test_the_number_of_clusters_is_fixed_or_a_share(path: Path) -> None:
    found = [run.clusters for run in read_runs([path], "ENZYMES")]
    assert found[0] == ("clusters, % of the nodes", 10.0)  # the default of two poolings
    assert found[1] == ("maximum number of clusters", 5.0)
    assert found[-1] is None  # no pooling


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_figures_are_written(suffix: str, path: Path, tmp_path: Path) -> None:
    for draw in (draw_accuracy, draw_cluster_counts):
        out = tmp_path / f"{draw.__name__}{suffix}"
        draw(read_runs([path]), out)
        assert out.stat().st_size > 1000


def test_a_place_without_a_panel_stays_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures: list[Any] = []

    @contextmanager
    def kept(*size: Any) -> Iterator[Any]:
        with new_figure(*size) as figure:
            figures.append(figure)
            yield figure

    monkeypatch.setattr("diffpool.viz.accuracy.new_figure", kept)
    path = tmp_path / "r.jsonl"
    for dataset in ("A", "B", "C", "D"):  # two rows of three places
        for clusters in (5, 20):
            append_records(
                path, records(f"{dataset}{clusters}", "diffpool", dataset, clusters=(clusters,))
            )
    for draw in (draw_accuracy, draw_cluster_counts):
        draw(read_runs([path]), tmp_path / "c.png")
        assert [axes.get_title(loc="left")[:1] for axes in figures[-1].axes if axes.axison] == list(
            "ABCD"
        )


def test_runs_that_differ_in_more_than_clusters_make_no_line(path: Path, tmp_path: Path) -> None:
    runs = [run for run in read_runs([path], "ENZYMES") if run.key in "acde"]
    with pytest.raises(DataError, match="different numbers of clusters, got none"):
        draw_cluster_counts(runs, tmp_path / "c.png")


def test_regression_shows_the_mean_absolute_error(tmp_path: Path) -> None:
    rows = []
    for row in records("r"):
        metrics = {"mae": 0.1 * row.fold, "rmse": 1.0, "r2": 0.5}
        rows.append(Record(**{**asdict(row), "accuracy": None, "details": {"metrics": metrics}}))
    append_records(tmp_path / "r.jsonl", rows)
    (run,) = read_runs([tmp_path / "r.jsonl"])
    assert (run.metric, run.values) == ("mean absolute error", [0.0, 0.1, 0.2])
    draw_accuracy([run], tmp_path / "r.png")


def test_errors_name_what_is_in_the_records(path: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"\(ENZYMES, DD\), got 'ENZYME'. Did you mean ENZYMES"):
        read_runs([path], "ENZYME")
    with pytest.raises(SettingError, match=r"--protocol to be one of .*\(tenfold\), got 'paper'"):
        read_runs([path], protocol="paper")
    with pytest.raises(DataError, match="which does not exist"):
        read_runs([tmp_path / "none.jsonl"])
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(DataError, match=r"expected .jsonl files"):
        read_runs([empty])
    (empty / "a.jsonl").touch()
    with pytest.raises(DataError, match="expected records of `diffpool evaluate`, got none"):
        read_runs([empty])
