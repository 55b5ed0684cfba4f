"""Figures of the records: what is drawn, and what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from diffpool.errors import DataError, SettingError
from diffpool.experiments.reproduce import accuracy_tables, default_folder
from diffpool.experiments.reproduce.analysis import clusters_file, read_data
from diffpool.viz import draw_cluster_numbers, draw_figures, draw_table


def test_every_figure_of_the_repository_is_drawn_or_missing(tmp_path: Path) -> None:
    written, missing = draw_figures(default_folder(), tmp_path / "figures", ["ENZYMES"])
    assert {"table1-nested.png", "table1-nested.svg", "speed.png", "cluster-numbers.svg"} <= {
        path.name for path in written
    }
    assert all(path.stat().st_size > 5000 for path in written)
    assert (
        len(written) // 2 + len(missing) == 7
    )  # two tables under three or two protocols, two others


def test_without_records_the_tables_are_missing(tmp_path: Path) -> None:
    _, missing = draw_figures(tmp_path, tmp_path / "figures", ["PROTEINS"])
    assert "table1-paper: no records" in missing
    assert "cluster-numbers: no records of benchmarks.clusters" in missing


def test_a_table_is_drawn_with_its_rows_and_published_numbers(tmp_path: Path) -> None:
    (table,) = accuracy_tables("table1", ["inner-cv"], default_folder(), ["ENZYMES", "DD"])
    draw_table(table, tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    assert all(name in text for name in ("ENZYMES", "DD", "WL-OA", "Graphlet"))
    (empty,) = accuracy_tables("table1", ["inner-cv"], tmp_path, ["ENZYMES"])
    with pytest.raises(DataError, match="expected records for table1, protocol inner-cv, got none"):
        draw_table(empty, tmp_path / "b.svg")


def test_one_number_of_clusters_is_no_figure(tmp_path: Path) -> None:
    data = [own for own in read_data(clusters_file(tmp_path)) if own.name == "embedded"]
    with pytest.raises(DataError, match="expected measurements with several numbers of clusters"):
        draw_cluster_numbers(data, tmp_path / "a.png")


def test_a_folder_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingError, match="cannot create the folder"):
        draw_figures(tmp_path, tmp_path / "file" / "figures")
