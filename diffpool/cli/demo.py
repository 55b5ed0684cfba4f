"""`diffpool demo`: DiffPool and a flat GNN on generated data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from diffpool.cli.display import console, epochs_bar, outcome_facts, print_json, progress_console
from diffpool.cli.exits import stop
from diffpool.cli.options import Device, DeviceName, Json, Quiet, Seed
from diffpool.cli.output_folder import check_out, no_empty_folder
from diffpool.cli.picture import draw_test_graph
from diffpool.experiments.methods import settings_for

# The networks that are compared: their methods, and their rows in the table that is printed.
NETWORKS = {
    "diffpool": "DiffPool      ",
    "graphsage": "flat GraphSAGE",
}


def demo(
    out: Annotated[
        Path,
        typer.Option(help="Folder for both models, their metrics and reports, and a picture."),
    ] = Path("runs/demo"),
    graphs: Annotated[int, typer.Option(help="Number of graphs to generate.", min=20)] = 2000,
    epochs: Annotated[int, typer.Option(help="Number of epochs of each network.", min=1)] = 40,
    seed: Seed = 0,
    device: DeviceName = "auto",
    *,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare DiffPool with a flat GraphSAGE of the same depth and width on generated data.

    The networks decide whether two marks in a graph lie in the same community. The communities are longer than the
    networks' receptive field, and local views are the same in both classes. The demo takes about three minutes on two
    CPU cores. OUT/diffpool and OUT/graphsage receive the models; those of an earlier demo are replaced.
    """
    shown = progress_console(quiet, stderr=as_json)
    device_name = Device(device).select()
    outcomes = {}
    with no_empty_folder(out):
        for name in NETWORKS:
            check_out(out / name, overwrite=True)
        from diffpool.data import embedded
        from diffpool.experiments import train_once

        dataset = embedded(graphs, seed=seed).to(device_name)
        shown.print(
            f"{dataset}\nAre both marks in the same community? Local views are the same in both classes.\n",
            soft_wrap=True,
        )
        for name in NETWORKS:
            method = settings_for(name, "embedded", epochs=epochs, seed=seed)
            with epochs_bar(method, shown) as watch:
                outcome = train_once(method, dataset, out / name, [watch], overwrite=True)
            if outcome.interrupted:
                stop(f"stopped after epoch {len(outcome.epochs)} of {name}: there is no result")
            outcomes[name] = outcome
    pooled = outcomes["diffpool"]
    picture = draw_test_graph(pooled, out / "diffpool" / "clusters.png", shown)
    facts = {name: outcome_facts(outcome) for name, outcome in outcomes.items()}
    if as_json:
        print_json(facts)
        return
    console.print(f"\ntest accuracy on {len(pooled.fold.test)} graphs")
    for name, title in NETWORKS.items():
        remark = "" if name == "diffpool" else "   (the same depth and width, mean readout)"
        console.print(f"  {title}  {100 * facts[name]['test_accuracy']:5.1f} %{remark}")
    if picture is not None:
        console.print(f"the clusters that DiffPool found: {picture}", soft_wrap=True)
