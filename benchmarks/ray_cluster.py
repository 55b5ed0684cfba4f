"""Ray on this machine: what it costs, and whether a node that is killed changes a result.

Ten-fold cross-validation of DiffPool on ENZYMES as two cohorts of five models, in turns: in one process, in two
processes without Ray (`--devices cpu,cpu`), and on a local Ray cluster with two CPUs (`--cluster ray`). The times of
the last two include the start of all processes. CPU seconds are those of all processes, Ray's own included: other
processes on the machine change them little. Then `evaluate` and `tune` run on a cluster of three local nodes with one
CPU each, of which one is killed in the middle. All results are compared with those of one process.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import ray
import torch
from ray.cluster_utils import Cluster

from benchmarks.record import begin, finish, parser
from diffpool import load_model
from diffpool.data import load_dataset
from diffpool.experiments import ProcessPerDevice, RayCluster, Status, evaluate, settings_for, tune
from diffpool.experiments.executors import Executor
from diffpool.experiments.ray_cluster import quiet_nodes

BAR, RUN = 0.10, 300.0  # overhead at most, in a run of so many seconds
WAYS = ("one process", "processes", "ray")
NODE = {"num_cpus": 1, "object_store_memory": 200_000_000}
SPACE = (("dropout", (0.0, 0.2)), ("learning_rate", (3e-3, 1e-3)), ("readout", ("max", "sum")))


def main() -> None:
    words = parser(__doc__)
    words.add_argument("--epochs", type=int, default=100, help="of every model (default 100)")
    words.add_argument("--data-dir", help="folder with ENZYMES.zip")
    words.add_argument("--turns", type=int, default=1, help="of the three ways (default 1)")
    words.add_argument(
        "--long",
        type=int,
        default=0,
        help="epochs of a long run without and with Ray (default: none)",
    )
    options = begin(words)
    dataset = load_dataset("ENZYMES", options.data_dir)
    changes = {"epochs": options.epochs, "patience": options.epochs}
    method = settings_for("diffpool", "ENZYMES", **changes)
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(Path(folder), dataset, method)
        load = os.getloadavg()[0]
        result = {"epochs": options.epochs, "load": load, "overhead": runs.overhead(options.turns)}
        if options.long:
            changes = {"epochs": options.long, "patience": options.long}
            longer = Runs(
                Path(folder) / "long", dataset, settings_for("diffpool", "ENZYMES", **changes)
            )
            result["long"] = {"epochs": options.long, **longer.overhead(1, WAYS[1:])}
        with three_nodes() as nodes:
            result |= {"evaluate": runs.evaluate_killed(nodes), "tune": runs.tune_killed(nodes)}
    show(result)
    finish("ray_cluster", result, options)


class Runs:
    """Runs in a folder, each compared with the first one of its kind."""

    def __init__(self, folder: Path, dataset: Any, method: Any):
        self.folder, self.dataset, self.method = folder, dataset, method

    def overhead(self, turns: int, ways: Sequence[str] = WAYS) -> dict[str, Any]:
        """Seconds and CPU seconds of these ways in every turn, and the overhead of Ray by their medians."""
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        cpu: dict[str, list[float]] = {name: [] for name in ways}
        starts, equal, first = [], True, None
        for turn in range(turns):
            for name in ways:
                start, before = time.perf_counter(), cpu_seconds()
                with RayCluster() if name == "ray" else contextlib.nullcontext() as executor:
                    if name == "ray":
                        starts.append(time.perf_counter() - start)
                    if name == "processes":
                        executor = ProcessPerDevice(["cpu", "cpu"])
                    _, records = self._evaluate(f"{name}-{turn}", executor, 5)
                    cpu[name].append(cpu_seconds() - before)
                seconds[name].append(time.perf_counter() - start)
                first = first or records
                equal = equal and records == first
        took, start = median(seconds["ray"]), median(starts)
        return {
            "seconds": seconds,
            "cpu_seconds": cpu,
            "start": starts,
            "equal": equal,
            "share": took / median(seconds["processes"]) - 1,
            "cpu_share": median(cpu["ray"]) / median(cpu["processes"]) - 1,
            # what is spent at the start does not grow with the run
            "share_of_long_run": (took - start) / median(seconds["processes"]) - 1 + start / RUN,
        }

    def _evaluate(
        self, name: str, executor: Executor | None, cohort: int, **more: Any
    ) -> tuple[float, list[dict[str, Any]]]:
        start = time.perf_counter()
        found = evaluate(
            self.method,
            self.dataset,
            out=self.folder / name,
            cohort=cohort,
            executor=executor,
            **more,
        )
        return time.perf_counter() - start, [record.comparable for record in found.records]

    def evaluate_killed(self, nodes: Cluster) -> dict[str, Any]:
        """Cross-validation on three nodes; one is killed after a third of the epochs."""
        seconds, alone = self._evaluate("alone", None, 4)
        killer = Killer(nodes, self.method.training.epochs // 3)
        with RayCluster() as executor:
            killed, records = self._evaluate(
                "killed", executor, 4, watch=killer, notify=killer.notices.append
            )
        return killer.result(seconds, killed, records == alone)

    def tune_killed(self, nodes: Cluster) -> dict[str, Any]:
        """A search on the nodes that are left and a new one, which is killed."""
        nodes.add_node(**NODE)
        nodes.wait_for_nodes()
        options: dict[str, Any] = {"space": SPACE, "trials": 6, "ensemble": 4, "cohort": 2}
        start = time.perf_counter()
        tune(self.method, self.dataset, out=self.folder / "tuned", **options)
        seconds = time.perf_counter() - start
        killer = Killer(nodes, self.method.training.epochs // 3)
        start = time.perf_counter()
        with RayCluster() as executor:
            options |= {"executor": executor, "watch": killer, "notify": killer.notices.append}
            tune(self.method, self.dataset, out=self.folder / "tuned-killed", **options)
        killed = time.perf_counter() - start
        models = [load_model(self.folder / name) for name in ("tuned", "tuned-killed")]
        one, other = (model.model.state_dict() for model in models)
        equal = all(torch.equal(one[name], other[name]) for name in one)
        return killer.result(seconds, killed, equal and models[0].card == models[1].card)


def cpu_seconds() -> float:
    """CPU time of this process and its children, those that have ended included."""
    me = psutil.Process()
    total = sum(me.cpu_times()[:4])  # user, system, and those of ended children
    for child in me.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            total += sum(child.cpu_times()[:4])
    return total


class Killer:
    """Kills a node as soon as the models in training are in this epoch, on average."""

    def __init__(self, nodes: Cluster, epoch: int):
        self.nodes, self.epoch, self.notices = nodes, epoch, list[str]()
        self.killed = False

    def __call__(self, status: Status) -> None:
        if not self.killed and status.cohorts == 3 and status.epoch >= self.epoch:
            self.killed = True
            node = next(iter(self.nodes.worker_nodes))
            self.nodes.remove_node(node, allow_graceful=False)

    def result(self, seconds: float, killed: float, equal: bool) -> dict[str, Any]:
        return {"one process": seconds, "killed": killed, "equal": equal, "lost": self.notices}


@contextlib.contextmanager
def three_nodes() -> Iterator[Cluster]:
    nodes = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    quiet_nodes()
    ray.init(nodes.address, log_to_driver=False, logging_level="ERROR")
    try:
        for _ in range(2):
            nodes.add_node(**NODE)
        nodes.wait_for_nodes()
        yield nodes
    finally:
        ray.shutdown()
        nodes.shutdown()


def show(result: dict[str, Any]) -> None:
    found = result["overhead"]
    show_overhead(found)
    if "long" in result:
        print(f"{result['long']['epochs']} epochs, bar {100 * BAR:.0f} %:")
        show_overhead(result["long"])
    else:
        share = 100 * found["share_of_long_run"]
        print(f"extrapolated to {RUN:.0f} s: {share:.1f} %, bar {100 * BAR:.0f} %")
    for command in ("evaluate", "tune"):
        run = result[command]
        print(
            f"{command}: one process {run['one process']:.1f} s, three nodes of which one is killed "
            f"{run['killed']:.1f} s, equal: {run['equal']}; {'; '.join(run['lost'])}"
        )


def show_overhead(found: dict[str, Any]) -> None:
    for name in found["seconds"]:
        seconds, cpu = median(found["seconds"][name]), median(found["cpu_seconds"][name])
        print(f"{name}: {seconds:.1f} s, {cpu:.1f} s of CPU time")
    print(f"start of Ray: {median(found['start']):.1f} s; records equal: {found['equal']}")
    print(f"overhead: {100 * found['share']:.1f} %, of CPU time {100 * found['cpu_share']:.1f} %")


if __name__ == "__main__":
    main()
