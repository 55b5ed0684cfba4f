"""Figures and their files. A figure is deterministic: the same input gives the same file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from diffpool.errors import SettingError
from diffpool.files import atomic_write

FORMS = (".png", ".svg", ".pdf")
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#5b6670",
    "axes.linewidth": 0.8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "hatch.linewidth": 0.6,
    "text.parse_math": False,  # names may contain $
    "svg.hashsalt": "diffpool",
    "pdf.fonttype": 42,  # text stays text
}


def check_form(path: str | Path) -> None:
    """Raise an error unless the file can be written in the format of its name."""
    path = Path(path)
    if path.suffix.lower() not in FORMS:
        raise SettingError(
            f"expected the name of a figure to end in {', '.join(FORMS[:-1])} or {FORMS[-1]}, got {path}: "
            f"write {path.with_suffix('.png')}"
        )
    if not path.resolve().parent.is_dir() or path.is_dir():
        raise SettingError(
            f"expected a file in a folder that exists, got {path}: create the folder first"
        )


@contextmanager
def new_figure(width: float, height: float, path: str | Path) -> Iterator[Figure]:
    """A figure of this size in inches. It is saved at the end, as PNG, SVG or PDF by the suffix of the path."""
    check_form(path)
    path = Path(path)
    form = path.suffix.lower()[1:]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
        yield figure
        # without a date, so that the same figure is the same file
        options: dict[str, dict[str, Any]] = {
            "png": {"pil_kwargs": {"optimize": True}},
            "svg": {"metadata": {"Date": None}},
            "pdf": {"metadata": {"CreationDate": None}},
        }
        with atomic_write(path) as temporary:
            figure.savefig(temporary, format=form, **options[form])
