"""`diffpool plot`: figures from a model, its training, results files and benchmark records."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from diffpool.cli.completion import complete_dataset
from diffpool.cli.display import console, print_json, progress_console
from diffpool.cli.inputs import graph_numbers
from diffpool.cli.options import Json, ModelDir, Quiet, Source, Target, with_options
from diffpool.errors import SettingError

if TYPE_CHECKING:
    from types import ModuleType

MAX_GRAPHS = 64  # per sheet

app = typer.Typer(
    invoke_without_command=True,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

Paths = Annotated[
    list[Path],
    typer.Argument(
        help="Results files of `diffpool evaluate`, or folders of them.", show_default=False
    ),
]
Dataset = Annotated[
    str | None, typer.Option(help="Draw only this data set.", metavar="NAME", show_default="all")
]
Method = Annotated[
    str | None, typer.Option(help="Draw only this method.", metavar="NAME", show_default="all")
]
Protocol = Annotated[
    str | None, typer.Option(help="Draw only this protocol.", metavar="NAME", show_default="all")
]
Out = Annotated[Path, typer.Option(help="File for the figure: .png, .svg or .pdf.")]


@app.callback()
def top(context: typer.Context) -> None:
    """Draw clusters, training curves, accuracy or speed.

    The file name determines the format: .png, .svg or .pdf. The figures can be read in grayscale and without full color
    vision: markers, line styles and labels carry the same information as colors. docs/figures.md shows examples.
    """
    if context.invoked_subcommand is None:
        console.print(context.get_help())


@app.command()
@with_options
def clusters(
    model_dir: ModelDir,
    dataset: Annotated[
        str,
        typer.Argument(
            help="`embedded`, the name of a TU data set, or a path.",
            autocompletion=complete_dataset,
        ),
    ],
    graph: Annotated[
        int | None, typer.Option(help="Number of the graph, counted from 0.", show_default="0")
    ] = None,
    graphs: Annotated[
        str | None,
        typer.Option(
            help="Numbers of several graphs for one sheet, such as `0-8` or `3,17,20-25`.",
            metavar="LIST",
        ),
    ] = None,
    out: Out = Path("clusters.png"),
    seed: Annotated[
        int, typer.Option(help="Seed of the layout of graphs with more than 200 nodes.")
    ] = 0,
    *,
    source: Source,
    target: Target = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Draw graphs with the clusters that a model assigns their nodes to, next to the coarsened graphs.

    A node has the color and, where there is room, the number of its cluster: the largest entry in its row of S. A
    coarser node mixes the colors of its members; its area is proportional to the number of nodes that it represents.
    Edges with large weights are wide. Dotted lines surround connected nodes of the same cluster. Clusters without
    members are not drawn. Molecules have RDKit's layout, and node labels are drawn as shapes.

    **Examples**

    - `diffpool plot clusters runs/model ENZYMES --graph 17 --out clusters.svg`

    - `diffpool plot clusters runs/model molecules.csv --graphs 0-8`
    """
    numbers = _numbers(graph, graphs)
    viz = viz_module()
    viz.check_form(out)
    from diffpool.cli.inputs import embedded, read_input
    from diffpool.training import load_model

    model = load_model(model_dir)
    if dataset == "embedded":
        given: Any = embedded(seed=0)
    else:
        given = read_input(dataset, source, target, quiet=quiet, names=model.names)
    viz.draw_clusters(model, given, out, numbers=numbers, seed=seed)
    _say(out, quiet, as_json)


@app.command()
def curves(
    paths: Annotated[
        list[Path],
        typer.Argument(help="Model directories of `diffpool train`, or their metrics.jsonl."),
    ],
    out: Out = Path("curves.png"),
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Draw loss and accuracy by epoch, on the training and the validation graphs.

    Several model directories, for example of several seeds or folds, are drawn as mean ± standard deviation. Results
    files of `diffpool evaluate` contain no curves.

    **Examples**

    - `diffpool plot curves runs/model`

    - `diffpool plot curves runs/seed0 runs/seed1 runs/seed2 --out curves.svg`
    """
    viz = viz_module()
    viz.draw_curves([viz.read_curves(path) for path in paths], out)
    _say(out, quiet, as_json)


@app.command()
def accuracy(
    paths: Paths,
    out: Out = Path("accuracy.png"),
    dataset: Dataset = None,
    method: Method = None,
    protocol: Protocol = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Draw the accuracy of methods with error bars, from results files.

    Every combination of data set and protocol has its own panel, because accuracies under different protocols cannot be
    compared. Error bars are standard deviations over the folds. For regression, the mean absolute error is drawn.

    **Examples**

    - `diffpool plot accuracy results.jsonl`

    - `diffpool plot accuracy results --dataset ENZYMES --protocol tenfold --out enzymes.svg`
    """
    viz = viz_module()
    viz.draw_accuracy(viz.read_runs(paths, dataset, method, protocol), out)
    _say(out, quiet, as_json)


@app.command()
def cluster_counts(
    paths: Paths,
    out: Out = Path("cluster-counts.png"),
    dataset: Dataset = None,
    method: Method = None,
    protocol: Protocol = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Draw accuracy against C, the maximum number of clusters, from results files.

    The runs must differ in `--ratio` or `--clusters`. Runs that also differ in other settings are drawn as
    separate lines.

    **Example**

    - `for c in 5 10 20; do diffpool evaluate ENZYMES --clusters $c --out c.jsonl; done; diffpool plot cluster-counts
      c.jsonl`
    """
    viz = viz_module()
    viz.draw_cluster_counts(viz.read_runs(paths, dataset, method, protocol), out)
    _say(out, quiet, as_json)


@app.command()
def speed(
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="Records of benchmarks, such as benchmarks/records/cross_validation.jsonl, or results files."
        ),
    ],
    out: Out = Path("speed.png"),
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Draw the training speed of this package and of others, in graphs per second, from benchmark records.

    With results files of `diffpool evaluate`, the figure shows the speed of each method.

    **Examples**

    - `diffpool plot speed benchmarks/records/cross_validation.jsonl`

    - `diffpool plot speed results.jsonl --out speed.svg`
    """
    viz_module().draw_speed(paths, out)
    _say(out, quiet, as_json)


def _numbers(graph: int | None, graphs: str | None) -> list[int]:
    """The graphs to draw, from `--graph` or `--graphs`."""
    if graphs is None:
        return [graph or 0]
    if graph is not None:
        raise SettingError(
            f"expected --graph or --graphs, got both: add {graph} to --graphs, or leave one of them out"
        )
    numbers = graph_numbers(graphs, MAX_GRAPHS + 1)
    if len(numbers) > MAX_GRAPHS:
        raise SettingError(
            f"expected at most {MAX_GRAPHS} graphs on a sheet, got {graphs}: draw several sheets"
        )
    return numbers


def viz_module() -> ModuleType:
    """The functions that draw; an error that says how to install what they need."""
    try:
        from diffpool import viz

        _ = viz.draw_clusters  # names are imported on first use: fail before any work is done
    except ImportError as error:
        raise SettingError(str(error)) from error
    return viz


def _say(out: Path, quiet: bool, as_json: bool) -> None:
    if as_json:
        print_json({"out": str(out)})
    else:
        progress_console(quiet, stderr=False).print(f"written to {out}")
