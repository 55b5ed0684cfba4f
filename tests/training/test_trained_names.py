"""A model reads the attributes that it was trained on by their names, in files and in memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from diffpool import DiffPoolClassifier, as_raw, load_model, read_graphs
from diffpool.cli.commands import app
from diffpool.errors import DataError

nx = pytest.importorskip("networkx")

QUICK = {"epochs": 15, "hidden": 8, "learning_rate": 0.02, "device": "cpu"}
OPTIONS = [word for name, value in QUICK.items() for word in (f"--{name.replace('_', '-')}", value)]


def run(*words: object) -> Result:
    result = CliRunner().invoke(app, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def particles(count: int = 40, keys: tuple[str, ...] = ("mass", "charge")) -> tuple[list, Any]:
    """Paths whose class is the sign of `mass`; `charge` and `age` are noise of another size."""
    rng = np.random.default_rng(0)
    y = np.arange(count) % 2
    graphs = []
    for sign in (2 * y - 1).tolist():
        graph = nx.path_graph(4)
        for node in graph:
            noise = {key: 100 * rng.normal() for key in (*keys, "age")}
            graph.add_node(node, **noise | {keys[0]: sign + 0.1 * rng.normal()})
        graphs.append(graph)
    return graphs, y


@pytest.fixture(scope="module")
def model() -> DiffPoolClassifier:
    graphs, y = particles()
    chosen = DiffPoolClassifier(node_attributes=["mass", "charge"], **QUICK)
    return chosen.fit(graphs, y)


def test_a_loaded_model_reads_the_attributes_that_it_was_trained_on(
    model: DiffPoolClassifier, tmp_path: Path
) -> None:
    graphs, y = particles()
    model.save(tmp_path)
    loaded = load_model(tmp_path)
    assert loaded.names is not None
    assert loaded.names.node_attributes == ("mass", "charge")
    expected = model.predict_proba(graphs)
    assert (loaded.predict(graphs) == y).mean() > 0.9
    assert np.array_equal(loaded.predict_proba(graphs), expected)
    everything = as_raw(graphs)  # age, charge, mass
    assert np.array_equal(loaded.predict_proba(everything), expected)
    assert np.array_equal(loaded.predict_log_proba(everything), model.predict_log_proba(graphs))
    assert np.array_equal(loaded.embed(graphs), model.transform(graphs))
    assert loaded.clusters(graphs)[0][0].shape[0] == 4
    assert loaded.uncertainty(graphs)["entropy"].shape == (40,)


def test_graphs_without_an_attribute_of_the_model_are_refused(model: DiffPoolClassifier) -> None:
    others, _ = particles(2, ("temperature", "height"))
    given, converted = others, as_raw(others)
    got = "got age, height, temperature"
    with pytest.raises(DataError, match=f"'mass', which the model was trained on, {got}"):
        model.predict(given)
    with pytest.raises(DataError, match=f"'mass', {got}: the model was trained on graphs with"):
        model.predict(converted)


def test_extra_attributes_cannot_disturb_a_prediction(model: DiffPoolClassifier) -> None:
    graphs, _ = particles(4)
    expected = model.predict_proba(graphs)
    graphs[0].add_node(0, note="only here", broken=float("nan"))
    assert np.array_equal(model.predict_proba(graphs), expected)


def test_words_where_the_model_has_numbers_are_refused(model: DiffPoolClassifier) -> None:
    graphs, _ = particles(2)
    nx.set_node_attributes(graphs[0], "heavy", "mass")
    nx.set_node_attributes(graphs[1], "light", "mass")
    with pytest.raises(DataError, match="attribute 'mass' to be all numbers"):
        model.predict(graphs)
    with pytest.raises(DataError, match=r"expected numbers in the node attribute 'mass', .* words"):
        model.predict(as_raw(graphs))


def test_a_type_with_integers_only_is_a_number_if_it_was_one_in_training() -> None:
    def graphs(value: float) -> list:
        graph = nx.path_graph(3)
        nx.set_node_attributes(graph, value, "size_type")
        return [graph]

    many = [graph for value in (1.5, 2) * 10 for graph in graphs(value)]
    model = DiffPoolClassifier(**QUICK).fit(many, np.arange(20) % 2)
    assert model.predict(graphs(2)).tolist() == [1]


def test_one_graph_with_many_words_is_predicted_if_training_accepted_them() -> None:
    graphs = []
    for g in range(20):
        graph = nx.path_graph(87)
        nx.set_node_attributes(graph, {n: f"region {n}" for n in graph}, "region")
        nx.set_node_attributes(graph, float(g % 2), "size")
        graphs.append(graph)
    model = DiffPoolClassifier(**{**QUICK, "epochs": 2}).fit(graphs, np.arange(20) % 2)
    assert np.allclose(model.predict_proba(graphs[:1]), model.predict_proba(graphs)[:1], atol=1e-6)


# --- files


def write(graphs: list, y: Any, folder: Path) -> Path:
    for i, (graph, label) in enumerate(zip(graphs, y, strict=True)):
        graph.graph["label"] = f"class {label}"
        folder.mkdir(exist_ok=True)
        nx.write_graphml(graph, folder / f"{i:03}.graphml")
    return folder


def accuracy(folder: Path) -> float:
    return json.loads((folder / "p.scores.json").read_text())["accuracy"]


def test_predict_reads_the_attributes_that_train_chose(tmp_path: Path) -> None:
    folder = write(*particles(80), tmp_path / "set")
    out, csv = tmp_path / "m", tmp_path / "p.csv"
    chosen = ("--node-attributes", "mass,charge")
    assert run("train", folder, *chosen, "--out", out, *OPTIONS).exit_code == 0
    assert run("predict", out, folder, "--out", csv).exit_code == 0
    plain = csv.read_text()
    assert accuracy(tmp_path) > 0.9
    for same in (chosen, ("--node-attributes", "charge,age,mass")):
        assert run("predict", out, folder, "--out", csv, *same).exit_code == 0
        assert csv.read_text() == plain
    with pytest.raises(DataError, match="'mass', got age, charge: the model was trained on set"):
        run("predict", out, folder, "--out", csv, "--node-attributes", "charge,age")
    others = write(*particles(4, ("temperature", "height")), tmp_path / "others")
    with pytest.raises(DataError, match="'mass', which the model was trained on"):
        run("predict", out, others, "--out", csv)


ATOMS = 'node [ id 0 label "{}" ] node [ id 1 label "{}" ] node [ id 2 label "{}" ]'
BONDS = "edge [ source 0 target 1 ] edge [ source 1 target 2 ]"


def write_atoms(path: Path, atoms: str, label: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f'graph [ label "{label}" {ATOMS.format(*atoms)} {BONDS} ]')
    return path


def test_labels_that_a_folder_has_are_read_from_a_single_file(tmp_path: Path) -> None:
    for i in range(20):
        write_atoms(tmp_path / "set" / f"{i:02}.gml", "CCO" if i % 2 else "CNF", f"class {i % 2}")
    out, csv = tmp_path / "m", tmp_path / "p.csv"
    assert run("train", tmp_path / "set", "--out", out, *OPTIONS).exit_code == 0
    alone = write_atoms(tmp_path / "one.gml", "CNF", "class 0")  # by itself, these look like names
    assert run("predict", out, alone, "--out", csv).exit_code == 0
    assert accuracy(tmp_path) == 1
    model = load_model(out)
    assert model.predict(read_graphs(alone, names=model.names)).tolist() == ["class 0"]
    with pytest.warns(UserWarning, match=r"'label' .* left out: .* names=model\.names"):
        raw = read_graphs(alone)
    with pytest.raises(DataError, match=r"attribute 'label', got none: the model was trained on"):
        model.predict(raw)


def test_labels_that_training_left_out_are_left_out_of_predictions(tmp_path: Path) -> None:
    for i in range(20):
        write_atoms(tmp_path / "set" / f"{i:02}.gml", "CNO" if i % 2 else "CFS", f"class {i % 2}")
    out, csv = tmp_path / "m", tmp_path / "p.csv"
    with pytest.warns(UserWarning, match="the attribute 'label' of the nodes is left out"):
        run("train", tmp_path / "set", "--out", out, *OPTIONS)
    alone = write_atoms(tmp_path / "one.gml", "CCO", "class 0")  # by itself, these look like labels
    assert run("predict", out, alone, "--out", csv).exit_code == 0
    assert len(csv.read_text().splitlines()) == 2
