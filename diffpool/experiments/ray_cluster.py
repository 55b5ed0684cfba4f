"""The executor for a Ray cluster. Everything that this package knows about Ray is here."""

from __future__ import annotations

import contextlib
import copy
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

import torch

from diffpool.cores import usable_cores
from diffpool.errors import DiffPoolError, SettingError, did_you_mean
from diffpool.experiments.jobs import (
    Job,
    OutOfMemory,
    Report,
    Unfinished,
    Update,
    Work,
    reports,
)
from diffpool.experiments.provenance import device_name, versions
from diffpool.experiments.status import Notify

if TYPE_CHECKING:
    from types import ModuleType

CONNECT_SECONDS = 5.0  # to reach the address
PROBE_SECONDS = 120.0  # for a node to start a process and import this package
CLIENT_PORT = 10001  # of the Ray Client, which is not supported
TYPES = {"cpu": "CPU", "cuda": "GPU"}  # and Ray's names for them

_known: tuple[str, Work] | None = None  # in a worker: the work of its last job, on its device


def parse_cluster(text: str) -> str | None:
    """The address in `ray://HOST:PORT` or `ray://auto`; None for `ray`, a cluster on this machine."""
    name, mark, address = text.partition("://")
    if name != "ray":
        raise SettingError(
            f"expected --cluster to be ray or ray://ADDRESS, got {text!r}{did_you_mean(name, ['ray'])}"
        )
    host, _, port = address.rpartition(":")
    if not mark or address == "auto":
        return address or None
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise SettingError(
            f"expected the address of a Ray cluster, such as ray://10.0.0.1:6379 or ray://auto, got {text!r}"
        )
    if int(port) == CLIENT_PORT:
        raise SettingError(
            f"expected the address that `ray start --head` prints, such as ray://{host}:6379, got {text!r}: {port} is "
            "the port of the Ray Client. Run the command on a machine of the cluster"
        )
    return address


class RayCluster:
    """Trains on all GPUs of a Ray cluster, or on all CPUs if it has no GPUs, with a task for each.

    The data set is put into the object store once. Checkpoints travel through the object store to this process, so the
    nodes need no shared folder. Without an address, Ray is started on this machine; otherwise this machine must belong
    to the cluster. A connection that exists already is used.
    """

    def __init__(self, address: str | None = None, device: str = "auto"):
        if device not in ("auto", *TYPES):
            raise SettingError(
                f"expected --device to be auto, cpu or cuda with --cluster, got {device!r}"
            )
        self._ray = ray = _import_ray()
        self._own = not ray.is_initialized()
        if self._own:
            _connect(ray, address)
        try:
            resources = ray.cluster_resources()
            self.device = _device_type(resources, device)
            self._names = self._check_nodes()
        except BaseException:
            self.close()
            raise
        self.device_name = ", ".join(sorted(self._names))
        self._unfinished = Unfinished()
        self._streams: dict[Any, int] = {}  # of running tasks, with the numbers of their jobs
        self._waiting = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the cluster, and end it if it was started here."""
        if self._own:
            self._ray.shutdown()

    @property
    def workers(self) -> int:
        """The GPUs or CPUs that the cluster has now: nodes may join and leave."""
        return int(self._ray.cluster_resources().get(TYPES[self.device], 0))

    def __str__(self) -> str:
        count, kind = self.workers, TYPES[self.device]
        return f"a Ray cluster with {count} {kind}{'s' if count != 1 else ''}"

    def _check_nodes(self) -> set[str]:
        """The names of the devices; an error if a node has no diffpool, or other versions."""
        ray, strategies = self._ray, self._ray.util.scheduling_strategies
        kind = TYPES[self.device]
        probes = {}
        for node in ray.nodes():
            if node["Alive"] and node["Resources"].get(kind, 0) >= 1:
                where = strategies.NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
                task = ray.remote(_probe).options(
                    **self._resources(), max_retries=0, scheduling_strategy=where
                )
                probes[task.remote(self.device)] = node["NodeManagerAddress"]
        ours, names = versions(), set()
        ready, late = ray.wait(list(probes), num_returns=len(probes), timeout=PROBE_SECONDS)
        for probe in ready:
            try:
                found, name = ray.get(probe)
            except ray.exceptions.RayError as error:
                raise _without_package(probes[probe], error) from error
            for package in ("torch", "diffpool"):
                if found[package] != ours[package]:
                    raise SettingError(
                        f"expected {package} {ours[package]} on every node of the Ray cluster, as on this machine, got "
                        f"{found[package]} on {probes[probe]}: install the same version, or remove the node"
                    )
            names.add(name)
        if late:
            raise SettingError(
                f"expected every node of the Ray cluster to be free, but {probes[late[0]]} has not started a "
                f"process in {PROBE_SECONDS:.0f} s: is it busy with other tasks? `ray status` shows them"
            )
        return names

    def _resources(self) -> dict[str, float]:
        return {"num_cpus": 0 if self.device == "cuda" else 1, "num_gpus": self.device == "cuda"}

    def start(self, work: Work, notify: Notify) -> None:
        self._notify, self._unfinished, self._streams = notify, Unfinished(), {}
        self._work = self._ray.put(work)

    def submit(self, job: Job) -> None:
        self._unfinished.add(job)
        task = self._ray.remote(_train).options(
            **self._resources(),
            num_returns="streaming",
            max_retries=0,  # a job continues from its last state instead
            scheduling_strategy="SPREAD",
        )
        stream = task.remote(job, [self._work], self.device)  # in a list: fetched once per process
        self._streams[stream] = job.number

    def next(self) -> Update:
        ray = self._ray
        while True:
            ready, _ = ray.wait(list(self._streams), num_returns=1, timeout=10)
            if not ready:
                self._look()
                continue
            stream = ready[0]
            number = self._streams[stream]
            try:
                # copied, because the arrays in the object store are read-only
                report = copy.deepcopy(ray.get(next(stream)))
            except ray.exceptions.OutOfMemoryError:
                report = Report(OutOfMemory())
            except ray.exceptions.RayTaskError as error:
                if isinstance(error.cause, DiffPoolError):
                    raise error.cause from None
                if isinstance(error.cause, ImportError):
                    raise _without_package("a node", error) from error
                raise
            except (StopIteration, ray.exceptions.RayError) as error:
                self._again(stream, error)
                continue
            assert isinstance(report, Report)
            update = self._unfinished.received(number, report)
            if number not in self._unfinished.jobs:
                del self._streams[stream]
            return update

    def _again(self, stream: Any, error: Exception) -> None:
        """Continue the job of a task that has died."""
        number = self._streams.pop(stream)
        why = type(error).__name__.removesuffix("Error")
        job, message = self._unfinished.lost(number, "a Ray task", why)
        self._notify(message)
        self.submit(job)

    def _look(self) -> None:
        """Say once that nothing can be trained until a node joins."""
        if not self.workers and not self._waiting:
            kind = TYPES[self.device]
            self._notify(f"the Ray cluster has no {kind}s left: waiting for a node with {kind}s")
        self._waiting = not self.workers

    def stop(self) -> None:
        for stream in self._streams:
            with contextlib.suppress(Exception):
                self._ray.cancel(stream, force=True)
        self._streams = {}
        self._work = None


def _import_ray() -> ModuleType:
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError as error:
        raise SettingError(
            "a cluster needs Ray, which is not installed: run `pip install 'diffpool[ray]'`, or use --devices for "
            "several devices of this machine"
        ) from error
    return ray


def _connect(ray: ModuleType, address: str | None) -> None:
    """Join a cluster, or start one on this machine; a SettingError if the address does not answer in time."""
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    quiet_nodes()
    if address is None:
        ray.init(num_cpus=usable_cores(), include_dashboard=False, **quiet)
        return
    if address != "auto":
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
        except OSError as error:
            raise SettingError(
                f"no Ray cluster answers at {address} ({error.strerror or error}): start one with `ray start "
                "--head`, and use the address that it prints"
            ) from error
        if not _answers(address):
            raise SettingError(
                f"no Ray cluster answers at {address} (another program does, or another version of Ray): use the "
                "address that `ray start --head` prints"
            )
    try:
        ray.init(address, **quiet)
    except Exception as error:  # of many types, from gRPC and the file system
        raise SettingError(
            f"cannot join a Ray cluster at {address} ({_short(error)}): run `ray start --head` on one machine and "
            "`ray start --address=…` on the others, and this command on one of them"
        ) from error


def quiet_nodes() -> None:
    """Ray prints the log of a node that dies to the standard output, where results are; there is no option for it."""
    with contextlib.suppress(ImportError):
        from ray._private import worker

        worker.print_to_stdstream = lambda *words, **more: None


def _answers(address: str) -> bool:
    """Whether Ray answers in time; `ray.init` would wait for minutes, and cannot be stopped."""
    code = "from ray.scripts.scripts import main; main()"
    words = [sys.executable, "-c", code, "health-check", "--address", address]
    try:
        return not subprocess.run(
            words, capture_output=True, timeout=4 * CONNECT_SECONDS
        ).returncode
    except subprocess.TimeoutExpired:
        return False


def _short(error: BaseException) -> str:
    return (f"{error}".splitlines() or [type(error).__name__])[0].split(". ")[0].removesuffix(".")


def _device_type(resources: dict[str, float], wanted: str) -> str:
    """The type of devices to train on: GPUs if there are any, unless another type is wanted."""
    kinds = ["cuda", "cpu"] if wanted == "auto" else [wanted]
    for kind in kinds:
        if resources.get(TYPES[kind], 0) >= 1:
            return kind
    names = " or ".join(f"{TYPES[kind]}s" for kind in kinds)
    raise SettingError(
        f"expected the Ray cluster to have {names}, got none: start its nodes with "
        f"`ray start --num-{TYPES[kinds[0]].lower()}s=…`"
    )


def _without_package(node: str, error: Exception) -> SettingError:
    """The error for a node on which this package cannot be imported, or whose process dies."""
    text = str(error)
    if "ModuleNotFoundError" in text or "ImportError" in text or "failed to import" in text:
        return SettingError(
            f"expected diffpool on every node of the Ray cluster, but {node} cannot import it: run `pip install "
            "diffpool` there, in the environment of Ray"
        )
    return SettingError(f"the node {node} of the Ray cluster cannot run a task ({_short(error)})")


def _probe(device: str) -> tuple[dict[str, str], str]:
    """On a node: the versions of the packages, and the name of the device."""
    return versions(), device_name(torch.device(device))


def _train(job: Job, reference: list[Any], device: str) -> Iterator[Report]:
    """On a node: train a job with the work that is in the object store."""
    global _known
    ray = sys.modules["ray"]
    name = reference[0].hex()
    if _known is None or _known[0] != name:
        _known = None  # frees the memory of the last one first
        if device == "cpu":
            torch.set_num_threads(1)
        _known = name, ray.get(reference[0]).on(device)
    yield from reports(job, _known[1])
