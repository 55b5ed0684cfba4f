"""A generated data set that DiffPool can solve and flat GraphSAGE cannot: are two marks in the same community?

Every graph has K communities, each a ladder longer than the receptive field of the network, connected at their middles
by single edges. Each community has a random unit vector, new in every graph, which its nodes carry with noise (the
identifiability that the paper assumes). m communities carry mark A at one end and m carry mark B at the other end: the
same m communities in class 1, disjoint ones in class 0. Neighborhoods and counts are the same in both classes, and with
12 rungs no node sees both marks of its community within five hops. A network that sums over nodes (a mean or sum
readout and a softmax layer) cannot tell the classes apart; one that pools each community into a cluster finds both
marks in the same cluster. A maximum over nodes also works: it can compare the vectors seen at the two marks.
"""

from __future__ import annotations

import numpy as np
import torch

from diffpool.data.dataset import GraphDataset
from diffpool.data.features import FeatureMap
from diffpool.errors import SettingError
from diffpool.graphs import SparseGraphs


def embedded(
    num_graphs: int = 2000,
    seed: int = 0,
    communities: int = 4,
    marked: int = 2,
    rungs: int = 12,
    code_size: int = 4,
    noise: float = 0.05,
) -> GraphDataset:
    """Generate the data set from a seed."""
    if 2 * marked > communities:
        raise SettingError(
            f"expected at least {2 * marked} communities for {marked} marked ones, got {communities}."
        )
    rng = np.random.default_rng(seed)
    k, size = communities, 2 * rungs
    y = rng.permutation(np.arange(num_graphs) % 2)

    # Edges inside the communities: two rails and the rungs between them; node 2r + side.
    step = np.arange(rungs)
    rails = np.concatenate([np.stack([2 * step[:-1] + s, 2 * step[1:] + s]) for s in (0, 1)], 1)
    ladder = np.concatenate([rails, np.stack([2 * step, 2 * step + 1])], 1)  # [2, edges]
    start = np.arange(num_graphs * k)[:, None, None] * size
    inside = (ladder[None] + start).transpose(1, 0, 2).reshape(2, -1)

    # Edges between them: a random path through all of them and one more edge per graph, at the middles.
    order = rng.permuted(np.tile(np.arange(k), (num_graphs, 1)), axis=1)
    pairs = np.concatenate(
        [np.stack([order[:, :-1], order[:, 1:]], -1), order[:, None, [0, -1]]], 1
    )
    middle = rungs + rng.integers(-1, 1, pairs.shape)
    nodes = (np.arange(num_graphs)[:, None, None] * k + pairs) * size + middle
    between = nodes.reshape(-1, 2).T
    source, target = np.concatenate([inside, between], 1)

    # Features: the code of the community with noise, mark A, mark B.
    codes = rng.normal(size=(num_graphs, k, 1, code_size))
    codes /= np.linalg.norm(codes, axis=-1, keepdims=True)
    x = np.zeros((num_graphs, k, size, code_size + 2))
    x[..., :code_size] = codes + noise * rng.normal(size=(num_graphs, k, size, code_size))
    chosen = rng.permuted(np.tile(np.arange(k), (num_graphs, 1)), axis=1)
    with_a = chosen[:, :marked]
    with_b = np.where(y[:, None] == 1, with_a, chosen[:, marked : 2 * marked])
    graph = np.arange(num_graphs)[:, None]
    x[graph, with_a, :2, code_size] = 1
    x[graph, with_b, -2:, code_size + 1] = 1

    graphs = SparseGraphs.from_edges(
        np.full(num_graphs, k * size),
        np.concatenate([source, target]),
        np.concatenate([target, source]),
    )
    community = np.tile(np.repeat(np.arange(k), size), num_graphs)
    return GraphDataset(
        name="embedded",
        graphs=graphs,
        x=torch.from_numpy(x.reshape(-1, code_size + 2)).float(),
        y=torch.from_numpy(y.astype(np.int64)),
        class_names=("apart", "together"),
        features=f"community code ({code_size}), mark A, mark B",
        feature_map=FeatureMap(("raw-attributes",), node_attributes=code_size + 2),
        communities=torch.from_numpy(community),
    )
