"""How long does a Gram matrix of each graph kernel take, and how much memory, against GraKeL?

Every measurement is a process of its own, without the time of imports and of reading; ours and GraKeL's take turns.
All matrices are normalised, h = 5 for WL and WL-OA; `every_h` has the six matrices from h = 0 to 5 at once, as an
evaluation needs them. GraKeL has the same labels, and what it does not finish within `--limit` seconds and `--gib` is
left out. Its graphlets have no labels, and its shortest paths are ordered pairs.

`generated` is a set of 11,929 graphs with the sizes of REDDIT-MULTI-12K (`benchmarks.reddit_shape`).
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.contest import quotient, trouble
from benchmarks.reading import peak_megabytes
from benchmarks.record import finish, parser, words_of
from benchmarks.reddit_shape import reddit_shaped
from diffpool.data import RawGraphs
from diffpool.data.find import load_raw
from diffpool.kernels import KERNELS, gram_matrices

GENERATED = "generated"
DATASETS = ("ENZYMES", "PROTEINS", "DD", "COLLAB", "REDDIT-MULTI-12K-sub1111", GENERATED)
WHO = ("ours", "every_h", "grakel")
LONG, FEW = 30, 1  # what takes more seconds than this is repeated less often
GRACE = 600  # seconds to read a data set and to convert it


def generate(path: Path, graphs: int) -> None:
    """Write the generated set, so that its features are not in the memory that is measured."""
    made = reddit_shaped(graphs).graphs
    sizes, adj = made.layout.sizes.numpy(), made.adj
    np.savez(path, sizes=sizes, indptr=adj.indptr.numpy(), source=adj.indices.numpy())


def read(name: str, data_dir: Path, work: Path) -> RawGraphs:
    if name != GENERATED:
        return load_raw(name, data_dir)
    with np.load(work / "generated.npz") as arrays:
        tables = {key: arrays[key].astype(np.int64) for key in arrays.files}
    return RawGraphs(name, tables["sizes"], tables["indptr"], tables["source"])


def as_grakel(raw: RawGraphs, labels: bool) -> list[Any]:
    """[edges by node, labels by node] of each graph; degrees are the labels where there are none."""
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
    """What is timed."""
    if who == "ours":
        return lambda: KERNELS[kernel]().fit_transform(raw)
    if who == "every_h":
        return lambda: gram_matrices(kernel, raw)
    labels = raw.node_labels is not None
    peer, graphs = grakel_kernel(kernel, labels), as_grakel(raw.undirected(), labels)
    return lambda: peer.fit_transform(graphs)


def measure(
    who: str, kernel: str, read_raw: Callable[[], RawGraphs], limit: float, gib: float
) -> dict[str, Any]:
    """In this process: seconds and the peak of memory, or what went wrong."""
    if who == "grakel":  # rather an error than a machine without memory
        resource.setrlimit(resource.RLIMIT_AS, (int(gib * 2**30),) * 2)
    seconds: list[float] = []

    def whole() -> None:
        work = work_of(who, kernel, read_raw())
        start = time.perf_counter()
        failed = trouble(work, limit)
        seconds.append(time.perf_counter() - start)
        if failed is not None:
            raise RuntimeError(failed)

    failed = trouble(whole, limit + GRACE)
    if failed is not None:
        return {"failed": failed.removeprefix("RuntimeError: ")}
    return {"seconds": seconds[0], "mb": peak_megabytes()}


def in_a_process(
    who: str, kernel: str, name: str, chosen: argparse.Namespace, work: Path
) -> dict[str, Any]:
    words = ["--measure", who, "--kernels", kernel, "--datasets", name, "--work", str(work)]
    words += ["--data-dir", str(chosen.data_dir), "--threads", str(chosen.threads)]
    words += ["--limit", str(chosen.limit), "--gib", str(chosen.gib)]
    try:
        run = subprocess.run(
            [sys.executable, "-m", "benchmarks.kernels", *words],
            stdout=subprocess.PIPE,
            text=True,
            timeout=chosen.limit + 2 * GRACE,
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"not done after {chosen.limit:.0f} s"}
    if run.returncode:
        return {"failed": f"ended with {run.returncode}"}
    result: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return result


def compare(kernel: str, name: str, chosen: argparse.Namespace, work: Path) -> dict[str, Any]:
    """Everybody's median seconds and largest peak for one kernel on one data set."""
    runs: dict[str, list[dict[str, Any]]] = {
        who: [] for who in chosen.who if who != "every_h" or kernel.startswith("wl")
    }
    for number in range(chosen.repeats):
        for who, done in runs.items():
            if number < FEW or done[0].get("seconds", LONG) < LONG:
                done.append(in_a_process(who, kernel, name, chosen, work))
    row: dict[str, Any] = {}
    for who, done in runs.items():
        failed = [run["failed"] for run in done if "failed" in run]
        row[who] = (
            {"failed": failed[0]}
            if failed
            else {
                "seconds": round(float(np.median([run["seconds"] for run in done])), 4),
                "peak_mb": round(max(run["mb"] for run in done)),
                "repeats": len(done),
            }
        )
    return row


def speedup(row: dict[str, Any]) -> float | None:
    ours, peer = (row.get(who, {}).get("seconds") for who in ("ours", "grakel"))
    return quotient(peer, ours)


def libraries() -> dict[str, str]:
    found = {}
    for name in ("numpy", "scipy", "grakel"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def line(kernel: str, row: dict[str, Any]) -> str:
    cells = [
        f"{who} {r['failed']}"
        if "failed" in r
        else f"{who} {r['seconds']:.2f} s ({r['peak_mb']:,} MB)"
        for who, r in row.items()
    ]
    ratio = speedup(row)
    return f"  {kernel:14s} {'; '.join(cells)}" + (f"; {ratio} ×" if ratio else "")


def run(chosen: argparse.Namespace, work: Path) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    ratios: dict[str, dict[str, float]] = {}
    for name in words_of(chosen.datasets, DATASETS, "data sets"):
        if name == GENERATED:
            generate(work / "generated.npz", chosen.graphs)
        print(name, flush=True)
        row, own = {}, {}
        for kernel in words_of(chosen.kernels, tuple(KERNELS), "kernels"):
            if name == GENERATED and kernel not in chosen.generated_kernels.split(","):
                continue
            row[kernel] = compare(kernel, name, chosen, work)
            if ratio := speedup(row[kernel]):
                own[kernel] = {name: ratio}
                ratios.setdefault(kernel, {})[name] = ratio
            print(line(kernel, row[kernel]), flush=True)
        rows[name] = row
        silent = argparse.Namespace(**{**vars(chosen), "json": False})
        result = {"rows": {name: row}, "speedup": own, "limit_s": chosen.limit}
        finish("kernels", {**result, "libraries": libraries()}, silent)  # what is measured is kept
    return {"rows": rows, "speedup": ratios, "limit_s": chosen.limit, "libraries": libraries()}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--data-dir", required=True, type=Path, help="folder with the zip files")
    options.add_argument("--datasets", default=",".join(DATASETS))
    options.add_argument("--kernels", default=",".join(KERNELS))
    options.add_argument(
        "--generated-kernels", default="wl,wl-oa", help="those on the generated set"
    )
    options.add_argument("--who", default=",".join(WHO))
    options.add_argument("--graphs", type=int, default=11_929, help="of the generated set")
    options.add_argument("--limit", type=float, default=600, help="seconds for one matrix")
    options.add_argument("--gib", type=float, default=12, help="memory for GraKeL")
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--measure", help=argparse.SUPPRESS)
    options.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    torch.set_num_threads(chosen.threads)
    if chosen.measure:
        read_raw = lambda: read(chosen.datasets, chosen.data_dir, chosen.work)  # noqa: E731
        print(
            json.dumps(measure(chosen.measure, chosen.kernels, read_raw, chosen.limit, chosen.gib))
        )
        return
    chosen.who = words_of(chosen.who, WHO, "who")
    with tempfile.TemporaryDirectory() as work:
        result = run(chosen, Path(work))
    finish("kernels", result, argparse.Namespace(**{**vars(chosen), "no_record": True}))


if __name__ == "__main__":
    main()
