"""A contest: turns on the same graphs, correct rates, and failures that do not stop the other competitors."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from benchmarks.contest import Entrant, Work, contest, draw, quotient, time_limit, trouble

DRAWS = draw(np.random.default_rng(0), graphs=30, shape=(4, 3, 5), count=3)


def watched(calls: list[tuple[str, np.ndarray]], name: str) -> Callable[[], Work]:
    return lambda: lambda chosen: calls.append((name, chosen))


def test_draws_have_the_requested_shape_and_no_graph_twice_in_a_batch() -> None:
    assert [d.shape for d in DRAWS] == [(4, 3, 5)] * 3
    for batch in np.concatenate(DRAWS).reshape(-1, 5):
        assert len(set(batch.tolist())) == 5
        assert batch.max() < 30


def test_competitors_take_turns_on_the_same_graphs() -> None:
    calls: list[tuple[str, np.ndarray]] = []
    entrants = {
        "many": Entrant(watched(calls, "many"), max_steps=4, models=3),
        "one": Entrant(watched(calls, "one"), max_steps=2),
    }
    contest(entrants, DRAWS, "cpu", seconds=100)
    turns = calls[4:]  # after two to warm up and two to measure the pace
    assert [name for name, _ in turns] == ["many", "one"] * 2
    for number, (name, chosen) in enumerate(turns):
        drawn = DRAWS[1 + number // 2]
        np.testing.assert_array_equal(chosen, drawn if name == "many" else drawn[:2, :1])


def test_a_slow_competitor_has_fewer_steps() -> None:
    def slowly(chosen: np.ndarray) -> None:
        time.sleep(0.01 * len(chosen))

    entrant = Entrant(lambda: slowly, max_steps=4)
    result = contest({"slow": entrant}, DRAWS, "cpu", seconds=0.04)["slow"]
    assert result["steps"] == 2
    assert 10 <= result["ms"] < 100
    assert result["mib"] is None


def test_a_rate_counts_the_graphs_of_all_models_and_turns() -> None:
    entrant = Entrant(lambda: lambda chosen: None, max_steps=3, models=2)
    entrant.times = [1.0, 3.0]
    result = entrant.result(batch=20)
    assert result["rate"] == 20 * 2 * 3 * 2 / 4
    assert result["ms"] == pytest.approx(1e3 * 2 / 3, abs=1e-3)


def _broken(chosen: np.ndarray) -> None:
    raise ValueError("no such graph\nand more about it")


def _missing() -> Callable[[np.ndarray], None]:
    raise ModuleNotFoundError("No module named 'peer'", name="peer")


def test_a_competitor_that_fails_says_why_and_the_others_continue() -> None:
    turns: list[int] = []

    def later(chosen: np.ndarray) -> None:
        turns.append(len(chosen))
        if len(turns) == 4:  # the second turn
            raise RuntimeError("out of luck")

    entrants = {
        "broken": Entrant(lambda: _broken, 4),
        "missing": Entrant(_missing, 4),
        "later": Entrant(lambda: later, 4),
        "fine": Entrant(lambda: lambda chosen: None, 4),
    }
    results = contest(entrants, DRAWS, "cpu", seconds=1)
    assert results["broken"] == {"failed": "ValueError: no such graph"}
    assert results["missing"] == {"failed": "peer is not installed"}
    assert results["later"] == {"failed": "RuntimeError: out of luck"}
    assert results["fine"]["rate"] > 0


def test_a_competitor_that_takes_too_long_to_warm_up_fails() -> None:
    def forever(chosen: np.ndarray) -> None:
        try:
            time.sleep(60)
        except Exception:  # a library that catches every error
            time.sleep(60)

    entrants = {"slow": Entrant(lambda: forever, 4), "late": Entrant(lambda: forever, 4)}
    start = time.perf_counter()
    results = contest(entrants, DRAWS, "cpu", seconds=1, limits={"slow": 0.1, "late": 0.0})
    assert time.perf_counter() - start < 5
    assert results["slow"] == {"failed": "not done after 0 s"}
    assert "earlier data sets" in results["late"]["failed"]


def test_a_time_limit_ends_with_its_block() -> None:
    assert trouble(lambda: None, 0.05) is None
    with time_limit(0.05):
        pass
    time.sleep(0.1)  # no alarm is left


def test_a_quotient_needs_both_numbers() -> None:
    assert quotient(30.0, 4) == 7.5
    assert quotient(30.0, None) is None
    assert quotient({"failed": "so"}, 4.0) is None
