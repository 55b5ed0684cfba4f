"""A pooler of one's own: keep the nodes with the highest scores (TopKPool), in about 20 lines.

A pooler is any module called as `pooler(graphs, x, z, clusters)`. It is told how many clusters each graph gets, and
answers with the coarser graphs, their features and the assignment.
"""

import torch
from torch import Tensor, nn

from diffpool import embedded
from diffpool.data import single_split
from diffpool.equations import pooled_features, pooled_graphs
from diffpool.graphs import Graphs
from diffpool.layout import Layout
from diffpool.nn import Assignment, Clusters, Encoder, GraphClassifier, Linear, Pooled, Sage, mlp
from diffpool.training import Training, score, train


class TopK(nn.Module):
    """S has a one, weighted by its score, for each of the k_g best nodes of a graph, and nothing for the others."""

    def __init__(self, width: int):
        super().__init__()
        self.score = Linear(width, 1)

    def forward(self, graphs: Graphs, x: Tensor, z: Tensor, clusters: Layout) -> Pooled:
        score = self.score(z).squeeze(1).sigmoid()  # [N]
        graph = graphs.layout.graph_of_row
        order = torch.argsort(
            score.detach() - 2 * graph, descending=True
        )  # graph by graph, the best first
        rank = torch.empty_like(order).scatter_(0, order, graphs.layout.index_in_graph)  # [N]
        kept = rank < clusters.sizes.to(rank.device)[graph]
        columns = torch.arange(clusters.largest, device=rank.device)
        s = ((rank[:, None] == columns) & kept[:, None]) * score[:, None]  # local [N, W]
        return Pooled(
            graphs=pooled_graphs(graphs, s, clusters),
            x=pooled_features(graphs, s, z, clusters),
            assignment=Assignment(s, graphs.layout, clusters),
        )


def main(num_graphs: int = 200, epochs: int = 3) -> float:
    dataset = embedded(num_graphs)
    torch.manual_seed(0)
    width = 32
    model = GraphClassifier(
        encoders=[Encoder(Sage, [dataset.num_features, width]), Encoder(Sage, [width, width])],
        poolers=[TopK(width)],
        clusters=[Clusters(max_count=dataset.largest, ratio=0.25)],
        head=mlp(width, [], dataset.num_classes),
        readout="mean",
    )
    fold = single_split(dataset.y, seed=0)
    for row in train(model, dataset, fold, Training(epochs=epochs)):
        print(f"epoch {row.epoch}: loss {row.train_loss:.3f}")
    scores = score(model, dataset, fold.test)
    print(f"TopK: test loss {scores.loss:.3f}, accuracy {100 * scores.accuracy:.1f} %")
    return scores.loss


if __name__ == "__main__":
    main()
