"""DiffPool in a plain training loop over PyTorch Geometric's DataLoader: two poolings between convolutions.

The graphs are generated. Any data set of PyTorch Geometric can take their place, for example
`TUDataset("data", "ENZYMES")`.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric import seed_everything
from torch_geometric.data import Batch
from torch_geometric.datasets import FakeDataset
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GraphConv, global_mean_pool

from diffpool import DiffPooling


class Model(nn.Module):
    """Convolution, pooling to a quarter of the nodes, convolution, pooling to two clusters, a linear layer."""

    def __init__(self, num_features: int, num_classes: int, largest: int, hidden: int = 32):
        super().__init__()
        self.conv1 = GraphConv(num_features, hidden, aggr="mean")
        self.pool1 = DiffPooling(num_features, ratio=0.25, max_clusters=largest)
        self.conv2 = GraphConv(hidden, hidden, aggr="mean")
        self.pool2 = DiffPooling(hidden, num_clusters=2)
        self.head = nn.Linear(hidden, num_classes)

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Logits [B, C] and the auxiliary loss of both poolings."""
        h = self.conv1(batch.x, batch.edge_index).relu()  # [N, 32]
        first = self.pool1(
            h, batch.edge_index, batch.batch, batch_size=batch.num_graphs, assign_x=batch.x
        )
        h = self.conv2(first.x, first.edge_index, first.edge_weight).relu()  # [K, 32]
        second = self.pool2(h, first.graphs)
        vector = global_mean_pool(second.x, second.batch)  # [B, 32]
        return self.head(vector), first.loss + second.loss


def train(model: Model, loader: DataLoader, optimizer: torch.optim.Optimizer) -> float:
    """One epoch; the mean loss of its batches."""
    model.train()
    losses = []
    for batch in loader:
        logits, auxiliary = model(batch)
        loss = F.cross_entropy(logits, batch.y) + 0.1 * auxiliary
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return float(torch.stack(losses).mean())


@torch.no_grad()
def test(model: Model, loader: DataLoader) -> float:
    """The fraction of graphs that are classified correctly."""
    model.eval()
    hits = [model(batch)[0].argmax(1) == batch.y for batch in loader]
    return float(torch.cat(hits).double().mean())


def main(num_graphs: int = 400, epochs: int = 10) -> float:
    seed_everything(0)
    dataset = FakeDataset(num_graphs, avg_num_nodes=30, num_channels=16, num_classes=3)
    held_out = num_graphs // 5
    train_loader = DataLoader(dataset[held_out:], batch_size=20, shuffle=True)
    test_loader = DataLoader(dataset[:held_out], batch_size=100)
    largest = max(data.num_nodes for data in dataset)
    model = Model(dataset.num_features, dataset.num_classes, largest)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(1, epochs + 1):
        loss = train(model, train_loader, optimizer)
        print(f"epoch {epoch}: loss {loss:.3f}")
    accuracy = test(model, test_loader)
    print(f"accuracy on {held_out} held-out graphs: {100 * accuracy:.1f} %")
    return accuracy


if __name__ == "__main__":
    main()
