"""Fidelity of explanations: how the probability falls if the most important nodes or the most important cluster go.

On each data set, DiffPool and a flat GraphSAGE are trained on the same split, and every method of `diffpool explain`
explains the predicted class of test graphs. Then the tenth or fifth of the nodes with the highest scores is removed;
for comparison, random nodes, and the nodes that PyTorch Geometric's GNNExplainer finds. For DiffPool, the cluster with
the highest score goes, or a random one. On the embedded data, the nodes that determine the class are known: both marks.
There is a record after each model, which contains the models before it; docs/explain.md shows the latest record of a
data set.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.record import begin, finish, parser
from diffpool.attribution import METHODS, Explanation, explain, subgraph_outputs
from diffpool.attribution.gated import edge_targets
from diffpool.data import GraphDataset, RawGraphs, embedded, read_graphs, single_split
from diffpool.data.tu_collection import load_raw
from diffpool.experiments import settings_for, train_once
from diffpool.graphs import SparseGraphs
from diffpool.training import TrainedModel, load_model

SHARES = (0.1, 0.2)  # of the nodes that are removed
DRAWS = 5  # random choices per graph
MARKED = 8  # marked nodes of a graph of the embedded data
EPOCHS = {"embedded": 40, "ENZYMES": 60, "molecules": 60}
SETTINGS: dict[str, dict[str, dict[str, Any]]] = {
    # with a sum over nodes, a flat network cannot tell the classes apart
    "embedded": {"diffpool": {}, "graphsage": {"readout": "max"}},
    "ENZYMES": {"diffpool": {}, "graphsage": {}},
    "molecules": {"diffpool": {"min_clusters": 4}, "graphsage": {}},
}
MOLECULES = Path(__file__).parent.parent / "examples" / "data" / "molecules.csv"


def load(name: str, data_dir: str | None) -> tuple[GraphDataset, RawGraphs]:
    """A data set, with features and as given."""
    if name == "embedded":
        dataset = embedded()
        return dataset, dataset.as_raw()
    raw = (
        read_graphs(MOLECULES, label="lipophilic")
        if name == "molecules"
        else load_raw(name, data_dir)
    )
    return GraphDataset.from_raw(raw), raw


class Fall:
    """How the probability of the predicted class falls without some nodes, for a model and some graphs."""

    def __init__(self, model: TrainedModel, raw: RawGraphs):
        self.model = model
        self.graphs, self.x = model.inputs(raw)
        self.whole = model.outputs_of(self.graphs, self.x)
        self.column = self.whole.argmax(1)

    def without(self, removed: list[np.ndarray]) -> list[float]:
        """The fall for each graph; `removed` [n] (bool) for each."""
        numbers = range(len(removed))
        keep = [~own for own in removed]
        left = subgraph_outputs(self.model, self.graphs, self.x, numbers, keep)
        return [float(self.whole[g, c] - left[g, c]) for g, c in enumerate(self.column)]


def highest(scores: np.ndarray, share: float) -> np.ndarray:
    """[n] bool: the nodes with the highest scores."""
    chosen = np.zeros(len(scores), bool)
    chosen[np.argsort(-scores, kind="stable")[: max(1, round(share * len(scores)))]] = True
    return chosen


def node_falls(fall: Fall, scores: list[np.ndarray]) -> dict[str, float]:
    """The mean fall without the highest nodes, by share."""
    found = {}
    for share in SHARES:
        falls = fall.without([highest(own, share) for own in scores])
        found[f"{share:g}"] = float(f"{np.mean(falls):.4g}")
    return found


def random_falls(fall: Fall, rng: np.random.Generator) -> dict[str, float]:
    """The mean fall without random nodes."""
    sizes = fall.graphs.layout.sizes.tolist()
    draws = [node_falls(fall, [rng.random(n) for n in sizes]) for _ in range(DRAWS)]
    return {name: float(f"{np.mean([d[name] for d in draws]):.4g}") for name in draws[0]}


def highest_cluster_fall(fall: Fall, found: list[Explanation]) -> float:
    """The mean fall without the used cluster that has the highest score."""
    return _cluster_fall(fall, found, lambda used, scores: used[scores[used].argmax()])


def random_cluster_fall(fall: Fall, found: list[Explanation], rng: np.random.Generator) -> float:
    """The mean fall without a random used cluster."""
    draws = [_cluster_fall(fall, found, lambda used, _: rng.choice(used)) for _ in range(DRAWS)]
    return float(f"{np.mean(draws):.4g}")


def _cluster_fall(
    fall: Fall, found: list[Explanation], choose: Callable[[np.ndarray, np.ndarray], Any]
) -> float:
    removed = []
    for own in found:
        level = own.levels[1]
        removed.append(level.members == choose(np.flatnonzero(level.used), level.nodes))
    return float(f"{np.mean(fall.without(removed)):.4g}")


class Wrapped(nn.Module):
    """A network as PyTorch Geometric's explainers call it: log-probabilities of the one graph."""

    def __init__(self, network: nn.Module, graphs: SparseGraphs):
        super().__init__()
        self.network, self.graphs = network, graphs

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.network(self.graphs, x).logits.log_softmax(-1)


def gnn_explainer(model: TrainedModel, fall: Fall, seed: int) -> list[np.ndarray]:
    """The node masks of GNNExplainer (Ying et al., 2019) with its default settings."""
    from torch_geometric.explain import Explainer, GNNExplainer

    found = []
    for g in range(len(fall.graphs)):
        graphs, rows = fall.graphs.select([g])
        wrapped = Wrapped(model.parts[0], graphs).eval()
        explainer = Explainer(
            wrapped,
            algorithm=GNNExplainer(epochs=100),
            explanation_type="model",
            node_mask_type="object",
            edge_mask_type=None,
            model_config={
                "mode": "multiclass_classification",
                "task_level": "graph",
                "return_type": "log_probs",
            },
        )
        torch.manual_seed(seed)
        edges = torch.stack([graphs.adj.indices, edge_targets(graphs)])
        found.append(explainer(fall.x[rows], edges).node_mask[:, 0].detach().numpy())
    return found


def truth(dataset: GraphDataset, numbers: np.ndarray, scores: list[np.ndarray]) -> dict[str, Any]:
    """How often the marks of the embedded data are among the eight nodes with the highest |score|.

    Every graph has eight marked nodes: two at each of four ends of communities. Shares of graphs: `all`, the eight
    highest are the marked nodes; `both`, there is one with each mark among them; `first`, the highest is marked.
    `nodes` is the share of marked nodes among the eight highest, and `chance` that among random ones.
    """
    nodes, both, first = [], [], []
    for number, own in zip(numbers.tolist(), scores, strict=True):
        start = int(dataset.graphs.layout.starts[number])
        marks = (dataset.x[start : start + len(own), -2:] > 0).numpy()  # [n, 2]
        top = np.argsort(-np.abs(own), kind="stable")[:MARKED]
        found = marks[top]
        nodes.append(found.any(1).mean())
        both.append(found.any(0).all())
        first.append(found[0].any())
    shares = {
        "nodes": np.mean(nodes),
        "all": np.mean([share == 1 for share in nodes]),
        "both": np.mean(both),
        "first": np.mean(first),
        "chance": MARKED / len(own),
    }
    return {name: float(f"{value:.4g}") for name, value in shares.items()}


def trained(name: str, method: str, dataset: GraphDataset, chosen: Any) -> TrainedModel:
    """The model in the folder of trained models, if there is one; otherwise a new one."""
    if chosen.models is not None and (chosen.models / f"{name}-{method}").exists():
        return load_model(chosen.models / f"{name}-{method}")
    changes, epochs = SETTINGS[name][method], chosen.epochs or EPOCHS[name]
    settings = settings_for(method, name, epochs=epochs, seed=chosen.seed, **changes)
    return train_once(settings, dataset).trained


def compare(name: str, chosen: Any) -> Iterator[dict[str, Any]]:
    """The row of one data set, after each model."""
    dataset, everything = load(name, chosen.data_dir)
    numbers = single_split(dataset.y, chosen.seed).test[: chosen.explained]
    row: dict[str, Any] = {"graphs": len(dataset), "explained": len(numbers), "seed": chosen.seed}
    test = single_split(dataset.y, chosen.seed).test
    for method in SETTINGS[name]:
        model, raw = trained(name, method, dataset, chosen), everything.select(numbers)
        hits = (
            model.predict(everything.select(test)) == np.array(dataset.class_names)[dataset.y[test]]
        )
        fall, rng = Fall(model, raw), np.random.default_rng(chosen.seed)
        own: dict[str, Any] = {"test": round(100 * float(hits.mean()), 1)}
        for how in METHODS if method == "diffpool" else ("gradients",):
            start = time.perf_counter()
            found = explain(model, raw, method=how)
            seconds = (time.perf_counter() - start) / len(numbers)
            scores = [e.levels[0].nodes for e in found]
            own[how] = {"nodes": node_falls(fall, scores), "seconds": float(f"{seconds:.3g}")}
            if how == "gradients":
                own[how]["gap"] = float(f"{max(_gap(e) for e in found):.3g}")
            if method == "diffpool":
                own[how]["cluster"] = highest_cluster_fall(fall, found)
            if name == "embedded":
                own[how]["truth"] = truth(dataset, numbers, scores)
        start = time.perf_counter()
        scores = gnn_explainer(model, fall, chosen.seed)
        seconds = (time.perf_counter() - start) / len(numbers)
        own["gnn_explainer"] = {
            "nodes": node_falls(fall, scores),
            "seconds": float(f"{seconds:.3g}"),
        }
        if name == "embedded":
            own["gnn_explainer"]["truth"] = truth(dataset, numbers, scores)
        own["random"] = {"nodes": random_falls(fall, rng)}
        if method == "diffpool":
            own["random"]["cluster"] = random_cluster_fall(fall, found, rng)
        row[method] = own
        print(name, method, own, flush=True)
        yield row


def _gap(own: Explanation) -> float:
    """The largest error of a sum of scores, relative to the total or 0.5, whichever is larger."""
    return max(abs(level.gap) / max(abs(level.total or 0.0), 0.5) for level in own.levels)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--data-dir", help="folder with the zip files")
    options.add_argument("--datasets", default="molecules,ENZYMES,embedded")
    options.add_argument("--explained", type=int, default=40, help="maximum number of test graphs")
    options.add_argument("--epochs", type=int, help="default: depends on the data set")
    options.add_argument("--models", type=Path, help="folder of trained models, NAME-METHOD each")
    options.add_argument("--seed", type=int, default=0)
    chosen = begin(options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in chosen.datasets.split(","):
            for row in compare(name, chosen):
                finish("explain", {"rows": {name: row}}, chosen)


if __name__ == "__main__":
    main()
