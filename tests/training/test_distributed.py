"""Two processes train the model that one process trains with the same batches."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from diffpool.errors import SettingError
from diffpool.training import CohortBatches, Processes
from diffpool.training.distributed import PartOfBatch, divided, work
from tests.training.shared_training import CASES, SMALL, curves, data

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of two processes found."""
    folder = tmp_path_factory.mktemp("shared")
    out = folder / "found"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    environment |= {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    script = [sys.executable, "-m", "tests.training.shared_training"]
    runs = [
        subprocess.Popen(
            [*script, str(rank), str(folder / "store"), str(out)],
            env={**environment, "RANK": str(rank)},
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        for run in runs:
            errors = run.communicate(timeout=120)[1]
            assert run.returncode == 0, errors
    finally:
        for run in runs:
            run.kill()
    files = sorted(path.suffix for path in (folder / "model").iterdir())
    found = [json.loads(out.with_suffix(f".{rank}").read_text()) for rank in range(2)]
    return [{**own, "files": files} for own in found]


def test_the_command_writes_one_model_and_the_first_process_reports_it(found):
    (shown, errors), others = found[0]["shown"], found[1]["shown"]
    assert "2 processes, each with a part of every batch" in shown
    assert "best epoch" in shown
    assert "written to" in shown
    assert errors == ""
    assert others == ["", ""]
    expected = [".json", ".json", ".jsonl", ".md", ".png", ".safetensors"]
    assert [suffix for suffix in found[0]["files"] if suffix] == expected


@pytest.mark.parametrize("case", [case for case in CASES if case not in ("shard", "float32")])
def test_two_processes_have_the_curves_of_one(case, found):
    """Also with dropout and Gumbel noise, batches with fewer graphs than processes, and several models."""
    np.testing.assert_allclose(found[0][case], curves(case), rtol=1e-9)


def test_in_float32_the_training_loss_is_that_of_one_process_to_1e_5_after_50_steps(found):
    alone = np.array(curves("float32"))
    together = np.array(found[0]["float32"])
    np.testing.assert_allclose(together[..., 0], alone[..., 0], rtol=1e-5)
    # running statistics in evaluation contain biases that have no other effect and drift by rounding
    np.testing.assert_allclose(together[..., 1], alone[..., 1], rtol=1e-2)


def test_all_processes_get_the_same_numbers(found):
    assert all(found[0][case] == found[1][case] for case in CASES)


def test_statistics_of_shards_give_another_model(found):
    ours, alone = np.array(found[0]["shard"]), np.array(curves("shard"))
    assert np.isfinite(ours).all()
    assert (ours != alone).all()


def test_the_callbacks_of_the_first_process_stop_all(found):
    assert found[0]["epochs"] == found[1]["epochs"] == [2, 3]


def test_a_batch_smaller_than_the_number_of_processes_is_refused(found):
    expected = (
        "expected a batch of at least 2 graphs, one for each process, got 1: use a larger batch size or fewer "
        "processes"
    )
    assert found[0]["small batch"] == found[1]["small batch"] == expected


def test_processes_with_different_folds_are_refused(found):
    assert found[1]["other fold"].startswith(
        "expected the same data set and folds in every process"
    )


def test_the_error_after_the_end_of_another_process_says_so(found):
    assert found[0]["lost"].startswith("another process of this training run has stopped")


def test_without_a_process_group_there_are_no_processes():
    with pytest.raises(
        SettingError, match="there is no process group: start the program with torchrun"
    ):
        Processes.current()


@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_a_batch_is_divided_into_parts_that_are_not_empty(size):
    rng = np.random.default_rng(0)
    cost = (1 + 1000 * rng.random(50) ** 4).astype(np.int64)
    chosen = rng.permutation(50)[:20]
    parts = divided(chosen, cost, size)
    assert sorted(np.concatenate(parts).tolist()) == list(range(20))
    assert all(len(part) and (np.diff(part) > 0).all() for part in parts)


def test_parts_have_similar_work_rather_than_similar_counts():
    cost = np.array([9, 1, 1, 5, 1, 1])
    parts = divided(np.arange(6), cost, 2)
    assert [part.tolist() for part in parts] == [[0], [1, 2, 3, 4, 5]]


def test_with_fewer_graphs_than_processes_some_parts_are_empty():
    assert [len(part) for part in divided(np.array([4, 2]), np.ones(5, int), 3)] == [1, 1, 0]


def test_the_work_of_a_graph_is_its_nodes_and_directed_edges():
    dataset, _ = data()
    for graph, cost in enumerate(work(dataset)[:5]):
        alone = dataset.graphs.select([graph])[0]
        assert cost == alone.num_nodes + alone.num_edges


def test_rows_of_a_part_are_numbered_as_in_the_whole_batch():
    dataset, _ = data()
    from diffpool.architecture import cluster_counts

    batches = CohortBatches(dataset, cluster_counts(SMALL, dataset.largest))
    whole = batches.divided([np.arange(10)], [10], 10)[0]  # [1, 10]
    parts = [
        PartOfBatch(batches, whole, part[None]) for part in divided(whole[0], batches.sizes, 2)
    ]
    for level in (0, 1):
        rows = np.concatenate([part.of_nodes(level)[0] for part in parts])
        assert sorted(rows) == list(range(batches.level_sizes[level][whole].sum()))
    x = batches.batch(whole).x
    for part in parts:
        assert torch.equal(batches.batch(part.graphs).x, x[part.of_nodes(0)[0]])
