"""`diffpool tune`: a search for settings, and an ensemble with the best ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from diffpool.cli.completion import complete_grid
from diffpool.cli.display import (
    console,
    counted,
    describe,
    preparing_bar,
    print_json,
    print_scores,
    progress_console,
)
from diffpool.cli.durations import duration, max_time_option
from diffpool.cli.exits import resumable
from diffpool.cli.inputs import load
from diffpool.cli.options import (
    Cohort,
    DatasetName,
    Device,
    HelpAll,
    InnerFolds,
    Inputs,
    Json,
    Quiet,
    Seed,
    Settings,
    Target,
    Workers,
    name_option,
    with_options,
)
from diffpool.cli.output_folder import check_out, no_empty_folder
from diffpool.cli.setting_checks import check_settings
from diffpool.cli.tune_display import draw_trials, print_trials, tuning_display
from diffpool.errors import SettingError
from diffpool.experiments.grid import parse_grid
from diffpool.experiments.methods import METHODS, settings_for, with_settings
from diffpool.experiments.protocol_names import REFITS, SAMPLERS


@with_options
def tune(
    dataset: DatasetName,
    method: Annotated[str, name_option("Method to tune", METHODS)] = "diffpool",
    out: Annotated[Path, typer.Option(help="Folder for the model and the trials.")] = Path(
        "runs/tuned"
    ),
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the model in OUT, if there is one.")
    ] = False,
    trials: Annotated[
        int | None,
        typer.Option(
            help="Number of settings to try.",
            show_default="24, or as many as --max-time allows",
        ),
    ] = None,
    max_time: Annotated[
        float | None,
        max_time_option(
            "Stop trying settings after this time; the members are trained afterwards.", plain="s"
        ),
    ] = None,
    points: Annotated[str, name_option("How the settings to try are drawn", SAMPLERS)] = "spread",
    refit: Annotated[str, name_option("Graphs that the members are trained on", REFITS)] = "train",
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
    workers: Workers,
    cohort: Cohort = None,
    as_json: Json = False,
    quiet: Quiet = False,
    help_all: HelpAll = False,
    data: Inputs,
    target: Target = None,
    settings: Settings,
) -> None:
    """Choose settings for a data set, and train an ensemble of models with the best ones.

    A tenth of the graphs is kept as a test set. Settings are tried on the rest: points spread evenly over a search
    space, of which the worse half stops early. A greedy selection on validation graphs chooses the settings of the
    `--ensemble` members (default 10), and `diffpool predict` averages their predictions. Settings given as options are
    not searched over.

    OUT receives the model, **trials.csv** (the settings that were tried, the best ones first), **tuning.json** (the
    scores on the test graphs) and **tuning.png** (the validation score by the value of each setting). If the command is
    interrupted, run it again to continue.

    **Examples**

    - `diffpool tune graphs.jsonl --trials 12`

    - `diffpool tune molecules.csv --label active --max-time 10m --ensemble 5`

    - `diffpool tune ENZYMES --grid readout=sum,max --grid dropout=0,0.5 --inner-folds 5`
    """
    members = settings.pop("ensemble", 10)
    chosen = settings_for(method, dataset, seed=seed, **settings)
    given = parse_grid(grid or ())
    if both := [name for name, _ in given if name in settings]:
        raise SettingError(
            f"{both[0]} is given both as a setting and in the grid: remove one of them"
        )
    if "poolings" not in dict(given):
        check_settings(chosen, settings)
    from diffpool.experiments import needs_edges, prepared, space_for
    from diffpool.experiments import tune as tune_network
    from diffpool.experiments.tuning import check_counts, interrupted, search_protocol

    space = given or space_for(chosen, list(settings))
    search = search_protocol(
        chosen, space, trials, points, inner_folds, refit, max_seconds=max_time, seed=seed
    )
    check_counts(members, cohort)
    device_name = workers.select(device)
    shown = progress_console(quiet, stderr=as_json)
    with no_empty_folder(out), workers.executor(device, shown) as executor:
        check_out(out, overwrite or interrupted(out))
        edges = needs_edges(chosen, search)
        graphs = load(dataset, seed, data, edges, target, quiet=quiet)
        graphs = graphs.to(device_name)
        with preparing_bar(shown) as preparing:
            chosen, graphs = prepared(chosen, graphs, preparing)
        ratios = dict(space).get("ratio", ())  # searched over: small ones do not matter
        tried = with_settings(chosen, {"ratio": max(ratios)} if ratios else {})
        describe(graphs, chosen, shown, tried, executor or graphs.device)
        budget = counted(len(search.points), "trial")
        if max_time is not None:
            budget = f"at most {budget} in {duration(max_time)}"
        after = f"then {counted(members, 'member')}" if refit != "none" else "whose models are kept"
        title = f"tuning {chosen.name} on {graphs.name}: {budget}, {after}"
        with resumable("models are kept"), tuning_display(shown, title) as watch:
            result = tune_network(
                chosen,
                graphs,
                out=out,
                space=space,
                trials=trials,
                points=points,
                ensemble=members,
                inner_folds=inner_folds,
                refit=refit,
                max_seconds=max_time,
                seed=seed,
                cohort=cohort,
                overwrite=overwrite,
                watch=watch,
                notify=shown.print,
                executor=executor,
            )
    draw_trials(result, out, shown)
    if as_json:
        facts = {"best_settings": result.best_settings, "trials": len(result.trials)}
        facts |= {"members": result.model.card.members, "refit": refit}
        facts |= {"test": result.test, "seconds": result.seconds}
        print_json({**facts, "out": str(out)})
        return
    print_trials(console, result)
    if refit == "all":
        console.print(
            "test scores of the models of the trials, which were not trained on the test graphs:"
        )
    print_scores(console, result.test, "test ")
    shown.print(f"written to {out}   ({result.seconds:.0f} s)")
