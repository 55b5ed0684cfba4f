"""The command line: arguments in, one clear line out when they are wrong."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import typer

from diffpool.cli.display import (
    console,
    describe,
    download_bar,
    epochs_bar,
    errors,
    graphs_bar,
    percent,
    preparing_bar,
    print_statistics,
)
from diffpool.cli.evaluate_display import evaluation_display, print_evaluation
from diffpool.data import GraphDataset, RawGraphs, embedded, iter_graphs, read_raw
from diffpool.data.features import NODE_PARTS
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
    parse_settings,
    prepared,
    settings_for,
    train_once,
)
from diffpool.experiments import evaluate as evaluate_method
from diffpool.training import load_model, unseen_message, write_predictions
from diffpool.version import VERSION

app = typer.Typer(
    invoke_without_command=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

ALL_METHODS = {**METHODS, **KERNEL_METHODS}
ALL_PROTOCOLS = {**PROTOCOLS, **KERNEL_PROTOCOLS}
MethodName = StrEnum("MethodName", {name: name for name in ALL_METHODS})  # type: ignore[misc]
ProtocolName = StrEnum("ProtocolName", {name: name for name in ALL_PROTOCOLS})  # type: ignore[misc]

# Options of a neural method that are settings of its architecture or training.
SETTINGS = (
    *("epochs", "patience", "learning_rate", "weight_decay", "dropout", "batch_size", "hidden"),
    *("poolings", "ratio", "clusters", "link_weight", "entropy_weight", "conv"),
)
# What `diffpool evaluate` takes with a kernel.
KERNEL_OPTIONS = {
    *("dataset", "method", "protocol", "out", "repeats", "folds", "seed", "jobs", "no_labels"),
    *("data_dir", "smiles", "label", "as_json"),
}

Where = tuple[Path | None, str | None, str | None, str | None]  # data_dir, smiles, label, target
INTERRUPTED = 130  # exit code
PART = 1000  # graphs in memory at a time when predicting

# Options that several commands have.
DataDir = Annotated[
    Path | None,
    typer.Option(help="Folder with NAME.zip or NAME/ for a data set NAME.", envvar="DIFFPOOL_DATA"),
]
Device = Annotated[
    str, typer.Option(help="`auto` (CUDA if there is one), `cpu`, `cuda` or `cuda:1`.")
]
Precision = Annotated[
    Literal["tf32", "float32"],
    typer.Option(
        help="Products on a GPU: `tf32` rounds factors to 11 bits and is several times faster; `float32` is exact."
    ),
]
Smiles = Annotated[
    str | None, typer.Option(help="The column of a CSV with SMILES.", show_default="smiles")
]
Label = Annotated[str | None, typer.Option(help="The column of a CSV with the class.")]
Target = Annotated[str | None, typer.Option(help="The column of a CSV with a number to predict.")]

# Options of the commands that train.
NEURAL = "; ".join(f"**{m.name}**: {m.summary}" for m in METHODS.values())
KERNELS = "; ".join(f"**{m.name}**: {m.summary}" for m in KERNEL_METHODS.values())
Epochs = Annotated[
    int | None,
    typer.Option(help="At most so many epochs.", show_default="200; 40 for embedded"),
]
Patience = Annotated[
    int | None,
    typer.Option(
        help="Stop after so many epochs without a lower validation loss.", show_default="50"
    ),
]
Seed = Annotated[
    int, typer.Option(help="Seed of the split, the parameters, the batches and generated data.")
]
LearningRate = Annotated[
    float | None, typer.Option(help="Of Adam.", show_default="0.001; 0.003 for embedded")
]
WeightDecay = Annotated[float | None, typer.Option(help="Of weight matrices.", show_default="0")]
Dropout = Annotated[
    float | None,
    typer.Option(
        help="Share of a graph's vector set to zero before each layer of the head.",
        show_default="0; 0.5 for sortpool and patchy-san, 0.2 for ecc",
    ),
]
BatchSize = Annotated[int | None, typer.Option(help="Graphs in a step.", show_default="20")]
Hidden = Annotated[
    int | None, typer.Option(help="Width of the embeddings.", show_default="64; 32 for sortpool")
]
Poolings = Annotated[
    int | None,
    typer.Option(help="Pooling layers: 1 or 2 in the paper.", show_default="the method's"),
]
Ratio = Annotated[
    float | None,
    typer.Option(
        help="Clusters as a share of the nodes.", show_default="0.1 with one pooling, else 0.25"
    ),
]
ClustersOption = Annotated[
    str | None,
    typer.Option(
        help="`graph`: a share of each graph's own nodes; `dataset`: of the largest graph's, for all; "
        "or numbers such as 20,5.",
        show_default="graph",
    ),
]
LinkWeight = Annotated[
    float | None, typer.Option(help="Weight of ‖A − SSᵀ‖.", show_default="1; 0.02 for embedded")
]
EntropyWeight = Annotated[
    float | None, typer.Option(help="Weight of the entropy of S.", show_default="1")
]
Conv = Annotated[
    str | None,
    typer.Option(
        help="`sage`, `gcn`, `gin`, `none` (no edges), or `edge-sage`, which uses edge labels and attributes.",
        show_default="the method's",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Any other setting of an architecture or of training (docs/methods.md), such as `assignment=gumbel`, "
        "`set2set_steps=0` or `head=64,32`; may be repeated.",
        show_default="the method's",
    ),
]
FeaturesOption = Annotated[
    str,
    typer.Option(
        help="Columns of X, joined by commas: "
        + "; ".join(f"**{name}**: {what}" for name, what in NODE_PARTS.items())
        + "; **auto**: attributes and labels, else degree and log-degree."
    ),
]
Directed = Annotated[bool, typer.Option(help="Use edges in the direction given only, not in both.")]


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

    Start with `diffpool train`: it trains on a data set that it generates itself.
    """
    if context.invoked_subcommand is None:
        console.print(context.get_help())


@app.command()
def train(
    context: typer.Context,
    dataset: Annotated[
        str,
        typer.Argument(
            help="`embedded` (generated, needs no file), a data set of the TU collection, such as ENZYMES, "
            "or a file: a folder or zip in TU format, graphs.jsonl, molecules.csv."
        ),
    ] = "embedded",
    method: Annotated[str, typer.Option(help=f"{NEURAL}.", metavar="NAME")] = "diffpool",
    out: Annotated[
        Path, typer.Option(help="Folder for the model, its metrics and the picture.")
    ] = Path("runs/model"),
    epochs: Epochs = None,
    patience: Patience = None,
    seed: Seed = 0,
    device: Device = "auto",
    precision: Precision = "tf32",
    learning_rate: LearningRate = None,
    weight_decay: WeightDecay = None,
    dropout: Dropout = None,
    batch_size: BatchSize = None,
    hidden: Hidden = None,
    poolings: Poolings = None,
    ratio: Ratio = None,
    clusters: ClustersOption = None,
    link_weight: LinkWeight = None,
    entropy_weight: EntropyWeight = None,
    conv: Conv = None,
    settings: Settings = None,
    features: FeaturesOption = "auto",
    directed: Directed = False,
    data_dir: DataDir = None,
    smiles: Smiles = None,
    label: Label = None,
    target: Target = None,
) -> None:
    """Train one model on one split (80 % training, 10 % validation, 10 % test) and report its test accuracy.

    Early stopping watches the validation loss; the best epoch is kept. OUT receives **model.safetensors**,
    **config.json**, **metrics.jsonl** (one line for each epoch) and **clusters.png** (a test graph and its coarsened
    graphs).

    Examples: `diffpool train`, `diffpool train --method graphsage --out runs/flat`,
    `diffpool train ENZYMES --data-dir ~/data --epochs 100 --poolings 2`, `diffpool train graphs.jsonl`,
    `diffpool train molecules.csv --smiles smiles --label active`.
    """
    chosen = settings_for(method, dataset, seed=seed, **_changes(context))
    place = _device(device, precision)
    _check_out(out)
    where = (data_dir, smiles, label, target)
    edges = chosen.architecture.edges
    data = _load(dataset, seed, where, features, edges, directed).to(place)
    with preparing_bar() as preparing:
        chosen, data = prepared(chosen, data, preparing)
    describe(data, chosen)
    with epochs_bar(chosen) as watch:
        outcome = train_once(chosen, data, out, watch)
    _draw(outcome, out)
    best = outcome.best_epoch
    console.print(
        f"best epoch {best.epoch}: validation loss {best.validation_loss:.4f}"
        f"{percent(best.validation_accuracy)}   ({outcome.seconds:.0f} s)"
    )
    count = len(outcome.fold.test)
    if outcome.test.accuracy is None:
        share = 100 * outcome.test.loss
        console.print(
            f"[bold]test error {share:.1f} %[/bold] of the targets' variance, on {count} graphs"
        )
    else:
        console.print(
            f"[bold]test accuracy {100 * outcome.test.accuracy:.1f} %[/bold] on {count} graphs"
        )
    console.print(f"written to {out}")


@app.command()
def evaluate(
    context: typer.Context,
    dataset: Annotated[
        str,
        typer.Argument(help="A data set as for `diffpool train`: `embedded`, a name, or a file."),
    ],
    method: Annotated[
        MethodName,
        typer.Option(
            help=f"Neural networks: {NEURAL}. Kernels, each with an SVM: {KERNELS}.", metavar="NAME"
        ),
    ] = MethodName["diffpool"],
    protocol: Annotated[
        ProtocolName | None,
        typer.Option(
            help="; ".join(f"**{p.name}**: {p.summary}" for p in ALL_PROTOCOLS.values()) + ".",
            show_default="tenfold; inner-cv for a kernel",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="The file that gets a line for every finished fold.")
    ] = Path("results.jsonl"),
    repeats: Annotated[int, typer.Option(help="So many times all folds, each time others.")] = 1,
    folds: Annotated[
        Path | None,
        typer.Option(
            help="JSON file of published folds (the format of Errica et al.).",
            show_default="made from the seed",
        ),
    ] = None,
    grid: Annotated[
        list[str] | None,
        typer.Option(
            help="For **nested**: values to choose from, as NAME=VALUE,VALUE; may be repeated.",
            show_default="three learning rates, two weight decays",
        ),
    ] = None,
    cohort: Annotated[
        int | None,
        typer.Option(help="At most so many models side by side.", show_default="by device"),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(help="For a kernel: fits of an SVM at a time.", show_default="the cores"),
    ] = None,
    no_labels: Annotated[
        bool,
        typer.Option(
            "--no-labels",
            help="For a kernel: as if the nodes had no labels. wl and wl-oa go by degrees then.",
        ),
    ] = False,
    epochs: Epochs = None,
    patience: Patience = None,
    seed: Seed = 0,
    device: Device = "auto",
    precision: Precision = "tf32",
    learning_rate: LearningRate = None,
    weight_decay: WeightDecay = None,
    dropout: Dropout = None,
    batch_size: BatchSize = None,
    hidden: Hidden = None,
    poolings: Poolings = None,
    ratio: Ratio = None,
    clusters: ClustersOption = None,
    link_weight: LinkWeight = None,
    entropy_weight: EntropyWeight = None,
    conv: Conv = None,
    settings: Settings = None,
    features: FeaturesOption = "auto",
    directed: Directed = False,
    data_dir: DataDir = None,
    smiles: Smiles = None,
    label: Label = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead.")] = False,
) -> None:
    """Measure the accuracy of a method by a protocol: mean ± sd over ten folds.

    Every finished fold is a line of OUT. Stopped or killed, the same command goes on where it was; finished, it only
    prints the result. A setting that is given is not searched over by **nested**. A kernel takes no settings: C, and h
    of wl and wl-oa, are chosen within each training part.

    Examples: `diffpool evaluate ENZYMES --method graphsage`, `diffpool evaluate ENZYMES --method wl --repeats 10`,
    `diffpool evaluate ENZYMES --protocol nested --folds ENZYMES_splits.json --grid hidden=32,64`.
    """
    if method.value in KERNEL_METHODS:
        _check_kernel_options(context, method.value)
        name = "inner-cv" if protocol is None else protocol.value
        where = (data_dir, smiles, label, None)
        options = {"out": out, "repeats": repeats, "seed": seed, "folds": folds, "jobs": jobs}
        result = _evaluate_kernel(method.value, name, dataset, where, no_labels, as_json, options)
        _report(result, out, as_json)
        return
    for name, given in (("--jobs", jobs is not None), ("--no-labels", no_labels)):
        if given:
            raise SettingError(f"expected {name} with a kernel only, got it with {method.value}")
    changes = _changes(context)
    chosen = settings_for(method.value, dataset, **changes)
    way = choose_protocol("tenfold" if protocol is None else protocol.value, grid, changes)
    place = _device(device, precision)
    edges, where = needs_edges(chosen, way), (data_dir, smiles, label, None)
    data = _load(dataset, seed, where, features, edges, directed).to(place)
    shown = errors if as_json else console
    with preparing_bar() as preparing:
        chosen, data = prepared(chosen, data, preparing)
    title = f"{chosen.name} on {data.name}, protocol {way.name}, on {data.x.device}"
    with evaluation_display(shown, title) as watch:
        result = evaluate_method(
            chosen,
            data,
            way,
            out=out,
            repeats=repeats,
            seed=seed,
            folds=folds,
            cohort=cohort,
            watch=watch,
            notify=shown.print,
        )
    _report(result, out, as_json)


def _check_kernel_options(context: typer.Context, method: str) -> None:
    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        if option.name not in KERNEL_OPTIONS and source and source.name == "COMMANDLINE":
            raise SettingError(
                f"expected no {option.opts[0]} with the kernel {method}, which is not a neural network: leave it out"
            )


def _evaluate_kernel(
    method: str,
    protocol: str,
    dataset: str,
    where: Where,
    no_labels: bool,
    as_json: bool,
    options: dict[str, Any],
) -> Evaluation:
    chosen, way = kernel_method(method), choose_kernel_protocol(protocol)
    if dataset == "embedded":
        raise SettingError(
            "expected a data set of files for a kernel, got embedded, whose classes differ by node attributes only, "
            "which kernels do not see"
        )
    raw = _read(dataset, *where)
    if no_labels:
        raw = replace(raw, node_labels=None)
    title = f"{chosen.name} on {raw.name}, protocol {way.name}"
    with evaluation_display(errors if as_json else console, title) as watch:
        return evaluate_kernel(chosen, raw, way, watch=watch, **options)


def _report(result: Evaluation, out: Path, as_json: bool) -> None:
    if as_json:
        print(json.dumps(result.to_json()))
    else:
        print_evaluation(console, result)
        console.print(f"recorded in {out}")


@app.command()
def data(
    dataset: Annotated[
        str,
        typer.Argument(help="A data set of the TU collection, such as PROTEINS, or a file."),
    ],
    data_dir: DataDir = None,
    refresh: Annotated[
        bool, typer.Option(help="Download again, even if the cache has it.")
    ] = False,
    smiles: Smiles = None,
    label: Label = None,
    target: Target = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead.")] = False,
) -> None:
    """Find a data set, check it, and show what is in it.

    A name is looked for in --data-dir (or the folder that DIFFPOOL_DATA names), then in the cache, then downloaded from
    the TU collection. Files: a folder or zip in TU format, JSON lines, or a CSV of molecules.

    Examples: `diffpool data ENZYMES`, `diffpool data ./MUTAG`, `diffpool data graphs.jsonl --json`.
    """
    raw = _read(dataset, data_dir, smiles, label, target, refresh)
    facts = statistics(raw)
    if as_json:
        print(json.dumps(facts))
    else:
        print_statistics(raw, facts)


@app.command()
def predict(
    model_dir: Annotated[Path, typer.Argument(help="A folder that `diffpool train` wrote.")],
    dataset: Annotated[str, typer.Argument(help="Graphs: a file, or the name of a data set.")],
    out: Annotated[Path, typer.Option(help="The CSV file to write.")] = Path("predictions.csv"),
    device: Device = "auto",
    data_dir: DataDir = None,
    smiles: Smiles = None,
) -> None:
    """Predict the class of every graph with a trained model, one line each with the probability of every class.

    The file is read in parts, so it may be larger than memory (JSON lines and CSV). Labels that were not in the
    training data are reported. Example: `diffpool predict runs/model graphs.jsonl --out predictions.csv`.
    """
    model = load_model(model_dir, _device(device))
    if out.is_dir() or not out.resolve().parent.is_dir():
        raise SettingError(f"expected --out to be a file in a folder that exists, got {out}")
    if is_path(dataset):
        total = count_graphs(Path(dataset))
        parts = iter_graphs(Path(dataset), PART, smiles=smiles)
    else:
        raw = _read(dataset, data_dir, None, None, None)
        total = len(raw)
        parts = (raw[start : start + PART] for start in range(0, len(raw), PART))
    with graphs_bar("predicting", total) as advance:
        count, unseen = write_predictions(model, parts, out, advance)
    for table, found in unseen.items():
        console.print(unseen_message(table, found))
    console.print(f"{count} predictions written to {out}")


def _load(
    dataset: str,
    seed: int,
    where: Where,
    features: str,
    edges: bool | None,
    directed: bool,
) -> GraphDataset:
    if dataset == "embedded":
        return embedded(seed=seed)
    return GraphDataset.from_raw(_read(dataset, *where), features, edges, directed)


def _read(
    dataset: str,
    data_dir: Path | None,
    smiles: str | None,
    label: str | None,
    target: str | None,
    refresh: bool = False,
) -> RawGraphs:
    with download_bar(dataset) as progress:
        return read_raw(dataset, data_dir, smiles, label, target, refresh, progress)


def _draw(outcome: Outcome, out: Path) -> None:
    try:
        from diffpool.viz import draw_clusters
    except ImportError:
        console.print("no picture: `pip install 'diffpool\\[plot]'` adds clusters.png")
        return
    batch = outcome.dataset.batch([int(outcome.fold.test[0])])
    draw_clusters(outcome.model, batch, outcome.dataset.class_names, out / "clusters.png")


def _changes(context: typer.Context) -> dict[str, Any]:
    """The settings that were given on the command line."""
    values = {name: context.params[name] for name in SETTINGS}
    values["clusters"] = _clusters(values["clusters"])
    values |= parse_settings(context.params["settings"] or [])
    return {name: value for name, value in values.items() if value is not None}


def _clusters(text: str | None) -> str | tuple[int, ...] | None:
    if text is None or text in ("graph", "dataset"):
        return text
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise SettingError(
            f"expected --clusters graph, dataset or numbers such as 20,5, got {text!r}"
        ) from None


def _check_out(out: Path) -> None:
    """Find out now, not after the training, that nothing can be written there."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / ".write-test"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise SettingError(
            f"expected --out to be a folder to write to, got {out} ({error.strerror})"
        ) from error


def _device(name: str, precision: str = "float32") -> str:
    import torch

    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise SettingError(
            f"expected a --device that this machine has, got {name!r} ({reason})"
        ) from error
    return str(device)


def main() -> None:
    """The entry point: a user's mistake gives one line and exit code 2."""
    try:
        code = app(standalone_mode=False)
        if code == INTERRUPTED:  # what typer makes of Ctrl-C
            raise KeyboardInterrupt
        sys.exit(code)
    except DiffPoolError as error:
        _complain(str(error))
    except KeyboardInterrupt:
        print("diffpool: stopped", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except Exception as error:
        message = getattr(
            error, "format_message", None
        )  # a mistake in the words of the command line
        if message is None:
            raise
        _complain(message() or "see diffpool --help")


def _complain(message: str) -> NoReturn:
    print(f"diffpool: {message}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
