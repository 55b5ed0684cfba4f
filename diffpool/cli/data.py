"""`diffpool data`: find a data set, check it and describe it."""

from __future__ import annotations

from typing import Annotated

import typer

from diffpool.cli.completion import complete_dataset
from diffpool.cli.display import print_json, print_statistics
from diffpool.cli.inputs import read_input
from diffpool.cli.options import Json, Quiet, Source, Target, with_options


@with_options
def data(
    dataset: Annotated[
        str,
        typer.Argument(
            help="The name of a TU data set, such as PROTEINS, or a path.",
            autocompletion=complete_dataset,
        ),
    ],
    *,
    source: Source,
    target: Target = None,
    refresh: Annotated[
        bool,
        typer.Option(help="Download the data set again, even if it is in the cache."),
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find a data set, check it, and show its statistics.

    A data set name is looked up in --data-dir (or the folder in DIFFPOOL_DATA), then in the cache; otherwise the data
    set is downloaded from the TU collection. docs/own-graphs.md lists the supported file formats.

    **Examples**

    - `diffpool data ENZYMES`

    - `diffpool data ./MUTAG`

    - `diffpool data graphs.jsonl --json`
    """
    from diffpool.data.statistics import statistics

    raw = read_input(dataset, source, target, refresh, quiet)
    facts = statistics(raw)
    if as_json:
        print_json(facts)
    else:
        print_statistics(raw, facts)
