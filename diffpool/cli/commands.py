"""The commands of `diffpool`. A user error prints one clear line.

Modules that import NumPy or torch are imported inside the functions that need them, so that help, completion and error
messages appear at once.
"""

from __future__ import annotations

import json
import os
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TextIO, cast

import typer
from rich.console import Console

from diffpool.cli.analyze import analyze
from diffpool.cli.completion import complete_dataset, complete_grid
from diffpool.cli.display import (
    advise,
    console,
    counted,
    describe,
    download_bar,
    epochs_bar,
    errors,
    graphs_bar,
    outcome_facts,
    preparing_bar,
    print_outcome,
    print_scores,
    print_statistics,
    progress_console,
)
from diffpool.cli.evaluate_display import evaluation_display, print_evaluation
from diffpool.cli.options import (
    Cohort,
    Command,
    DataDir,
    Device,
    DeviceName,
    EdgeAttributes,
    Grid,
    HelpAll,
    InnerFolds,
    Inputs,
    Json,
    KernelOptions,
    Label,
    NodeAttributes,
    Quiet,
    Resume,
    Run,
    Seed,
    Settings,
    SkipInvalid,
    Smiles,
    Source,
    Target,
    listing,
    name_option,
    with_options,
)
from diffpool.errors import DiffPoolError, SettingError, did_you_mean
from diffpool.experiments.grid import parse_grid
from diffpool.experiments.methods import (
    KERNEL_METHODS,
    METHOD_SETTINGS,
    METHODS,
    Method,
    kernel_method,
    settings_for,
    unknown_method,
)
from diffpool.experiments.protocol_names import KERNEL_PROTOCOL_SUMMARIES, PROTOCOL_SUMMARIES
from diffpool.files import atomic_write
from diffpool.text import PrintableFile, printable
from diffpool.version import VERSION

if TYPE_CHECKING:
    from diffpool.data import ColumnNames, GraphDataset, RawGraphs
    from diffpool.experiments import Evaluation, Outcome

app = typer.Typer(
    invoke_without_command=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

ALL_METHODS = {**METHODS, **KERNEL_METHODS}
ALL_PROTOCOLS = {**PROTOCOL_SUMMARIES, **KERNEL_PROTOCOL_SUMMARIES}
# The options of `diffpool evaluate` that apply to kernels.
KERNEL_OPTIONS = {
    *("dataset", "method", "protocol", "out", "repeats", "folds", "seed", "jobs", "no_labels"),
    *("data_dir", "smiles", "label", "node_attributes", "edge_attributes"),
    *("skip_invalid", "as_json", "quiet", "help_all"),
}

# The settings that have no effect without pooling.
POOLING_SETTINGS = ("ratio", "clusters", "min_clusters", "link_weight", "entropy_weight")

INTERRUPTED, BROKEN_PIPE = 130, 141  # exit codes
FORMS = ("csv", "jsonl")  # of predictions
PART = 1000  # graphs in memory at a time when predicting


def _print_version(asked: bool) -> None:
    if asked:
        console.print(f"diffpool {VERSION}")
        raise typer.Exit


@app.callback()
def top(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Hierarchical graph classification with differentiable pooling.

    Start with `diffpool train`: it generates a data set and trains on it.
    """
    if context.invoked_subcommand is None:
        console.print(context.get_help())


@app.command(cls=Command, epilog=listing(Methods=METHODS))
@with_options
def train(
    dataset: Annotated[
        str,
        typer.Argument(
            help="`embedded` (generated, needs no file), the name of a TU data set such as ENZYMES, "
            "or a path: a folder or zip file in TU format, graphs.jsonl, molecules.csv, graphs.parquet, graph.gml, …; "
            "see docs/own-graphs.md.",
            autocompletion=complete_dataset,
        ),
    ] = "embedded",
    method: Annotated[str, name_option("Method to train", METHODS)] = "diffpool",
    out: Annotated[
        Path, typer.Option(help="Folder for the model, its metrics, its report and a picture.")
    ] = Path("runs/model"),
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the model in OUT, if there is one.")
    ] = False,
    seed: Seed = 0,
    *,
    resume: Resume = False,
    device: Device,
    as_json: Json = False,
    quiet: Quiet = False,
    help_all: HelpAll = False,
    data: Inputs,
    target: Target = None,
    settings: Settings,
) -> None:
    """Train a model on 80 % of the graphs and report its scores on 10 %.

    The other 10 % are validation graphs: they decide when training stops early, and the epoch with the lowest
    validation loss is kept. OUT receives the model (**config.json** and **model-….safetensors**), **metrics.jsonl**
    (one line per epoch), **report.md** and **report.json** (scores, split, settings, versions) and **clusters.png** (a
    test graph and its coarsened graphs). A model in OUT is replaced only with --overwrite.

    Ctrl-C stops training: the best model so far is saved, and the exit code is 130. The same command with `--resume`
    continues training, even after a crash, and ends with the same model as an uninterrupted run.

    **Examples**

    - `diffpool train`

    - `diffpool train ENZYMES --data-dir ~/data --epochs 100 --poolings 2`

    - `diffpool train graphs.jsonl --method graphsage --out runs/flat`

    - `diffpool train molecules.csv --smiles smiles --label active --class-weight balanced`
    """
    chosen = settings_for(method, dataset, seed=seed, **settings)
    _check_settings(chosen, settings)
    from diffpool.experiments import prepared, train_once

    device_name = device.select()
    shown = progress_console(quiet, stderr=as_json)
    with _no_empty_folder(out):
        _check_out(out, overwrite or resume)
        graphs = _load(dataset, seed, data, chosen.architecture.edges, target, quiet=quiet)
        graphs = graphs.to(device_name)
        with preparing_bar(shown) as preparing:
            chosen, graphs = prepared(chosen, graphs, preparing)
        describe(graphs, chosen, shown)
        with epochs_bar(chosen, shown) as watch:
            outcome = train_once(chosen, graphs, out, watch, overwrite, resume)
    _draw(outcome, out, shown)
    if as_json:
        _print_json({**outcome_facts(outcome), "out": str(out)})
    else:
        print_outcome(outcome)
        shown.print(f"written to {out}")
    if outcome.interrupted:
        _stop(
            f"stopped after epoch {len(outcome.epochs)}: the best model so far is in {out}. "
            "Run the same command with --resume to continue training."
        )


@app.command(
    cls=Command,
    epilog=listing(
        Protocols=ALL_PROTOCOLS, Methods=METHODS, Methods_with_a_kernel_and_an_SVM=KERNEL_METHODS
    ),
)
@with_options
def evaluate(
    context: typer.Context,
    dataset: Annotated[
        str,
        typer.Argument(
            help="`embedded`, the name of a TU data set, or a path; see `diffpool train`.",
            autocompletion=complete_dataset,
        ),
    ],
    method: Annotated[str, name_option("Method to evaluate", ALL_METHODS)] = "diffpool",
    protocol: Annotated[
        str | None,
        name_option("Evaluation protocol", ALL_PROTOCOLS, "tenfold; inner-cv for kernels"),
    ] = None,
    *,
    run: Run,
    device: Device,
    grid: Grid = None,
    trials: Annotated[
        int | None,
        typer.Option(
            help="For **nested**: try only this many points of the grid, spread evenly.",
            show_default="all",
        ),
    ] = None,
    inner_folds: InnerFolds = 1,
    cohort: Cohort = None,
    as_json: Json = False,
    quiet: Quiet = False,
    help_all: HelpAll = False,
    kernel: KernelOptions,
    data: Inputs,
    target: Target = None,
    settings: Settings,
) -> None:
    """Measure the accuracy of a method by ten-fold cross-validation: mean ± sd. For targets: MAE, RMSE and R².

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
            _check_settings(chosen, settings)
        from diffpool.experiments import choose_protocol, needs_edges, prepared
        from diffpool.experiments import evaluate as evaluate_network

        rules = choose_protocol(protocol or "tenfold", grid, settings, trials, inner_folds)
        device_name = device.select()
        edges = needs_edges(chosen, rules)
        graphs = _load(dataset, run.seed, data, edges, target, quiet=quiet)
        graphs = graphs.to(device_name)
        with preparing_bar(shown) as preparing:
            chosen, graphs = prepared(chosen, graphs, preparing)
        advise(graphs, chosen, shown)
        title = f"{chosen.name} on {graphs.name}, protocol {rules.name}, on {graphs.x.device}"
        with _resumable(), evaluation_display(shown, title) as watch:
            result = evaluate_network(
                chosen, graphs, rules, **vars(run), cohort=cohort, watch=watch, notify=shown.print
            )
    if as_json:
        _print_json(result.to_json())
    else:
        print_evaluation(console, result)
        shown.print(f"recorded in {run.out}")


@app.command(cls=Command, epilog=listing(Methods=METHODS))
@with_options
def tune(
    dataset: Annotated[
        str,
        typer.Argument(
            help="`embedded`, the name of a TU data set, or a path; see `diffpool train`.",
            autocompletion=complete_dataset,
        ),
    ],
    method: Annotated[str, name_option("Method to tune", METHODS)] = "diffpool",
    out: Annotated[Path, typer.Option(help="Folder for the model and the trials.")] = Path(
        "runs/tuned"
    ),
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the model in OUT, if there is one.")
    ] = False,
    trials: Annotated[int, typer.Option(help="Number of settings to try.")] = 24,
    max_time: Annotated[
        float | None,
        typer.Option(help="Start no new trials after this many seconds.", show_default="no limit"),
    ] = None,
    inner_folds: InnerFolds = 1,
    grid: Annotated[
        list[str] | None,
        typer.Option(
            help="A setting and the values to try, such as `hidden=32,64`; may be repeated.",
            metavar="NAME=VALUE,VALUE",
            show_default="the usual settings of the method",
            autocompletion=complete_grid,
        ),
    ] = None,
    seed: Seed = 0,
    *,
    device: Device,
    cohort: Cohort = None,
    as_json: Json = False,
    quiet: Quiet = False,
    help_all: HelpAll = False,
    data: Inputs,
    target: Target = None,
    settings: Settings,
) -> None:
    """Choose settings for a data set, and train an ensemble of models with the best ones.

    A tenth of the graphs is kept for the test. Settings are tried on the rest: points of a search space, spread evenly;
    the worse half stops early. A greedy selection on validation graphs gives the settings of each of `--ensemble`
    members (default 10), and `diffpool predict` averages their predictions. Settings that are given as options are not
    searched over.

    OUT receives the model, **trials.csv** (the settings that were tried, the best ones first) and **tuning.json** (the
    scores on the test graphs). If the command is interrupted, run it again to continue.

    **Examples**

    - `diffpool tune graphs.jsonl --trials 12`

    - `diffpool tune molecules.csv --label active --max-time 600 --ensemble 5`

    - `diffpool tune ENZYMES --grid readout=sum,max --grid dropout=0,0.5 --inner-folds 5`
    """
    members = settings.pop("ensemble", 10)
    chosen = settings_for(method, dataset, seed=seed, **settings)
    given = parse_grid(grid or ())
    from diffpool.experiments import Nested, needs_edges, prepared, space_for
    from diffpool.experiments import tune as tune_network

    space = given or space_for(chosen, list(settings))
    if both := [name for name, _ in given if name in settings]:
        raise SettingError(
            f"{both[0]} is given both as a setting and in the grid: remove one of them"
        )
    device_name = device.select()
    shown = progress_console(quiet, stderr=as_json)
    with _no_empty_folder(out):
        _check_out(out, overwrite)
        edges = needs_edges(chosen, Nested(grid=space, trials=trials))
        graphs = _load(dataset, seed, data, edges, target, quiet=quiet).to(device_name)
        with preparing_bar(shown) as preparing:
            chosen, graphs = prepared(chosen, graphs, preparing)
        describe(graphs, chosen, shown)
        title = f"tuning {chosen.name} on {graphs.name}: {trials} trials, {members} members"
        with _resumable("models are kept"), evaluation_display(shown, title) as watch:
            result = tune_network(
                chosen,
                graphs,
                out=out,
                space=space,
                trials=trials,
                ensemble=members,
                inner_folds=inner_folds,
                max_seconds=max_time,
                seed=seed,
                cohort=cohort,
                overwrite=overwrite,
                watch=watch,
                notify=shown.print,
            )
    if as_json:
        facts = {"best_settings": result.best_settings, "trials": len(result.trials)}
        facts |= {"members": members, "test": result.test, "seconds": result.seconds}
        _print_json({**facts, "out": str(out)})
        return
    for trial in [trial for trial in result.trials if trial.members][:10]:
        words = [f"{name} {METHOD_SETTINGS[name].show(v)}" for name, v in trial.settings.items()]
        plural = "member" if trial.members == 1 else "members"
        console.print(f"{trial.members} {plural}: {', '.join(words)}", soft_wrap=True)
    print_scores(console, result.test, "test ")
    shown.print(f"written to {out}   ({result.seconds:.0f} s)")


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
    _check_answers(dataset, raw)
    if kernel.no_labels:
        raw = replace(raw, node_labels=None)
    title = f"{chosen.name} on {raw.name}, protocol {rules.name}"
    with _resumable(), evaluation_display(shown, title) as watch:
        return evaluate_kernel(chosen, raw, rules, **vars(run), jobs=kernel.jobs, watch=watch)


@contextmanager
def _resumable(finished: str = "folds are recorded") -> Iterator[None]:
    """Explain how to continue after Ctrl-C."""
    try:
        yield
    except KeyboardInterrupt:
        _stop(f"stopped. Finished {finished}: run the same command again to continue.")


def _check_kernel_options(context: typer.Context, method: str) -> None:
    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        if option.name not in KERNEL_OPTIONS and source and source.name == "COMMANDLINE":
            raise SettingError(
                f"{option.opts[0]} does not apply to the kernel {method}, which is not a neural network: remove it"
            )


def _check_settings(method: Method, given: Settings) -> None:
    """Raise an error about a setting that was given and has no effect."""
    a = method.architecture
    for name in POOLING_SETTINGS if a.poolings == 0 else ():
        if name in given:
            flat = f"{method.name}, which has no pooling"
            if METHODS[method.name].architecture.poolings:
                flat = f"{method.name} and --poolings 0"
            option = METHOD_SETTINGS[name].option
            raise SettingError(f"expected no {option} with {flat}: leave it out")
    for name in ("ratio", "min_clusters") if isinstance(a.clusters, tuple) else ():
        if name in given:
            numbers = METHOD_SETTINGS["clusters"].show(a.clusters)
            raise SettingError(
                f"expected {METHOD_SETTINGS[name].option} or --clusters {numbers}, got both: leave one of them out"
            )


def _check_network_options(method: str, kernel: KernelOptions) -> None:
    for name, given in (("--jobs", kernel.jobs is not None), ("--no-labels", kernel.no_labels)):
        if given:
            raise SettingError(f"{name} applies to kernels only, got it with {method}: remove it")


@app.command()
@with_options
def data(
    dataset: Annotated[
        str,
        typer.Argument(
            help="The name of a TU data set, such as PROTEINS, or a path.",
            autocompletion=complete_dataset,
        ),
    ],
    *,
    source: Source,
    target: Target = None,
    refresh: Annotated[
        bool,
        typer.Option(help="Download the data set again, even if it is in the cache."),
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find a data set, check it, and show its statistics.

    A data set name is looked up in --data-dir (or the folder in DIFFPOOL_DATA), then in the cache; otherwise the data
    set is downloaded from the TU collection. docs/own-graphs.md lists the supported file formats.

    **Examples**

    - `diffpool data ENZYMES`

    - `diffpool data ./MUTAG`

    - `diffpool data graphs.jsonl --json`
    """
    from diffpool.data.statistics import statistics

    raw = read_input(dataset, source, target, refresh, quiet)
    facts = statistics(raw)
    if as_json:
        _print_json(facts)
    else:
        print_statistics(raw, facts)


@app.command()
def predict(
    model_dir: Annotated[
        Path, typer.Argument(help="A model directory written by `diffpool train`.")
    ],
    dataset: Annotated[
        str,
        typer.Argument(
            help="A path, or the name of a TU data set.", autocompletion=complete_dataset
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            help="Output file: CSV, or JSON lines if the name ends in .jsonl; use `-` for standard output."
        ),
    ] = Path("predictions.csv"),
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="Output format: `csv` or `jsonl`.",
            metavar="NAME",
            show_default="from the name of OUT",
            autocompletion=lambda: list(FORMS),
        ),
    ] = None,
    device: DeviceName = "auto",
    data_dir: DataDir = None,
    smiles: Smiles = None,
    label: Label = None,
    target: Target = None,
    node_attributes: NodeAttributes = None,
    edge_attributes: EdgeAttributes = None,
    skip_invalid: SkipInvalid = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Predict the class of every graph with a trained model.

    OUT has one line per graph: the columns of the input (all columns of a CSV file; `id`, `label` and other keys of
    JSON lines), the prediction, and the probability of each class. JSON lines and CSV files are read in parts, so they
    may be larger than memory. Labels that were not in the training data are reported. If the graphs have classes or
    targets (for a CSV file, name the column with --label or --target), the scores are printed and written to
    NAME.scores.json next to OUT.

    **Examples**

    - `diffpool predict runs/model graphs.jsonl --out predictions.csv`

    - `diffpool predict runs/model molecules.csv --label active --out predictions.jsonl`

    - `diffpool predict runs/model graphs.jsonl --out - | head`
    """
    from diffpool.data.sources import is_path
    from diffpool.training import load_model, unseen_message, write_predictions

    to_stdout = str(out) == "-"
    shown = progress_console(quiet, stderr=to_stdout or as_json)
    _check_predictions_file(out, form)
    form = form or ("jsonl" if out.suffix == ".jsonl" else "csv")
    _check_columns(label, target)
    model = load_model(model_dir, Device(device, "float32").select())
    if is_path(dataset) and _is_input(out, Path(dataset)):
        raise SettingError(
            f"expected --out to be a new file, but {out} is the input: choose another name"
        )
    source = Source(
        data_dir,
        smiles,
        node_attributes=node_attributes,
        edge_attributes=edge_attributes,
        skip_invalid=skip_invalid,
    )
    total, parts = graph_parts(dataset, source, model.names, label, target, quiet)
    try:
        with graphs_bar("predicting", total, shown) as advance:
            written = write_predictions(
                model, parts, _stdout() if to_stdout else out, advance, form
            )
    except BrokenPipeError:  # `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(BROKEN_PIPE) from None
    if not to_stdout:
        _write_scores(out.with_name(f"{out.stem}.scores.json"), written.metrics)
    if as_json:
        facts = {"predictions": written.count, "out": str(out), "unseen": written.unseen}
        facts["skipped"] = len(written.skipped)
        if written.not_scored:
            facts["not_scored"] = written.not_scored
        _print_json({**facts, "scores": written.metrics}, sys.stderr if to_stdout else sys.stdout)
        return
    messages = errors if to_stdout else console
    for table, found in written.unseen.items():
        messages.print(unseen_message(table, found), markup=False)
    for message in written.not_scored:
        messages.print(message, markup=False, soft_wrap=True)
    if written.metrics is not None:
        print_scores(messages, written.metrics)
    place = "standard output" if to_stdout else out
    messages.print(f"{counted(written.count, 'prediction')} written to {place}")
    if written.skipped:
        messages.print(
            f"no prediction for {counted(len(written.skipped), 'row')}, because RDKit cannot read the molecule: "
            f"{_first(written.skipped)}"
        )


def _first(places: Sequence[str]) -> str:
    """The first places of a list."""
    return ", ".join(places[:5]) + (", …" if len(places) > 5 else "")


def _check_predictions_file(out: Path, form: str | None) -> None:
    if form is not None and form not in FORMS:
        raise SettingError(f"expected --format to be {' or '.join(FORMS)}, got {form!r}")
    if str(out) == "-":
        return
    if out.is_dir():
        raise SettingError(
            f"expected --out to be a file, got the folder {out}: add a name, such as {out / 'predictions.csv'}"
        )
    if not out.resolve().parent.is_dir():
        raise SettingError(f"expected --out to be a file in a folder that exists, got {out}")
    regular = out.is_file() or not out.exists()  # a device has its own message
    if form is None and regular and out.suffix not in (".csv", ".jsonl", ".txt"):
        raise SettingError(
            f"expected --out to end in .csv, .jsonl or .txt, got {out}: rename it, or choose --format csv or "
            "--format jsonl"
        )


def _is_input(out: Path, dataset: Path) -> bool:
    """Whether this is the file with the graphs, or one of the files in their folder."""
    from diffpool.data.graph_files import find_graph_files

    if not out.exists() or not dataset.exists():
        return False
    files = find_graph_files(dataset) if dataset.is_dir() else [dataset]
    return any(out.samefile(file) for file in files)


def _stdout() -> TextIO:
    return cast("TextIO", PrintableFile(sys.stdout)) if sys.stdout.isatty() else sys.stdout


def _write_scores(path: Path, metrics: dict[str, Any] | None) -> None:
    """Write the scores next to the predictions; without any, remove those of earlier predictions."""
    if metrics is None:
        path.unlink(missing_ok=True)
        return
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(metrics, indent=2, allow_nan=False) + "\n", "utf-8")


def _print_json(values: dict[str, Any], to: TextIO | None = None) -> None:
    print(json.dumps(values, allow_nan=False), file=to)


def embedded(seed: int) -> GraphDataset:
    """The generated data set."""
    from diffpool.data import embedded

    return embedded(seed=seed)


def _load(
    dataset: str,
    seed: int,
    inputs: Inputs,
    edges: bool | None,
    target: str | None = None,
    quiet: bool = False,
) -> GraphDataset:
    from diffpool.data import GraphDataset

    if dataset == "embedded":
        return embedded(seed=seed)
    raw = read_input(dataset, inputs, target, quiet=quiet)
    _check_answers(dataset, raw)
    return GraphDataset.from_raw(raw, inputs.features, edges, inputs.directed)


def _check_answers(dataset: str, raw: RawGraphs) -> None:
    """Raise an error if there is nothing to learn: no column was named, or it does not have classes."""
    from diffpool.data.sources import is_table
    from diffpool.experiments.advice import check_classes

    if raw.classes is None and raw.targets is None and is_table(dataset):
        raise SettingError(
            f"{dataset}: name the column of the class with --label, or of a number to predict with --target. "
            f"The file has {', '.join(raw.columns)}"
        )
    check_classes(raw)


def _check_columns(label: str | None, target: str | None) -> None:
    if label is not None and target is not None:
        raise SettingError(
            f"expected --label or --target, got both: --label {label} for classes, or --target {target} for numbers"
        )


def read_input(
    dataset: str,
    source: Source,
    target: str | None = None,
    refresh: bool = False,
    quiet: bool = False,
) -> RawGraphs:
    from diffpool.data import read_raw

    _check_columns(source.label, target)
    nodes, edges = source.chosen_attributes()
    with download_bar(dataset, progress_console(quiet)) as progress:
        raw = read_raw(
            dataset,
            source.data_dir,
            source.smiles,
            source.label,
            target,
            refresh,
            progress,
            node_attributes=nodes,
            edge_attributes=edges,
            skip_invalid=source.skip_invalid,
        )
    if raw.skipped:
        places = [row.where for row in raw.skipped]
        warnings.warn(
            f"{dataset}: left out {counted(len(places), 'molecule')} that RDKit cannot read: {_first(places)}",
            stacklevel=2,
        )
    return raw


def graph_parts(
    dataset: str,
    source: Source,
    names: ColumnNames | None,
    label: str | None = None,
    target: str | None = None,
    quiet: bool = False,
) -> tuple[int | None, Iterator[RawGraphs]]:
    """The graphs of a data set in parts, with the attributes of a model, and their approximate number."""
    from diffpool.data import iter_graphs
    from diffpool.data.sources import count_graphs, is_path

    if not is_path(dataset):
        raw = read_input(dataset, source, quiet=quiet)
        return len(raw), (raw[start : start + PART] for start in range(0, len(raw), PART))
    nodes, edges = source.chosen_attributes()
    parts = iter_graphs(
        Path(dataset),
        PART,
        smiles=source.smiles,
        label=label,
        target=target,
        node_attributes=nodes,
        edge_attributes=edges,
        names=names,
        skip_invalid=source.skip_invalid,
    )
    return count_graphs(Path(dataset)), parts


def _draw(outcome: Outcome, out: Path, shown: Console) -> None:
    picture = out / "clusters.png"
    with suppress(OSError):
        picture.unlink(missing_ok=True)  # of an older model
    try:
        from diffpool.viz import draw_clusters
    except ImportError:
        shown.print(
            "no picture: to get clusters.png, run `pip install 'diffpool[plot]'`", markup=False
        )
        return
    batch = outcome.dataset.batch([int(outcome.fold.test[0])])
    try:
        model = outcome.trained.members[0].parts[0]  # of an ensemble: the first member
        draw_clusters(model, batch, outcome.dataset.class_names, picture)
    except OSError as error:
        console.print(f"no picture: {picture} cannot be written ({error.strerror})")


@contextmanager
def _no_empty_folder(out: Path) -> Iterator[None]:
    """After an error, remove the folder and its parents as far as this command created them and they are empty."""
    created = [folder for folder in (out, *out.parents) if not folder.exists()]
    try:
        yield
    except BaseException:
        with suppress(OSError):
            for folder in created:
                folder.rmdir()
        raise


def _check_out(out: Path, overwrite: bool) -> None:
    """Fail before the data is read if the model cannot be written there."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / ".write-test"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise SettingError(
            f"expected --out to be a writable folder, got {out} ({error.strerror})"
        ) from error
    from diffpool.experiments.single_run import CHECKPOINT
    from diffpool.training import reserve_directory

    if not overwrite and (out / CHECKPOINT).exists() and (out / "config.json").exists():
        raise SettingError(
            f"{out} already holds a model, of an interrupted training: continue it with --resume, replace it with "
            "--overwrite, or choose another directory"
        )
    with reserve_directory(out, overwrite):
        pass


app.command()(analyze)


def main() -> None:
    """Run the command line. A user error prints one line and exits with code 2."""
    _check_completion(sys.argv)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _print_warning
            code = app(standalone_mode=False)
        if code == INTERRUPTED:  # Typer's code for Ctrl-C
            raise KeyboardInterrupt
        sys.exit(code)
    except DiffPoolError as error:
        _complain(str(error))
    except KeyboardInterrupt:
        _stop("stopped")
    except BrokenPipeError:  # the reader of the output, such as `head`, has exited
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _complain(f"{where}{error.strerror or error}")
    except Exception as error:
        message = getattr(error, "format_message", None)  # an error from the command-line parser
        if message is None:
            _complain_about_memory(error)
            raise  # a bug: the traceback helps to report it
        text = message() or "see diffpool --help"
        if wrong := getattr(error, "option_name", None):  # the option does not exist
            text = f"no such option: {wrong}{did_you_mean(wrong, _options(error), prefix='. ')}"
        _complain(_no_number(error) or text)


def _check_completion(words: list[str]) -> None:
    """The script for completion names the program: `python -m diffpool` is no name."""
    for option in ("--install-completion", "--show-completion"):
        if option in words[1:] and Path(words[0]).name == "__main__.py":
            _complain(f"completion is for the installed command: run `diffpool {option}`")


def _complain_about_memory(error: Exception) -> None:
    from diffpool.training.memory import is_out_of_memory

    if is_out_of_memory(error):
        _complain("not enough memory: use fewer or smaller graphs, or a machine with more memory")


def _no_number(error: Any) -> str | None:
    """The message about an option whose value is not a number, in the words of the other messages."""
    found = re.search(r"valid (integer|float|number)", str(getattr(error, "message", "")))
    option = getattr(error, "param", None)
    if found is None or option is None:
        return None
    kind = "an integer" if found[1] == "integer" else "a number"
    words = [piece for word in sys.argv for piece in word.split("=", 1)]
    given = [after for word, after in pairwise(words) if word in option.opts]
    got = f", got {given[-1]!r}" if given else ""
    return f"expected {option.opts[0]} to be {kind}{got}"


def _print_warning(message: Warning | str, *details: Any, **more: Any) -> None:
    print(f"diffpool: warning: {_one_line(str(message))}", file=sys.stderr)


def _options(error: Any) -> list[str]:
    """The options of the command that a parser error is about."""
    params = error.ctx.command.params if getattr(error, "ctx", None) else []
    return [name for option in params for name in option.opts]


def _stop(message: str) -> NoReturn:
    """Exit after Ctrl-C with the code that shells expect."""
    print(f"diffpool: {_one_line(message)}", file=sys.stderr)
    sys.exit(INTERRUPTED)


def _complain(message: str) -> NoReturn:
    print(f"diffpool: {_one_line(message)}", file=sys.stderr)
    sys.exit(2)


def _one_line(message: str) -> str:
    return printable(" ".join(message.splitlines()))
