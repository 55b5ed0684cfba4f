"""`diffpool data convert`: write a data set to a folder that may be larger than memory."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from diffpool.cli.display import console, counted, graphs_bar, print_json, progress_console
from diffpool.cli.inputs import check_columns, first, graph_parts
from diffpool.cli.options import Source
from diffpool.errors import SettingError

if TYPE_CHECKING:
    from diffpool.data import RawGraphs


def convert(
    dataset: str,
    out: Path,
    source: Source,
    target: str | None = None,
    overwrite: bool = False,
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """Convert a data set in any form to a folder of memory-mapped arrays."""
    from diffpool.data.sources import is_path
    from diffpool.data.stored import store_graphs

    if is_path(dataset) and out.exists() and Path(dataset).exists() and out.samefile(dataset):
        raise SettingError(f"expected --out to be a new folder, but {out} is the input")
    check_columns(source.label, target)
    shown = progress_console(quiet, stderr=as_json)
    total, parts = graph_parts(dataset, source, None, source.label, target, quiet)
    skipped: list[str] = []

    def watched() -> Iterator[RawGraphs]:
        for raw in parts:
            skipped.extend(row.where for row in raw.skipped)
            yield raw

    with graphs_bar("converting", total, shown) as advance:
        count = store_graphs(out, watched(), overwrite, advance)
    if skipped:
        warnings.warn(
            f"{dataset}: left out {counted(len(skipped), 'molecule')} that RDKit cannot read: {first(skipped)}",
            stacklevel=2,
        )
    if as_json:
        print_json({"graphs": count, "skipped": len(skipped), "out": str(out)})
    else:
        console.print(f"{counted(count, 'graph')} written to {out}", markup=False)
