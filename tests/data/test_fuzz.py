"""Damaged input: a mutated file gives a valid data set or model, or one of the project's errors.

No other exception, no hang, no file left behind. What is accepted agrees with an independent, slow reading of the same
input. The mutations come from a seed, so a failure can be reproduced. `--soak` runs more than 100,000 of them.
"""

from __future__ import annotations

import copy
import csv
import json
import math
import random
import shutil
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from model_files import read_config, weights_file, with_checksum, write_config, write_weights
from safetensors.torch import load, save

from diffpool.architecture import Architecture
from diffpool.data import (
    Categories,
    GraphDataset,
    RawGraphs,
    as_raw,
    iter_graphs,
    read_graphs,
    single_split,
)
from diffpool.data.jsonl import write_jsonl
from diffpool.errors import DiffPoolError
from diffpool.experiments import fit, settings_for
from diffpool.settings import Setting, list_settings
from diffpool.training import load_model, write_predictions

Repeats = Callable[[int], range]

# The number of mutations of each kind of input; SOAK times as many with --soak, 102,000 in all.
TU, ZIPS, JSONL, MODELS, SMILES, NETWORKX, PYG, PREDICT = 200, 100, 300, 160, 100, 150, 100, 50
SOAK = 100
WORDS = [
    *(b"0", b"-1", b"99999999999999999999", b"nan", b"inf", b"1e400", b"x", b"", b" ", b"\n"),
    *(b",", b"1.5", b"\xff\xfe", b"\x00", b"[", b"{}", b"null", b"true", b'"', b"1,1,1"),
    b"2147483648",
]
DTYPES = (torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.int64, torch.bool)
VALUES = (None, -1, 0, 3, 1e9, 10**12, "x", "", [], [1], ["a", "b"], {}, True, 0.5, float("nan"))


KNOWN = {setting.name: setting for setting in list_settings(Architecture)}


def mutate(data: bytes, rng: random.Random) -> bytes:
    """One to three changes: bytes, words, lines, or a cut."""
    for _ in range(rng.randint(1, 3)):
        start = rng.randrange(len(data) + 1)
        end = min(len(data), start + rng.choice([1, 1, 2, 8, 40]))
        kind = rng.randrange(7)
        if kind == 0:
            data = data[:start] + bytes([rng.randrange(256)]) + data[start + 1 :]
        elif kind == 1:
            data = data[:start] + rng.choice(WORDS) + data[end:]
        elif kind == 2:
            data = data[:start] + data[end:]
        elif kind == 3:
            data = data[:start]
        elif kind == 4:
            lines = data.split(b"\n")
            i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
            lines[i], lines[j] = lines[j], lines[i]
            data = b"\n".join(lines)
        elif kind == 5:
            lines = data.split(b"\n")
            lines.insert(rng.randrange(len(lines) + 1), rng.choice([*lines, *WORDS]))
            data = b"\n".join(lines)
        else:
            data = data[:start] + data[start:end] * rng.randint(2, 4) + data[end:]
    return data


def raw_graphs() -> RawGraphs:
    rng = np.random.default_rng(0)
    sizes = np.array([4, 3, 1, 5, 2, 4])
    starts = np.cumsum(sizes) - sizes
    source = np.concatenate([s + np.arange(n - 1) for s, n in zip(starts, sizes, strict=True)])
    edges, nodes = len(source), int(sizes.sum())
    return RawGraphs.from_edges(
        "toy",
        sizes,
        source,
        source + 1,
        one_way=True,
        node_labels=Categories.from_values(rng.integers(0, 3, nodes)),
        node_attributes=rng.normal(size=(nodes, 2)).round(3),
        edge_labels=Categories.from_values(rng.integers(0, 2, edges)),
        edge_attributes=rng.normal(size=(edges, 1)).round(3),
        classes=Categories.from_values(np.array([1, 2, 1, 2, 1, 2])),
    )


def write_tu(folder: Path, raw: RawGraphs) -> None:
    folder.mkdir()

    def write(part: str, rows: np.ndarray) -> None:
        lines = [", ".join(f"{v:g}" for v in np.atleast_1d(row)) for row in rows]
        (folder / f"toy_{part}.txt").write_text("\n".join(lines) + "\n")

    write("A", np.stack([raw.source, raw.target], 1) + 1)
    write("graph_indicator", np.repeat(np.arange(len(raw)), raw.sizes) + 1)
    write("graph_labels", raw.classes.codes + 1)
    write("node_labels", raw.node_labels.codes)
    write("node_attributes", raw.node_attributes)
    write("edge_labels", raw.edge_labels.codes)
    write("edge_attributes", raw.edge_attributes)


def check(raw: RawGraphs) -> None:
    """Check that the data set is consistent, and that it can be trained on or says why not."""
    ends = np.concatenate([[0], np.cumsum(raw.sizes)])
    assert raw.indptr[0] == 0
    assert raw.indptr[-1] == len(raw.source)
    assert (np.diff(raw.indptr) >= 0).all()
    graph = np.repeat(np.arange(len(raw)), raw.sizes)
    assert (graph[raw.source] == graph[raw.target]).all()
    assert ends[-1] == raw.num_nodes
    try:
        dataset = GraphDataset.from_raw(raw, edges=raw.edge_labels is not None)
    except DiffPoolError:
        return
    assert np.isfinite(dataset.x.numpy()).all()
    dataset.batch([0, len(dataset) - 1])


# --- independent readings


Content = dict[str, Any]  # of a graph: nodes, edges and the tables of its nodes and of itself


def contents(raw: RawGraphs) -> list[Content]:
    """What the slow readings below return, from the graphs that were read."""
    found = []
    for g in range(len(raw)):
        graph = raw[g]
        edges = set(zip(graph.source.tolist(), graph.target.tolist(), strict=True))
        content: Content = {"nodes": int(graph.sizes[0]), "edges": edges}
        if graph.classes is not None:
            content["class"] = graph.classes.words()[0]
        if graph.targets is not None:
            content["target"] = graph.targets[0].tolist()
        if graph.node_labels is not None and graph.num_nodes:
            columns = [graph.node_labels.words(c) for c in range(graph.node_labels.columns)]
            content["labels"] = [list(row) for row in zip(*columns, strict=True)]
        if graph.node_attributes is not None and graph.num_nodes:
            content["attributes"] = graph.node_attributes.tolist()
        found.append(content)
    return found


def slow_jsonl(text: bytes) -> list[Content]:
    """Line by line with `json.loads`. It raises any exception for what it does not understand."""
    found = []
    for line in text.decode("utf-8-sig").split("\n"):
        if not line.strip():
            continue
        graph = json.loads(line)
        labels, attributes = graph.get("node_labels"), graph.get("node_attributes")
        nodes = graph.get("nodes")
        if nodes is None:
            nodes = len(labels if labels is not None else attributes)
        edges = {(i, j) for i, j in graph["edges"]}
        assert all(0 <= i < nodes and 0 <= j < nodes for i, j in edges)
        if not graph.get("directed", False):
            edges |= {(j, i) for i, j in edges}
        content: Content = {"nodes": nodes, "edges": edges}
        if "label" in graph:
            content["class"] = str(graph["label"])
        if "target" in graph:
            target = graph["target"]
            content["target"] = [
                float(t) for t in (target if isinstance(target, list) else [target])
            ]
        if labels:
            assert len(labels) == nodes
            rows = [row if isinstance(row, list) else [row] for row in labels]
            content["labels"] = [[str(label) for label in row] for row in rows]
        if attributes:
            assert len(attributes) == nodes
            content["attributes"] = [[float(v) for v in row] for row in attributes]
        found.append(content)
    return found


def slow_tu(folder: Path) -> list[Content]:
    """The text files of the data set in a folder, with nothing but `split`, `int` and `float`."""

    def rows(part: str) -> list[list[float]] | None:
        (path,) = list(folder.rglob(f"toy_{part}.txt")) or [None]
        if path is None:
            return None
        text = path.read_bytes().removeprefix(b"\xef\xbb\xbf").decode()
        lines = [line.replace(",", " ").split() for line in text.split("\n")]
        kind = float if part.endswith("attributes") else lambda word: int(word.split(".")[0])
        return [[kind(word) for word in line] for line in lines if line]

    indicator = [row[0] for row in rows("graph_indicator") or []]
    classes, targets = rows("graph_labels"), rows("graph_attributes")
    count = max([indicator[-1], len(classes or ()), len(targets or ())])
    found: list[Content] = [{"nodes": indicator.count(g + 1), "edges": set()} for g in range(count)]
    first = [sum(n < g + 1 for n in indicator) for g in range(count)]
    for i, j in rows("A") or ():
        g, h = indicator[int(i) - 1] - 1, indicator[int(j) - 1] - 1
        assert g == h
        found[g]["edges"].add((i - 1 - first[g], j - 1 - first[g]))
    node_labels, attributes = rows("node_labels"), rows("node_attributes")
    for g, content in enumerate(found):
        if classes:
            content["class"] = str(classes[g][0])
        if targets:
            content["target"] = targets[g]
        own = slice(first[g], first[g] + content["nodes"])
        if node_labels and content["nodes"]:
            content["labels"] = [[str(label) for label in row] for row in node_labels[own]]
        if attributes and content["nodes"]:
            content["attributes"] = attributes[own]
    return found


def attempt(read: Callable[[], None], what: str) -> bool:
    """Whether it was read. Any exception other than the project's own is a failure that names the mutation."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read()
    except DiffPoolError:
        return False
    except BaseException as error:
        raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
    return True


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("DIFFPOOL_CACHE", str(folder))
    return folder


@pytest.fixture
def repeats(soak: bool) -> Repeats:
    """The numbers of the mutations, given their default count."""
    return lambda count: range(count * SOAK if soak else count)


def files(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


def test_a_damaged_tu_folder_raises_nothing_but_the_projects_errors(
    tmp_path: Path, repeats: Repeats
) -> None:
    write_tu(tmp_path / "whole", raw_graphs())
    texts = {p.name: p.read_bytes() for p in (tmp_path / "whole").iterdir()}
    check(read_graphs(tmp_path / "whole"))
    rng = random.Random(1)
    folder = tmp_path / "toy"
    folder.mkdir()
    outcomes = set()
    for number in repeats(TU):
        for name, text in texts.items():
            (folder / name).write_bytes(text)
        name = rng.choice(sorted(texts))
        if rng.random() < 0.03:
            (folder / name).unlink()
        else:
            (folder / name).write_bytes(mutate(texts[name], rng))
        before = files(tmp_path)

        def use() -> None:
            raw = read_graphs(folder)
            check(raw)
            assert contents(raw) == slow_tu(folder)

        outcomes.add(attempt(use, f"TU mutation {number} of {name}"))
        assert files(tmp_path) == before
    assert outcomes == {True, False}


def test_a_damaged_zip_file_raises_nothing_but_the_projects_errors(
    tmp_path: Path, repeats: Repeats
) -> None:
    write_tu(tmp_path / "toy", raw_graphs())
    packed = Path(
        shutil.make_archive(str(tmp_path / "whole"), "zip", tmp_path / "toy")
    ).read_bytes()
    known = {file.name for file in (tmp_path / "toy").iterdir()}
    rng = random.Random(2)
    path = tmp_path / "toy.zip"
    outcomes = set()
    for number in repeats(ZIPS):
        path.write_bytes(mutate(packed, rng))
        before = files(tmp_path)

        def use() -> None:
            raw = read_graphs(path)
            check(raw)
            with zipfile.ZipFile(path) as archive, tempfile.TemporaryDirectory() as unpacked:
                for name in set(archive.namelist()) & known:
                    archive.extract(name, unpacked)
                assert contents(raw) == slow_tu(Path(unpacked))

        outcomes.add(attempt(use, f"zip mutation {number}"))
        assert files(tmp_path) == before
    assert outcomes == {True, False}


def test_a_damaged_jsonl_file_raises_nothing_but_the_projects_errors(
    tmp_path: Path, repeats: Repeats
) -> None:
    write_jsonl(tmp_path / "whole.jsonl", raw_graphs())
    text = (tmp_path / "whole.jsonl").read_bytes()
    rng = random.Random(3)
    path = tmp_path / "graphs.jsonl"
    outcomes = set()
    for number in repeats(JSONL):
        path.write_bytes(mutate(text, rng))
        before = files(tmp_path)

        def use() -> None:
            raw = read_graphs(path)
            check(raw)
            assert contents(raw) == slow_jsonl(path.read_bytes())

        outcomes.add(attempt(use, f"JSON lines mutation {number}"))
        assert files(tmp_path) == before
    assert outcomes == {True, False}


@pytest.mark.parametrize("name", ["diffpool", "s2v-diffpool-2", "uniform-assignment", "sortpool"])
def test_a_changed_model_directory_gives_finite_answers_or_the_projects_errors(
    name: str, tmp_path: Path, repeats: Repeats
) -> None:
    """The checksums match the changes, as in a directory from a stranger."""
    raw = raw_graphs()
    dataset = GraphDataset.from_raw(raw.select(np.arange(36) % 6))
    method = settings_for(name, "toy", epochs=1, hidden=4)
    fit(method, dataset, single_split(dataset.y, 0), tmp_path / "whole")
    config, weights = read_config(tmp_path / "whole"), weights_file(tmp_path / "whole").read_bytes()
    text = (tmp_path / "whole" / "config.json").read_bytes()
    directory = tmp_path / "model"
    rng = random.Random(4)
    outcomes = {kind: set() for kind in ("text", "setting", "weights", "tensor")}
    for number in repeats(MODELS):
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(tmp_path / "whole", directory)
        kind = list(outcomes)[number % len(outcomes)]
        if kind == "text":
            (directory / "config.json").write_bytes(with_checksum(mutate(text, rng)))
        elif kind == "setting":
            write_config(directory, json.loads(_change_value(copy.deepcopy(config), rng)))
        elif kind == "weights":
            write_weights(directory, mutate(weights, rng))
        else:
            write_weights(directory, _change_tensor(weights, rng))
        before = files(tmp_path)

        def use() -> None:
            probabilities = load_model(directory).predict_proba(raw)
            assert probabilities.shape[0] == len(raw)
            assert np.isfinite(probabilities).all()

        outcomes[kind].add(attempt(use, f"model mutation {number} ({kind})"))
        assert files(tmp_path) == before
    assert all(False in found for found in outcomes.values())  # refused
    assert True in outcomes["setting"]
    assert True in outcomes["tensor"]


def _change_tensor(weights: bytes, rng: random.Random) -> bytes:
    """Change the type, the shape, a number or the place of one tensor; or change nothing."""
    tensors = load(weights)
    name, other = rng.choice(sorted(tensors)), rng.choice(sorted(tensors))
    tensor = tensors[name]
    kind = rng.randrange(6)
    if kind == 0:
        tensors[name] = tensor.to(rng.choice(DTYPES))
    elif kind == 1:
        tensors[name] = tensor[..., : rng.randrange(3)].contiguous()
    elif kind == 2:
        numbers = (math.nan, math.inf, -math.inf, 3e38, -3e38, 1e30, -1.0, 0.0, 1e-45)
        tensor.view(-1)[rng.randrange(tensor.numel())] = rng.choice(numbers)
    elif kind == 3:
        tensors[name], tensors[other] = tensors[other], tensor
    elif kind == 4:
        del tensors[name]
    return save(tensors)


def test_damaged_molecules_raise_nothing_but_the_projects_errors(
    tmp_path: Path, repeats: Repeats
) -> None:
    chem = pytest.importorskip("rdkit.Chem")
    text = b'id,smiles,active\na,CCO,yes\nb,c1ccccc1,no\nc,"CC(=O)O",yes\nd,C#N,no\n'
    path = tmp_path / "molecules.csv"
    rng = random.Random(5)
    outcomes = set()
    for number in repeats(SMILES):
        path.write_bytes(mutate(text, rng))

        def use() -> None:
            raw = read_graphs(path, label="active")
            check(raw)
            with path.open(encoding="utf-8-sig", newline="") as file:
                rows = list(csv.DictReader(file))
            names = {name.strip(): name for name in rows[0]}
            if "smiles" in names:
                smiles = names["smiles"]
            else:  # the case of the letters does not matter if there is one such column
                (smiles,) = [given for name, given in names.items() if name.lower() == "smiles"]
            molecules = [chem.MolFromSmiles(row[smiles].strip()) for row in rows]
            assert raw.sizes.tolist() == [molecule.GetNumAtoms() for molecule in molecules]
            assert raw.num_edges == 2 * sum(molecule.GetNumBonds() for molecule in molecules)
            assert raw.classes is not None
            assert raw.classes.words() == [row[names["active"]].strip() for row in rows]

        outcomes.add(attempt(use, f"molecules mutation {number}"))
    assert outcomes == {True, False}


ODD = (
    *VALUES,
    float("inf"),
    1e39,
    10**400,
    b"x",
    object(),
    np.nan,
    np.float32(2),
    2.5,
    "\x1b",
    -0.0,
)


def test_odd_networkx_graphs_raise_nothing_but_the_projects_errors(repeats: Repeats) -> None:
    nx = pytest.importorskip("networkx")
    rng = random.Random(6)
    outcomes = set()
    for number in repeats(NETWORKX):
        graphs = []
        for g in range(3):
            kind = rng.choice([nx.Graph, nx.Graph, nx.DiGraph, nx.MultiGraph])
            graph = kind(nx.path_graph(rng.randint(0, 4)), label=g % 2)
            nx.set_node_attributes(graph, 1.5, "x")
            nx.set_node_attributes(graph, "c", "kind")
            nx.set_edge_attributes(graph, 1, "weight")
            graphs.append(graph)
        for _ in range(rng.randint(0, 2)):
            graph, value = rng.choice(graphs), rng.choice(ODD)
            where = [graph.graph, *(d for _, d in graph.nodes(data=True))]
            where += [d for _, _, d in graph.edges(data=True)]
            rng.choice(where)[rng.choice(["x", "kind", "weight", "label", "target", "y", 3])] = (
                value
            )

        def use(graphs: list[Any] = graphs) -> None:
            raw = as_raw(graphs)
            check(raw)
            assert raw.sizes.tolist() == [len(graph) for graph in graphs]
            for g, graph in enumerate(graphs):
                both = graph if graph.is_directed() else graph.to_directed()
                assert contents(raw)[g]["edges"] == set(map(tuple, (e[:2] for e in both.edges)))

        outcomes.add(attempt(use, f"NetworkX mutation {number}"))
    assert outcomes == {True, False}


def test_odd_pyg_graphs_raise_nothing_but_the_projects_errors(repeats: Repeats) -> None:
    rng = random.Random(7)
    eye = torch.eye(3)
    odd = [*ODD, eye.to_sparse(), eye.bool(), eye.to("meta"), eye.to(torch.complex64), eye[:2]]
    odd += [eye.bfloat16(), np.ma.masked_array(np.eye(3), np.eye(3)), np.eye(3, dtype=object)]
    odd += [torch.tensor([[0, 5], [1, 0]]), torch.tensor([[-1], [0]]), [[0, 1], [1, 2]]]
    outcomes = set()
    for number in repeats(PYG):
        edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        base = {"edge_index": edges, "x": eye, "num_nodes": 3, "y": torch.tensor([1])}
        graphs = [SimpleNamespace(**base) for _ in range(2)]
        for _ in range(rng.randint(0, 2)):
            field = rng.choice([*base, "edge_attr", "edge_weight"])
            setattr(rng.choice(graphs), field, rng.choice(odd))

        def use(graphs: list[Any] = graphs) -> None:
            raw = as_raw(graphs)
            check(raw)
            for g, graph in enumerate(graphs):
                nodes = len(graph.x) if graph.x is not None else graph.num_nodes
                index = np.asarray(graph.edge_index).reshape(2, -1)
                assert contents(raw)[g]["nodes"] == nodes
                assert contents(raw)[g]["edges"] == set(map(tuple, index.T.tolist()))

        outcomes.add(attempt(use, f"PyG mutation {number}"))
    assert outcomes == {True, False}


def test_damaged_input_of_a_model_is_predicted_or_refused(tmp_path: Path, repeats: Repeats) -> None:
    raw = raw_graphs()
    dataset = GraphDataset.from_raw(raw.select(np.arange(36) % 6))
    method = settings_for("diffpool", "toy", epochs=1, hidden=4)
    model = fit(method, dataset, single_split(dataset.y, 0)).trained
    write_jsonl(tmp_path / "whole.jsonl", replace(raw, classes=None))
    text = (tmp_path / "whole.jsonl").read_bytes()
    path, out = tmp_path / "new.jsonl", tmp_path / "predictions.csv"
    rng = random.Random(8)
    outcomes = set()
    for number in repeats(PREDICT):
        path.write_bytes(mutate(text, rng))
        out.unlink(missing_ok=True)
        before = files(tmp_path)

        def use() -> None:
            write_predictions(model, iter_graphs(path, 2), out)
            with out.open(newline="") as file:
                rows = list(csv.DictReader(file))
            assert len(rows) == len(slow_jsonl(path.read_bytes()))
            for row in rows:
                values = [float(row["p_1"]), float(row["p_2"])]
                assert abs(sum(values) - 1) < 1e-5
                assert float(row[f"p_{row['prediction']}"]) == max(values)

        accepted = attempt(use, f"prediction mutation {number}")
        assert files(tmp_path) == before | ({out} if accepted else set())
        outcomes.add(accepted)
    assert outcomes == {True, False}


def _change_value(config: dict, rng: random.Random) -> bytes:
    """Replace one value of the settings by a value of any type."""
    holder = config
    while True:
        key = rng.choice(sorted(holder))
        inner = holder[key][0] if key == "parts" and holder[key] else holder[key]
        if isinstance(inner, dict) and rng.random() < 0.8:
            holder = inner
            continue
        known = KNOWN.get(key) if holder is config["parts"][0]["architecture"] else None
        valid = known is not None and rng.random() < 0.8
        holder[key] = _valid_value(known, rng) if valid else rng.choice(VALUES)
        return json.dumps(config).encode()


def _valid_value(setting: Setting, rng: random.Random) -> Any:
    """A value in the range of a setting, which need not fit the parameters."""
    if tuple[str, ...] in setting.kinds:
        return [rng.choice(setting.choices) for _ in range(rng.randrange(4))]
    values: list[Any] = [*setting.choices]
    values += [1, 2, 3, 10, 1000] if int in setting.kinds else []
    values += [[2], [3, 2]] if tuple[int, ...] in setting.kinds else []
    values += [True, False] if bool in setting.kinds else []
    values += [0.1, 0.5, 1] if float in setting.kinds else []
    return rng.choice([*values, None] if setting.optional else values)
