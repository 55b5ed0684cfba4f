"""`diffpool data`: find a data set, check it and describe it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from diffpool.cli.completion import complete_dataset
from diffpool.cli.convert import convert
from diffpool.cli.display import print_json, print_statistics
from diffpool.cli.inputs import read_input
from diffpool.cli.options import Json, Quiet, Source, Target, with_options
from diffpool.errors import SettingError

CONVERT = "convert"  # in place of the data set: the next argument is converted


@with_options
def data(
    dataset: Annotated[
        str,
        typer.Argument(
            help="The name of a TU data set, such as PROTEINS, or a path; or `convert`, to convert SOURCE.",
            autocompletion=complete_dataset,
        ),
    ],
    to_convert: Annotated[
        str | None,
        typer.Argument(
            metavar="[SOURCE]",
            help="After `convert`: the data set to convert.",
            autocompletion=complete_dataset,
            show_default=False,
        ),
    ] = None,
    *,
    out: Annotated[
        Path | None,
        typer.Option(help="For `convert`: the folder to write.", show_default=False),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="For `convert`: replace the data set in OUT.")
    ] = False,
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

    - `diffpool data convert graphs.jsonl --out graphs`

    `convert` writes the graphs to a folder that all commands read. `diffpool train` and `diffpool predict` draw batches
    from it without loading it, so it may be larger than memory; see docs/scale.md.
    """
    if dataset == CONVERT:
        if to_convert is None or out is None:
            raise SettingError(
                "expected a data set to convert and a folder to write: diffpool data convert SOURCE --out DIR"
            )
        convert(to_convert, out, source, target, overwrite, as_json, quiet)
        return
    if to_convert is not None or out is not None or overwrite:
        raise SettingError(
            "SOURCE, --out and --overwrite are for converting data sets only: diffpool data convert SOURCE --out DIR"
        )
    from diffpool.data.sources import is_path
    from diffpool.data.statistics import statistics
    from diffpool.data.stored import check_stored, is_stored

    if is_path(dataset) and is_stored(Path(dataset)):
        check_stored(dataset)
    raw = read_input(dataset, source, target, refresh, quiet)
    facts = statistics(raw)
    if as_json:
        print_json(facts)
    else:
        print_statistics(raw, facts)
