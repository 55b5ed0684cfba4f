"""The cache returns what was stored, and no damage to it is an error."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from diffpool.checksums import save_arrays
from diffpool.data.cache import cache_dir, cached
from diffpool.data.categories import Categories
from diffpool.data.raw import RawGraphs
from diffpool.errors import DataError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the cache during a test."""
    monkeypatch.setenv("DIFFPOOL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def graphs(
    seed: int = 0, sizes: tuple[int, ...] = (3, 0, 300, 1), tables: bool = True
) -> RawGraphs:
    rng = np.random.default_rng(seed)
    starts, edges = np.cumsum([0, *sizes]), 200 * (sum(sizes) > 0)
    graph = (
        rng.choice(len(sizes), edges, p=np.array(sizes) / sum(sizes)) if edges else np.zeros(0, int)
    )
    source, target = (starts[graph] + rng.integers(0, np.array(sizes)[graph]) for _ in range(2))
    nodes = sum(sizes)
    more = {
        "edge_weights": rng.random(edges),
        "edge_labels": Categories.from_values(rng.integers(-2, 2, (edges, 1))),
        "edge_attributes": rng.integers(0, 9, (edges, 2)) / 4,  # exact in single precision
        "node_labels": Categories.from_values(rng.choice(["C", "N", "é"], (nodes, 2))),
        "node_attributes": rng.standard_normal((nodes, 3)),
        "classes": Categories.from_values(rng.integers(0, 300, len(sizes))),
        "targets": np.full((len(sizes), 1), 1e-300),
    }
    return RawGraphs.from_edges("TOY", sizes, source, target, **(more if tables else {}))


def assert_same(a: RawGraphs, b: RawGraphs) -> None:
    for field in fields(RawGraphs):
        left, right = getattr(a, field.name), getattr(b, field.name)
        if isinstance(left, Categories):
            assert isinstance(right, Categories)
            assert (left.names, left.type) == (right.names, right.type)
            left, right = left.codes, right.codes
        if isinstance(left, np.ndarray):
            assert type(right) is np.ndarray
            assert left.dtype == right.dtype
            assert left.shape == right.shape
            assert left.tobytes() == right.tobytes()
        else:
            assert left == right


class Reader:
    """Counts its calls."""

    def __init__(self, raw: RawGraphs) -> None:
        self.raw, self.times = raw, 0

    def __call__(self) -> RawGraphs:
        self.times += 1
        return self.raw


@pytest.fixture
def reader() -> Reader:
    return Reader(graphs())


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "TOY.zip"
    path.write_bytes(b"content")
    return path


def stored(folder: Path) -> Path:
    (file,) = (folder / "graphs").iterdir()
    return file


SIZES = {
    "graphs of all sizes": (3, 0, 300, 1),
    "small graphs": (3, 2),
    "large graphs": (70_000, 3),
    "no edges": (0, 0),
}


@pytest.mark.parametrize("tables", [True, False])
@pytest.mark.parametrize("case", SIZES)
def test_the_cache_returns_what_was_stored(source: Path, case: str, tables: bool) -> None:
    reader = Reader(graphs(sizes=SIZES[case], tables=tables))
    first, second = cached(source, "TOY", reader), cached(source, "TOY", reader)
    assert reader.times == 1
    assert first is reader.raw
    assert_same(second, first)


def test_an_undirected_graph_stays_undirected(source: Path) -> None:
    reader = Reader(RawGraphs.from_edges("TOY", [2], np.array([0, 1]), np.array([1, 0])))
    for _ in range(2):
        assert not cached(source, "TOY", reader).directed
    assert Reader(graphs()).raw.directed


def test_the_sources_of_small_graphs_take_one_byte(source: Path, folder: Path) -> None:
    raw = graphs(sizes=(200,) * 50, tables=False)
    cached(source, "TOY", Reader(raw))
    assert stored(folder).stat().st_size < raw.num_edges + raw.num_nodes + len(raw) + 1000


def test_other_content_or_another_name_is_read_again(source: Path, reader: Reader) -> None:
    cached(source, "TOY", reader)
    cached(source, "OTHER", reader)
    assert reader.times == 2
    source.write_bytes(b"changed")
    cached(source, "TOY", reader)
    assert reader.times == 3


def test_a_file_may_be_moved_and_touched(source: Path, reader: Reader, tmp_path: Path) -> None:
    cached(source, "TOY", reader)
    moved = source.rename(tmp_path / "moved.zip")
    os.utime(moved, (1, 1))
    cached(moved, "TOY", reader)
    assert reader.times == 1


def test_a_folder_is_identified_by_the_names_and_contents_of_its_text_files(
    tmp_path: Path, reader: Reader
) -> None:
    data = tmp_path / "TOY"
    data.mkdir()
    for part, text in (("A", "1 1\n"), ("graph_indicator", "1\n"), ("node_labels", "5\n")):
        (data / f"TOY_{part}.txt").write_text(text)
    (data / "notes.txt").write_text("of no importance")
    cached(data, "TOY", reader)
    (data / "notes.txt").write_text("changed")
    cached(data, "TOY", reader)
    assert reader.times == 1
    (data / "TOY_node_labels.txt").rename(data / "TOY_edge_labels.txt")
    cached(data, "TOY", reader)
    assert reader.times == 2
    cached(list(data.iterdir()), "TOY", reader)
    assert reader.times == 3


def test_refresh_reads_and_replaces(source: Path, reader: Reader, folder: Path) -> None:
    cached(source, "TOY", reader)
    before = stored(folder).stat().st_mtime_ns
    assert cached(source, "TOY", Reader(reader.raw), refresh=True) is reader.raw
    assert stored(folder).stat().st_mtime_ns > before


def _truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def _flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-100] ^= 1
    file.write_bytes(content)


def _foreign(file: Path) -> None:
    save_file({"sizes": np.zeros(2)}, file)


def _rename(file: Path) -> None:
    content = file.read_bytes()
    assert b"TOY" in content
    file.write_bytes(content.replace(b"TOY", b"TOI"))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "empty": lambda file: file.write_bytes(b""),
    "truncated": _truncate,
    "one bit of the arrays": _flip,
    "something else": lambda file: file.write_text("hello"),
    "another program": _foreign,
    "the metadata": _rename,
    "a folder": lambda file: (file.unlink(), file.mkdir()),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_entry_is_read_again_and_replaced(
    source: Path, folder: Path, reader: Reader, case: str
) -> None:
    cached(source, "TOY", reader)
    DAMAGE[case](stored(folder))
    with pytest.warns(UserWarning, match="graphs/.*: reading the data set again"):
        assert_same(cached(source, "TOY", reader), reader.raw)
    assert reader.times == 2
    if case != "a folder":  # which cannot be replaced
        assert_same(cached(source, "TOY", reader), reader.raw)
        assert reader.times == 2
    assert [file.suffix for file in (folder / "graphs").iterdir()] == [".safetensors"]


@settings(max_examples=60)
@given(position=st.floats(0, 0.999), bit=st.integers(0, 7))
def test_any_flipped_bit_is_detected(
    tmp_path_factory: pytest.TempPathFactory, position: float, bit: int
) -> None:
    tmp_path = tmp_path_factory.mktemp("flip")
    path, reader = tmp_path / "TOY.zip", Reader(graphs(sizes=(3, 2)))
    path.write_bytes(b"content")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DIFFPOOL_CACHE", str(tmp_path / "cache"))
        cached(path, "TOY", reader)
        file = stored(tmp_path / "cache")
        content = bytearray(file.read_bytes())
        content[int(position * len(content))] ^= 1 << bit
        file.write_bytes(content)
        with pytest.warns(UserWarning, match="is damaged .its checksum does not match."):
            assert_same(cached(path, "TOY", reader), reader.raw)
        assert reader.times == 2


def test_an_entry_with_other_content_is_read_again(
    source: Path, folder: Path, reader: Reader
) -> None:
    cached(source, "TOY", reader)
    save_arrays(stored(folder), {"sizes": np.zeros(2)}, {"name": "TOY"})
    with pytest.warns(UserWarning, match="written by another version of diffpool"):
        assert_same(cached(source, "TOY", reader), reader.raw)


def test_a_cache_that_cannot_be_written_is_not_used(
    source: Path, folder: Path, reader: Reader
) -> None:
    folder.write_text("a file where the folder should be")
    for _ in range(2):
        assert cached(source, "TOY", reader) is reader.raw
    assert reader.times == 2


def test_a_full_disk_leaves_nothing_behind(
    source: Path, folder: Path, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(file: Path, content: bytes) -> None:
        with file.open("wb") as half:
            half.write(content[: len(content) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fail)
    assert cached(source, "TOY", reader) is reader.raw
    assert list((folder / "graphs").iterdir()) == []


def test_nothing_is_written_if_reading_fails(source: Path, folder: Path) -> None:
    def fail() -> RawGraphs:
        raise DataError("expected graphs, got none")

    with pytest.raises(DataError, match="expected graphs, got none"):
        cached(source, "TOY", fail)
    assert not folder.exists()


def test_a_file_that_changes_while_it_is_read_is_not_kept(
    source: Path, folder: Path, reader: Reader
) -> None:
    def read() -> RawGraphs:
        source.write_bytes(b"another version")
        return reader()

    cached(source, "TOY", read)
    assert not folder.exists()


def test_a_missing_file_is_reported_by_the_reader(tmp_path: Path) -> None:
    def fail() -> RawGraphs:
        raise DataError("expected a file, got none")

    with pytest.raises(DataError, match="expected a file, got none"):
        cached(tmp_path / "nowhere.zip", "TOY", fail)


def _read_and_refresh(source: Path) -> None:
    for i in range(20):
        assert cached(source, "TOY", Reader(graphs()), refresh=i % 2 == 1).num_nodes == 304


def test_processes_can_write_at_the_same_time(source: Path, folder: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    running = [spawn.Process(target=_read_and_refresh, args=(source,)) for _ in range(2)]
    for process in running:
        process.start()
    for process in running:
        process.join()
        assert process.exitcode == 0
    assert stored(folder).suffix == ".safetensors"


def test_the_folder_of_the_cache_comes_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_dir() == tmp_path / "cache"
    monkeypatch.setenv("DIFFPOOL_CACHE", "")
    assert cache_dir() == tmp_path / "xdg" / "diffpool"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_dir() == tmp_path / "home" / ".cache" / "diffpool"


def test_without_a_home_folder_the_error_says_what_to_set_and_reading_works(
    monkeypatch: pytest.MonkeyPatch, source: Path, reader: Reader
) -> None:
    def fail() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("DIFFPOOL_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", fail)
    with pytest.raises(
        DataError, match=r"the cache needs a home directory, but there is none. Set DIFFPOOL_CACHE"
    ):
        cache_dir()
    assert cached(source, "TOY", reader) is reader.raw
