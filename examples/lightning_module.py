"""DiffPool in a module of PyTorch Lightning, which logs the link and entropy loss of the pooling. It needs `lightning`.

The graphs are generated. Any data set of PyTorch Geometric can take their place, for example
`TUDataset("data", "ENZYMES")`.
"""

import lightning
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Batch
from torch_geometric.datasets import FakeDataset
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GraphConv

from diffpool import DiffPooling, PoolingOutput


class Classifier(lightning.LightningModule):
    """Convolution, pooling to eight clusters, convolution on the weighted coarse graph, mean over the clusters."""

    def __init__(self, num_features: int, num_classes: int, hidden: int = 32, lr: float = 3e-3):
        super().__init__()
        self.save_hyperparameters()
        self.conv1 = GraphConv(num_features, hidden, aggr="mean")
        self.pool = DiffPooling(hidden, num_clusters=8, link_weight=0.1, entropy_weight=0.1)
        self.conv2 = GraphConv(hidden, hidden, aggr="mean")
        self.head = nn.Linear(hidden, num_classes)

    def forward(self, batch: Batch) -> tuple[Tensor, PoolingOutput]:
        """Logits [B, C] and the result of the pooling."""
        h = self.conv1(batch.x, batch.edge_index).relu()  # [N, 32]
        out = self.pool(h, batch.edge_index, batch.batch, batch_size=batch.num_graphs)
        h = self.conv2(out.x, out.edge_index, out.edge_weight).relu()  # [8 B, 32]
        return self.head(h.unflatten(0, (-1, 8)).mean(1)), out

    def training_step(self, batch: Batch) -> Tensor:
        logits, out = self(batch)
        class_loss = F.cross_entropy(logits, batch.y)
        losses = {name: loss.mean() for name, loss in out.losses.items()}  # link, entropy
        self.log_dict({"class": class_loss, **losses}, batch_size=batch.num_graphs)
        return class_loss + out.loss

    def test_step(self, batch: Batch) -> None:
        logits, _ = self(batch)
        accuracy = (logits.argmax(1) == batch.y).float().mean()
        self.log("accuracy", accuracy, batch_size=batch.num_graphs)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=self.hparams["lr"])


def main(num_graphs: int = 400, epochs: int = 10, progress: bool = True) -> dict[str, float]:
    lightning.seed_everything(0)
    dataset = FakeDataset(num_graphs, avg_num_nodes=30, num_channels=16, num_classes=3)
    held_out = num_graphs // 5
    model = Classifier(dataset.num_features, dataset.num_classes)
    trainer = lightning.Trainer(
        accelerator="auto",
        max_epochs=epochs,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=progress,
        enable_model_summary=progress,
    )
    trainer.fit(model, DataLoader(dataset[held_out:], batch_size=20, shuffle=True))
    logged = {name: float(value) for name, value in trainer.callback_metrics.items()}
    (result,) = trainer.test(
        model, DataLoader(dataset[:held_out], batch_size=100), verbose=progress
    )
    return logged | result


if __name__ == "__main__":
    main()
