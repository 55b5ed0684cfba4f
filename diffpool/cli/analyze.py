"""`diffpool analyze`: measures of the clusters of a trained model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from diffpool.cli.display import console, counted, graphs_bar, print_json, progress_console
from diffpool.cli.inputs import embedded, graph_parts
from diffpool.cli.options import (
    DatasetName,
    Device,
    DeviceName,
    Json,
    ModelDir,
    Quiet,
    Source,
    with_options,
)
from diffpool.errors import SettingError
from diffpool.files import write_json

if TYPE_CHECKING:
    from diffpool.analysis import Analysis, Summary
    from diffpool.data import RawGraphs

# The rows of the report: a title, and the measures that it shows, each with a label.
Rows = tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
POOLING_ROWS: Rows = (
    ("clusters", (("clusters", "allowed"), ("used", "used"), ("clusters_of_most", "hold 90 %"))),
    (
        "sizes",
        (("largest", "share of the largest"), ("effective", "effective number")),
    ),
    ("entropy of S / log k", (("entropy", ""),)),
    (
        "largest entry of a column",
        (("used_peak", "used clusters"), ("unused_peak", "unused clusters")),
    ),
    (
        "planted communities",
        (("planted_nmi", "NMI"), ("planted_nmi_chance", "by chance"), ("planted_ari", "ARI")),
    ),
    (
        "Louvain communities",
        (("louvain_nmi", "NMI"), ("louvain_nmi_chance", "by chance"), ("louvain_ari", "ARI")),
    ),
    ("modularity", (("modularity", "clusters"), ("louvain_modularity", "Louvain"))),
    (
        "distinct clusters / chance",
        (("dense_spread", "dense parts"), ("sparse_spread", "sparse parts")),
    ),
    (
        "edges within a cluster",
        (("same_dense", "dense"), ("same_sparse", "sparse"), ("same_pair", "all pairs")),
    ),
    (
        "distant pairs",
        (("far_in_cluster", "in a cluster"), ("far", "of all pairs")),
    ),
    (
        "differences of distant pairs",
        (("far_alike", "neighborhoods"), ("far_features_alike", "features")),
    ),
    ("share of disconnected clusters", (("split_clusters", ""),)),
    ("similar nodes, similar rows of S", (("view_correlation", "correlation"),)),
)
STRUCTURE_ROWS: Rows = (
    (
        "nodes unlike all others",
        (("unique_features", "by features"), ("unique_views", "by neighborhood")),
    ),
    (
        "diameter of parts",
        (("dense_diameter", "dense"), ("sparse_diameter", "sparse")),
    ),
)


@with_options
def analyze(
    model_dir: ModelDir,
    dataset: DatasetName,
    out: Annotated[
        Path | None, typer.Option(help="JSON file for the mean and sd of every measure.")
    ] = None,
    max_graphs: Annotated[
        int | None,
        typer.Option(
            help="Maximum number of graphs; the first ones are analyzed.", show_default="all"
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the data set embedded.")] = 0,
    *,
    device: DeviceName = "auto",
    source: Source,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Analyze the clusters of a trained model: their number, communities, dense parts and distant nodes.

    Every number is the mean over the graphs. Louvain communities need NetworkX (`pip install 'diffpool[networkx]'`).
    For an ensemble, the clusters are those of its first member. docs/analysis.md explains the measures.

    **Examples**

    - `diffpool analyze runs/model ENZYMES`

    - `diffpool analyze runs/model graphs.jsonl --out analysis.json --max-graphs 500`
    """
    from diffpool.analysis import analyze as analyze_model
    from diffpool.training import load_model

    if out is not None and (out.is_dir() or not out.resolve().parent.is_dir()):
        raise SettingError(
            f"expected --out to be a file in a folder that exists, got {out}: create the folder first"
        )
    if max_graphs is not None and max_graphs < 1:
        raise SettingError(f"expected --max-graphs to be at least 1, got {max_graphs}")
    shown = progress_console(quiet, stderr=as_json)
    model = load_model(model_dir, Device(device, "float32").select())
    communities, total = None, None
    parts: Iterator[RawGraphs]
    if dataset == "embedded":
        generated = embedded(seed=seed)
        communities, total = generated.communities, len(generated)
        parts = iter([generated.as_raw()])
    else:
        total, parts = graph_parts(dataset, source, model.names, source.label, quiet=quiet)
    if max_graphs is not None:
        parts = _first_graphs(parts, max_graphs)
        total = max_graphs if total is None else min(total, max_graphs)
    with graphs_bar("analyzing", total, shown) as advance:
        planted = None if communities is None else communities.numpy()
        found = analyze_model(model, parts, planted, advance)
    if out is not None:
        write_json(out, found.to_json())
    if as_json:
        print_json(found.to_json())
        return
    print_analysis(found)
    if out is not None:
        shown.print(f"written to {out}")


def _first_graphs(parts: Iterator[RawGraphs], count: int) -> Iterator[RawGraphs]:
    for raw in parts:
        yield raw[:count]
        count -= len(raw)
        if count <= 0:
            return


def print_analysis(found: Analysis) -> None:
    """Print the means of the measures, one column for each pooling."""
    console.print(
        f"{found.method}, trained on {found.trained_on}: means over {counted(found.graphs, 'graph')}"
    )
    titles = [f"pooling {number}" for number in range(1, len(found.poolings) + 1)]
    table = Table("measure", *titles)
    for title, measures in POOLING_ROWS:
        cells = [_cell(summary, measures) for summary in found.poolings]
        if any(cells):
            table.add_row(title, *(cell or "–" for cell in cells))
    console.print(table)
    for title, measures in STRUCTURE_ROWS:
        if text := _cell(found.structure, measures):
            console.print(f"{title}: {text}")
    if found.poolings[0].mean("louvain_communities") is None:
        console.print(
            "no Louvain communities: to compare with them, run `pip install 'diffpool[networkx]'`"
        )


def _cell(summary: Summary, measures: tuple[tuple[str, str], ...]) -> str:
    """The means of some measures with their labels; a measure that is undefined for all graphs is left out."""
    found = [(summary.mean(name), word) for name, word in measures]
    return ", ".join(f"{value:.3g} {word}".strip() for value, word in found if value is not None)
