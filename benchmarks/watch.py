"""How much slower is training with `--watch`, while a page is open?

One model on ENZYMES, on the CPU. Runs with and without the page take turns; another process asks for changes every
second, as a browser does. The times are those from the end of the first epoch to the end of the last one: wall time,
which other processes disturb, and processor time. A run must be the same with and without the page.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from typing import Any

import torch

from benchmarks.record import begin, finish, parser
from diffpool.data import GraphDataset, load_dataset
from diffpool.experiments import Method, settings_for, train_once
from diffpool.explorer import Live
from diffpool.explorer.live import MAX_GRAPHS, SHARE
from diffpool.training import Epoch

# Asks for changes every second, as the page does. A program of its own, because importing this one takes seconds.
BROWSER = """
import sys, time, urllib.request
version = 0
while True:
    try:
        content = urllib.request.urlopen(f"{sys.argv[1]}news/{version}/0", timeout=5).read()
    except OSError:  # the end
        break
    version = int(content.split(b'"version": ')[1].split(b",")[0])
    time.sleep(1)
"""


def run(method: Method, dataset: GraphDataset, watch: bool) -> dict[str, Any]:
    """Seconds per epoch, the number of changes of the page, and the parameters at the end."""
    stamps: list[tuple[float, float]] = []

    def stamp(row: Epoch) -> None:
        stamps.append((time.perf_counter(), time.process_time()))

    changes = 0
    if watch:
        browsers: list[subprocess.Popen[bytes]] = []

        def open_page(url: str) -> None:
            browsers.append(subprocess.Popen([sys.executable, "-S", "-c", BROWSER, url]))
            time.sleep(1)  # until it has started

        with Live(open_page) as live:
            outcome = train_once(method, dataset, callbacks=[live, stamp])
            assert live._snapshot is not None
            changes = live._snapshot.version - 1
        browsers[0].wait()
    else:
        outcome = train_once(method, dataset, callbacks=[stamp])
    epochs = len(stamps) - 1
    seconds, processor = ((b - a) / epochs for a, b in zip(stamps[0], stamps[-1], strict=True))
    return {
        "seconds": seconds,
        "processor": processor,
        "changes": changes,
        "state": outcome.model.state_dict(),
    }


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--data-dir", required=True, help="folder with ENZYMES.zip")
    options.add_argument("--epochs", type=int, default=60)
    options.add_argument("--repeats", type=int, default=5, help="runs of each kind")
    chosen = begin(options)
    dataset = load_dataset("ENZYMES", chosen.data_dir)
    rows = {}
    for poolings in (1, 2):
        settings = {"poolings": poolings, "epochs": chosen.epochs, "patience": chosen.epochs}
        method = settings_for("diffpool", "ENZYMES", **settings)
        found: dict[bool, list[dict[str, Any]]] = {False: [], True: []}
        for _ in range(chosen.repeats):
            for watch, runs in found.items():
                runs.append(run(method, dataset, watch))
        states = [one["state"] for runs in found.values() for one in runs]
        same = all(torch.equal(states[0][name], s[name]) for s in states for name in states[0])
        row: dict[str, Any] = {}
        for name, key in (("wall", "seconds"), ("processor", "processor")):
            plain, watched = ([one[key] for one in runs] for runs in found.values())
            row[f"{name} time of an epoch"] = round(statistics.median(plain), 4)
            row[f"{name} time with the page"] = round(statistics.median(watched), 4)
            ratios = [round(b / a, 3) for a, b in zip(plain, watched, strict=True)]
            row[f"{name} time, ratios of neighboring runs"] = ratios
            row[f"{name} time, median ratio"] = round(statistics.median(ratios), 3)
        row["changes of the page"] = [one["changes"] for one in found[True]]
        row["same model"] = same
        rows[f"{poolings} pooling" + "s" * (poolings > 1)] = row
        print(f"{poolings} poolings:", row, flush=True)
    about = {"epochs": chosen.epochs, "graphs": MAX_GRAPHS, "share": SHARE, "rows": rows}
    finish("watch", about, chosen)


if __name__ == "__main__":
    main()
