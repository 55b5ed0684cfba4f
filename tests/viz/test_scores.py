"""The figure of an explanation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from diffpool.attribution import explain
from diffpool.viz import draw_scores
from diffpool.viz.palette import rgb
from diffpool.viz.scores import AGAINST, FOR, NEUTRAL, _colored, score_colors
from diffpool.viz.subjects import subjects
from tests.attribution.explained import model, raw_graphs


def test_colors_show_the_sign_and_the_size_of_scores() -> None:
    colors = score_colors(np.array([2.0, -1.0, 0.0]))
    np.testing.assert_allclose(colors[0], rgb(FOR))
    np.testing.assert_allclose(colors[1], (rgb(NEUTRAL) + rgb(AGAINST)) / 2)
    np.testing.assert_allclose(colors[2], rgb(NEUTRAL))
    np.testing.assert_allclose(score_colors(np.zeros(2)), [rgb(NEUTRAL)] * 2)


def test_every_drawn_cluster_has_the_color_of_its_score_and_its_number() -> None:
    own, raw = model(), raw_graphs((9, 6))
    (explanation,) = explain(own, raw[1:], method="leave-out")
    (subject,) = subjects(own, raw, [1])
    colored = _colored(subject, explanation)
    for number, level in enumerate(colored.levels):
        scores = explanation.levels[number].nodes[level.columns]
        np.testing.assert_allclose(level.colors, score_colors(scores))
        assert level.names == ([str(c) for c in level.columns] if number else [])


def test_the_same_explanations_give_the_same_file(tmp_path: Path) -> None:
    for regression, name in ((False, "class a"), (True, "increases the prediction")):
        own, raw = model(regression=regression), raw_graphs((9, 6))
        found = explain(own, raw, method="keep", target=0 if regression else "a")
        for file in ("1.svg", "2.svg"):
            draw_scores(own, raw, found, tmp_path / file)
        text = (tmp_path / "1.svg").read_text()
        assert text == (tmp_path / "2.svg").read_text()
        assert name in text
