"""Node classification: does the community of a node contain mark A, which may be outside its receptive field?

DiffPool's clusters collect the features of a community, and lifting returns them to every node. A flat network of the
same depth sees only five hops and has to guess for nodes that are farther away.
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
    """1 for the nodes of a community that contains mark A: [N]."""
    assert dataset.communities is not None
    community = dataset.graphs.layout.graph_of_row * 100 + dataset.communities  # unique IDs
    marks = torch.zeros(int(community.max()) + 1)
    marks.index_put_((community,), dataset.x[:, -2], accumulate=True)
    return (marks[community] > 0).long()


def train(architecture: Architecture, dataset: GraphDataset, epochs: int) -> float:
    """Train on four fifths of the graphs; return the node accuracy on the rest."""
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
        correct = model(graphs, dataset.x[nodes]).logits.argmax(1) == y[nodes]
    return float(correct.double().mean())


def main(num_graphs: int = 400, epochs: int = 10) -> tuple[float, float]:
    dataset = embedded(num_graphs)
    pooled, unpooled = (train(a, dataset, epochs) for a in (POOLED, flat(POOLED)))
    print(f"node accuracy: with pooling {100 * pooled:.1f} %, flat {100 * unpooled:.1f} %")
    return pooled, unpooled


if __name__ == "__main__":
    main()
