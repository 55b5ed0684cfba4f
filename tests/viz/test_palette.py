"""Colors for readers without full color vision, and for gray prints."""

from __future__ import annotations

import numpy as np
import pytest

from diffpool.viz.palette import COLORS, distinct_colors, luminance, series_style, text_color


@pytest.mark.parametrize("by_hue", [False, True])
def test_up_to_21_clusters_have_different_colors(by_hue: bool) -> None:
    colors = distinct_colors(21, by_hue)
    assert colors.min() >= 0
    assert colors.max() <= 1
    assert len(np.unique(colors.round(6), axis=0)) == 21


def test_colors_by_hue_are_the_same_colors_in_another_order() -> None:
    ours, plain = distinct_colors(9, by_hue=True), distinct_colors(9)
    np.testing.assert_allclose(np.unique(ours, axis=0), np.unique(plain, axis=0))


def test_text_on_every_color_has_contrast() -> None:
    for color in distinct_colors(21):
        text = 1.0 if text_color(color) == "white" else 0.0
        assert abs(luminance(color) - text) >= 0.45


def test_ten_series_have_different_markers() -> None:
    assert len({series_style(number)["marker"] for number in range(10)}) == 10
    assert len(set(COLORS)) == len(COLORS)
