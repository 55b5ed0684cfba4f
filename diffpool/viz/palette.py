"""Colors that can be told apart without full color vision, with the markers and line styles that go with them."""

from __future__ import annotations

from typing import Any

import numpy as np

# Okabe and Ito (2008), the most distinct ones first; black is kept for text.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
HUES = (5, 1, 6, 2, 4, 0, 3)  # their indices in the order of the rainbow
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")
LINES = ("-", "--", "-.", ":")
GRAY, PALE = "#5b6670", "#c8ced4"  # of single-colored marks and of lines in the background


def rgb(color: str) -> np.ndarray:
    """The red, green and blue of a color such as `#0072B2`, from 0 to 1: [3]."""
    return np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])


def distinct_colors(count: int, by_hue: bool = False) -> np.ndarray:
    """Colors for this many clusters: [count, 3].

    The first seven are `COLORS`; then follow lighter and darker ones. `by_hue`: in the order of the rainbow, so that
    a mixture of neighbors is a color between them.
    """
    base = np.array([rgb(color) for color in COLORS])
    rounds = [base, base + 0.5 * (1 - base), 0.55 * base]
    numbers = np.arange(count) % (3 * len(base))
    if by_hue:
        rank = np.argsort(HUES)[numbers % len(base)]
        numbers = numbers[np.lexsort((np.arange(count), rank))]
    return np.concatenate(rounds)[numbers]


def luminance(colors: np.ndarray) -> np.ndarray:
    """How bright colors [..., 3] look, from 0 to 1: their gray level in a grayscale print."""
    return colors @ np.array([0.299, 0.587, 0.114])


def text_color(color: np.ndarray) -> str:
    """Black or white, whichever is easier to read on this color."""
    return "white" if luminance(color) < 0.5 else "black"


def series_style(number: int) -> dict[str, Any]:
    """Color and marker of one of several series; the marker alone identifies it."""
    return {"color": COLORS[number % len(COLORS)], "marker": MARKERS[number % len(MARKERS)]}
