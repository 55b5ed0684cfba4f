"""Damaged input: a mutated file gives a valid data set or model, or one of the project's errors.

No other exception, no hang, no file left behind. The mutations come from a seed, so a failure can be reproduced.
`--soak` runs ten times as many.
"""

from __future__ import annotations

import copy
import json
import math
import random
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from model_files import read_config, weights_file, with_checksum, write_config, write_weights
from safetensors.torch import load, save

from diffpool.architecture import Architecture
from diffpool.data import Categories, GraphDataset, RawGraphs, read_graphs, single_split
from diffpool.data.jsonl import write_jsonl
from diffpool.errors import DiffPoolError
from diffpool.experiments import fit, settings_for
from diffpool.settings import Setting, list_settings
from diffpool.training import load_model

Repeats = Callable[[int], range]

# The number of mutations of each kind of input.
TU, ZIPS, JSONL, MODELS = 150, 100, 200, 100
SOAK = 10  # times as many with --soak
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
        outcomes.add(attempt(lambda: check(read_graphs(folder)), f"TU mutation {number} of {name}"))
        assert files(tmp_path) == before
    assert outcomes == {True, False}


def test_a_damaged_zip_file_raises_nothing_but_the_projects_errors(
    tmp_path: Path, repeats: Repeats
) -> None:
    write_tu(tmp_path / "toy", raw_graphs())
    packed = Path(
        shutil.make_archive(str(tmp_path / "whole"), "zip", tmp_path / "toy")
    ).read_bytes()
    rng = random.Random(2)
    path = tmp_path / "toy.zip"
    for number in repeats(ZIPS):
        path.write_bytes(mutate(packed, rng))
        before = files(tmp_path)
        attempt(lambda: check(read_graphs(path)), f"zip mutation {number}")
        assert files(tmp_path) == before


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
        outcomes.add(attempt(lambda: check(read_graphs(path)), f"JSON lines mutation {number}"))
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
        kind = rng.choice(list(outcomes))
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


def _change_value(config: dict, rng: random.Random) -> bytes:
    """Replace one value of the settings by a value of any type."""
    holder = config
    while True:
        key = rng.choice(sorted(holder))
        if isinstance(holder[key], dict) and rng.random() < 0.8:
            holder = holder[key]
            continue
        known = KNOWN.get(key) if holder is config["architecture"] else None
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
