from diffpool.experiments.evaluate import evaluate
from diffpool.experiments.evaluation import Evaluation
from diffpool.experiments.grid import DEFAULT_GRID, Grid, make_grid, parse_grid
from diffpool.experiments.methods import METHODS, Method, settings_for
from diffpool.experiments.protocols import (
    PROTOCOLS,
    Nested,
    Paper,
    Protocol,
    Tenfold,
    choose_protocol,
    needs_edges,
)
from diffpool.experiments.records import Record, append_records, read_records
from diffpool.experiments.resumable import Status
from diffpool.experiments.run import Outcome, fit, train_once

__all__ = [
    "DEFAULT_GRID",
    "METHODS",
    "PROTOCOLS",
    "Evaluation",
    "Grid",
    "Method",
    "Nested",
    "Outcome",
    "Paper",
    "Protocol",
    "Record",
    "Status",
    "Tenfold",
    "append_records",
    "choose_protocol",
    "evaluate",
    "fit",
    "make_grid",
    "needs_edges",
    "parse_grid",
    "read_records",
    "settings_for",
    "train_once",
]
