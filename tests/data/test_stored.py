"""Data sets on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stored_graphs import lines, written

import diffpool.data.stored
from diffpool.data import Categories, RawGraphs, as_raw, iter_graphs, read_graphs
from diffpool.data.stored import check_stored, read_stored, store_graphs
from diffpool.errors import DataError, SettingError


def assert_same(a: RawGraphs, b: RawGraphs) -> None:
    for name in vars(a).keys() - {"digest", "columns", "name"}:
        x, y = getattr(a, name), getattr(b, name)
        if isinstance(x, Categories):
            assert (x.names, x.type) == (y.names, y.type), name
            x, y = x.codes, y.codes
        if isinstance(x, np.ndarray):
            assert x.dtype == y.dtype, name
            np.testing.assert_array_equal(x, y, name)
        else:
            assert x == y, name
    assert {k: list(v) for k, v in a.columns.items()} == {k: list(v) for k, v in b.columns.items()}


def test_a_stored_data_set_is_what_a_reader_of_the_whole_file_gives(tmp_path: Path) -> None:
    file = written(tmp_path / "g.jsonl", lines())
    counted: list[int] = []
    assert store_graphs(tmp_path / "set", iter_graphs(file, 7), advance=counted.append) == 40
    assert counted == [7, 7, 7, 7, 7, 5]
    stored, whole = read_graphs(tmp_path / "set"), read_graphs(file)
    assert_same(stored, whole)
    assert_same(stored.select([30, 3, 0, 7]), whole.select([30, 3, 0, 7]))
    assert_same(stored[5:9], whole[5:9])
    assert stored.columns["source"][-1] == whole.columns["source"][-1]
    assert stored.columns["id"][2:4] == ["g2", "g3"]
    for part, expected in zip(
        iter_graphs(tmp_path / "set", 16), iter_graphs(file, 16), strict=True
    ):
        assert part.columns == expected.columns
        assert part.digest == ""


def test_targets_and_graphs_without_edges_are_stored(tmp_path: Path) -> None:
    graphs = [
        {"nodes": 2, "edges": [], "target": [g, 0.5], "edge_labels": [], "edge_attributes": []}
        for g in range(3)
    ]
    file = written(tmp_path / "g.jsonl", graphs)
    store_graphs(tmp_path / "set", iter_graphs(file, 2))
    stored, whole = read_graphs(tmp_path / "set"), read_graphs(file)
    assert_same(stored, whole)
    np.testing.assert_array_equal(stored.targets, [[0, 0.5], [1, 0.5], [2, 0.5]])


def test_names_keep_the_order_that_all_parts_share(tmp_path: Path) -> None:
    nx = pytest.importorskip("networkx")
    graphs = [nx.path_graph(n) for n in (3, 4, 5, 6)]
    for graph in graphs:
        nx.set_node_attributes(graph, {v: float(v) for v in graph}, "height")
    raw = as_raw(graphs, ["b", "a", "b", "a"])
    store_graphs(tmp_path / "set", raw.parts(3))
    assert_same(read_stored(tmp_path / "set"), raw)
    assert raw.names is not None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: (d / "source.bin").write_bytes(b"12"), "source.bin has 2 bytes instead of"),
        (lambda d: (d / "sizes.bin").unlink(), r"damaged \(sizes.bin: No such file"),
        (lambda d: (d / "columns.jsonl").write_bytes(b""), "columns.jsonl has 0 bytes instead of"),
        (lambda d: edited(d, '"directed": true', '"directed": false'), "checksum of graphs.json"),
        (
            lambda d: edited(d, '"version": 1', '"version": 2'),
            "expected version 1 of the format, got 2",
        ),
        (lambda d: edited(d, "diffpool graphs", "other"), "expected a data set written by"),
        (lambda d: (d / "graphs.json").write_text("{"), "graphs.json is not JSON"),
    ],
)
def test_a_damaged_folder_is_an_error_that_says_what_to_do(
    tmp_path: Path, change: Callable[[Path], Any], message: str
) -> None:
    store_graphs(tmp_path / "set", iter_graphs(written(tmp_path / "g.jsonl", lines(9)), 4))
    change(tmp_path / "set")
    with pytest.raises(DataError, match=message):
        read_stored(tmp_path / "set")


def edited(folder: Path, old: str, new: str) -> None:
    text = (folder / "graphs.json").read_text()
    assert old in text
    (folder / "graphs.json").write_text(text.replace(old, new))


def test_changed_values_are_found_by_their_digest(tmp_path: Path) -> None:
    store_graphs(tmp_path / "set", iter_graphs(written(tmp_path / "g.jsonl", lines(9)), 4))
    check_stored(tmp_path / "set")
    file = tmp_path / "set" / "source.bin"
    file.write_bytes(b"\1" + file.read_bytes()[1:])
    with pytest.raises(DataError, match=r"source.bin has changed since it was written\). Convert"):
        check_stored(tmp_path / "set")
    file.unlink()
    with pytest.raises(DataError, match=r"source.bin: No such file"):
        check_stored(tmp_path / "set")


def failing(error: BaseException) -> Iterator[RawGraphs]:
    yield RawGraphs.from_edges("g", [2], [0], [1])
    raise error


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_an_interrupted_conversion_leaves_nothing_and_keeps_the_old_data_set(
    tmp_path: Path, error: BaseException
) -> None:
    kind = DataError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(kind):
        store_graphs(tmp_path / "set", failing(error))
    assert list(tmp_path.iterdir()) == []
    store_graphs(tmp_path / "set", [RawGraphs.from_edges("old", [2], [0], [1])])
    with pytest.raises(kind):
        store_graphs(tmp_path / "set", failing(error), overwrite=True)
    assert [p.name for p in tmp_path.iterdir()] == ["set"]
    assert read_stored(tmp_path / "set").name == "old"


def test_what_a_killed_conversion_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    (tmp_path / ".set.1-abc.part").mkdir()
    (tmp_path / ".set.1-abc.part" / "sizes.bin").write_bytes(b"1")
    store_graphs(tmp_path / "set", [RawGraphs.from_edges("g", [2], [0], [1])])
    assert [p.name for p in tmp_path.iterdir()] == ["set"]


def test_an_existing_folder_is_replaced_only_on_request_and_only_if_it_is_a_data_set(
    tmp_path: Path,
) -> None:
    raw = RawGraphs.from_edges("g", [2], [0], [1])
    store_graphs(tmp_path / "set", [raw])
    with pytest.raises(SettingError, match=r"exists already. Choose another folder, or overwrite"):
        store_graphs(tmp_path / "set", [raw])
    assert store_graphs(tmp_path / "set", [raw, raw], overwrite=True) == 2
    assert len(read_stored(tmp_path / "set")) == 2
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    with pytest.raises(SettingError, match=r"exists already. Choose another folder\."):
        store_graphs(tmp_path / "mine", [raw], overwrite=True)


def test_two_conversions_to_one_folder_do_not_mix(tmp_path: Path) -> None:
    def parts() -> Iterator[RawGraphs]:
        yield RawGraphs.from_edges("g", [2], [0], [1])
        with pytest.raises(SettingError, match="another process is writing this data set"):
            store_graphs(tmp_path / "set", failing(ValueError()))

    assert store_graphs(tmp_path / "set", parts()) == 1


def test_parts_that_do_not_fit_together_are_an_error(tmp_path: Path) -> None:
    def raw(**tables: Any) -> RawGraphs:
        return RawGraphs.from_edges("g", [1, 1], [], [], **tables)

    def kinds(*values: Any) -> Categories:
        return Categories.from_values(np.array(values))

    cases = [
        ([raw(targets=np.ones((2, 1))), raw()], "graphs 2 to 3 lack it"),
        ([raw(), raw(targets=np.ones((2, 1)))], "graphs 2 to 3 have it"),
        ([raw(targets=np.ones((2, 1))), raw(targets=np.ones((2, 2)))], "got 1 and 2"),
        ([raw(classes=kinds(1, 2)), raw(classes=kinds("a", "b"))], "got int and str"),
        ([], "expected at least one graph, got none"),
    ]
    for parts, message in cases:
        with pytest.raises(DataError, match=message):
            store_graphs(tmp_path / "set", parts)
        assert list(tmp_path.iterdir()) == []


def test_large_arrays_are_changed_in_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diffpool.data.stored, "BLOCK", 5)
    file = written(tmp_path / "g.jsonl", lines(12))
    store_graphs(tmp_path / "set", iter_graphs(file, 3))
    assert_same(read_graphs(tmp_path / "set"), read_graphs(file))
    check_stored(tmp_path / "set")
