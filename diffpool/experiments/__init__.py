from diffpool.experiments.advice import class_counts, imbalance, trivial_pooling
from diffpool.experiments.evaluation import Evaluation, evaluate, evaluate_kernel
from diffpool.experiments.grid import (
    DEFAULT_GRID,
    Grid,
    make_grid,
    parse_grid,
    parse_settings,
)
from diffpool.experiments.methods import (
    KERNEL_METHODS,
    METHODS,
    KernelMethod,
    Method,
    kernel_method,
    settings_for,
)
from diffpool.experiments.plan import prepared
from diffpool.experiments.protocols import (
    KERNEL_PROTOCOLS,
    PROTOCOLS,
    InnerCV,
    Nested,
    Paper,
    Protocol,
    Tenfold,
    choose_kernel_protocol,
    choose_protocol,
    needs_edges,
)
from diffpool.experiments.records import Record, append_records, read_records
from diffpool.experiments.report import write_report
from diffpool.experiments.single_run import Outcome, fit, train_once
from diffpool.experiments.status import KernelStatus, Status

__all__ = [
    "DEFAULT_GRID",
    "KERNEL_METHODS",
    "KERNEL_PROTOCOLS",
    "METHODS",
    "PROTOCOLS",
    "Evaluation",
    "Grid",
    "InnerCV",
    "KernelMethod",
    "KernelStatus",
    "Method",
    "Nested",
    "Outcome",
    "Paper",
    "Protocol",
    "Record",
    "Status",
    "Tenfold",
    "append_records",
    "choose_kernel_protocol",
    "choose_protocol",
    "class_counts",
    "evaluate",
    "evaluate_kernel",
    "fit",
    "imbalance",
    "kernel_method",
    "make_grid",
    "needs_edges",
    "parse_grid",
    "parse_settings",
    "prepared",
    "read_records",
    "settings_for",
    "train_once",
    "trivial_pooling",
    "write_report",
]
