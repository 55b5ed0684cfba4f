"""`diffpool explain`: which clusters, nodes and edges a prediction depends on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from diffpool.attribution.names import METHODS, SPREADS
from diffpool.cli.display import (
    console,
    counted,
    errors,
    graphs_bar,
    print_json,
    progress_console,
    warn,
)
from diffpool.cli.inputs import embedded, graph_numbers, read_input
from diffpool.cli.options import (
    DatasetName,
    Device,
    DeviceName,
    Json,
    ModelDir,
    Quiet,
    Source,
    name_option,
    with_options,
)
from diffpool.cli.plot import viz_module
from diffpool.errors import SettingError
from diffpool.text import printable

if TYPE_CHECKING:
    from rich.console import Console

    from diffpool.attribution import Explanation
    from diffpool.data import RawGraphs
    from diffpool.training import TrainedModel

FEW = 10  # graphs that are explained by default
MAX_DRAWN = 16  # graphs in a picture
CLUSTERS, NODES = 3, 5  # in a row of the table


@with_options
def explain(
    model_dir: ModelDir,
    dataset: DatasetName,
    method: Annotated[str, name_option("How scores are computed", METHODS)] = "gradients",
    graphs: Annotated[
        str | None,
        typer.Option(
            help="Numbers of the graphs, such as `0-8` or `3,17,20-25`, counted from 0; or `all`.",
            metavar="LIST",
            show_default=f"the first {FEW}",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--class",
            help="The class to explain; for regression, the number of the target, counted from 0.",
            metavar="NAME",
            show_default="the predicted class of each graph",
        ),
    ] = None,
    spread: Annotated[
        str,
        typer.Option(
            help="How the scores of clusters are divided among nodes: `soft`, by the assignment matrix, or `first`, "
            "equally among the nodes whose first choice the cluster is.",
            metavar="NAME",
            autocompletion=lambda: list(SPREADS),
        ),
    ] = "soft",
    out: Annotated[
        Path | None,
        typer.Option(
            help="File for all scores: JSON lines, one per graph (.jsonl), or CSV, one score per row (.csv)."
        ),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            help=f"Figure of the first {MAX_DRAWN} of the graphs, with nodes colored by score: .png, .svg or .pdf."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the data set embedded.")] = 0,
    *,
    device: DeviceName = "auto",
    source: Source,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Explain predictions: which clusters, nodes and edges speak for or against a class.

    For every graph, a row lists the most important clusters of each pooling with their share of all scores, and the
    most important nodes with their scores; + speaks for the class, − against it. Nodes and clusters are counted from 0.
    With **gradients**, a score is a part of the log-odds of the class; with **leave-out** and **keep**, it is a change
    of its probability. Of an ensemble, the scores of nodes are means over its members. docs/explain.md says what the
    scores mean and when to trust them.

    **Examples**

    - `diffpool explain runs/model graphs.jsonl`

    - `diffpool explain runs/model ENZYMES --graphs 17 --picture scores.png`

    - `diffpool explain runs/model molecules.csv --graphs all --class active --out scores.jsonl`

    - `diffpool explain runs/model graphs.jsonl --method leave-out --json`
    """
    from diffpool.attribution import (
        check_explanations_file,
        iter_explanations,
        write_explanations,
    )
    from diffpool.attribution.collection import check_method, check_model, target_column
    from diffpool.training import load_model

    check_method(method, spread)
    numbers = None if graphs in (None, "all") else graph_numbers(str(graphs))
    if out is not None:
        check_explanations_file(out)
    viz = None
    if picture is not None:
        viz = viz_module()
        viz.check_form(picture)
    shown = progress_console(quiet, stderr=as_json)
    model = load_model(model_dir, Device(device, "float32").select())
    check_model(model, method)
    wanted: Any = target
    if target is not None:
        wanted = int(target) if model.card.regression and target.isdecimal() else target
        target_column(model, wanted)
    if dataset == "embedded":
        raw = embedded(seed=seed).as_raw()
    else:
        raw = read_input(dataset, source, quiet=quiet, names=model.names)
    if graphs is None:
        numbers = list(range(min(FEW, len(raw))))
    chosen = list(range(len(raw))) if numbers is None else _checked(numbers, raw)
    if picture is not None:
        from diffpool.viz.subjects import check_size

        for number in chosen[:MAX_DRAWN]:
            check_size(int(raw.sizes[number]), number)
    with graphs_bar("explaining", len(chosen), shown) as advance:

        def explained() -> Iterator[Explanation]:
            settings: dict[str, Any] = {"method": method, "target": wanted, "spread": spread}
            for own in iter_explanations(model, raw.select(chosen), numbers=chosen, **settings):
                advance(1)
                yield own

        found = list(explained()) if out is None else write_explanations(explained(), out)
    if viz is not None and picture is not None:
        viz.draw_scores(model, raw, found[:MAX_DRAWN], picture)
    if as_json:
        print_json({"graphs": [own.to_json() for own in found]})
        _warn_about_sums(found, errors)
        return
    print_explanations(found, model)
    if graphs is None and len(raw) > FEW:
        shown.print(f"the first {FEW} of {counted(len(raw), 'graph')}; others with --graphs")
    for path in (out, picture):
        if path is not None:
            shown.print(f"written to {path}")
    _warn_about_sums(found)


def _checked(numbers: list[int], raw: RawGraphs) -> list[int]:
    for number in numbers:
        if number >= len(raw):
            raise SettingError(
                f"expected --graphs to be numbers from 0 to {len(raw) - 1}, got {number}: "
                f"there are {counted(len(raw), 'graph')}"
            )
    return numbers


def print_explanations(found: Sequence[Explanation], model: TrainedModel) -> None:
    """Print a table with a row for each graph: its most important clusters and nodes."""
    poolings = model.card.architecture.poolings
    regression = model.card.regression
    titles = ["pooling" if poolings == 1 else f"pooling {n + 1}" for n in range(poolings)]
    table = Table("graph", "target" if regression else "class")
    table.add_column("prediction" if regression else "probability", justify="right")
    for title in titles:
        table.add_column(f"clusters of {title}")
    table.add_column("nodes")
    for own in found:
        name = str(own.target) if regression else printable(str(own.target_name))
        cells = [
            _largest(level.shares, CLUSTERS, lambda share: f"{100 * share:+.0f} %")
            for level in own.levels[1:]
        ]
        cells.append(_largest(own.levels[0].nodes, NODES, lambda score: f"{score:+.2g}"))
        table.add_row(str(own.graph), Text(name), f"{own.output:.3g}", *cells)
    console.print(table)


def _largest(scores: Any, count: int, show: Any) -> str:
    """The nodes with the largest |score|, each with its score; those with a score of zero are left out."""
    order = sorted(range(len(scores)), key=lambda node: -abs(scores[node]))[:count]
    words = [f"{node} ({show(scores[node])})" for node in order if scores[node] != 0]
    return ", ".join(words).replace("-", "−") or "–"


def _warn_about_sums(found: Sequence[Explanation], to: Console = console) -> None:
    """Warn if the scores of a level do not add up."""
    from diffpool.attribution.gradients import MIN_TOLERANCE, TOLERANCE

    wrong, worst = [], 0.0
    for own in found:
        gaps = [
            abs(level.gap) / max(abs(level.total), MIN_TOLERANCE / TOLERANCE)
            for level in own.levels
            if level.total is not None and not math.isnan(level.gap)
        ]
        undefined = any(math.isnan(level.gap) for level in own.levels)
        largest = math.inf if undefined else max(gaps, default=0.0)
        if largest > 2 * TOLERANCE:
            wrong.append(own.graph)
            worst = max(worst, largest)
    if wrong:
        shown = ", ".join(map(str, wrong[:5])) + (", …" if len(wrong) > 5 else "")
        by = "" if math.isinf(worst) else f", by up to {100 * worst:.0f} % of it"
        warn(
            f"the scores of {counted(len(wrong), 'graph')} (graph {shown}) do not add up to the difference from the "
            f"baseline{by}. The network jumps between them, as with hard assignments or sorted nodes: do not rely on "
            "these scores",
            to,
        )
