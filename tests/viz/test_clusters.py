"""The figure of clusters: from every form of model and graphs, in every format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

pytest.importorskip("matplotlib")

from diffpool import DiffPoolClassifier, DiffPoolRegressor, embedded
from diffpool.data import as_raw
from diffpool.errors import DataError, ModelError, SettingError
from diffpool.experiments import settings_for, train_once
from diffpool.viz import draw_clusters
from diffpool.viz.clusters import _label_names, _shapes, edge_widths, panels
from diffpool.viz.hierarchy import hierarchy
from diffpool.viz.subjects import Subject, subjects

START = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


@pytest.fixture(scope="module")
def rings() -> tuple[list[nx.Graph], list[str]]:
    graphs = [nx.circular_ladder_graph(n) for n in range(4, 10)]
    graphs += [nx.barbell_graph(n, 2) for n in range(4, 10)]
    for graph in graphs:
        for node in graph:
            graph.nodes[node]["kind"] = "core" if graph.degree[node] > 3 else "rim"
    return graphs, ["ladder"] * 6 + ["barbell"] * 6


@pytest.fixture(scope="module")
def model(rings: Any) -> DiffPoolClassifier:
    return DiffPoolClassifier(epochs=2, hidden=8, poolings=2, min_clusters=4, device="cpu").fit(
        *rings
    )


@pytest.mark.parametrize("suffix", START)
def test_the_name_of_the_file_gives_the_format(
    suffix: str, model: DiffPoolClassifier, rings: Any, tmp_path: Path
) -> None:
    path = tmp_path / f"c{suffix}"
    draw_clusters(model, rings[0], path, numbers=[3])
    assert path.read_bytes().startswith(START[suffix])
    again = tmp_path / f"again{suffix}"
    draw_clusters(model, rings[0], again, numbers=[3])
    assert path.read_bytes() == again.read_bytes()


def test_an_estimator_a_trained_model_and_a_directory_give_the_same_figure(
    model: DiffPoolClassifier, rings: Any, tmp_path: Path
) -> None:
    model.save(tmp_path / "model")
    raw = as_raw(rings[0], rings[1])
    given = [(model, rings[0]), (model.model_, rings[0]), (str(tmp_path / "model"), rings[0])]
    files = []
    for number, (own, graphs) in enumerate(given):
        files.append(tmp_path / f"{number}.svg")
        draw_clusters(own, graphs, files[-1], numbers=[0, 7])
    assert len({file.read_bytes() for file in files}) == 1
    drawn = subjects(tmp_path / "model", raw, [7])[0]
    assert drawn.caption.startswith("class barbell, predicted ")
    assert drawn.label_names == ("core", "rim")


def test_a_network_draws_a_data_set_with_features(tmp_path: Path) -> None:
    dataset = embedded(num_graphs=20)
    method = settings_for("diffpool", "embedded", epochs=1, hidden=6)
    outcome = train_once(method, dataset)
    draw_clusters(outcome.model, dataset, tmp_path / "a.svg", numbers=[4])
    draw_clusters(outcome.trained, dataset, tmp_path / "b.svg", numbers=[4])
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    own = subjects(outcome.model, dataset, [4])[0]
    assert own.number == 4
    np.testing.assert_allclose(own.levels[0].adjacency, dataset.graphs.block(4).numpy())


def test_no_discs_overlap_at_any_level_and_areas_are_masses(
    model: DiffPoolClassifier, rings: Any
) -> None:
    for subject in subjects(model, rings[0], range(12)):
        for panel in panels(subject):
            distance = np.linalg.norm(panel.positions[:, None] - panel.positions[None], axis=-1)
            np.fill_diagonal(distance, np.inf)
            assert (distance > panel.radii[:, None] + panel.radii[None]).all()
            heavy = panel.level.mass >= 1
            area = panel.radii[heavy] ** 2 / panel.level.mass[heavy]
            np.testing.assert_allclose(area, area[:1].repeat(len(area)))


def test_the_width_of_an_edge_grows_with_its_weight() -> None:
    weights = np.array([0.1, 3.0, 0.5, 2.9])
    widths = edge_widths(weights)
    assert (np.argsort(widths) == np.argsort(weights)).all()
    assert len(set(edge_widths(np.ones(5)).tolist())) == 1
    assert len(edge_widths(np.zeros(0))) == 0


def test_the_most_frequent_node_labels_have_shapes_and_the_others_are_discs() -> None:
    level = hierarchy([np.zeros((20, 20))], [])
    codes = np.repeat([8, 7, 6, 5, 4, 3, 2], [5, 4, 4, 3, 2, 1, 1])
    own = Subject(0, level, "", labels=codes, label_names=tuple("abcdefghi"))
    shown = _label_names([own])
    assert shown == ("other", "e", "f", "g", "h", "i")
    shapes = _shapes(own, shown)
    assert [shown[shape] for shape in shapes[[0, 5, 16, 19]]] == ["i", "h", "e", "other"]
    few = Subject(0, level, "", labels=codes % 3, label_names=tuple("abc"))
    assert _label_names([few]) == ("a", "b", "c")


def test_molecules_have_symbols_and_the_layout_of_rdkit(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    smiles = ["c1ccccc1O", "CC(=O)O", "C#N", "[Na+].[Cl-]", "C[Si](C)(C)C", "N"]
    model = DiffPoolRegressor(epochs=1, hidden=6, min_clusters=2, device="cpu")
    model.fit(smiles, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    draw_clusters(model, smiles, tmp_path / "m.png", numbers=range(6))
    phenol, acid = subjects(model, smiles, [0, 1])
    assert phenol.molecule is not None
    assert phenol.molecule.symbols == ["C"] * 6 + ["O"]
    assert phenol.caption.startswith("predicted ")
    ring = np.array(phenol.molecule.positions)[:6]
    sides = np.linalg.norm(ring - np.roll(ring, 1, axis=0), axis=1)
    np.testing.assert_allclose(sides, 1, rtol=0.02)  # a regular hexagon
    assert acid.molecule is not None
    assert sorted(acid.molecule.orders[np.triu_indices(4, 1)].tolist()) == [0, 0, 0, 1, 1, 2]


def test_graphs_of_one_node_without_edges_and_with_loops_are_drawn(
    model: DiffPoolClassifier, tmp_path: Path
) -> None:
    loop = nx.empty_graph(3)
    loop.add_edge(1, 1)
    for graph in (nx.empty_graph(1), loop):
        nx.set_node_attributes(graph, "rim", "kind")
        draw_clusters(model, [graph], tmp_path / "c.png")


def test_names_of_classes_are_not_formulas(rings: Any, tmp_path: Path) -> None:
    graphs, _ = rings
    model = DiffPoolClassifier(epochs=1, hidden=6, device="cpu").fit(graphs, ["$a_{", "b$^"] * 6)
    draw_clusters(model, as_raw(graphs, ["$a_{", "b$^"] * 6), tmp_path / "c.svg")


def test_errors_say_what_to_do(model: DiffPoolClassifier, rings: Any, tmp_path: Path) -> None:
    graphs, _ = rings
    path = tmp_path / "c.png"
    with pytest.raises(SettingError, match=r"got 12: there are 12 graphs, numbered 0 to 11"):
        draw_clusters(model, graphs, path, numbers=[12])
    with pytest.raises(SettingError, match="at least one graph"):
        draw_clusters(model, graphs, path, numbers=[])
    with pytest.raises(ModelError, match="DiffPoolClassifier that is not fitted"):
        draw_clusters(DiffPoolClassifier(), graphs, path)
    with pytest.raises(ModelError, match="expected a fitted estimator"):
        draw_clusters(3, graphs, path)
    with pytest.raises(ModelError, match="expected a GraphDataset or GraphBatch"):
        draw_clusters(model.model_.parts[0], graphs, path)
    with pytest.raises(SettingError, match=r"expected the name of a figure to end in .png, .svg"):
        draw_clusters(model, graphs, tmp_path / "c.jpg")
    with pytest.raises(SettingError, match="folder that exists"):
        draw_clusters(model, graphs, tmp_path / "none" / "c.png")
    long = nx.path_graph(2001)
    nx.set_node_attributes(long, "rim", "kind")
    with pytest.raises(DataError, match="got graph 1 with 2,001"):
        draw_clusters(model, [graphs[0], long], path, numbers=[0, 1])
    assert not path.exists()
