"""Protocols: named ways to measure accuracy. docs/protocols.md compares them; never mix two of them in one table.

A protocol for neural networks is a pure function: given the plan of a run and the models trained so far, it returns the
models to train, and the accuracy of each fold whose models are trained. `NetworkRun` does the training and recording.
"""

from diffpool.experiments.protocols.choose import (
    KERNEL_PROTOCOLS,
    PROTOCOLS,
    Protocol,
    choose_kernel_protocol,
    choose_protocol,
    needs_edges,
)
from diffpool.experiments.protocols.inner_cv import InnerCV
from diffpool.experiments.protocols.nested import Nested
from diffpool.experiments.protocols.paper import Paper
from diffpool.experiments.protocols.tenfold import Tenfold

__all__ = [
    "KERNEL_PROTOCOLS",
    "PROTOCOLS",
    "InnerCV",
    "Nested",
    "Paper",
    "Protocol",
    "Tenfold",
    "choose_kernel_protocol",
    "choose_protocol",
    "needs_edges",
]
