"""Does DiffPool solve the embedded data, and flat GraphSAGE of the same depth and width not? Five seeds.

The seed fixes the data, the split, the parameters and the order of the batches. `graphsage-max` is the same flat
network with a maximum as its readout, which has a shortcut on this data (see diffpool/data/embedded.py); `diffpool-max`
is DiffPool with that readout.
"""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.record import begin, finish, parser
from diffpool.data import embedded
from diffpool.experiments import settings_for, train_once

ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "diffpool": ("diffpool", {}),
    "graphsage": ("graphsage", {}),
    "diffpool-max": ("diffpool", {"readout": "max"}),
    "graphsage-max": ("graphsage", {"readout": "max"}),
}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument(
        "--rows", default="diffpool,graphsage", help=f"of {', '.join(ROWS)}, or all"
    )
    options.add_argument("--epochs", type=int, help="instead of the default")
    options.add_argument("--graphs", type=int, default=2000)
    chosen = begin(options)
    rows = list(ROWS) if chosen.rows == "all" else chosen.rows.split(",")
    epochs = {"epochs": chosen.epochs} if chosen.epochs else {}
    result: dict[str, Any] = {"graphs": chosen.graphs}
    for row in rows:
        method, changes = ROWS[row]
        accuracies, seconds, parameters = [], [], 0
        for seed in range(chosen.seeds):
            data = embedded(chosen.graphs, seed=seed)
            outcome = train_once(
                settings_for(method, "embedded", seed=seed, **changes, **epochs), data
            )
            accuracies.append(round(100 * outcome.test.accuracy, 2))
            seconds.append(round(outcome.seconds, 1))
            parameters = sum(p.numel() for p in outcome.model.parameters())
            print(
                f"{row:14s} seed {seed}: {accuracies[-1]:5.1f} %  ({seconds[-1]:.0f} s)", flush=True
            )
        result[row] = {
            "mean": round(statistics.mean(accuracies), 2),
            "sd": round(statistics.stdev(accuracies), 2) if len(accuracies) > 1 else 0.0,
            "accuracies": accuracies,
            "seconds": seconds,
            "parameters": parameters,
        }
    print(f"\ntest accuracy in percent, mean ± sd over {chosen.seeds} seeds")
    for row in rows:
        print(
            f"{row:14s} {result[row]['mean']:5.1f} ± {result[row]['sd']:.1f}   {result[row]['parameters']} parameters"
        )
    finish("embedded", result, chosen)


if __name__ == "__main__":
    main()
