"""How many parameters does each neural method have, and how many graphs per second does it train on?

Every method uses its own settings (`diffpool.experiments.METHODS`), batches of 20 graphs and `--models` models side by
side, by default ten as in a cross-validation. `set2set-nodes` is Set2Set with as many steps as the largest graph has
nodes, as in the released code of the paper, which reports that it is 12 times slower than DiffPool. All methods take
turns on a data set. The time for precomputed structures is not included, but recorded (`preparation_s`). On a GPU,
`captured` says whether the steps are captured as CUDA graphs; `--eager` measures steps that are not.
"""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
import torch

from benchmarks.competitors import rehearsals_on
from benchmarks.contest import Entrant, contest, draw, tidy
from benchmarks.record import begin, finish, parser, words_of
from diffpool.builder import build
from diffpool.data import Fold, GraphDataset, embedded
from diffpool.data.tu_collection import load_raw
from diffpool.experiments import METHODS, Method, prepared, settings_for
from diffpool.nn import GraphClassifier
from diffpool.training import Cohort, EagerSteps

BATCH, TURNS = 20, 3
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in METHODS},
    "set2set-nodes": ("set2set", {"set2set_steps": 0}),
    "diffpool-straight-through": ("diffpool", {"assignment": "straight-through"}),
    "diffpool-gumbel": ("diffpool", {"assignment": "gumbel"}),
}


def load(name: str, data_dir: str, edges: bool | None) -> GraphDataset:
    if name == "embedded":
        return embedded(400)
    return GraphDataset.from_raw(load_raw(name, data_dir), edges=edges)


def built(method: Method, dataset: GraphDataset, models: int) -> GraphClassifier:
    channels = 0 if dataset.feature_map is None else dataset.feature_map.num_edge_features
    shape = (dataset.num_features, dataset.num_classes, dataset.largest, models)
    return build(method.architecture, *shape, edge_features=channels)


class Trained:
    """M models of a method, ready for training."""

    def __init__(self, method: Method, dataset: GraphDataset, models: int, eager: bool = False):
        everything, nothing = np.arange(len(dataset)), np.empty(0, np.int64)
        model = built(method, dataset, models).to(dataset.x.device)
        folds = [Fold(everything, nothing, nothing)] * models
        self.cohort = cohort = Cohort(model, dataset, folds, [method.training] * models)
        if eager:
            cohort.stepper = EagerSteps(cohort.batches, cohort.step)
        self.captured = not isinstance(cohort.stepper, EagerSteps)

    def steps(self, chosen: np.ndarray) -> None:
        """Training steps on these graphs: [steps, M, B]."""
        self.cohort.train_on(list(chosen.transpose(1, 0, 2).reshape(chosen.shape[1], -1)))


def compare(name: str, rows: list[str], chosen: Any) -> dict[str, Any]:
    """All methods on one data set."""
    entrants, about = {}, {}
    for row in rows:
        method_name, changes = VARIANTS[row]
        method = settings_for(method_name, name, batch_size=BATCH, **changes)
        dataset = load(name, chosen.data_dir, method.architecture.edges)
        start = time.perf_counter()
        method, dataset = prepared(method, dataset)
        seconds = time.perf_counter() - start
        model = built(method, dataset, 1)
        about[row] = {"parameters": sum(p.numel() for p in model.parameters())}
        if method.architecture.wants_preparation:
            about[row]["preparation_s"] = round(seconds, 1)
        on_device = dataset.to(chosen.device)

        def make(
            method: Method = method,
            dataset: GraphDataset = on_device,
            own: dict[str, Any] = about[row],
        ) -> Any:
            trained = Trained(method, dataset, chosen.models, chosen.eager)
            if chosen.device == "cuda":
                own["captured"] = "yes" if trained.captured else "no"
            return trained.steps

        rehearsals = rehearsals_on(chosen.device)
        entrants[row] = Entrant(make, chosen.steps, chosen.models, rehearsals)
        size = len(dataset)
    rng, shape = np.random.default_rng(0), (chosen.steps, chosen.models, BATCH)
    results = contest(entrants, draw(rng, size, shape, 1 + TURNS), chosen.device, chosen.seconds)
    steps = -(-size // BATCH)
    for row, result in results.items():
        if "ms" in result:
            result["epoch_s"] = round(result["ms"] * steps / 1e3, 3)  # for each model
        about[row] |= result
    return {"graphs": size, "models": chosen.models, "methods": about}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--data-dir", help="folder with the zip files")
    options.add_argument("--datasets", default="ENZYMES")
    available = ", ".join(VARIANTS)
    options.add_argument(
        "--methods", default=",".join(METHODS), help=f"comma-separated; available: {available}"
    )
    options.add_argument("--models", type=int, default=10)
    options.add_argument(
        "--eager", action="store_true", help="do not capture steps on a GPU; writes no record"
    )
    options.add_argument("--steps", type=int, default=20, help="maximum number of steps in a turn")
    options.add_argument(
        "--seconds", type=float, default=2.0, help="approximate timed seconds for each method"
    )
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    chosen = begin(options)
    chosen.no_record |= chosen.eager  # the tables show how the package trains
    rows = words_of(chosen.methods, list(VARIANTS), "methods")
    for name in chosen.datasets.split(","):
        row = compare(name, rows, chosen)
        for method, own in row["methods"].items():
            print(f"{name} {method}: {json.dumps(own)}", flush=True)
        finish("methods", {"rows": {name: row}}, chosen)  # one record for each data set
        tidy()


if __name__ == "__main__":
    main()
