"""DiffPool between GATv2 layers, which read the weights of the coarse edges as edge features.

The assignment network is a GATv2 layer too. The graphs are generated. Any data set of PyTorch Geometric can take their
place, for example `TUDataset("data", "ENZYMES")`.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric import seed_everything
from torch_geometric.data import Batch
from torch_geometric.datasets import FakeDataset
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GATv2Conv, global_mean_pool

from diffpool import DiffPooling


class Model(nn.Module):
    """GATv2, pooling to eight clusters, GATv2 on the weighted coarse graph, mean over the clusters."""

    def __init__(self, num_features: int, num_classes: int, hidden: int = 16, heads: int = 2):
        super().__init__()
        width = hidden * heads
        self.conv1 = GATv2Conv(num_features, hidden, heads)
        self.pool = DiffPooling(assign=GATv2Conv(width, 8, heads=1))
        self.conv2 = GATv2Conv(width, hidden, heads, edge_dim=1, add_self_loops=False)
        self.head = nn.Linear(width, num_classes)

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Logits [B, C] and the auxiliary loss."""
        h = self.conv1(batch.x, batch.edge_index).relu()  # [N, 32]
        out = self.pool(h, batch.edge_index, batch.batch, batch_size=batch.num_graphs)
        # A coarse graph has an edge between every two clusters: attention needs the weights to tell them apart.
        weight = out.edge_weight.log1p()[:, None]  # [64 B, 1]
        h = self.conv2(out.x, out.edge_index, weight).relu()  # [8 B, 32]
        return self.head(global_mean_pool(h, out.batch)), out.loss


def main(num_graphs: int = 400, epochs: int = 10) -> float:
    seed_everything(0)
    dataset = FakeDataset(num_graphs, avg_num_nodes=30, num_channels=16, num_classes=3)
    held_out = num_graphs // 5
    model = Model(dataset.num_features, dataset.num_classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(1, epochs + 1):
        losses = []
        for batch in DataLoader(dataset[held_out:], batch_size=20, shuffle=True):
            logits, auxiliary = model(batch)
            loss = F.cross_entropy(logits, batch.y) + 0.1 * auxiliary
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        print(f"epoch {epoch}: loss {torch.stack(losses).mean():.3f}")
    model.eval()
    test = Batch.from_data_list(list(dataset[:held_out]))
    with torch.no_grad():
        accuracy = float((model(test)[0].argmax(1) == test.y).double().mean())
    print(f"accuracy on {held_out} held-out graphs: {100 * accuracy:.1f} %")
    return accuracy


if __name__ == "__main__":
    main()
