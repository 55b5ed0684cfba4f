"""The executor for Ray: clear errors, and a cluster of three nodes of which one is killed."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import complaint

from diffpool.data import GraphDataset, embedded
from diffpool.errors import SettingError
from diffpool.experiments import Status, evaluate, settings_for
from diffpool.experiments import ray_cluster as module
from diffpool.experiments.ray_cluster import RayCluster, parse_cluster


@pytest.mark.parametrize(
    ("text", "address"),
    [("ray", None), ("ray://auto", "auto"), ("ray://10.0.0.1:6379", "10.0.0.1:6379")],
)
def test_the_address_of_a_cluster_is_a_url(text: str, address: str | None) -> None:
    assert parse_cluster(text) == address


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rya", r"to be ray or ray://ADDRESS, got 'rya'\. Did you mean ray\?"),
        ("http://host:80", "to be ray or ray://ADDRESS"),
        ("ray://", "such as ray://10.0.0.1:6379 or ray://auto, got 'ray://'"),
        ("ray://host", "such as ray://10.0.0.1:6379 or ray://auto, got 'ray://host'"),
        ("ray://host:99999", "such as ray://10.0.0.1:6379"),
        ("ray://host:10001", "10001 is the port of the Ray Client"),
    ],
)
def test_other_addresses_are_an_error(text: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        parse_cluster(text)


def test_without_ray_the_message_names_the_extra(
    capsys: Any, monkeypatch: Any, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.chdir(tmp_path)
    line = complaint(capsys, monkeypatch, "evaluate", "embedded", "--cluster", "ray")
    assert "run `pip install 'diffpool[ray]'`, or use --devices" in line


def test_an_address_without_a_cluster_is_reported_at_once(
    capsys: Any, monkeypatch: Any, tmp_path: Path
) -> None:
    pytest.importorskip("ray")
    monkeypatch.chdir(tmp_path)
    with socket.socket() as reserved:  # bound, but nobody listens
        reserved.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{reserved.getsockname()[1]}"
        words = ("evaluate", "embedded", "--cluster", f"ray://{address}")
        line = complaint(capsys, monkeypatch, *words)
    assert f"no Ray cluster answers at {address} (Connection refused): start one" in line


def test_another_program_at_the_address_is_reported_in_time(monkeypatch: Any) -> None:
    pytest.importorskip("ray")
    monkeypatch.setattr(module, "CONNECT_SECONDS", 0.1)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(SettingError, match=f"no Ray cluster answers at {address} .another pr"):
            RayCluster(address)


def test_a_device_that_no_cluster_has_is_an_error() -> None:
    with pytest.raises(SettingError, match="to be auto, cpu or cuda with --cluster, got 'tpu'"):
        RayCluster(device="tpu")


def test_gpus_are_preferred_and_a_missing_type_is_an_error() -> None:
    assert module._device_type({"CPU": 8.0, "GPU": 2.0}, "auto") == "cuda"
    assert module._device_type({"CPU": 8.0, "GPU": 2.0}, "cpu") == "cpu"
    assert module._device_type({"CPU": 8.0}, "auto") == "cpu"
    with pytest.raises(SettingError, match="expected the Ray cluster to have GPUs, got none"):
        module._device_type({"CPU": 8.0}, "cuda")


SMALL = {"num_cpus": 1, "object_store_memory": 100_000_000}  # a node


@pytest.fixture(scope="module")
def cluster(soak: bool) -> Iterator[Any]:
    """Three nodes with one CPU each; the first one cannot be killed."""
    if not soak:
        pytest.skip("takes half a minute: only in make soak")
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    quick = {"health_check_period_ms": 500, "health_check_failure_threshold": 3}
    nodes = Cluster(
        initialize_head=True,
        head_node_args={**SMALL, "_system_config": quick, "include_dashboard": False},
    )
    ray.init(nodes.address, log_to_driver=False, logging_level="ERROR")
    try:
        for _ in range(2):
            nodes.add_node(wait=False, **SMALL)
        nodes.wait_for_nodes()
        yield nodes
    finally:
        ray.shutdown()
        nodes.shutdown()


def test_the_records_are_those_without_ray_also_if_a_node_dies(
    cluster: Any, tmp_path: Path
) -> None:
    dataset: GraphDataset = embedded(40, rungs=2)
    method = settings_for(
        "diffpool", "embedded", hidden=4, epochs=60, patience=60, batch_size=10, dropout=0.2
    )
    options: dict[str, Any] = {"cohort": 4, "checkpoint_seconds": 0}
    alone = evaluate(method, dataset, out=tmp_path / "alone", **options)
    notices: list[str] = []
    removed: list[Any] = []

    def kill(status: Status) -> None:
        if not removed and status.cohorts == 3 and status.epoch >= 3:
            removed.append(cluster.worker_nodes and next(iter(cluster.worker_nodes)))
            cluster.remove_node(removed[0], allow_graceful=False)

    with RayCluster() as executor:
        assert str(executor) == "a Ray cluster with 3 CPUs"
        assert executor.device == "cpu"
        options |= {"executor": executor, "watch": kill, "notify": notices.append}
        found = evaluate(method, dataset, out=tmp_path / "together", **options)
        assert len(removed) == 1
        assert executor.workers == 2
    assert [r.comparable for r in found.records] == [r.comparable for r in alone.records]
    assert len(notices) == 1
    assert "models continue from epoch " in notices[0]


BLOCKER = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "diffpool":
            raise ModuleNotFoundError("No module named 'diffpool'", name="diffpool")
sys.meta_path.insert(0, Blocker())
"""
OTHER_VERSION = """
import importlib.util, sys
class Other:
    def find_spec(self, name, path=None, target=None):
        if name == "diffpool.version":
            return importlib.util.spec_from_loader(name, self)
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        module.VERSION = "0.0.1"
sys.meta_path.insert(0, Other())
"""


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (BLOCKER, r"cannot import it: run `pip install diffpool` there"),
        (OTHER_VERSION, r"expected diffpool .* on every node .* got 0\.0\.1 on "),
    ],
)
def test_a_node_with_another_package_or_without_it_is_named(
    code: str, message: str, cluster: Any, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(code)
    node = cluster.add_node(**SMALL, env_vars={"PYTHONPATH": str(tmp_path)})
    try:
        with pytest.raises(SettingError, match=message):
            RayCluster()
    finally:
        cluster.remove_node(node)
