"""Names and summaries of the protocols, for help and completion without NumPy and torch."""

PROTOCOL_SUMMARIES = {
    "paper": "ten folds; reports the epoch with the best mean held-out accuracy",
    "tenfold": "ten folds; the epoch is chosen on a tenth of the training part",
    "nested": "ten folds; settings chosen from a grid on an inner hold-out; three runs",
}
KERNEL_PROTOCOL_SUMMARIES = {
    "inner-cv": "kernels only: ten folds; C and h chosen by ten-fold cross-validation of the training part",
}
