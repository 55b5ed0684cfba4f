"""A training loop whose steps run as CUDA graphs on a GPU: the loop of `pyg_loop.py` with `captured_step`.

Batches have different numbers of nodes and edges. On a CPU, the same code runs step by step. The graphs are generated.
Any data set of PyTorch Geometric can take their place, for example `TUDataset("data", "ENZYMES")`.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric import seed_everything
from torch_geometric.datasets import FakeDataset
from torch_geometric.loader import DataLoader

from diffpool import DiffPooling, SparseGraphs, captured_step
from diffpool.nn import Encoder, Sage
from diffpool.pooling import StepBatch


class Model(nn.Module):
    """Convolutions, pooling to a quarter of the nodes, convolutions, pooling to two clusters, a linear layer."""

    def __init__(self, num_features: int, num_classes: int, largest: int, hidden: int = 32):
        super().__init__()
        self.embed1 = Encoder(Sage, [num_features, hidden, hidden])
        self.pool1 = DiffPooling(num_features, ratio=0.25, max_clusters=largest)
        self.embed2 = Encoder(Sage, [hidden, hidden])
        self.pool2 = DiffPooling(hidden, num_clusters=2)
        self.head = nn.Linear(hidden, num_classes)

    def forward(self, graphs: SparseGraphs, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [B, C] and the auxiliary loss of both poolings."""
        first = self.pool1(self.embed1(graphs, x), graphs, assign_x=x)
        second = self.pool2(self.embed2(first.graphs, first.x), first.graphs)
        vector = second.graphs.readout(second.x, "mean")  # [B, 32]
        return self.head(vector), first.loss + second.loss


def main(num_graphs: int = 400, epochs: int = 10) -> float:
    seed_everything(0)
    dataset = FakeDataset(num_graphs, avg_num_nodes=30, num_channels=16, num_classes=3)
    held_out = num_graphs // 5
    train_loader = DataLoader(dataset[held_out:], batch_size=20, shuffle=True)
    test_loader = DataLoader(dataset[:held_out], batch_size=20)
    largest = max(data.num_nodes for data in dataset)
    cuda = torch.cuda.is_available()
    model = Model(dataset.num_features, dataset.num_classes, largest)
    model = model.to("cuda" if cuda else "cpu")
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, capturable=cuda)

    @captured_step
    def train_step(batch: StepBatch) -> Tensor:
        logits, auxiliary = model(batch.graphs, batch.x)
        loss = F.cross_entropy(logits, batch.y) + 0.1 * auxiliary
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    @captured_step
    def test_step(batch: StepBatch) -> Tensor:
        with torch.no_grad():
            return model(batch.graphs, batch.x)[0].argmax(1) == batch.y

    for epoch in range(1, epochs + 1):
        model.train()
        losses = [train_step(batch) for batch in train_loader]  # batches stay on the host
        print(f"epoch {epoch}: loss {torch.stack(losses).mean():.3f}")
    model.eval()
    hits = torch.cat([test_step(batch) for batch in test_loader])
    accuracy = float(hits.double().mean())
    print(f"accuracy on {held_out} held-out graphs: {100 * accuracy:.1f} %")
    return accuracy


if __name__ == "__main__":
    main()
