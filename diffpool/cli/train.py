"""`diffpool train`: a model and its report."""

from __future__ import annotations

from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from diffpool.cli.completion import complete_dataset
from diffpool.cli.display import (
    describe,
    epochs_bar,
    outcome_facts,
    preparing_bar,
    print_json,
    print_outcome,
    progress_console,
)
from diffpool.cli.exits import stop
from diffpool.cli.inputs import load
from diffpool.cli.options import (
    Device,
    HelpAll,
    Inputs,
    Json,
    Quiet,
    Resume,
    Seed,
    Settings,
    Target,
    name_option,
    with_options,
)
from diffpool.cli.output_folder import check_out, no_empty_folder
from diffpool.cli.picture import draw_test_graph
from diffpool.cli.setting_checks import check_settings
from diffpool.cli.torchrun import joined
from diffpool.cli.watch import check_watch, stay, watched
from diffpool.errors import SettingError, did_you_mean
from diffpool.experiments.methods import METHODS, settings_for

if TYPE_CHECKING:
    from diffpool.training import Callback

LOGS = ("tensorboard",)


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
    log: Annotated[
        str | None,
        typer.Option(
            help="Also write the metrics of every epoch for `tensorboard`, to OUT/tensorboard.",
            metavar="NAME",
            show_default="metrics.jsonl only",
            autocompletion=lambda: list(LOGS),
        ),
    ] = None,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            help="Show the clusters of validation graphs on a page in the browser, while they change.",
        ),
    ] = False,
    watch_port: Annotated[
        int | None,
        typer.Option(
            help="For **--watch**: port on 127.0.0.1.", metavar="PORT", show_default="any free one"
        ),
    ] = None,
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

    `--log tensorboard` also writes the metrics for TensorBoard: `tensorboard --logdir OUT`.

    `--watch` prints the address of a page on this machine that shows how the clusters of up to 200 validation graphs
    change: see docs/watch.md. In a terminal, the page stays after training until Ctrl-C.

    `torchrun --nproc-per-node 2 -m diffpool train` trains one model with two processes: see docs/scale.md.

    **Examples**

    - `diffpool train`

    - `diffpool train ENZYMES --data-dir ~/data --epochs 100 --poolings 2`

    - `diffpool train graphs.jsonl --method graphsage --out runs/flat`

    - `diffpool train molecules.csv --smiles smiles --label active --class-weight balanced`
    """
    chosen = settings_for(method, dataset, seed=seed, **settings)
    check_settings(chosen, settings, resume)
    if log is not None and log not in LOGS:
        raise SettingError(
            f"expected --log to be {' or '.join(LOGS)}, got {log!r}{did_you_mean(log, LOGS)}"
        )
    check_watch(watch, watch_port)
    from diffpool.experiments import prepared, train_once
    from diffpool.training.tensorboard import FOLDER, TensorBoard, remove_events

    with ExitStack() as page:
        with joined(device.select()) as (processes, device_name):
            leads = processes is None or processes.leads
            board = TensorBoard(out / FOLDER) if log and leads else None
            shown = progress_console(quiet or not leads, stderr=as_json)
            epochs = chosen.training.epochs
            live = page.enter_context(watched(watch and leads, watch_port, epochs, shown))
            with no_empty_folder(out) if leads else nullcontext():
                if leads:
                    check_out(out, overwrite or resume)
                with processes.leader_first() if processes else nullcontext():
                    edges = chosen.architecture.edges
                    given = (dataset, seed, data, edges, target, quiet or not leads)
                    graphs = load(*given, keep=None if live is None else live.names_from)
                    graphs = graphs.to(device_name)
                    with preparing_bar(shown) as preparing:
                        chosen, graphs = prepared(chosen, graphs, preparing)
                describe(graphs, chosen, shown)
                if processes is not None:
                    shown.print(f"{processes.size} processes, each with a part of every batch")
                with ExitStack() as stack:
                    callbacks: list[Callback] = [stack.enter_context(epochs_bar(chosen, shown))]
                    callbacks += [stack.enter_context(board)] if board is not None else []
                    callbacks += [live] if live is not None else []
                    outcome = train_once(
                        chosen, graphs, out, callbacks, overwrite, resume, processes
                    )
        if not leads:
            return
        if live is not None:
            live.end(outcome.trained, stopped=outcome.interrupted)
        if log is None:
            with suppress(OSError):
                remove_events(out / FOLDER)  # of an older model
        draw_test_graph(outcome, out / "clusters.png", shown)
        if as_json:
            print_json({**outcome_facts(outcome), "out": str(out)})
        else:
            print_outcome(outcome)
            shown.print(f"written to {out}")
        if outcome.interrupted:
            stop(
                f"stopped after epoch {len(outcome.epochs)}: the best model so far is in {out}. "
                "Run the same command with --resume to continue training."
            )
        if live is not None:
            stay(live, shown)
