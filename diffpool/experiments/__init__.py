"""Methods, protocols, resumable runs, records. Names are imported on first use."""

from typing import TYPE_CHECKING

from diffpool.lazy import lazy_names

if TYPE_CHECKING:
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
    from diffpool.experiments.processes import ProcessPerDevice
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
    from diffpool.experiments.ray_cluster import RayCluster
    from diffpool.experiments.records import Record, append_records, read_records
    from diffpool.experiments.report import write_report
    from diffpool.experiments.selection import DEFAULT_SPACE, space_for
    from diffpool.experiments.single_run import Outcome, fit, train_once
    from diffpool.experiments.status import KernelStatus, Status
    from diffpool.experiments.tuning import Trial, Tuned, tune

__all__ = [
    "DEFAULT_GRID",
    "DEFAULT_SPACE",
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
    "ProcessPerDevice",
    "Protocol",
    "RayCluster",
    "Record",
    "Status",
    "Tenfold",
    "Trial",
    "Tuned",
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
    "space_for",
    "train_once",
    "trivial_pooling",
    "tune",
    "write_report",
]

__getattr__ = lazy_names(
    __name__,
    {
        "advice": "class_counts imbalance trivial_pooling",
        "evaluation": "Evaluation evaluate evaluate_kernel",
        "grid": "DEFAULT_GRID Grid make_grid parse_grid parse_settings",
        "methods": "KERNEL_METHODS METHODS KernelMethod Method kernel_method settings_for",
        "plan": "prepared",
        "processes": "ProcessPerDevice",
        "protocols": "KERNEL_PROTOCOLS PROTOCOLS InnerCV Nested Paper Protocol Tenfold "
        "choose_kernel_protocol choose_protocol needs_edges",
        "ray_cluster": "RayCluster",
        "records": "Record append_records read_records",
        "report": "write_report",
        "single_run": "Outcome fit train_once",
        "selection": "DEFAULT_SPACE space_for",
        "status": "KernelStatus Status",
        "tuning": "Trial Tuned tune",
    },
)
