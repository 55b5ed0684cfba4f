"""Does section 4.4 of the paper hold? Clusters of DiffPool by their maximum number C, the depth and the losses.

On each data set, models with different C (5, 10, 25 and 50 % of the nodes; 5, 20 and 50) and depths are trained with
four objectives: link weights 1, 0.1 and 0, and the classification loss alone. All objectives and seeds of an
architecture are trained side by side; models with the same seed have the same split. Their clusters are analyzed on
test graphs (`diffpool.analysis`), before and after training. There is one record for each data set; docs/analysis.md
shows the latest ones.
"""

from __future__ import annotations

import json
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch

from benchmarks.cliques import cliques
from benchmarks.contest import tidy
from benchmarks.record import begin, finish, parser, set_precision, words_of
from diffpool.analysis import Graph, Summary, graphs_of, measure
from diffpool.analysis.measures import structure
from diffpool.data import GraphDataset, embedded, single_split
from diffpool.data.tu_collection import load_raw
from diffpool.errors import DiffPoolError
from diffpool.experiments.cohorts import make_cohort, results
from diffpool.experiments.methods import Method, settings_for
from diffpool.experiments.plan import Task
from diffpool.experiments.reproduce.rules import OBJECTIVES, VARIANTS
from diffpool.nn import GraphClassifier, take

EPOCHS = {"ENZYMES": 100, "PROTEINS": 60, "DD": 40, "COLLAB": 20, "embedded": 40, "cliques": 40}
DATASETS = "ENZYMES,DD,COLLAB,embedded,cliques"
LEFT_OUT = {  # measures that the page does not show and that are not recorded
    *("used_share", "dense_nodes", "sparse_nodes", "dense_per_node", "sparse_per_node"),
    *("same_pair", "same_edge", "same_dense", "same_sparse"),
    *("distance", "distance_in_cluster", "far_twins"),
}
BATCH = 20  # graphs per batch when clusters are computed


def load(name: str, data_dir: str | None, max_graphs: int | None) -> GraphDataset:
    """A data set, or a random sample of its graphs."""
    if name == "embedded":
        return embedded(max_graphs or 2000)
    if name == "cliques":
        return cliques(max_graphs or 600)
    raw = load_raw(name, data_dir)
    if max_graphs is not None and max_graphs < len(raw):
        raw = raw.select(np.random.default_rng(0).choice(len(raw), max_graphs, replace=False))
    return GraphDataset.from_raw(raw)


def tasks_of(
    method: Method, dataset: GraphDataset, objectives: list[str], seeds: int
) -> list[Task]:
    """A model for each objective and seed. The seed determines the split and the initial parameters."""
    tasks = []
    for objective in objectives:
        for seed in range(seeds):
            training = replace(method.training, seed=seed, **OBJECTIVES[objective])
            own = replace(method, training=training)
            split = single_split(dataset.y.cpu(), seed)
            tasks.append(Task(f"{objective}/{seed}", own, split, may_fail=True))
    return tasks


class Graphs:
    """The graphs of a data set, ready for the analysis; each is built once for a number of hops."""

    def __init__(self, dataset: GraphDataset):
        self.raw, self.x = dataset.as_raw(), dataset.x.cpu().numpy()
        found = dataset.communities
        self.communities = None if found is None else found.cpu().numpy()
        self.found: dict[tuple[int, int], Graph] = {}

    def get(self, number: int, hops: int) -> Graph:
        """The graph with this number."""
        if (number, hops) not in self.found:
            start, size = int(self.raw.starts[number]), int(self.raw.sizes[number])
            nodes = slice(start, start + size)
            planted = None if self.communities is None else self.communities[nodes]
            one = self.raw.select([number])
            (self.found[number, hops],) = graphs_of(one, self.x[nodes], hops, planted)
        return self.found[number, hops]


@torch.no_grad()
def analyzed(
    model: GraphClassifier, dataset: GraphDataset, numbers: np.ndarray, graphs: Graphs, hops: int
) -> list[dict[str, float]]:
    """The mean of each measure over these graphs, for each pooling of one model.

    `follows_communities` is the correlation over the graphs between the share of used clusters and the number of
    Louvain communities per node.
    """
    model.eval()
    summaries = [Summary() for _ in model.poolers]
    points: list[list[tuple[float, float]]] = [[] for _ in model.poolers]
    for start in range(0, len(numbers), BATCH):
        chosen = numbers[start : start + BATCH]
        batch = dataset.batch(chosen)
        prediction = model(batch.graphs, batch.x)
        for index, number in enumerate(chosen.tolist()):
            own = [a.of_graph(index).cpu().numpy() for a in prediction.assignments]
            graph = graphs.get(number, hops)
            for summary, found, at in zip(summaries, measure(graph, own), points, strict=True):
                summary.add(found)
                if "louvain_communities" in found:
                    at.append((found["used_share"], found["louvain_communities"] / graph.size))
    return [
        {name: values["mean"] for name, values in summary.to_json().items()} | _correlation(at)
        for summary, at in zip(summaries, points, strict=True)
    ]


def _correlation(points: list[tuple[float, float]]) -> dict[str, float]:
    if len(points) < 3 or min(np.std(points, 0)) < 1e-9:
        return {}
    return {"follows_communities": float(np.corrcoef(np.transpose(points))[0, 1])}


def train(tasks: list[Task], dataset: GraphDataset, chosen: Any, graphs: Graphs) -> dict[str, Any]:
    """Train the models of these tasks side by side; analyze their clusters before and after training."""
    architecture = tasks[0].method.architecture
    hops = architecture.assignment_layers or architecture.layers_before
    cohort = make_cohort(tasks, dataset)
    found: dict[str, Any] = {}

    def look(number: int, objective: str) -> dict[str, Any]:
        row = found.setdefault(objective, {"test": [], "train": [], "poolings": []})
        test = tasks[number].split.test[: chosen.analyzed]
        poolings = analyzed(take(cohort.model, [number]), dataset, test, graphs, hops)
        for level, measures in enumerate(poolings):
            if level == len(row["poolings"]):
                row["poolings"].append({})
            for name, value in measures.items():
                if name not in LEFT_OUT:
                    row["poolings"][level].setdefault(name, []).append(float(f"{value:.3g}"))
        return row

    for seed in range(chosen.seeds):
        look(
            seed, "untrained"
        )  # models of the first objective; the others start from the same parameters
    seconds, curves = [], []
    while not cohort.finished:
        rows = cohort.train_epoch()
        curves.append(rows)
        if all(row is not None for row in rows):
            seconds.append(rows[0].seconds)
    done = results(tasks, cohort)
    for number, task in enumerate(tasks):
        trained, objective = done[task.name], task.name.split("/")[0]
        if trained.failed:
            continue
        row = look(number, objective)
        best = curves[trained.epoch - 1][number]
        row["test"].append(round(100 * trained.test_accuracy, 2))
        row["train"].append(round(100 * best.train_accuracy, 2))
    return {
        "parameters": done[tasks[0].name].parameters,
        # per model, with all trained side by side
        "epoch_s": float(f"{statistics.median(seconds) / len(tasks):.4g}") if seconds else None,
        "objectives": found,
    }


def one_variant(
    name: str,
    variant: str,
    chosen: Any,
    dataset: GraphDataset | None = None,
    graphs: Graphs | None = None,
) -> dict[str, Any]:
    """Train and analyze the models of one variant; the data set is loaded if it is not given."""
    start = time.perf_counter()
    if dataset is None or graphs is None:
        set_precision(chosen)
        dataset = load(name, chosen.data_dir, chosen.graphs).to(chosen.device)
        graphs = Graphs(dataset)
    epochs = chosen.epochs or EPOCHS.get(name, 60)
    method = settings_for("diffpool", name, epochs=epochs, **VARIANTS[variant])
    tasks = tasks_of(method, dataset, chosen.objectives, chosen.seeds)
    try:
        result = train(tasks, dataset, chosen, graphs)
    except DiffPoolError as error:  # not enough memory
        result = {"failed": str(error)}
    tidy()
    print(f"{name}, C = {variant}: {time.perf_counter() - start:.0f} s", flush=True)
    return result


def compare(name: str, chosen: Any) -> dict[str, Any]:
    """All variants on one data set."""
    dataset = load(name, chosen.data_dir, chosen.graphs).to(chosen.device)
    graphs = Graphs(dataset)
    epochs = chosen.epochs or EPOCHS.get(name, 60)
    row: dict[str, Any] = {"graphs": len(dataset), "seeds": chosen.seeds, "epochs": epochs}
    row["models"] = len(chosen.objectives) * chosen.seeds
    row["analyzed"] = min(chosen.analyzed, len(single_split(dataset.y.cpu(), 0).test))
    row["variants"] = {}
    if chosen.jobs == 1:
        for variant in chosen.variants:
            row["variants"][variant] = one_variant(name, variant, chosen, dataset, graphs)
    else:
        context = get_context("spawn")  # a process that has used a GPU cannot be forked
        with ProcessPoolExecutor(chosen.jobs, mp_context=context) as pool:
            futures = [pool.submit(one_variant, name, v, chosen) for v in chosen.variants]
            for variant, future in zip(chosen.variants, futures, strict=True):
                row["variants"][variant] = _untimed(future.result())
    hops = settings_for("diffpool", name).architecture.layers_before
    about = Summary()
    for number in single_split(dataset.y.cpu(), 0).test[: chosen.analyzed].tolist():
        about.add(structure(graphs.get(number, hops)))
    row["structure"] = {n: float(f"{v['mean']:.4g}") for n, v in about.to_json().items()}
    return row


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--data-dir", help="folder with the zip files")
    options.add_argument("--datasets", default=DATASETS)
    options.add_argument("--variants", default=",".join(VARIANTS))
    options.add_argument("--objectives", default=",".join(OBJECTIVES))
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--epochs", type=int, help="default: depends on the data set")
    options.add_argument("--graphs", type=int, help="use only this many graphs, chosen at random")
    options.add_argument("--analyzed", type=int, default=100, help="maximum number of test graphs")
    options.add_argument(
        "--jobs",
        type=int,
        default=1,
        help="variants to train at the same time, each in its own process; above 1, no times are recorded",
    )
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    chosen = begin(options)
    for what, known in (("variants", VARIANTS), ("objectives", OBJECTIVES)):
        words = [word.strip() for word in getattr(chosen, what).split(",")]
        setattr(chosen, what, words_of(",".join(words), list(known), what))
    for name in chosen.datasets.split(","):
        row = compare(name, chosen)
        for variant, own in row["variants"].items():
            print(f"{name}, C = {variant}: {json.dumps(_short(own))}", flush=True)
        finish("clusters", {"rows": {name: row}}, chosen)  # one record for each data set
        tidy()


def _untimed(result: dict[str, Any]) -> dict[str, Any]:
    """The result without its time, which other processes on the same device have lengthened."""
    return result if "failed" in result else {**result, "epoch_s": None}


def _short(own: dict[str, Any]) -> dict[str, Any]:
    """Test accuracy and clusters used with each objective, for the terminal."""
    if "failed" in own:
        return own
    return {
        objective: [round(statistics.mean(row["poolings"][0]["used"]), 1), *row["test"]]
        for objective, row in own["objectives"].items()
    }


if __name__ == "__main__":
    main()
