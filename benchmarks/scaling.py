"""How does the cost of a training step grow with the size of the graphs and with the number of models side by side?

Sizes: generated graphs with n nodes and 2 n random edges, batches of 20, one model of ours and, if it fits, one of PyG.
Models: M of our models on ENZYMES, each with batches of 20 graphs. The architecture is that of `cpu_step`. Memory is
the peak GPU memory above the memory in use before.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from benchmarks.competitors import PEERS, Ours, Setting, rehearsals_on
from benchmarks.contest import Entrant, contest, draw, quotient, tidy
from benchmarks.cpu_step import BATCH
from benchmarks.record import begin, finish, parser, words_of
from diffpool.data import Categories, GraphDataset, RawGraphs, load_dataset

SIZES = "100,300,1000,3000,10000"
MODELS = "1,2,5,10,20,50,100"
PARTS = ("sizes", "models")
TURNS = 3
PEER_STEPS = 3  # maximum in a turn: each takes seconds with the largest graphs


def random_graphs(num_nodes: int, graphs: int = BATCH, seed: int = 0) -> GraphDataset:
    """Graphs of one size with 2 n random edges each (fewer after removing duplicates) and two classes."""
    rng = np.random.default_rng(seed)
    edges = 2 * num_nodes
    first = rng.integers(0, num_nodes, (graphs, edges))
    second = (first + rng.integers(1, num_nodes, (graphs, edges))) % num_nodes  # another node
    start = num_nodes * np.arange(graphs)[:, None]
    source, target = (first + start).ravel(), (second + start).ravel()
    raw = RawGraphs.from_edges(
        f"random-{num_nodes}",
        np.full(graphs, num_nodes),
        np.concatenate([source, target]),
        np.concatenate([target, source]),
        classes=Categories.from_values(np.arange(graphs) % 2),
    )
    return GraphDataset.from_raw(raw)


def size_row(num_nodes: int, device: str, steps: int, seconds: float) -> dict[str, Any]:
    """Milliseconds per step and MiB with graphs of this size, for ours and PyG."""
    torch.manual_seed(0)
    setting = Setting(random_graphs(num_nodes), device)
    entrants = {
        "ours": Entrant(lambda: Ours(setting).steps, steps, 1, rehearsals_on(device)),
        "pyg": Entrant(lambda: PEERS["pyg"](setting).steps, min(steps, PEER_STEPS)),
    }
    draws = draw(np.random.default_rng(0), BATCH, (steps, 1, BATCH), 1 + TURNS)
    results = contest(entrants, draws, device, seconds)
    ours, pyg = (results[name].get("ms") for name in ("ours", "pyg"))
    edges = setting.dataset.graphs.adj.indices.numel() // 2 // BATCH
    return {"nodes": num_nodes, "edges": edges, **results, "ratio": quotient(pyg, ours)}


def model_row(
    dataset: GraphDataset, models: int, device: str, steps: int, seconds: float
) -> dict[str, Any]:
    """Milliseconds per step, graphs per second and MiB of this many models."""
    torch.manual_seed(0)
    setting = Setting(dataset, device)
    entrant = Entrant(lambda: Ours(setting, models).steps, steps, models, rehearsals_on(device))
    shape = (steps, models, BATCH)
    draws = draw(np.random.default_rng(0), len(dataset), shape, 1 + TURNS)
    return {"models": models, **contest({"ours": entrant}, draws, device, seconds)["ours"]}


def numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--data-dir", help="folder with ENZYMES.zip, for the part `models`")
    options.add_argument(
        "--parts", default=",".join(PARTS), help=f"comma-separated parts: {', '.join(PARTS)}"
    )
    options.add_argument("--sizes", type=numbers, default=SIZES, help=f"default {SIZES}")
    options.add_argument("--models", type=numbers, default=MODELS, help=f"default {MODELS}")
    options.add_argument("--steps", type=int, default=10, help="maximum number of steps in a turn")
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options.add_argument(
        "--seconds", type=float, default=1.0, help="approximate timed seconds for each competitor"
    )
    chosen = begin(options)
    parts = words_of(chosen.parts, PARTS, "parts")
    result: dict[str, Any] = {"device": chosen.device}
    common = (chosen.device, chosen.steps, chosen.seconds)
    if "sizes" in parts:
        result["sizes"] = []
        for num_nodes in chosen.sizes:
            result["sizes"].append(size_row(num_nodes, *common))
            print(result["sizes"][-1], flush=True)
            tidy()
    if "models" in parts:
        dataset = load_dataset("ENZYMES", chosen.data_dir)
        result["models"] = []
        for models in chosen.models:
            result["models"].append(model_row(dataset, models, *common))
            print(result["models"][-1], flush=True)
            tidy()
    finish("scaling" if chosen.device == "cuda" else "scaling_cpu", result, chosen)


if __name__ == "__main__":
    main()
