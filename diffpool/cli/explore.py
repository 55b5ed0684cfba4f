"""`diffpool explore`: a page about a trained model and graphs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from diffpool.cli.display import console, counted, graphs_bar, print_json, progress_console
from diffpool.cli.inputs import embedded, read_input
from diffpool.cli.options import (
    DatasetName,
    Device,
    DeviceName,
    Json,
    ModelDir,
    Quiet,
    Source,
    Target,
    with_options,
)
from diffpool.errors import SettingError

if TYPE_CHECKING:
    from diffpool.data import GraphDataset, RawGraphs
    from diffpool.explorer import Written


@with_options
def explore(
    model_dir: ModelDir,
    dataset: DatasetName,
    out: Annotated[Path, typer.Option(help="HTML file to write.")] = Path("page.html"),
    max_graphs: Annotated[
        int, typer.Option(help="Maximum number of graphs; of more, a sample is shown.")
    ] = 5000,
    max_nodes: Annotated[
        int, typer.Option(help="Maximum number of nodes of a graph that is drawn.")
    ] = 10_000,
    max_megabytes: Annotated[float, typer.Option(help="Maximum size of the file.")] = 100,
    embedding: Annotated[
        str,
        typer.Option(
            help="Projection of the embeddings of all graphs: `pca` or `tsne` (takes longer).",
            metavar="NAME",
            autocompletion=lambda: ["pca", "tsne"],
        ),
    ] = "pca",
    effects: Annotated[
        str,
        typer.Option(
            help="How the share of each cluster in the prediction is computed: `leave-out`, `keep`, `gradients` (takes "
            "about a hundred times as long) or `none`; see `diffpool explain`.",
            metavar="NAME",
            autocompletion=lambda: ["leave-out", "keep", "gradients", "none"],
        ),
    ] = "leave-out",
    seed: Annotated[int, typer.Option(help="Seed of the data set embedded.")] = 0,
    *,
    device: DeviceName = "auto",
    source: Source,
    target: Target = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a page that shows how a trained model pools and classifies graphs.

    OUT is one HTML file that opens in any browser, without a network. It shows each graph next to its coarser levels,
    with its clusters, and the confusion matrix, the training curves, the clusters in use and an embedding of all
    graphs. Molecules are drawn as molecules if RDKit is installed. For a CSV file, name the column of the class with
    --label, or of the target with --target. docs/explore.md explains the page.

    **Examples**

    - `diffpool explore runs/model ENZYMES --out enzymes.html`

    - `diffpool explore runs/model molecules.csv --label active --embedding tsne`
    """
    from diffpool.explorer import explore as write_page
    from diffpool.training import load_model

    _check_out(out)
    for option, value in (("--max-graphs", max_graphs), ("--max-nodes", max_nodes)):
        if value < 1:
            raise SettingError(f"expected {option} to be at least 1, got {value}")
    shown = progress_console(quiet, stderr=as_json)
    model = load_model(model_dir, Device(device, "float32").select())
    graphs: RawGraphs | GraphDataset
    if dataset == "embedded":
        graphs = embedded(seed=seed)
    else:
        graphs = read_input(dataset, source, target, quiet=quiet, names=model.names)
    advance: Callable[[int], None]
    with graphs_bar("drawing", min(len(graphs), max_graphs), shown) as advance:
        written = write_page(
            model,
            graphs,
            out,
            directory=model_dir,
            max_graphs=max_graphs,
            max_nodes=max_nodes,
            max_megabytes=max_megabytes,
            embedding=embedding,
            effects=effects,
            watch=advance,
        )
    if as_json:
        facts = {"out": str(out), "graphs": written.graphs, "total": written.total}
        print_json(facts | {"too_large": written.too_large, "bytes": written.bytes})
        return
    _print_written(written, max_graphs, max_nodes)


def _check_out(out: Path) -> None:
    if out.is_dir():
        raise SettingError(
            f"expected --out to be a file, got the folder {out}: add a name, such as {out / 'page.html'}"
        )
    if not out.resolve().parent.is_dir():
        raise SettingError(
            f"expected --out to be a file in a folder that exists, got {out}: create the folder first"
        )
    if out.suffix not in (".html", ".htm"):
        raise SettingError(f"expected --out to end in .html, got {out}: rename it")


def _print_written(written: Written, max_graphs: int, max_nodes: int) -> None:
    if written.graphs < written.total:
        console.print(
            f"{counted(written.total, 'graph')}, of which {written.graphs} are on the page, at even distances "
            f"(--max-graphs {max_graphs})",
            markup=False,
        )
    if written.too_large:
        console.print(
            f"{counted(written.too_large, 'graph')} listed but not drawn: without nodes, or with more than "
            f"{max_nodes:,} (--max-nodes)",
            markup=False,
        )
    size = f"{written.bytes / 1e6:.1f} MB"
    console.print(
        f"{written.path}: {counted(written.graphs, 'graph')}, {size}. Open it in a browser.",
        markup=False,
    )
