"""`diffpool evaluate`: the accuracy of a method by cross-validation."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from diffpool.cli.display import advise, console, preparing_bar, print_json, progress_console
from diffpool.cli.evaluate_display import evaluation_display, print_evaluation
from diffpool.cli.exits import resumable
from diffpool.cli.inputs import check_y, load, read_input
from diffpool.cli.options import (
    Cohort,
    DatasetName,
    Device,
    Grid,
    HelpAll,
    InnerFolds,
    Inputs,
    Json,
    KernelOptions,
    Quiet,
    Run,
    Settings,
    Source,
    Target,
    Workers,
    name_option,
    with_options,
)
from diffpool.cli.setting_checks import check_settings
from diffpool.errors import SettingError
from diffpool.experiments.grid import parse_grid
from diffpool.experiments.methods import (
    KERNEL_METHODS,
    METHODS,
    kernel_method,
    settings_for,
    unknown_method,
)
from diffpool.experiments.protocol_names import KERNEL_PROTOCOL_SUMMARIES, PROTOCOL_SUMMARIES

if TYPE_CHECKING:
    from diffpool.experiments import Evaluation

ALL_METHODS = {**METHODS, **KERNEL_METHODS}
ALL_PROTOCOLS = {**PROTOCOL_SUMMARIES, **KERNEL_PROTOCOL_SUMMARIES}
# The options of `diffpool evaluate` that apply to kernels.
KERNEL_OPTIONS = {
    *("dataset", "method", "protocol", "out", "repeats", "folds", "seed", "jobs", "no_labels"),
    *("data_dir", "smiles", "label", "node_attributes", "edge_attributes"),
    *("skip_invalid", "as_json", "quiet", "help_all"),
}


@with_options
def evaluate(
    context: typer.Context,
    dataset: DatasetName,
    method: Annotated[str, name_option("Method to evaluate", ALL_METHODS)] = "diffpool",
    protocol: Annotated[
        str | None,
        name_option("Evaluation protocol", ALL_PROTOCOLS, "tenfold; inner-cv for kernels"),
    ] = None,
    *,
    run: Run,
    device: Device,
    workers: Workers,
    grid: Grid = None,
    trials: Annotated[
        int | None,
        typer.Option(
            help="For **nested**: try only this many points of the grid, spread evenly.",
            show_default="all",
        ),
    ] = None,
    inner_folds: InnerFolds = 1,
    tune: Annotated[
        bool,
        typer.Option(
            "--tune",
            help="For **nested**: choose the settings of each fold as `diffpool tune` does: try 24 points of its "
            "search space and stop the worse half early. `--grid` and `--trials` change what is tried.",
        ),
    ] = False,
    cohort: Cohort = None,
    as_json: Json = False,
    quiet: Quiet = False,
    help_all: HelpAll = False,
    kernel: KernelOptions,
    data: Inputs,
    target: Target = None,
    settings: Settings,
) -> None:
    """Measure the accuracy of a method by ten-fold cross-validation: mean ± sd. For regression: MAE, RMSE and R².

    Every finished fold is recorded as a line of OUT. If the command is interrupted, run it again to continue. If all
    folds are already recorded, it only prints the result. **nested** does not search over settings that are given as
    options. Kernels have no settings: C and h are chosen on the training part of each fold.

    **Examples**

    - `diffpool evaluate ENZYMES --method graphsage`

    - `diffpool evaluate ENZYMES --method wl --repeats 10`

    - `diffpool evaluate ENZYMES --protocol nested --folds ENZYMES_splits.json --grid hidden=32,64`
    """
    if method not in ALL_METHODS:
        raise unknown_method(method, ALL_METHODS)
    shown = progress_console(quiet, stderr=as_json)
    if method in KERNEL_METHODS:
        _check_kernel_options(context, method)
        result = _evaluate_kernel(method, protocol, dataset, run, data, kernel, shown)
    else:
        _check_network_options(method, kernel)
        chosen = settings_for(method, dataset, **settings)
        # report a mistake at once
        searched = [name for name, _ in parse_grid(grid or ())]
        if "poolings" not in searched:
            check_settings(chosen, settings)
        from diffpool.experiments import choose_protocol, needs_edges, prepared
        from diffpool.experiments import evaluate as evaluate_network

        rules = choose_protocol(
            protocol or "tenfold", grid, settings, trials, inner_folds, chosen if tune else None
        )
        device_name = workers.select(device)
        with workers.executor(device, shown) as executor:
            edges = needs_edges(chosen, rules)
            graphs = load(dataset, run.seed, data, edges, target, quiet=quiet)
            graphs = graphs.to(device_name)
            with preparing_bar(shown) as preparing:
                chosen, graphs = prepared(chosen, graphs, preparing)
            advise(graphs, chosen, shown)
            where = executor or graphs.device
            title = f"{chosen.name} on {graphs.name}, protocol {rules.name}, on {where}"
            options = {**vars(run), "cohort": cohort, "executor": executor}
            with resumable(), evaluation_display(shown, title) as watch:
                result = evaluate_network(
                    chosen, graphs, rules, **options, watch=watch, notify=shown.print
                )
    if as_json:
        print_json(result.to_json())
    else:
        print_evaluation(console, result)
        shown.print(f"recorded in {run.out}")


def _evaluate_kernel(
    method: str,
    protocol: str | None,
    dataset: str,
    run: Run,
    source: Source,
    kernel: KernelOptions,
    shown: Console,
) -> Evaluation:
    from diffpool.experiments import choose_kernel_protocol, evaluate_kernel

    chosen, rules = kernel_method(method), choose_kernel_protocol(protocol or "inner-cv")
    if dataset == "embedded":
        raise SettingError(
            "the data set embedded cannot be used with a kernel: its classes differ in node attributes only, "
            "which kernels ignore"
        )
    raw = read_input(dataset, source, None, False, shown.quiet)
    check_y(dataset, raw)
    if kernel.no_labels:
        raw = replace(raw, node_labels=None)
    title = f"{chosen.name} on {raw.name}, protocol {rules.name}"
    with resumable(), evaluation_display(shown, title) as watch:
        return evaluate_kernel(chosen, raw, rules, **vars(run), jobs=kernel.jobs, watch=watch)


def _check_kernel_options(context: typer.Context, method: str) -> None:
    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        if option.name not in KERNEL_OPTIONS and source and source.name == "COMMANDLINE":
            raise SettingError(
                f"{option.opts[0]} does not apply to the kernel {method}, which is not a neural network: remove it"
            )


def _check_network_options(method: str, kernel: KernelOptions) -> None:
    for name, given in (("--jobs", kernel.jobs is not None), ("--no-labels", kernel.no_labels)):
        if given:
            raise SettingError(f"{name} applies to kernels only, got it with {method}: remove it")
