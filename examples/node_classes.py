"""Classes of nodes: does the community of a node carry mark A? Its mark may be further away than the network sees.

The clusters of DiffPool gather what a community has; unpooling gives it back to every node. A flat network of the same
depth sees five hops and must guess for the nodes beyond.
"""

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from diffpool import GraphDataset, embedded
from diffpool.architecture import PAPER, Architecture, flat
from diffpool.builder import build_for_nodes
from diffpool.nn import NodeClassifier

ORDER = ("batch", "relu")
POOLED = replace(PAPER, order=ORDER, last_order=ORDER, hidden=32)


def has_mark(dataset: GraphDataset) -> Tensor:
    """1 for the nodes of a community in which some node carries mark A: [N]."""
    assert dataset.communities is not None
    place = dataset.graphs.layout.graph_of_row * 100 + dataset.communities
    mark = torch.zeros(int(place.max()) + 1).index_put((place,), dataset.x[:, -2], accumulate=True)
    return (mark[place] > 0).long()


def train(architecture: Architecture, dataset: GraphDataset, epochs: int) -> float:
    """The accuracy on the nodes of the last fifth of the graphs, after training on the others."""
    torch.manual_seed(0)
    shape = (dataset.num_features, 2, dataset.largest)
    model: NodeClassifier = build_for_nodes(architecture, *shape)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    y, held_out = has_mark(dataset), len(dataset) // 5
    order = torch.arange(len(dataset) - held_out)
    for _ in range(epochs):
        for chosen in order[torch.randperm(len(order))].split(20):
            graphs, nodes = dataset.graphs.select(chosen)
            prediction = model(graphs, dataset.x[nodes])
            losses = prediction.losses
            extra = 0.02 * losses["link"] + losses["entropy"] if losses else torch.zeros(1)
            loss = F.cross_entropy(prediction.logits, y[nodes]) + extra.mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    model.eval()
    graphs, nodes = dataset.graphs.select(torch.arange(len(dataset) - held_out, len(dataset)))
    with torch.no_grad():
        right = model(graphs, dataset.x[nodes]).logits.argmax(1) == y[nodes]
    return float(right.double().mean())


def main(num_graphs: int = 400, epochs: int = 10) -> tuple[float, float]:
    dataset = embedded(num_graphs)
    pooled, alone = (train(a, dataset, epochs) for a in (POOLED, flat(POOLED)))
    print(f"nodes right: with pooling {100 * pooled:.1f} %, flat {100 * alone:.1f} %")
    return pooled, alone


if __name__ == "__main__":
    main()
