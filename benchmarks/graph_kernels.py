"""How much time and memory does the Gram matrix of each graph kernel take, compared with GraKeL?

Every measurement runs in its own process and excludes imports, reading and conversion. The time is the median of up to
three calls, the memory the peak above what the process used before. All matrices are normalized, with h = 5 for WL and
WL-OA; `every_h` computes the six matrices from h = 0 to 5, as an evaluation does. GraKeL gets the same labels. A call
that takes more than `--limit` seconds, or GraKeL with more than `--gib` of memory, is stopped, and the others continue.
GraKeL's graphlets ignore labels, and its shortest paths are ordered pairs.

`generated` is a set of 11,929 graphs with the sizes of REDDIT-MULTI-12K (`benchmarks.reddit_shape`). Each data set has
its own record, which is also written when the run is interrupted. Linux only.
"""

from __future__ import annotations

import argparse
import multiprocessing
import platform
import resource
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.contest import quotient, trouble
from benchmarks.record import begin, finish, parser, words_of
from benchmarks.reddit_shape import reddit_shaped
from diffpool.baselines.graph_kernels import KERNELS, gram_matrices
from diffpool.data import RawGraphs
from diffpool.data.tu_collection import load_raw

GENERATED = "generated"
DATASETS = ("ENZYMES", "PROTEINS", "DD", "COLLAB", "REDDIT-MULTI-12K-sub1111", GENERATED)
COMPARED = ("graphlet", "shortest-path", "wl", "wl-oa")  # the kernels that GraKeL has
WHO = ("ours", "every_h", "grakel")
LONG = 30  # seconds; longer calls are not repeated
GRACE = 300  # seconds for reading and converting a data set

Report = Callable[[dict[str, Any]], None]


def generate(path: Path, graphs: int) -> None:
    """Write the generated set to a file, so that its features do not count as memory."""
    sample = reddit_shaped(graphs).graphs
    sizes, adj = sample.layout.sizes.numpy(), sample.adj
    np.savez(path, sizes=sizes, indptr=adj.indptr.numpy(), source=adj.indices.numpy())


def read(name: str, data_dir: Path, work: Path) -> RawGraphs:
    if name != GENERATED:
        return load_raw(name, data_dir)
    with np.load(work / "generated.npz") as arrays:
        tables = {key: arrays[key].astype(np.int64) for key in arrays.files}
    return RawGraphs(name, tables["sizes"], tables["indptr"], tables["source"])


def as_grakel(raw: RawGraphs, labels: bool) -> list[Any]:
    """[edges by node, labels by node] for each graph, with degrees as labels if it has none."""
    if labels and raw.node_labels is not None:
        label = raw.node_labels.codes[:, 0].tolist()
    else:
        label = np.diff(raw.indptr).tolist()
    ends, source, graphs = raw.indptr.tolist(), raw.source.tolist(), []
    for start, n in zip(raw.starts.tolist(), raw.sizes.tolist(), strict=True):
        nodes = range(start, start + n)
        edges = {i - start: {j - start: 1.0 for j in source[ends[i] : ends[i + 1]]} for i in nodes}
        graphs.append([edges, {i - start: label[i] for i in nodes}])
    return graphs


def grakel_kernel(kernel: str, labels: bool) -> Any:
    import grakel

    if kernel == "graphlet":
        return grakel.GraphletSampling(k=3, normalize=True)
    if kernel == "shortest-path":
        return grakel.ShortestPath(normalize=True, with_labels=labels)
    if kernel == "wl":
        return grakel.WeisfeilerLehman(n_iter=5, normalize=True)
    return grakel.WeisfeilerLehmanOptimalAssignment(n_iter=5, normalize=True)


def work_of(who: str, kernel: str, raw: RawGraphs) -> Callable[[], object]:
    """The function to time."""
    if who == "ours":
        return lambda: KERNELS[kernel]().fit_transform(raw)
    if who == "every_h":
        return lambda: gram_matrices(kernel, raw)
    labels = raw.node_labels is not None
    peer, graphs = grakel_kernel(kernel, labels), as_grakel(raw.undirected(), labels)
    return lambda: peer.fit_transform(graphs)


# --- one measurement, in its own process


def measure(
    make_work: Callable[[], Callable[[], object]], repeats: int, limit: float, report: Report
) -> None:
    """Report that the work is ready, then the seconds and peak MB of each call, or the error."""

    def all_calls() -> None:
        work = make_work()
        report({"ready": True})
        for _ in range(repeats):
            before = reset_peak()
            start = time.perf_counter()
            work()
            seconds = time.perf_counter() - start
            report({"seconds": seconds, "mb": max(megabytes("VmHWM") - before, 0.0)})
            if seconds > LONG:
                break

    # The parent process also stops calls that take too long, in case no signal gets through.
    failed = trouble(all_calls, GRACE + limit * repeats)
    if failed is not None:
        report({"failed": failed})


def megabytes(field: str) -> float:
    """Memory of this process: current (VmRSS) or peak (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) / 1024


def reset_peak() -> float:
    """Reset the peak memory to the current memory; return it in MB."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
        return megabytes("VmRSS")
    except OSError:  # not allowed everywhere: measure above the previous peak instead
        return megabytes("VmHWM")


# --- the parent process


def messages_of(work: Callable[[Report], None], grace: float, limit: float) -> list[dict[str, Any]]:
    """All messages of `work`, run in its own process, which is stopped if it is silent for too long.

    It has `grace` seconds for the first message and `limit` for each later one. It is forked, because imports take five
    seconds.
    """
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(theirs.send,), daemon=True)
    process.start()
    theirs.close()
    found: list[dict[str, Any]] = []
    try:
        while ours.poll(limit if found else grace):
            found.append(ours.recv())
        late = {"failed": f"not done after {limit:.0f} s", "at_least": limit}
        found.append(late if found else {"failed": f"not ready after {grace:.0f} s"})
    except EOFError:
        process.join()
        if process.exitcode:
            found.append({"failed": f"ended with {process.exitcode}"})
    finally:
        process.kill()
        process.join()
        ours.close()
    return found


def result_of(found: list[dict[str, Any]]) -> dict[str, Any]:
    """The median seconds and the largest peak, or the error of the first call."""
    done = [words for words in found if "seconds" in words]
    if not done:
        return next((w for w in found if "failed" in w), {"failed": "no message"})
    return {
        "seconds": round(float(np.median([words["seconds"] for words in done])), 4),
        "mb": round(max(words["mb"] for words in done), 1),
        "repeats": len(done),
    }


def result(
    who: str, kernel: str, name: str, chosen: argparse.Namespace, work: Path
) -> dict[str, Any]:
    """Seconds and memory of one competitor for one kernel on one data set."""

    def prepared() -> Callable[[], object]:
        warnings.simplefilter("ignore")  # GraKeL divides 0 by 0
        threadpool_limits(chosen.threads)
        if who == "grakel":  # better an error than a machine without memory
            resource.setrlimit(resource.RLIMIT_AS, (int(chosen.gib * 2**30),) * 2)
        return work_of(who, kernel, read(name, chosen.data_dir, work))

    measured = partial(measure, prepared, chosen.repeats, chosen.limit)
    return result_of(messages_of(measured, GRACE, chosen.limit))


# --- all measurements


def speedup(row: dict[str, Any]) -> float | None:
    ours, peer = (row.get(who, {}).get("seconds") for who in ("ours", "grakel"))
    return quotient(peer, ours)


def libraries() -> dict[str, str]:
    """The versions of the libraries that affect the times."""
    found = {"python": platform.python_version()}
    for name in ("numpy", "scipy", "grakel"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def as_line(found: dict[str, Any]) -> str:
    """A result as one line."""
    if "failed" in found:
        return str(found["failed"])
    return f"{found['seconds']:8.2f} s {found['mb']:8,.0f} MB {found['repeats']:3d} calls"


def run(name: str, chosen: argparse.Namespace, work: Path) -> None:
    """Measure all kernels on one data set, one line each; the record is written even after an error."""
    kernels = words_of(chosen.kernels, COMPARED, "kernels")
    if name == GENERATED:
        kernels = [kernel for kernel in kernels if kernel in chosen.generated_kernels.split(",")]
        messages_of(lambda report: generate(work / "generated.npz", chosen.graphs), GRACE, GRACE)
    print(name, flush=True)
    row: dict[str, dict[str, Any]] = {}
    try:
        for kernel in kernels:
            for who in chosen.who:
                if who == "every_h" and not kernel.startswith("wl"):
                    continue
                found = result(who, kernel, name, chosen, work)
                row.setdefault(kernel, {})[who] = found
                print(f"  {kernel:14s} {who:8s} {as_line(found)}", flush=True)
            if ratio := speedup(row.get(kernel, {})):
                print(f"  {kernel:14s} {ratio:.1f} × as fast as GraKeL", flush=True)
    finally:
        ratios = {kernel: {name: ratio} for kernel, own in row.items() if (ratio := speedup(own))}
        everything = {"rows": {name: row}, "speedup": ratios, "limit_s": chosen.limit}
        if row:
            finish("kernels", {**everything, "versions": libraries()}, chosen)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--data-dir", required=True, type=Path, help="folder with the zip files")
    options.add_argument("--datasets", default=",".join(DATASETS))
    options.add_argument("--kernels", default=",".join(COMPARED))
    options.add_argument(
        "--generated-kernels", default="wl,wl-oa", help="kernels for the generated set"
    )
    options.add_argument("--who", default=",".join(WHO))
    options.add_argument("--graphs", type=int, default=11_929, help="number of generated graphs")
    options.add_argument("--limit", type=float, default=600, help="maximum seconds for one matrix")
    options.add_argument("--gib", type=float, default=12, help="maximum memory of GraKeL in GiB")
    options.add_argument("--repeats", type=int, default=3)
    chosen = begin(options)
    chosen.who = words_of(chosen.who, WHO, "who")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the record is written
    with tempfile.TemporaryDirectory() as work:
        for name in words_of(chosen.datasets, DATASETS, "data sets"):
            run(name, chosen, Path(work))


if __name__ == "__main__":
    main()
