"""The names of the node and edge features, in a module that does not import NumPy, for options and completion."""

NODE_PARTS = {
    "attributes": "the node attributes, standardized",
    "raw-attributes": "the node attributes, unchanged",
    "labels": "one-hot node labels",
    "degree": "one-hot degree",
    "log-degree": "log(1 + degree), standardized",
    "clustering": "the clustering coefficient",
    "constant": "the number 1",
}
EDGE_PARTS = {"attributes": "the edge attributes", "labels": "one-hot edge labels"}
