"""A custom pooler: keep the nodes with the highest scores, with noise, in a cohort of models trained side by side.

A pooler is a module called as `pooler(graphs, z, scores, clusters, random)`. Its network `gnn` computes the scores from
the input of the level, in parallel with the encoder. `clusters` gives the number of clusters of each graph. `random`
provides random numbers that are the same for a model in a cohort as for the model alone.
"""

import torch
from torch import Tensor

from diffpool import embedded
from diffpool.data import single_split
from diffpool.equations import pooled_features, pooled_graphs
from diffpool.graphs import Graphs
from diffpool.layout import Layout, row_limits
from diffpool.nn import (
    Assignment,
    Clusters,
    Encoder,
    GraphClassifier,
    LayerRandom,
    Pooled,
    Pooler,
    Sage,
    mlp,
)
from diffpool.training import Cohort, Training, score_cohort


class NoisyTopK(Pooler):
    """Each of the k_g best nodes of a graph becomes a cluster; its entry in S is its score. Training adds noise."""

    def __init__(self, num_features: int, models: int):
        super().__init__(gnn=Encoder(Sage, [num_features, 16, 1], models=models))

    def forward(
        self,
        graphs: Graphs,
        z: Tensor,
        scores: Tensor | None,
        clusters: Layout,
        random: LayerRandom | None = None,
    ) -> Pooled:
        score = scores[:, 0].sigmoid()  # [N]
        ranking = score.detach()
        if self.training and random is not None:
            ranking = ranking + 0.2 * random.uniform(scores[:, :1])[:, 0]
        rank = rank_in_graph(ranking, graphs.layout)
        kept = rank < row_limits(graphs.layout, clusters)  # k_g for the nodes of graph g
        columns = torch.arange(clusters.largest, device=rank.device)
        s = ((rank[:, None] == columns) & kept[:, None]) * score[:, None]  # local [N, W]
        return Pooled(
            graphs=pooled_graphs(graphs, s, clusters),
            x=pooled_features(graphs, s, z, clusters),
            assignment=Assignment(s, graphs.layout, clusters),
        )


def rank_in_graph(values: Tensor, layout: Layout) -> Tensor:
    """The rank of each row among the rows of its graph, 0 for the largest value: [N]."""
    graph, sizes = layout.graph_of_row, layout.device_sizes
    order = torch.argsort(values - 2 * graph, descending=True)  # sorted by graph, then by value
    position = torch.empty_like(order).scatter_(0, order, torch.arange(len(order)).to(order))
    first = torch.cat(
        [sizes.cumsum(0) - sizes, sizes.sum()[None]]
    )  # the last one: rows of no graph
    return position - first[graph]


def main(num_graphs: int = 200, epochs: int = 3, models: int = 3) -> list[float]:
    dataset = embedded(num_graphs)
    torch.manual_seed(0)
    width = 32
    model = GraphClassifier(
        encoders=[
            Encoder(Sage, [dataset.num_features, width], models=models),
            Encoder(Sage, [width, width], models=models),
        ],
        poolers=[NoisyTopK(dataset.num_features, models)],
        clusters=[Clusters(max_count=dataset.largest, ratio=0.25)],
        head=mlp(width, [], dataset.num_classes, models=models),
        readout="mean",
    )
    folds = [single_split(dataset.y, seed=seed) for seed in range(models)]
    configs = [Training(epochs=epochs, seed=seed) for seed in range(models)]
    cohort = Cohort(model, dataset, folds, configs)
    while not cohort.finished:
        losses = [row.train_loss for row in cohort.train_epoch() if row is not None]
        print(f"epoch {cohort.epoch}: losses", *(f"{loss:.3f}" for loss in losses))
    cohort.restore_best()
    scores = score_cohort(model, cohort.batches, [fold.test for fold in folds])
    for number, found in enumerate(scores):
        print(f"model {number}: test accuracy {100 * found.accuracy:.1f} %")
    return [found.loss for found in scores]


if __name__ == "__main__":
    main()
