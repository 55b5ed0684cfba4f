"""The commands of `diffpool`: arguments in, results out, and one clear line for a mistake."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from diffpool.cli.display import (
    console,
    describe,
    download_bar,
    epochs_bar,
    errors,
    graphs_bar,
    preparing_bar,
    print_outcome,
    print_statistics,
    printable,
)
from diffpool.cli.evaluate_display import evaluation_display, print_evaluation
from diffpool.cli.options import (
    DataDir,
    Device,
    DeviceName,
    Inputs,
    Json,
    KernelOptions,
    Run,
    Seed,
    Settings,
    Smiles,
    Source,
    Target,
    listing,
    name_option,
    with_options,
)
from diffpool.data import GraphDataset, RawGraphs, embedded, iter_graphs, read_raw
from diffpool.data.sources import count_graphs, is_path
from diffpool.data.statistics import statistics
from diffpool.errors import DiffPoolError, SettingError
from diffpool.experiments import (
    KERNEL_METHODS,
    KERNEL_PROTOCOLS,
    METHODS,
    PROTOCOLS,
    Evaluation,
    Outcome,
    choose_kernel_protocol,
    choose_protocol,
    evaluate_kernel,
    kernel_method,
    needs_edges,
    prepared,
    settings_for,
    train_once,
)
from diffpool.experiments import evaluate as evaluate_network
from diffpool.training import is_out_of_memory, load_model, unseen_message, write_predictions
from diffpool.version import VERSION

app = typer.Typer(
    invoke_without_command=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

ALL_METHODS = {**METHODS, **KERNEL_METHODS}
ALL_PROTOCOLS = {**PROTOCOLS, **KERNEL_PROTOCOLS}
# The options of `diffpool evaluate` that a kernel has.
KERNEL_OPTIONS = {
    *("dataset", "method", "protocol", "out", "repeats", "folds", "seed", "jobs", "no_labels"),
    *("data_dir", "smiles", "label", "as_json"),
}

INTERRUPTED = 130  # exit code
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


@app.command(epilog=listing(Methods=METHODS))
@with_options
def train(
    dataset: Annotated[
        str,
        typer.Argument(
            help="`embedded` (generated, needs no file), the name of a TU data set such as ENZYMES, "
            "or a file: a folder or zip in TU format, graphs.jsonl, molecules.csv."
        ),
    ] = "embedded",
    method: Annotated[str, name_option("Method to train", METHODS)] = "diffpool",
    out: Annotated[
        Path, typer.Option(help="Folder for the model, its metrics and the picture.")
    ] = Path("runs/model"),
    seed: Seed = 0,
    *,
    device: Device,
    data: Inputs,
    target: Target = None,
    settings: Settings,
) -> None:
    """Train a model on 80 % of the graphs and report its accuracy on 10 %.

    The other 10 % validate: training stops early, and the epoch with the lowest validation loss is kept.
    OUT receives **model.safetensors**, **config.json**, **metrics.jsonl** (a line for each epoch) and **clusters.png**
    (a test graph and its coarsened graphs).

    **Examples**

    - `diffpool train`

    - `diffpool train ENZYMES --data-dir ~/data --epochs 100 --poolings 2`

    - `diffpool train graphs.jsonl --method graphsage --out runs/flat`

    - `diffpool train molecules.csv --smiles smiles --label active`
    """
    chosen = settings_for(method, dataset, seed=seed, **settings)
    device_name = device.select()
    _check_out(out)
    graphs = _load(dataset, seed, data, chosen.architecture.edges, target).to(device_name)
    with preparing_bar() as preparing:
        chosen, graphs = prepared(chosen, graphs, preparing)
    describe(graphs, chosen)
    with epochs_bar(chosen) as watch:
        outcome = train_once(chosen, graphs, out, watch)
    _draw(outcome, out)
    print_outcome(outcome)
    console.print(f"written to {out}")


@app.command(
    epilog=listing(
        Protocols=ALL_PROTOCOLS, Methods=METHODS, Methods_with_a_kernel_and_an_SVM=KERNEL_METHODS
    )
)
@with_options
def evaluate(
    context: typer.Context,
    dataset: Annotated[
        str,
        typer.Argument(
            help="`embedded`, the name of a TU data set, or a file; see `diffpool train`."
        ),
    ],
    method: Annotated[str, name_option("Method to evaluate", ALL_METHODS)] = "diffpool",
    protocol: Annotated[
        str | None,
        name_option("How to measure the accuracy", ALL_PROTOCOLS, "tenfold; inner-cv for kernels"),
    ] = None,
    *,
    run: Run,
    device: Device,
    grid: Annotated[
        list[str] | None,
        typer.Option(
            help="For **nested**: values to choose from, such as `hidden=32,64`; may be repeated.",
            metavar="NAME=VALUE,VALUE",
            show_default="three learning rates, two weight decays",
        ),
    ] = None,
    cohort: Annotated[
        int | None,
        typer.Option(
            help="Maximum number of models to train side by side.",
            show_default="depends on the device",
        ),
    ] = None,
    as_json: Json = False,
    kernel: KernelOptions,
    data: Inputs,
    settings: Settings,
) -> None:
    """Measure the accuracy of a method with ten-fold cross-validation: mean ± sd.

    Every finished fold is a line of OUT. If the command is interrupted, run it again: it continues where it stopped.
    When all folds are finished, it only prints the result. **nested** does not search over settings that are given as
    options. Kernels have no settings: C and h are chosen on each training part.

    **Examples**

    - `diffpool evaluate ENZYMES --method graphsage`

    - `diffpool evaluate ENZYMES --method wl --repeats 10`

    - `diffpool evaluate ENZYMES --protocol nested --folds ENZYMES_splits.json --grid hidden=32,64`
    """
    shown = errors if as_json else console
    if method in KERNEL_METHODS:
        _check_kernel_options(context, method)
        result = _evaluate_kernel(method, protocol, dataset, run, data, kernel, shown)
    elif method in METHODS:
        _check_network_options(method, kernel)
        chosen = settings_for(method, dataset, **settings)
        rules = choose_protocol(protocol or "tenfold", grid, settings)
        device_name = device.select()
        graphs = _load(dataset, run.seed, data, needs_edges(chosen, rules)).to(device_name)
        with preparing_bar() as preparing:
            chosen, graphs = prepared(chosen, graphs, preparing)
        title = f"{chosen.name} on {graphs.name}, protocol {rules.name}, on {graphs.x.device}"
        with evaluation_display(shown, title) as watch:
            result = evaluate_network(
                chosen, graphs, rules, **vars(run), cohort=cohort, watch=watch, notify=shown.print
            )
    else:
        raise SettingError(
            f"expected the method to be one of {', '.join(ALL_METHODS)}, got {method!r}"
        )
    if as_json:
        print(json.dumps(result.to_json()))
    else:
        print_evaluation(console, result)
        console.print(f"recorded in {run.out}")


def _evaluate_kernel(
    method: str,
    protocol: str | None,
    dataset: str,
    run: Run,
    source: Source,
    kernel: KernelOptions,
    shown: Console,
) -> Evaluation:
    chosen, rules = kernel_method(method), choose_kernel_protocol(protocol or "inner-cv")
    if dataset == "embedded":
        raise SettingError(
            "expected a data set of files for a kernel, got embedded: its classes differ by node attributes only, "
            "which kernels do not see"
        )
    raw = read_input(dataset, source)
    if kernel.no_labels:
        raw = replace(raw, node_labels=None)
    title = f"{chosen.name} on {raw.name}, protocol {rules.name}"
    with evaluation_display(shown, title) as watch:
        return evaluate_kernel(chosen, raw, rules, **vars(run), jobs=kernel.jobs, watch=watch)


def _check_kernel_options(context: typer.Context, method: str) -> None:
    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        if option.name not in KERNEL_OPTIONS and source and source.name == "COMMANDLINE":
            raise SettingError(
                f"expected no {option.opts[0]} with the kernel {method}, which is not a neural network: leave it out"
            )


def _check_network_options(method: str, kernel: KernelOptions) -> None:
    for name, given in (("--jobs", kernel.jobs is not None), ("--no-labels", kernel.no_labels)):
        if given:
            raise SettingError(f"expected {name} with a kernel only, got it with {method}")


@app.command()
@with_options
def data(
    dataset: Annotated[
        str, typer.Argument(help="The name of a TU data set, such as PROTEINS, or a file.")
    ],
    *,
    source: Source,
    target: Target = None,
    refresh: Annotated[
        bool,
        typer.Option(help="Download the data set again, even if it is in the cache."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Find a data set, check it, and show its statistics.

    A name is looked up in --data-dir (or the folder in DIFFPOOL_DATA), then in the cache, then downloaded from the TU
    collection. A file is a folder or zip in TU format, JSON lines, or a CSV of molecules.

    **Examples**

    - `diffpool data ENZYMES`

    - `diffpool data ./MUTAG`

    - `diffpool data graphs.jsonl --json`
    """
    raw = read_input(dataset, source, target, refresh)
    facts = statistics(raw)
    if as_json:
        print(json.dumps(facts))
    else:
        print_statistics(raw, facts)


@app.command()
def predict(
    model_dir: Annotated[Path, typer.Argument(help="A folder written by `diffpool train`.")],
    dataset: Annotated[str, typer.Argument(help="A file, or the name of a data set.")],
    out: Annotated[Path, typer.Option(help="The CSV file to write.")] = Path("predictions.csv"),
    device: DeviceName = "auto",
    data_dir: DataDir = None,
    smiles: Smiles = None,
) -> None:
    """Predict the class of every graph with a trained model.

    OUT has a line for each graph, with the probability of each class. JSON lines and CSV files are read in parts, so
    they may be larger than memory. Labels that were not in the training data are reported.

    **Example**

    - `diffpool predict runs/model graphs.jsonl --out predictions.csv`
    """
    model = load_model(model_dir, Device(device, "float32").select())
    if out.is_dir() or not out.resolve().parent.is_dir():
        raise SettingError(f"expected --out to be a file in a folder that exists, got {out}")
    if is_path(dataset):
        total = count_graphs(Path(dataset))
        parts = iter_graphs(Path(dataset), PART, smiles=smiles)
    else:
        raw = read_input(dataset, Source(data_dir))
        total = len(raw)
        parts = (raw[start : start + PART] for start in range(0, len(raw), PART))
    with graphs_bar("predicting", total) as advance:
        count, unseen = write_predictions(model, parts, out, advance)
    for table, found in unseen.items():
        console.print(unseen_message(table, found))
    console.print(f"{count} predictions written to {out}")


def _load(
    dataset: str, seed: int, inputs: Inputs, edges: bool | None, target: str | None = None
) -> GraphDataset:
    if dataset == "embedded":
        return embedded(seed=seed)
    raw = read_input(dataset, inputs, target)
    return GraphDataset.from_raw(raw, inputs.features, edges, inputs.directed)


def read_input(
    dataset: str, source: Source, target: str | None = None, refresh: bool = False
) -> RawGraphs:
    with download_bar(dataset) as progress:
        return read_raw(
            dataset, source.data_dir, source.smiles, source.label, target, refresh, progress
        )


def _draw(outcome: Outcome, out: Path) -> None:
    try:
        from diffpool.viz import draw_clusters
    except ImportError:
        console.print("no picture: `pip install 'diffpool[plot]'` adds clusters.png")
        return
    batch = outcome.dataset.batch([int(outcome.fold.test[0])])
    try:
        draw_clusters(outcome.model, batch, outcome.dataset.class_names, out / "clusters.png")
    except OSError as error:
        console.print(f"no picture: {out / 'clusters.png'} cannot be written ({error.strerror})")


def _check_out(out: Path) -> None:
    """Fail before the training, not after it, if nothing can be written there."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / ".write-test"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise SettingError(
            f"expected --out to be a writable folder, got {out} ({error.strerror})"
        ) from error


def main() -> None:
    """Run the command line. A user's mistake prints one line and exits with code 2."""
    try:
        code = app(standalone_mode=False)
        if code == INTERRUPTED:  # Typer's code for Ctrl-C
            raise KeyboardInterrupt
        sys.exit(code)
    except DiffPoolError as error:
        _complain(str(error))
    except KeyboardInterrupt:
        print("diffpool: stopped", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # the reader of the output, such as head, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _complain(f"{where}{error.strerror or error}")
    except Exception as error:
        if is_out_of_memory(error):
            _complain(
                "not enough memory: use fewer or smaller graphs, or a machine with more memory"
            )
        message = getattr(error, "format_message", None)  # an error of the command-line parser
        if message is None:
            raise  # a bug: the traceback helps to report it
        _complain(message() or "see diffpool --help")


def _complain(message: str) -> NoReturn:
    line = " ".join(message.splitlines())
    print(f"diffpool: {printable(line)}", file=sys.stderr)
    sys.exit(2)
