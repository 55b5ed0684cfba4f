"""The page of a model in training: what it serves, and that training does not depend on it."""

from __future__ import annotations

import json
import re
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from explorer.pages import HOSTILE, rings

from diffpool.data import GraphDataset
from diffpool.errors import ModelError
from diffpool.experiments import Outcome, settings_for, train_once
from diffpool.explorer.live import Live
from diffpool.training import Epoch


@pytest.fixture(autouse=True)
def _end_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diffpool.explorer.live.LINGER", 0.0)


def fit(
    live: Live | None = None,
    out: Path | None = None,
    callbacks: tuple[Any, ...] = (),
    method: str = "diffpool",
    targets: bool = False,
    **settings: Any,
) -> Outcome:
    if method == "diffpool":
        settings = {"poolings": 2} | settings
    chosen = settings_for(method, "rings", **{"epochs": 4, "hidden": 8, "seed": 1} | settings)
    watching = () if live is None else (live,)
    return train_once(
        chosen, GraphDataset.from_raw(rings(60, targets)), out, [*callbacks, *watching]
    )


def get(live: Live, address: str = "") -> Any:
    with urllib.request.urlopen(live.url + address, timeout=5) as reply:
        content = reply.read().decode()
        return json.loads(content) if address else (content, dict(reply.headers))


@pytest.mark.parametrize("settings", [{}, {"ensemble": 2}], ids=["one", "ensemble"])
def test_training_is_the_same_to_the_bit_with_and_without_a_page(
    settings: dict[str, Any],
) -> None:
    plain = fit(**settings)
    with Live(lambda url: None, share=1.0) as live:  # the page is renewed after every epoch
        watched = fit(live, callbacks=(lambda row: get(live, "news/0/0"),), **settings)
        assert get(live, "news/0/0")["status"]["version"] == 5
    for name, value in plain.model.state_dict().items():
        assert torch.equal(value, watched.model.state_dict()[name]), name
    seconds = {"seconds": 0.0}
    assert [vars(row) | seconds for row in plain.epochs] == [
        vars(row) | seconds for row in watched.epochs
    ]


def test_the_page_follows_the_training_and_then_shows_the_model_that_was_kept() -> None:
    seen: list[Any] = []
    with Live(seen.append, epochs=4, share=1.0) as live:
        outcome = fit(live, callbacks=(lambda row: seen.append(get(live, "news/0/3")),))
        live.end(outcome.trained)
        last = get(live, "news/0/3")
        unchanged = get(live, f"news/{last['status']['version']}/3")
    assert seen[0] == live.url  # once, before the first epoch
    assert [news["status"]["epoch"] for news in seen[1:]] == [0, 1, 2, 3]  # of the epoch before
    assert {news["status"]["state"] for news in seen[1:]} == {"training"}
    assert last["status"]["state"] == "ended"
    assert list(unchanged) == ["status"]
    overview, graph = last["overview"], last["graph"]
    numbers = sorted(outcome.fold.validation.tolist())
    assert overview["numbers"] == numbers
    assert overview["curves"]["epoch"] == [1, 2, 3, 4]
    probabilities = outcome.trained.predict_proba(rings(60))[numbers]
    assert overview["guess"] == probabilities.argmax(1).tolist()
    np.testing.assert_allclose(graph["output"], probabilities[3], rtol=1e-3)
    s = outcome.trained.clusters(rings(60)[[numbers[3]]])[0][0]
    assert graph["levels"][1]["column"] == sorted(
        set(s.argmax(1).tolist()), key=lambda column: -s.sum(0)[column]
    )


def test_positions_and_colors_stay_from_epoch_to_epoch() -> None:
    seen: list[Any] = []
    with Live(lambda url: None, share=1.0) as live:
        fit(live, callbacks=(lambda row: seen.append(get(live, "graph/0")["graph"]["levels"]),))
    colors: dict[int, str] = {}
    for levels in seen:
        assert (levels[0]["x"], levels[0]["y"]) == (seen[0][0]["x"], seen[0][0]["y"])
        for column, color in zip(levels[1]["column"], levels[1]["color"], strict=True):
            assert colors.setdefault(column, color) == color
    assert len(set(colors.values())) == len(colors)


def test_the_page_is_one_document_whose_policy_permits_its_own_programs_only() -> None:
    with Live(lambda url: None) as live:
        live.names_from(rings(60))
        fit(live)
        content, headers = get(live)
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "connect-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert policy.count("'sha256-") == 3
    head = re.sub("<title>.*</title>", "", content.split("<script", 1)[0])
    assert not re.search(r"\s(src|href)=", head)
    overview = json.loads(re.search(r'id="overview">(.*?)</script>', content)[1])
    assert overview["data"] == HOSTILE[0]
    assert overview["ids"][0].startswith(HOSTILE[overview["numbers"][0] % 3])


@pytest.mark.parametrize(
    "address",
    ["news/0", "news/0/99", "news/-1/0", "graph/99", "graph/0/0", "graph/x", "graph/", "x", "²/0"],
)
def test_other_addresses_do_not_exist(address: str, running: Live) -> None:
    assert running._answer(address) is None


@pytest.fixture(scope="module")
def running() -> Any:
    with Live(lambda url: None) as live:
        fit(live, epochs=1)
        yield live


def test_the_page_takes_its_share_of_the_time_only() -> None:
    with Live(lambda url: None, share=1e-6) as live:
        fit(live)
        status = get(live, "news/0/0")["status"]
    assert (status["version"], status["epoch"], status["done"]) == (
        2,
        1,
        4,
    )  # then there was no time


@pytest.mark.parametrize(
    ("method", "targets"), [("graphsage", False), ("diffpool-det", False), ("diffpool", True)]
)
def test_flat_models_precomputed_clusters_and_regression_have_a_page(
    method: str, targets: bool
) -> None:
    with Live(lambda url: None, share=1.0) as live:
        outcome = fit(live, method=method, targets=targets, epochs=1)
        live.end(outcome.trained)
        news = get(live, "news/0/0")
    assert len(news["graph"]["levels"]) == 1 + outcome.card.architecture.poolings
    assert (news["overview"]["confidence"] is None) == targets


@pytest.mark.parametrize("error", [ModelError, ValueError])
def test_what_goes_wrong_with_the_page_does_not_end_training(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    plain, calls = fit(), []
    real = Live._look

    def fail(live: Live, model: Any) -> Any:
        calls.append(1)
        if len(calls) > 1:
            raise error("expected finite cluster assignments, got NaN")
        return real(live, model)

    monkeypatch.setattr(Live, "_look", fail)
    with Live(lambda url: None, share=1.0) as live:
        with pytest.warns(UserWarning, match=r"no more changes \(expected.*training continues"):
            watched = fit(live)
        assert get(live, "news/1/0")["status"]["state"] == "failed"
    assert len(calls) == 2
    assert watched.test == plain.test


def test_after_an_interruption_the_page_says_so() -> None:
    def interrupt(row: Epoch) -> None:
        raise KeyboardInterrupt

    with Live(lambda url: None) as live:
        with pytest.raises(KeyboardInterrupt):
            fit(live, callbacks=(interrupt,))
        live.end()
        assert get(live, "news/1/0")["status"]["state"] == "stopped"
    with pytest.raises(OSError, match="refused"):
        get(live)


def test_a_page_that_is_open_sees_the_end_before_the_server_closes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("diffpool.explorer.live.LINGER", 0.3)
    states, asked = [], threading.Event()

    def ask() -> None:
        while not states or states[-1] == "training":
            states.append(get(live, "news/1/0")["status"]["state"])
            asked.set()
            time.sleep(0.02)

    with Live(lambda url: None) as live:
        outcome = fit(live, epochs=1)
        thread = threading.Thread(target=ask)
        thread.start()
        asked.wait(5)
        live.end(outcome.trained)
    thread.join(5)
    assert states[0] == "training"
    assert states[-1] == "ended"
