"""The command line: arguments in, one clear line out when they are wrong."""

from __future__ import annotations

import sys
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from diffpool.data import GraphDataset, load_dataset
from diffpool.errors import DiffPoolError, SettingError
from diffpool.experiments import METHODS, Method, Outcome, settings_for, train_once
from diffpool.training import Epoch
from diffpool.version import VERSION

app = typer.Typer(
    invoke_without_command=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
console = Console(highlight=False)

MethodName = StrEnum("MethodName", {name: name for name in METHODS})  # type: ignore[misc]


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
    dataset: Annotated[
        str,
        typer.Argument(
            help="`embedded` (generated, needs no file) or a data set of the TU collection, such as ENZYMES."
        ),
    ] = "embedded",
    method: Annotated[
        MethodName,
        typer.Option(help="; ".join(f"**{m.name}**: {m.summary}" for m in METHODS.values()) + "."),
    ] = MethodName["diffpool"],
    out: Annotated[
        Path, typer.Option(help="Folder for the model, its metrics and the picture.")
    ] = Path("runs/model"),
    epochs: Annotated[
        int | None,
        typer.Option(help="At most so many epochs.", show_default="200; 40 for embedded"),
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(
            help="Stop after so many epochs without a lower validation loss.", show_default="50"
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Seed of the split, the parameters, the batches and generated data.")
    ] = 0,
    device: Annotated[
        str, typer.Option(help="`auto` (CUDA if there is one), `cpu`, `cuda` or `cuda:1`.")
    ] = "auto",
    learning_rate: Annotated[
        float | None, typer.Option(help="Of Adam.", show_default="0.001; 0.003 for embedded")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Graphs in a step.", show_default="20")
    ] = None,
    hidden: Annotated[
        int | None, typer.Option(help="Width of the embeddings.", show_default="64")
    ] = None,
    poolings: Annotated[
        int | None, typer.Option(help="Pooling layers: 1 or 2 in the paper.", show_default="1")
    ] = None,
    ratio: Annotated[
        float | None,
        typer.Option(
            help="Clusters as a share of the nodes.", show_default="0.1 with one pooling, else 0.25"
        ),
    ] = None,
    clusters: Annotated[
        str | None,
        typer.Option(
            help="`graph`: a share of each graph's own nodes; `dataset`: of the largest graph's, for all; "
            "or numbers such as 20,5.",
            show_default="graph",
        ),
    ] = None,
    link_weight: Annotated[
        float | None, typer.Option(help="Weight of ‖A − SSᵀ‖.", show_default="1; 0.02 for embedded")
    ] = None,
    entropy_weight: Annotated[
        float | None, typer.Option(help="Weight of the entropy of S.", show_default="1")
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            help="Folder with NAME.zip or NAME/ for a data set NAME.", envvar="DIFFPOOL_DATA"
        ),
    ] = None,
) -> None:
    """Train one model on one split (80 % training, 10 % validation, 10 % test) and report its test accuracy.

    Early stopping watches the validation loss; the best epoch is kept. OUT receives **model.safetensors**,
    **config.json**, **metrics.jsonl** (one line for each epoch) and **clusters.png** (a test graph and its coarsened
    graphs).

    Examples: `diffpool train`, `diffpool train --method graphsage --out runs/flat`,
    `diffpool train ENZYMES --data-dir ~/data --epochs 100 --poolings 2`.
    """
    changes = {
        "epochs": epochs,
        "patience": patience,
        "learning_rate": learning_rate,
        "batch_size": batch_size,
        "hidden": hidden,
        "poolings": poolings,
        "ratio": ratio,
        "clusters": _clusters(clusters),
        "link_weight": link_weight,
        "entropy_weight": entropy_weight,
    }
    given = {name: value for name, value in changes.items() if value is not None}
    chosen = settings_for(method.value, dataset, seed=seed, **given)
    _check_out(out)
    data = load_dataset(dataset, data_dir, seed).to(_device(device))
    _describe(data, chosen)
    outcome = train_with_progress(chosen, data, out)
    _draw(outcome, data, out)
    best = outcome.best_epoch
    console.print(
        f"best epoch {best.epoch}: validation loss {best.validation_loss:.4f}, "
        f"accuracy {100 * best.validation_accuracy:.1f} %   ({outcome.seconds:.0f} s)"
    )
    console.print(
        f"[bold]test accuracy {100 * outcome.test.accuracy:.1f} %[/bold] on {len(outcome.fold.test)} graphs"
    )
    console.print(f"written to {out}")


def train_with_progress(method: Method, dataset: GraphDataset, out: Path | None) -> Outcome:
    """`train_once` with a progress bar that shows loss and accuracy."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn("{task.fields[scores]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(method.name, total=method.training.epochs, scores="")

        def watch(row: Epoch) -> None:
            progress.update(
                task,
                completed=row.epoch,
                scores=f"loss {row.train_class_loss:.3f} acc {100 * row.train_accuracy:.0f} %, "
                f"val {row.validation_loss:.3f} {100 * row.validation_accuracy:.0f} %",
            )

        return train_once(method, dataset, out, watch)


def _describe(dataset: GraphDataset, method: Method) -> None:
    console.print(
        f"{dataset.name}: {len(dataset)} graphs, {dataset.num_classes} classes, "
        f"{dataset.graphs.num_nodes / max(len(dataset), 1):.1f} nodes on average, {dataset.largest} at most; "
        f"features: {dataset.features}; on {dataset.x.device}"
    )
    default = METHODS["diffpool"]
    for name, ours, usual in (
        ("architecture", method.architecture, default.architecture),
        ("training", method.training, default.training),
    ):
        changed = [
            f"{f.name} {_show(getattr(ours, f.name))}"
            for f in fields(ours)
            if getattr(ours, f.name) != getattr(usual, f.name)
        ]
        if changed:
            console.print(
                f"{method.name}, {name}: {', '.join(changed)}; the rest as in the paper's preset"
            )


def _show(value: Any) -> str:
    return "-".join(str(v) for v in value) if isinstance(value, tuple) else str(value)


def _draw(outcome: Outcome, dataset: GraphDataset, out: Path) -> None:
    try:
        from diffpool.viz import draw_clusters
    except ImportError:
        console.print("no picture: `pip install 'diffpool\\[plot]'` adds clusters.png")
        return
    graph = int(outcome.fold.test[0])
    draw_clusters(outcome.model, dataset.batch([graph]), dataset.class_names, out / "clusters.png")


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


def _device(name: str) -> str:
    import torch

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
        sys.exit(app(standalone_mode=False))
    except DiffPoolError as error:
        _complain(str(error))
    except KeyboardInterrupt:
        print("diffpool: stopped", file=sys.stderr)
        sys.exit(130)
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
