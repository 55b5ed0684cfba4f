"""Names and summaries of the protocols, for help and completion without NumPy and torch."""

PROTOCOL_SUMMARIES = {
    "paper": "ten folds; reports the epoch with the best mean held-out accuracy",
    "tenfold": "ten folds; the epoch is chosen on a tenth of the training part",
    "nested": "ten folds; settings chosen from a grid on an inner hold-out; three runs",
}
KERNEL_PROTOCOL_SUMMARIES = {
    "inner-cv": "kernels only: ten folds; C and h chosen by ten-fold cross-validation of the training part",
}

# How the points of a search are drawn.
SAMPLERS = {
    "spread": "evenly, by a Halton sequence",
    "random": "at random",
    "grid": "every combination of values",
}

# What the final models of a search are trained on.
REFITS = {
    "train": "all graphs except the test graphs",
    "all": "all graphs, including the test graphs; the test scores are those of the models of the trials",
    "none": "nothing: the models of the trials are the members",
}
