"""Classify NetworkX graphs: graphs with communities against random graphs with the same number of edges.

Trains a model, measures its accuracy on held-out graphs, prints the clusters of one graph, and saves and loads the
model. All graphs are generated; nothing is downloaded.
"""

import tempfile

import networkx as nx
import numpy as np

from diffpool import DiffPoolClassifier, load_model


def make_graph(kind: str, seed: int) -> nx.Graph:
    """Three to five communities of eight nodes, or a random graph with the same numbers of nodes and edges."""
    groups = 3 + seed % 3
    graph = nx.planted_partition_graph(groups, 8, 0.6, 0.05, seed=seed)
    if kind == "random":
        graph = nx.gnm_random_graph(graph.number_of_nodes(), graph.number_of_edges(), seed=seed)
    made = nx.Graph(graph.edges)
    made.add_nodes_from(graph.nodes)
    for node, share in nx.clustering(made).items():
        made.nodes[node]["clustering"] = float(share)  # numeric node attributes become columns of X
    return made


def main(num_graphs: int = 240, epochs: int = 20) -> float:
    y = np.array(["communities", "random"] * (num_graphs // 2))
    graphs = [make_graph(kind, seed) for seed, kind in enumerate(y)]
    test = len(graphs) // 4

    model = DiffPoolClassifier(epochs=epochs, seed=0).fit(graphs[test:], y[test:])
    accuracy = model.score(graphs[:test], y[:test])
    print(f"accuracy on {test} held-out graphs: {100 * accuracy:.1f}%")

    (levels,) = model.clusters(graphs[:1])
    for number, assignment in enumerate(levels, 1):
        nodes, clusters = assignment.shape
        used = len(set(assignment.argmax(1)))
        print(
            f"pooling {number}: {nodes} nodes into {clusters} clusters, {used} of them a first choice"
        )

    with tempfile.TemporaryDirectory() as directory:
        model.save(directory)
        loaded = load_model(directory).predict(graphs[:test])
    print(f"prediction of the saved model for the first graph: {loaded[0]}")
    return accuracy


if __name__ == "__main__":
    main()
