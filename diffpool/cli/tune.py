"""`diffpool tune`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from diffpool.cli.completion import complete_dataset, complete_grid
from diffpool.cli.display import (
    console,
    describe,
    preparing_bar,
    print_json,
    print_scores,
    progress_console,
)
from diffpool.cli.evaluate_display import evaluation_display
from diffpool.cli.exits import resumable
from diffpool.cli.inputs import load
from diffpool.cli.options import (
    Cohort,
    Device,
    HelpAll,
    InnerFolds,
    Inputs,
    Json,
    Quiet,
    Seed,
    Settings,
    Target,
    name_option,
    with_options,
)
from diffpool.cli.output_folder import check_out, no_empty_folder
from diffpool.errors import SettingError
from diffpool.experiments.grid import parse_grid
from diffpool.experiments.methods import METHOD_SETTINGS, METHODS, settings_for


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
    with no_empty_folder(out):
        check_out(out, overwrite)
        edges = needs_edges(chosen, Nested(grid=space, trials=trials))
        graphs = load(dataset, seed, data, edges, target, quiet=quiet).to(device_name)
        with preparing_bar(shown) as preparing:
            chosen, graphs = prepared(chosen, graphs, preparing)
        describe(graphs, chosen, shown)
        title = f"tuning {chosen.name} on {graphs.name}: {trials} trials, {members} members"
        with resumable("models are kept"), evaluation_display(shown, title) as watch:
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
        print_json({**facts, "out": str(out)})
        return
    for trial in [trial for trial in result.trials if trial.members][:10]:
        words = [f"{name} {METHOD_SETTINGS[name].show(v)}" for name, v in trial.settings.items()]
        plural = "member" if trial.members == 1 else "members"
        console.print(f"{trial.members} {plural}: {', '.join(words)}", soft_wrap=True)
    print_scores(console, result.test, "test ")
    shown.print(f"written to {out}   ({result.seconds:.0f} s)")
