"""A data set by its name."""

from __future__ import annotations

import os
from pathlib import Path

from diffpool.data.dataset import GraphDataset
from diffpool.data.embedded import embedded
from diffpool.data.tu import read_tu
from diffpool.errors import DataError


def load_dataset(name: str, data_dir: str | Path | None = None, seed: int = 0) -> GraphDataset:
    """`embedded`, generated from the seed, or a data set of the TU collection.

    The latter is read from `data_dir` or, without it, from the folder that the variable DIFFPOOL_DATA names:
    `NAME.zip`, or a folder `NAME` with its text files.
    """
    if name == "embedded":
        return embedded(seed=seed)
    folder = data_dir or os.environ.get("DIFFPOOL_DATA")
    if folder is None:
        raise DataError(
            f"expected a data set to be called embedded, or a folder to find {name} in, got none: "
            f"put {name}.zip into a folder and name the folder with --data-dir or DIFFPOOL_DATA"
        )
    if not Path(folder).is_dir():
        raise DataError(f"expected a folder with data sets, got {folder}, which is none")
    for path in (Path(folder) / f"{name}.zip", Path(folder) / name):
        if path.exists():
            return read_tu(path, name)
    here = sorted({p.stem for p in Path(folder).iterdir() if p.suffix == ".zip" or p.is_dir()})
    raise DataError(
        f"expected {name}.zip or a folder {name} in {folder}, got neither: "
        f"there is {', '.join(here) if here else 'no data set there'}"
    )
