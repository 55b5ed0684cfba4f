"""A graph U-Net for node classification with PyTorch Geometric's layers: pool, convolve, lift back to the nodes.

The class of a node says whether its community contains a marked node, which may be more hops away than the network has
layers. `out.lift` returns the features of the clusters to every node, so clusters that follow communities give the
answer. `diffpool.nn.NodeClassifier` is the same as a ready-made network (node_classes.py).
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import BatchNorm, SAGEConv

from diffpool import DiffPooling, embedded


class UNet(nn.Module):
    """Down: convolutions and pooling; on the clusters: a convolution; up: lift, concatenate, convolve."""

    def __init__(self, num_features: int, num_classes: int, num_clusters: int, hidden: int = 32):
        super().__init__()
        self.conv1 = SAGEConv(num_features, hidden)
        self.norm1 = BatchNorm(hidden)
        self.conv2 = SAGEConv(hidden, hidden)
        self.norm2 = BatchNorm(hidden)
        self.pool = DiffPooling(hidden, num_clusters=num_clusters, link_weight=0.02)
        self.inner = nn.Linear(hidden, hidden)
        self.up = SAGEConv(2 * hidden, hidden)
        self.head = nn.Linear(hidden, num_classes)

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Logits of the nodes [N, C] and the auxiliary loss."""
        h = self.norm1(self.conv1(batch.x, batch.edge_index)).relu()
        h = self.norm2(self.conv2(h, batch.edge_index)).relu()  # [N, 32]
        out = self.pool(h, batch.edge_index, batch.batch, batch_size=batch.num_graphs)
        coarse = self.inner(out.x).relu()  # [K, 32]
        both = torch.cat([h, out.lift(coarse)], 1)  # [N, 64]
        return self.head(self.up(both, batch.edge_index).relu()), out.loss


def graphs(count: int) -> list[Data]:
    """Generated graphs; y is 1 for the nodes of a community that contains mark A."""
    dataset = embedded(count)
    assert dataset.communities is not None
    community = dataset.graphs.layout.graph_of_row * 100 + dataset.communities  # unique IDs
    marks = torch.zeros(int(community.max()) + 1)
    marks.index_put_((community,), dataset.x[:, -2], accumulate=True)
    graphs = dataset.graphs.to_pyg(dataset.x).to_data_list()
    y = (marks[community] > 0).long().split(dataset.graphs.layout.sizes.tolist())
    for data, classes in zip(graphs, y, strict=True):
        data.y = classes  # [n]
    return graphs


def main(num_graphs: int = 400, epochs: int = 20) -> float:
    torch.manual_seed(0)
    dataset = graphs(num_graphs)
    held_out = num_graphs // 5
    model = UNet(dataset[0].num_features, num_classes=2, num_clusters=8)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(1, epochs + 1):
        losses = []
        for batch in DataLoader(dataset[held_out:], batch_size=20, shuffle=True):
            logits, auxiliary = model(batch)
            loss = F.cross_entropy(logits, batch.y) + auxiliary
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        print(f"epoch {epoch}: loss {torch.stack(losses).mean():.3f}")
    model.eval()
    test = Batch.from_data_list(dataset[:held_out])
    with torch.no_grad():
        accuracy = float((model(test)[0].argmax(1) == test.y).double().mean())
    share = float((test.y == 0).double().mean())
    print(f"node accuracy on {held_out} held-out graphs: {100 * accuracy:.1f} %")
    print(f"the most frequent class: {100 * max(share, 1 - share):.1f} %")
    return accuracy


if __name__ == "__main__":
    main()
