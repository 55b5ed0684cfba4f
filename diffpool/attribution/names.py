"""The methods of attribution and the ways to spread scores, by name. It imports nothing, so that help is fast."""

METHODS = {
    "gradients": "integrated gradients on the inputs of every level; the scores of a level add up",
    "leave-out": "change of the prediction without the members of a cluster",
    "keep": "prediction for the members of a cluster alone, compared with a graph without nodes",
}
SPREADS = ("soft", "first")  # how the scores of clusters are divided among nodes
