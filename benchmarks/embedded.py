"""Which methods solve the embedded data? DiffPool does; flat GraphSAGE of the same depth and width does not.

By default there are five seeds; a seed determines the data, the split, the parameters and the order of the batches.
`graphsage-max` is the flat network with max readout, which has a shortcut on this data (see
diffpool/data/generated.py); `diffpool-max` is DiffPool with that readout. Each row has its own record.
"""

from __future__ import annotations

import statistics
from typing import Any

import torch

from benchmarks.record import begin, finish, parser
from diffpool.data import embedded
from diffpool.experiments import METHODS, settings_for, train_once

ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in METHODS},
    "diffpool-max": ("diffpool", {"readout": "max"}),
    "graphsage-max": ("graphsage", {"readout": "max"}),
    "diffpool-straight-through": ("diffpool", {"assignment": "straight-through"}),
    "diffpool-gumbel": ("diffpool", {"assignment": "gumbel"}),
}


def measure(
    row: str, seeds: int, graphs: int, device: str, changes: dict[str, Any]
) -> dict[str, Any]:
    """Mean and sd of the test accuracy over the seeds."""
    method, own = ROWS[row]
    accuracies, seconds, parameters = [], [], 0
    for seed in range(seeds):
        data = embedded(graphs, seed=seed).to(device)
        outcome = train_once(settings_for(method, "embedded", seed=seed, **own, **changes), data)
        assert outcome.test.accuracy is not None
        accuracies.append(round(100 * outcome.test.accuracy, 2))
        seconds.append(round(outcome.seconds, 1))
        parameters = sum(p.numel() for p in outcome.model.parameters())
        print(f"{row:26s} seed {seed}: {accuracies[-1]:5.1f} %  ({seconds[-1]:.0f} s)", flush=True)
    return {
        "mean": round(statistics.mean(accuracies), 2),
        "sd": round(statistics.stdev(accuracies), 2) if len(accuracies) > 1 else 0.0,
        "accuracies": accuracies,
        "seconds": seconds,
        "parameters": parameters,
    }


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument(
        "--rows",
        default="diffpool,graphsage",
        help=f"comma-separated rows, or all; available: {', '.join(ROWS)}",
    )
    options.add_argument("--epochs", type=int, help="number of epochs instead of the default")
    options.add_argument("--graphs", type=int, default=2000)
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    chosen = begin(options)
    rows = list(ROWS) if chosen.rows == "all" else chosen.rows.split(",")
    epochs = {"epochs": chosen.epochs} if chosen.epochs else {}
    print(f"test accuracy in percent, {chosen.seeds} seeds")
    for row in rows:
        measured = measure(row, chosen.seeds, chosen.graphs, chosen.device, epochs)
        print(
            f"{row:26s} {measured['mean']:5.1f} ± {measured['sd']:.1f}   {measured['parameters']} parameters",
            flush=True,
        )
        finish("embedded", {"graphs": chosen.graphs, row: measured}, chosen)


if __name__ == "__main__":
    main()
