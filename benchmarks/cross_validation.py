"""Throughput of ten-fold cross-validation (training) and of one model (evaluation), in graphs per second.

The architecture, losses and batches of `cpu_step`, with ceil(25% of the nodes) clusters for each graph. Ours trains the
ten models as one cohort; the peers train them in sequence, so their throughput is that of one model. The record also
has one of our models trained alone, and the peak memory. The competitors take turns. Ratios refer to the first peer,
PyG's dense operator. The other peers are the same compiled, the same fed by worker processes, and
torch-geometric-pool, batched and unbatched. If a competitor fails, the record contains the reason, and the
rest continue.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.competitors import PEERS, Ours, Setting, rehearsals_on
from benchmarks.contest import Entrant, Work, contest, draw, quotient, tidy
from benchmarks.cpu_step import BATCH
from benchmarks.record import begin, finish, parser, words_of
from diffpool.data import load_dataset

DATASETS = "ENZYMES,PROTEINS,DD,COLLAB,REDDIT-MULTI-12K-sub1111"
PARTS = ("training", "inference")
TURNS = 5
PEER_STEPS = 6  # in a turn, at most, of a peer: it captures nothing that many steps must pay for
EVALUATED = {20: 15, 100: 3}  # graphs in a batch: batches in a turn


def training(
    setting: Setting,
    steps: int,
    models: int,
    peers: Sequence[str] = tuple(PEERS),
    seconds: float = 3.0,
    left: dict[str, float] | None = None,
) -> dict[str, Any]:
    """Training graphs per second, ms per step and MiB: of our M models, of one of them, of each peer.

    `seconds`: of each competitor's timed steps, about. `left`: seconds that a peer's warm-up may take; what it took is
    taken off.
    """
    left = {} if left is None else left
    torch.manual_seed(0)
    shape = (steps, models, BATCH)
    draws = draw(np.random.default_rng(0), len(setting.dataset), shape, 1 + TURNS)
    rehearsals = rehearsals_on(setting.device)
    entrants = {
        "cohort": Entrant(lambda: Ours(setting, models).steps, steps, models, rehearsals),
        "single": Entrant(lambda: Ours(setting).steps, steps, 1, rehearsals),
    }
    for name in peers:
        max_steps = (
            steps if name == "pyg-loader" else min(steps, PEER_STEPS)
        )  # its workers run ahead
        entrants[name] = Entrant(partial(_steps_of, name, setting), max_steps)
    results = contest(entrants, draws, setting.device, seconds, left)
    for name in left.keys() & entrants.keys():
        left[name] -= entrants[name].warm_up_seconds
    row: dict[str, Any] = {"models": models, "steps": steps, "clusters": list(setting.clusters)}
    for name, result in results.items():
        if "failed" in result:
            row[name] = result
            continue
        row[name] = result["rate"]
        row |= {f"{name}_{what}": result[what] for what in ("ms", "mib", "steps", "warm_up_s")}
    row["ratio"] = quotient(row["cohort"], row.get("pyg"))
    row["ratio_single"] = quotient(row["single"], row.get("pyg"))
    return row


def _steps_of(peer: str, setting: Setting) -> Work:
    return PEERS[peer](setting).steps


def inference(setting: Setting, seconds: float = 1.0) -> dict[str, Any]:
    """Graphs per second of one model evaluated without gradients, by batch size: ours and PyG's."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    rows: dict[str, Any] = {}
    for size, batches in EVALUATED.items():
        size = min(size, len(setting.dataset))
        draws = draw(rng, len(setting.dataset), (batches, 1, size), 1 + TURNS)
        entrants = {
            "ours": Entrant(
                lambda: Ours(setting).evaluate, batches, 1, rehearsals_on(setting.device)
            ),
            "pyg": Entrant(lambda: PEERS["pyg"](setting).evaluate, batches),
        }
        results = contest(entrants, draws, setting.device, seconds)
        row = {name: r if "failed" in r else r["rate"] for name, r in results.items()}
        rows[str(size)] = {**row, "ratio": quotient(row["ours"], row["pyg"])}
    return rows


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--data-dir", required=True, help="folder with the zip files")
    options.add_argument("--datasets", default=DATASETS)
    options.add_argument("--parts", default=",".join(PARTS), help=f"of {', '.join(PARTS)}")
    options.add_argument("--peers", default=",".join(PEERS), help=f"of {', '.join(PEERS)}")
    options.add_argument("--steps", type=int, default=20, help="in a turn, at most")
    options.add_argument("--models", type=int, default=10)
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options.add_argument("--workers", type=int, default=os.cpu_count(), help="of PyG's loader")
    options.add_argument(
        "--seconds", type=float, default=3.0, help="timed steps of each on a data set, about"
    )
    options.add_argument(
        "--warm-up", type=float, default=60.0, help="seconds each peer has for all its warm-ups"
    )
    chosen = begin(options)
    parts = words_of(chosen.parts, PARTS, "parts")
    peers = words_of(chosen.peers, list(PEERS), "peers")
    left = dict.fromkeys(peers, chosen.warm_up)
    print("graphs per second, batch 20; MiB; ms per step", flush=True)
    for name in chosen.datasets.split(","):
        dataset = load_dataset(name, chosen.data_dir)
        setting = Setting(dataset, chosen.device, chosen.workers)
        row: dict[str, Any] = {}
        if "training" in parts:
            row |= training(setting, chosen.steps, chosen.models, peers, chosen.seconds, left)
            tidy()
        if "inference" in parts:
            row["inference"] = inference(setting, min(chosen.seconds, 1.0))
            tidy()
        print(name, json.dumps(row), flush=True)
        ratio = {name: row.get("ratio")}
        result = {"ratio": ratio, "workers": chosen.workers, "rows": {name: row}}
        where = "cross_validation" if chosen.device == "cuda" else "cross_validation_cpu"
        finish(where, result, chosen)  # one record for each data set: what is measured is kept


if __name__ == "__main__":
    main()
