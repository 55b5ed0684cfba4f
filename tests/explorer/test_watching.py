"""The page of a training in a browser: what stays while the model changes, and what is said at the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from explorer.pages import rings

from diffpool.data import GraphDataset
from diffpool.experiments import settings_for, train_once
from diffpool.explorer.live import Live
from diffpool.training import Epoch

AXE = Path(__file__).parent / "axe.min.js"


@pytest.fixture
def tab(browser: Any) -> Iterator[Any]:
    """An empty tab; nothing may be printed on its console while there is a connection."""
    context = browser.new_context(viewport={"width": 1280, "height": 650}, bypass_csp=False)
    page = context.new_page()
    page.set_default_timeout(5000)
    page.messages = []
    page.on("console", lambda message: page.messages.append(message.text))
    page.on("pageerror", lambda error: page.messages.append(str(error)))
    yield page
    context.close()


def said(page: Any) -> list[str]:
    """What was printed on the console, without the remark of WebGL on the CPU that it is slow."""
    return [text for text in page.messages if "GL Driver Message (OpenGL, Performance" not in text]


def look(page: Any) -> None:
    """Ask the server now, as when the tab becomes visible, and not after a second."""
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


def wait_for(page: Any, epoch: int) -> None:
    look(page)
    page.wait_for_selector(f"html[data-epoch='{epoch}']")


def about(page: Any) -> list[str]:
    """What the page shows: the graph, the column of the chosen cluster, the filter, and the epoch."""
    return [
        page.locator(".toolbar h2").inner_text(),
        page.locator(".details p.quiet").first.inner_text(),
        page.get_by_label("Class", exact=True).input_value(),
        page.locator(".chip[aria-pressed=true]").count(),
        page.evaluate("document.activeElement.getAttribute('aria-label')"),
    ]


def test_the_choices_of_the_user_stay_while_the_model_changes(tab: Any) -> None:
    before: list[Any] = []
    screens = []

    def use(row: Epoch) -> None:
        if row.epoch == 1:
            tab.goto(live.url)
            tab.wait_for_selector("html[data-shown]")
            assert tab.locator(".training span").inner_text() == "Epoch 1 of 5"
            assert tab.locator("header .quiet").first.inner_text().endswith("validation graphs")
            tab.get_by_label("Class", exact=True).select_option("1")
            tab.locator(".row").nth(1).click()
            tab.wait_for_selector("html[data-shown]:not([data-shown='0'])")
            tab.locator(".chip").first.click()
            before[:] = about(tab)
            assert before[3] == 1
            tab.get_by_role("button", name="Zoom in, level 0").click()
            tab.locator(".chip").first.focus()
            before[4] = about(tab)[4]
        elif row.epoch == 2:
            wait_for(tab, 2)
            assert about(tab) == before
            assert tab.locator(".training span").inner_text() == "Epoch 2 of 5"
            tab.get_by_role("button", name="Data set").click()
            before[:] = [tab.locator(".charts svg").first.get_attribute("aria-label")]
        elif row.epoch == 3:
            wait_for(tab, 3)
            assert tab.locator(".charts svg").first.get_attribute("aria-label") != before[0]
            tab.get_by_role("button", name="Graph", exact=True).click()
            tab.get_by_role("button", name="Pause").click()
        elif row.epoch == 4:
            look(tab)
            tab.wait_for_timeout(100)
            assert "(paused)" in tab.locator(".training span").inner_text()
            assert tab.locator("html").get_attribute("data-epoch") == "3"
            tab.get_by_role("button", name="Resume").click()
            tab.wait_for_selector("html[data-epoch='4']")
            screens.append(tab.evaluate("document.documentElement.scrollWidth"))

    chosen = settings_for(
        *("diffpool", "rings"), epochs=5, hidden=8, seed=1, poolings=2, learning_rate=1e-4
    )
    with Live(lambda url: None, epochs=5, share=1.0) as live:
        graphs = GraphDataset.from_raw(rings(80))
        outcome = train_once(chosen, graphs, callbacks=[live, use])
        live.end(outcome.trained)
        look(tab)
        tab.wait_for_selector(".training[data-state=ended]")
        text = tab.locator(".training span").inner_text()
        assert text == "Ended after 5 epochs: the best model"
        assert tab.get_by_role("button", name="Pause").is_hidden()
        assert said(tab) == []
    assert screens == [1280]
    shown = tab.locator("html").get_attribute("data-shown")
    tab.get_by_role("button", name="Next graph").click()  # was not seen before
    tab.wait_for_selector(".training[data-state=lost]")
    assert "Connection lost" in tab.locator(".training span").inner_text()
    assert tab.locator("html").get_attribute("data-shown") == shown
    assert all("ERR_CONNECTION_REFUSED" in text for text in said(tab))


def test_two_pages_see_the_same_and_have_no_serious_accessibility_findings(browser: Any) -> None:
    opened = []

    def use(row: Epoch) -> None:
        for width, scheme in ((390, "light"), (820, "dark")):
            context = browser.new_context(
                viewport={"width": width, "height": 800}, color_scheme=scheme, bypass_csp=True
            )
            page = context.new_page()
            page.goto(live.url)
            page.wait_for_selector("html[data-shown]")
            page.evaluate(AXE.read_text())
            found = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
            serious = [v["id"] for v in found if v["impact"] in ("serious", "critical")]
            assert serious == []
            assert page.evaluate("document.documentElement.scrollWidth") == width
            opened.append(page.locator(".training, .details").all_inner_texts())
            context.close()

    chosen = settings_for("diffpool", "rings", epochs=1, hidden=8, seed=1, poolings=2)
    with Live(lambda url: None, share=1.0) as live:
        train_once(chosen, GraphDataset.from_raw(rings(80)), callbacks=[live, use])
    assert opened[0] == opened[1]
