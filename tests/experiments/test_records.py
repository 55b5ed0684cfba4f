"""The results file has complete lines only, even if the processes that write it are killed."""

from __future__ import annotations

import json
import multiprocessing
import os
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from diffpool.errors import DataError, SettingError
from diffpool.experiments.records import Record, append_records, read_records

RECORD = Record(
    key="k",
    method="diffpool",
    dataset="ENZYMES",
    features="labels",
    protocol="tenfold",
    fold=0,
    repeat=0,
    seed=1,
    settings={"architecture": {"hidden": 8, "order": ["l2"]}, "training": {"epochs": 3}},
    accuracy=100 / 3,
    epoch=2,
    parameters=10,
    seconds=0.1,
    graphs_per_second=10.0,
    peak_memory=None,
    commit=None,
    device="abacus",
    versions={"torch": "2"},
    details={"runs": [{"accuracy": 0.1 + 0.2}]},
)


def fold(number: int, key: str = "k") -> Record:
    return replace(RECORD, fold=number, key=key)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.jsonl"


def test_records_are_read_as_they_were_written(path: Path) -> None:
    assert read_records(path) == []
    append_records(path, [fold(0), fold(1)])
    append_records(path, [fold(2)])
    assert read_records(path) == [fold(0), fold(1), fold(2)]
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        asdict(fold(n)) for n in range(3)
    ]


def test_a_fold_is_recorded_once(path: Path) -> None:
    append_records(path, [fold(0)])
    append_records(path, [replace(fold(0), seconds=9.0), fold(1), fold(0, key="other")])
    assert read_records(path) == [fold(0), fold(1), fold(0, key="other")]


def test_a_line_cut_at_any_byte_is_skipped_and_removed_by_the_next_writer(path: Path) -> None:
    line = json.dumps(asdict(fold(1))).encode() + b"\n"
    append_records(path, [fold(0)])
    whole = path.read_bytes()
    for cut in range(1, len(line) - 1):
        path.write_bytes(whole + line[:cut])
        assert read_records(path) == [fold(0)]
        if cut % 50 == 0 or cut > len(line) - 4:
            append_records(path, [fold(2)])
            assert read_records(path) == [fold(0), fold(2)]


def test_a_line_that_only_lacks_its_newline_is_kept(path: Path) -> None:
    append_records(path, [fold(0)])
    path.write_bytes(path.read_bytes()[:-1])
    assert read_records(path) == [fold(0)]
    append_records(path, [fold(0), fold(1)])
    assert read_records(path) == [fold(0), fold(1)]
    assert path.read_bytes().count(b"\n") == 2


def test_a_file_with_other_content_is_not_changed(path: Path) -> None:
    for text in ("# a title\n", "# a title", '{"epoch": 1}\n', "[1]\n", "\x00\x00\n"):
        path.write_text(text)
        with pytest.raises(DataError, match=r"results\.jsonl, line 1: expected a record"):
            read_records(path)
        with pytest.raises(DataError, match="expected a record"):
            append_records(path, [fold(0)])
        assert path.read_text() == text


def test_a_path_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="cannot append results to"):
        append_records(tmp_path, [])
    with pytest.raises(SettingError, match="cannot read results from"):
        read_records(tmp_path)


def test_a_failed_write_does_not_change_the_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append_records(path, [fold(0)])
    whole, write = path.read_bytes(), os.write
    monkeypatch.setattr(os, "write", lambda file, content: write(file, content[:20]))
    with pytest.raises(SettingError, match="the disk is full"):
        append_records(path, [fold(1)])
    assert path.read_bytes() == whole


def test_without_locks_records_are_written_too(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diffpool.files.fcntl", None)
    append_records(path, [fold(0)])
    assert read_records(path) == [fold(0)]


def _write_many(path: Path, key: str, count: int) -> None:
    for number in range(count):
        append_records(path, [replace(fold(number, key), device="x" * (number * 97 % 5000))])


def test_two_processes_that_write_to_one_file_do_not_damage_it(path: Path) -> None:
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_write_many, args=(path, key, 60)) for key in ("a", "b")]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    found = read_records(path)
    for key in ("a", "b"):
        assert [r.fold for r in found if r.key == key] == list(range(60))
    assert len(found) == 120


@pytest.mark.parametrize("device", ["/dev/null", "/dev/full", "/dev/zero"])
def test_a_device_is_not_a_results_file(device: str) -> None:
    with pytest.raises(SettingError, match=f"{device} .it is a device or pipe, not a file"):
        append_records(device, [])
    with pytest.raises(SettingError, match=f"{device} .it is a device or pipe, not a file"):
        read_records(device)
