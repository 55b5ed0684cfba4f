"""How much time and memory does reading a TU data set take, compared with PyTorch Geometric's reader?

Cold: read and check the zip file, and write the cache. Cached: read our cache. PyG: `read_tu_data` on text files that
were unpacked before. Each measurement runs in its own process and excludes imports; the three take turns. First, our
result is compared with PyG's, which removes self-loops.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse  # noqa: F401 (so that its import is not measured)
from torch_geometric.io import read_tu_data

from benchmarks.record import finish, parser
from diffpool.data.raw import RawGraphs
from diffpool.data.tu_collection import load_raw

MODES = ("cold", "cached", "pyg")
LONG, FEW = 30, 2  # readings of more than 30 seconds are repeated twice only


def compare(raw: RawGraphs, folder: Path) -> None:
    """Raise an error unless PyG reads the same nodes, edges, labels, attributes and classes."""
    data, slices, widths = read_tu_data(str(folder), raw.name)
    sizes = np.diff(slices["x"]) if "x" in slices else data._num_nodes
    np.testing.assert_array_equal(raw.sizes, sizes)
    source, target = raw.source, raw.target
    order = np.lexsort((target, source))  # PyG sorts by source first
    order = order[source[order] != target[order]]
    start = np.repeat(raw.starts, raw.sizes)[source[order]]
    np.testing.assert_array_equal(source[order] - start, data.edge_index[0])
    np.testing.assert_array_equal(target[order] - start, data.edge_index[1])
    assert raw.classes is not None
    np.testing.assert_array_equal(raw.classes.codes[:, 0], data.y)
    width = widths["num_node_attributes"]
    if raw.node_attributes is not None:
        np.testing.assert_array_equal(raw.node_attributes.astype(np.float32), data.x[:, :width])
    if raw.node_labels is not None:
        values = np.array([int(name) for name in raw.node_labels.names[0]])
        # one-hot, smallest label first
        column = (values - values.min())[raw.node_labels.codes[:, 0]]
        np.testing.assert_array_equal(column, data.x[:, width:].argmax(1))


def peak_megabytes() -> float:
    """The peak memory of this process."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(mode: str, name: str, data_dir: Path, text: Path) -> dict[str, float]:
    """Seconds and peak memory of one reading in this process."""
    if mode == "check":
        compare(load_raw(name, data_dir), text / name)
    before, start = peak_megabytes(), time.perf_counter()
    if mode == "pyg":
        read_tu_data(str(text / name), name)
    else:
        load_raw(name, data_dir)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "before": before, "megabytes": peak_megabytes()}


def in_a_process(mode: str, name: str, data_dir: Path, work: Path) -> dict[str, float]:
    with tempfile.TemporaryDirectory(dir=work) as empty:
        cache = empty if mode == "cold" else str(work / "cache")
        words = ["--measure", mode, "--datasets", name, "--data-dir", str(data_dir)]
        run = subprocess.run(
            [sys.executable, "-m", "benchmarks.reading", *words, "--work", str(work)],
            env={**os.environ, "DIFFPOOL_CACHE": cache},
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
    result: dict[str, float] = json.loads(run.stdout)
    return result


def run(name: str, data_dir: Path, repeats: int) -> dict[str, dict[str, Any]]:
    runs: dict[str, list[dict[str, float]]] = {mode: [] for mode in MODES}
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        with zipfile.ZipFile(data_dir / f"{name}.zip") as archive:
            archive.extractall(work / "text")
        in_a_process("check", name, data_dir, work)  # this also fills the cache
        for number in range(repeats):
            for mode, done in runs.items():
                if number < FEW or done[0]["seconds"] <= LONG:
                    done.append(in_a_process(mode, name, data_dir, work))
    return {
        mode: {
            "seconds": round(float(np.median([r["seconds"] for r in done])), 3),
            "longest": round(max(r["seconds"] for r in done), 3),
            "before_mb": round(max(r["before"] for r in done)),
            "peak_mb": round(max(r["megabytes"] for r in done)),
            "repeats": len(done),
        }
        for mode, done in runs.items()
    }


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--data-dir", required=True, type=Path, help="folder with the zip files")
    options.add_argument("--datasets", default="ENZYMES,DD,COLLAB")
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--measure", help=argparse.SUPPRESS)
    options.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.measure:
        text = chosen.work / "text"
        print(json.dumps(measure(chosen.measure, chosen.datasets, chosen.data_dir, text)))
        return
    rows = {}
    print("median seconds (peak MB of the process) [repeats]; ours equals PyG's")
    print(
        f"{'':10s} {'cold':>20s} {'cached':>20s} {'PyG':>20s} {'PyG/cold':>9s} {'PyG/cached':>11s}"
    )
    for name in chosen.datasets.split(","):
        row = rows[name] = run(name, chosen.data_dir, chosen.repeats)
        cells = [f"{r['seconds']:.3f} ({r['peak_mb']}) [{r['repeats']}]" for r in row.values()]
        pyg = row["pyg"]["seconds"]
        ratios = [pyg / row[mode]["seconds"] for mode in ("cold", "cached")]
        print(name.ljust(10), *(c.rjust(20) for c in cells), f"{ratios[0]:9.1f} {ratios[1]:11.1f}")
    finish("reading", {"rows": rows}, chosen)


if __name__ == "__main__":
    main()
