"""`explore`: what is collected from a model and its graphs."""

from __future__ import annotations

import base64
import json
import re
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from explorer.pages import HOSTILE, rings, train

import diffpool
from diffpool import RawGraphs
from diffpool.data import read_graphs
from diffpool.errors import DataError, ModelError, SettingError
from diffpool.explorer import explore
from diffpool.explorer.collect import text
from diffpool.explorer.plane import plane
from diffpool.explorer.run_files import read_curves, read_split

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def raw() -> RawGraphs:
    return rings()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, raw: RawGraphs) -> Path:
    return train(tmp_path_factory.mktemp("model"), raw)


def overview_of(path: Path) -> dict[str, Any]:
    found = re.search(r'id="overview">(.*?)</script>', path.read_text("utf-8"), re.DOTALL)
    assert found
    return json.loads(found[1])


def graph_of(path: Path, number: int) -> dict[str, Any]:
    found = re.search(rf'id="graph-{number}">(.*?)</script>', path.read_text("utf-8"))
    assert found
    return json.loads(zlib.decompress(base64.b64decode(found[1])))


def test_the_page_has_the_predictions_of_the_model(
    model: Path, raw: RawGraphs, tmp_path: Path
) -> None:
    seen: list[int] = []
    written = explore(model, raw, tmp_path / "p.html", watch=seen.append)
    assert (written.graphs, written.total, written.too_large) == (24, 24, 0)
    assert written.bytes == (tmp_path / "p.html").stat().st_size
    assert sum(seen) == 24
    trained, overview = diffpool.load_model(model), overview_of(tmp_path / "p.html")
    values = trained.predict_proba(raw)
    assert overview["guess"] == values.argmax(1).tolist()
    assert raw.classes is not None
    names = [overview["classes"][code] for code in overview["truth"]]
    assert names == raw.classes.words()
    np.testing.assert_allclose(overview["confidence"], values.max(1), rtol=1e-3)
    graph = graph_of(tmp_path / "p.html", 5)
    np.testing.assert_allclose(graph["output"], values[5], rtol=1e-3)
    assert graph["columns"] == [[HOSTILE[1], HOSTILE[2]]]
    assert overview["ids"][4] == f"{HOSTILE[1]}4"
    assert overview["nodes"] == raw.sizes.tolist()


def test_clusters_and_memberships_are_those_of_the_model(
    model: Path, raw: RawGraphs, tmp_path: Path
) -> None:
    explore(model, raw, tmp_path / "p.html")
    matrices = diffpool.load_model(model).clusters(raw)[3]
    fine, coarse, _ = graph_of(tmp_path / "p.html", 3)["levels"]
    choices = [coarse["column"][cluster] for cluster in fine["cluster"]]
    assert choices == matrices[0].argmax(1).tolist()
    ends = np.concatenate([[0], np.cumsum(fine["choices"])])
    shares = [fine["share"][i] / 1000 for i in ends[:-1]]  # the largest comes first
    np.testing.assert_allclose(shares, matrices[0].max(1), atol=1e-3)
    overview = overview_of(tmp_path / "p.html")
    assert overview["allowed"][3] == [s.shape[1] for s in matrices]
    assert overview["used"][3][0] == len(np.unique(matrices[0].argmax(1)))


@pytest.mark.parametrize("method", ["leave-out", "gradients"])
def test_shares_are_those_of_explain(
    model: Path, raw: RawGraphs, tmp_path: Path, method: str
) -> None:
    explore(model, raw[:3], tmp_path / "p.html", effects=method)
    found = diffpool.explain(model, raw[:3], method=method)[2]
    levels = graph_of(tmp_path / "p.html", 2)["levels"]
    for level, scores in zip(levels[1:], found.levels[1:], strict=True):
        kept = level["column"]
        np.testing.assert_allclose(level["part"], scores.shares[kept], rtol=1e-3, atol=1e-9)
        np.testing.assert_allclose(level["effect"], scores.nodes[kept], rtol=1e-3, atol=1e-9)


def test_large_graphs_and_models_that_cannot_be_explained_have_no_shares(
    model: Path, raw: RawGraphs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    explore(model, raw, tmp_path / "p.html", effects="none")
    assert overview_of(tmp_path / "p.html")["effects"] == "none"
    assert "part" not in graph_of(tmp_path / "p.html", 0)["levels"][1]
    monkeypatch.setattr("diffpool.explorer.effects.MAX_NODES", 10)
    explore(model, raw, tmp_path / "p.html")
    sizes = overview_of(tmp_path / "p.html")["nodes"]
    for number in (0, 2):  # of 9 and 13 nodes
        has = "part" in graph_of(tmp_path / "p.html", number)["levels"][1]
        assert has == (sizes[number] <= 10)
    explore(train(tmp_path / "m", raw, "diffpool-det"), raw, tmp_path / "p.html")
    assert overview_of(tmp_path / "p.html")["effects"] == "none"


def test_edges_weights_labels_and_attributes_are_those_of_the_graph(
    model: Path, raw: RawGraphs, tmp_path: Path
) -> None:
    explore(model, raw, tmp_path / "p.html")
    graph, one = graph_of(tmp_path / "p.html", 7), raw[7]
    assert raw.node_labels is not None
    assert one.edge_weights is not None
    once = one.source > one.target
    order = np.lexsort((one.source[once], one.target[once]))
    np.testing.assert_allclose(graph["weight"], one.edge_weights[once][order], rtol=1e-3)
    assert graph["labels"][0] == one.node_labels.codes[:, 0].tolist()  # type: ignore[union-attr]
    np.testing.assert_allclose(graph["attributes"], one.node_attributes, rtol=1e-3)
    assert sum(graph["levels"][0]["edges"]["count"]) == once.sum()


def test_training_curves_and_parts_come_from_the_model_directory(
    model: Path, raw: RawGraphs, tmp_path: Path
) -> None:
    explore(model, raw, tmp_path / "p.html")
    overview = overview_of(tmp_path / "p.html")
    assert overview["curves"]["epoch"] == [1, 2]
    report = json.loads((model / "report.json").read_text())
    parts = overview["split"]
    assert [g for g, part in enumerate(parts) if part == 2] == report["split"]["test_graphs"]
    explore(diffpool.load_model(model), raw, tmp_path / "q.html")
    assert overview_of(tmp_path / "q.html")["curves"] is None
    explore(diffpool.load_model(model), raw, tmp_path / "q.html", directory=model)
    assert overview_of(tmp_path / "q.html")["split"] == parts
    assert read_split(model, "other", 24) is None
    assert read_split(model, raw.name, 23) is None
    assert read_curves(tmp_path) is None


def test_of_many_graphs_a_sample_is_shown(model: Path, raw: RawGraphs, tmp_path: Path) -> None:
    written = explore(model, raw, tmp_path / "p.html", max_graphs=4)
    assert (written.graphs, written.total) == (4, 24)
    overview = overview_of(tmp_path / "p.html")
    assert overview["numbers"] == [0, 8, 15, 23]
    assert overview["nodes"] == raw.sizes[[0, 8, 15, 23]].tolist()


def test_large_graphs_are_listed_but_not_drawn(model: Path, raw: RawGraphs, tmp_path: Path) -> None:
    written = explore(model, raw, tmp_path / "p.html", max_nodes=12)
    assert written.too_large == (raw.sizes > 12).sum()
    overview = overview_of(tmp_path / "p.html")
    assert overview["drawn"] == (raw.sizes <= 12).tolist()
    whole = explore(model, raw, tmp_path / "q.html")
    assert whole.too_large == 0
    assert overview_of(tmp_path / "q.html")["used"] == overview["used"]


def test_a_regression_with_one_target(tmp_path: Path) -> None:
    raw = rings(targets=True)
    explore(train(tmp_path / "m", raw, poolings=1), raw, tmp_path / "p.html")
    overview = overview_of(tmp_path / "p.html")
    assert overview["classes"] == []
    assert overview["confidence"] is None
    np.testing.assert_allclose(overview["truth"], raw.targets, rtol=1e-3)
    assert np.shape(overview["guess"]) == (24, 1)


def test_a_model_without_pooling_has_one_level(raw: RawGraphs, tmp_path: Path) -> None:
    explore(train(tmp_path / "m", raw, "graphsage"), raw, tmp_path / "p.html")
    assert overview_of(tmp_path / "p.html")["used"] == [[]] * 24
    assert len(graph_of(tmp_path / "p.html", 0)["levels"]) == 1


def test_molecules_have_symbols_bonds_and_a_layout(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    raw = read_graphs(ROOT / "examples" / "data" / "molecules.csv", label="lipophilic")[:20]
    explore(train(tmp_path / "m", raw), raw, tmp_path / "p.html")
    overview, graph = overview_of(tmp_path / "p.html"), graph_of(tmp_path / "p.html", 0)
    assert overview["molecules"]
    words = overview["labels"][0]["words"]
    symbols = [words[code] for code in graph["labels"][0]]
    assert symbols == ["C", "C", "C", "C", "O", "C", "C", "C", "O"]  # CC1=CC(=O)C=CC1=O
    assert sorted(graph["order"]) == [2, 2, 2, 2, 2, 4, 4, 4, 4]
    assert ["smiles", "CC1=CC(=O)C=CC1=O"] in graph["columns"]


def test_what_cannot_be_shown_is_explained(model: Path, raw: RawGraphs, tmp_path: Path) -> None:
    out = tmp_path / "p.html"
    with pytest.raises(SettingError, match=r"at most 0.001 MB.*max_graphs, now 5000"):
        explore(model, raw, out, max_megabytes=0.001)
    with pytest.raises(SettingError, match="expected max_graphs to be at least 1, got 0"):
        explore(model, raw, out, max_graphs=0)
    with pytest.raises(SettingError, match="expected max_megabytes to be above 0, got nan"):
        explore(model, raw, out, max_megabytes=float("nan"))
    with pytest.raises(SettingError, match="expected embedding to be pca or tsne, got 'umap'"):
        explore(model, raw, out, embedding="umap")
    with pytest.raises(SettingError, match=r"leave-out, keep or none, got 'leave'\. Did you mean"):
        explore(model, raw, out, effects="leave")
    with pytest.raises(DataError, match="at least one graph, got none"):
        explore(model, raw[:0], out)
    with pytest.raises(ModelError, match="a model directory, got 3"):
        explore(3, raw, out)
    assert not out.exists()


@pytest.mark.parametrize("method", ["pca", "tsne"])
def test_the_plane_keeps_two_groups_apart(method: str) -> None:
    vectors = np.random.default_rng(0).standard_normal((30, 6))
    vectors[:15] += 20
    x = plane(vectors, method)
    assert np.abs(x).max() == pytest.approx(1)
    near = np.linalg.norm(x[:15] - x[:15].mean(0), axis=1).max()
    assert np.linalg.norm(x[:15].mean(0) - x[15:].mean(0)) > near


@pytest.mark.parametrize("shape", [(0, 3), (1, 3), (2, 1), (5, 3)])
def test_a_plane_of_few_or_equal_graphs_is_finite(shape: tuple[int, int]) -> None:
    for method in ("pca", "tsne"):
        assert np.isfinite(plane(np.ones(shape), method)).all()
        assert plane(np.ones(shape), method).shape == (shape[0], 2)


def test_a_graph_without_nodes_is_listed_but_not_drawn(
    model: Path, raw: RawGraphs, tmp_path: Path
) -> None:
    more = replace(raw, sizes=np.append(raw.sizes, 0), classes=None, columns={})
    assert explore(model, more, tmp_path / "page.html").too_large == 1
    overview = overview_of(tmp_path / "page.html")
    assert overview["drawn"] == [True] * len(raw) + [False]
    assert overview["used"][-1] == [0, 0]


def test_a_name_that_is_no_unicode_is_escaped(model: Path, raw: RawGraphs, tmp_path: Path) -> None:
    explore(model, replace(raw, name="\udcff"), tmp_path / "page.html")
    assert "<title>\\udcff · diffpool</title>" in (tmp_path / "page.html").read_text("utf-8")


def test_characters_that_reverse_text_are_escapes() -> None:
    assert text("abc\u202ecba") == "abc\\u202ecba"
