"""The results page: what is in the file, and what a user does with it. All names are hostile."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from explorer.pages import HOSTILE

from diffpool.experiments.reproduce.render import PlainTable
from diffpool.explorer import results_page

AXE = Path(__file__).parent / "axe.min.js"
METHODS = [HOSTILE[0], "Beta", "Alpha"]
MEANS = {"ENZYMES": [50.0, 70.0, None], HOSTILE[1]: [80.0, 60.0, 90.0]}


def fact(method: int, dataset: str, protocol: str) -> dict[str, Any]:
    mean = MEANS[dataset][method]
    return {
        "table": "table1",
        "protocol": protocol,
        "method": METHODS[method],
        "kind": "control" if method == 2 else "paper",
        "dataset": dataset,
        "mean": mean,
        "sd": None if mean is None else 5.0,
        "folds": 10,
        "repeats": 1,
        "published": 62.53 if method == 1 else None,
        "published_sd": None,
        "gain": 1.5 if method == 1 else None,
        "gain_sets": 2,
        "published_gain": None,
        "missing": "no records" if mean is None else "",
        "remark": "",
        "device": HOSTILE[2],
        "commit": "0123456789",
        "key": "k",
    }


def tables() -> list[PlainTable]:
    accuracies = [
        PlainTable(
            "table1",
            f"Table 1, {protocol}. {HOSTILE[1]}.",
            ["method", *MEANS],
            [["in the facts"] * 3] * 3,
            [fact(method, dataset, protocol) for method in range(3) for dataset in MEANS],
            (HOSTILE[0], HOSTILE[1]),
        )
        for protocol in ("paper", "nested")
    ]
    lines = [["slow", "1,200 s", "–"], [HOSTILE[0], "90 s", "x"], ["Beta", "−2 s", ""]]
    return [*accuracies, PlainTable("time", "Times", ["method", "ENZYMES", HOSTILE[1]], lines)]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("results") / "results.html"
    path.write_text(results_page(tables()), "utf-8")
    return path


@pytest.fixture
def page(browser: Any, file: Path, request: Any) -> Iterator[Any]:
    """The page; at the end, nothing was printed or requested, and no name became markup."""
    options = getattr(request, "param", {"viewport": {"width": 1280, "height": 800}})
    context = browser.new_context(**options)
    opened, messages = context.new_page(), []
    opened.set_default_timeout(5000)
    opened.on("console", lambda message: messages.append(message.text))
    opened.on("pageerror", lambda error: messages.append(str(error)))
    opened.on("request", lambda asked: messages.append(asked.url))
    opened.goto(file.as_uri())
    yield opened
    assert opened.title() == "diffpool: results"
    assert opened.locator("#app img, #app script, #app svg svg").count() == 0
    assert messages == [file.as_uri()]
    context.close()


def methods(page: Any, card: int = 0) -> list[str]:
    return page.locator(".card").nth(card).locator("tbody th").all_inner_texts()


def test_the_file_has_its_own_program_and_data_that_cannot_leave_its_element(file: Path) -> None:
    text = file.read_text("utf-8")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "connect-src" not in policy
    assert text.lower().count("<script") == 2
    for name in HOSTILE[:2]:
        assert name not in text
    (data,) = re.findall(r'id="tables">(.*?)</script>', text)
    first, _, last = json.loads(data)
    assert first["facts"][0]["method"] == HOSTILE[0]
    assert first["lines"] == []
    assert last["lines"][1][0] == HOSTILE[0]


def test_ours_are_next_to_the_published_numbers_with_error_bars_and_notes(page: Any) -> None:
    assert page.locator(".card h2").all_inner_texts() == [
        "Table 1, paper",
        "Table 1, nested",
        "Times",
    ]
    row = page.locator(".card").first.locator("tbody tr").nth(1)
    assert row.locator("td").first.inner_text().split("\n") == ["70.0 ± 5.0", "published 62.53"]
    assert row.locator("td").last.inner_text() == "+1.50 [2]"
    assert row.locator("td").first.locator("svg circle, svg path, svg line").count() == 4
    origin = row.locator(".ours").first.get_attribute("title")
    assert origin == f"10 folds, {HOSTILE[2]}, commit 0123456"
    missing = page.locator(".card").first.locator("tbody tr").nth(2).locator("td").first
    assert missing.inner_text() == "no record"
    assert missing.locator("div").get_attribute("title") == "no records"
    page.locator("summary").first.click()
    assert page.locator("li").first.inner_text() == HOSTILE[0]


def test_a_click_on_a_column_sorts_and_rows_without_a_number_come_last(page: Any) -> None:
    def click(column: int, card: int = 0) -> str | None:
        button = page.locator(".card").nth(card).locator("thead button").nth(column)
        button.click()
        assert button.evaluate("element => element === document.activeElement")
        return (
            page.locator(".card")
            .nth(card)
            .locator("thead th")
            .nth(column)
            .get_attribute("aria-sort")
        )

    assert methods(page) == METHODS
    assert click(1) == "descending"
    assert methods(page) == ["Beta", HOSTILE[0], "Alpha"]
    assert click(1) == "ascending"
    assert methods(page) == [HOSTILE[0], "Beta", "Alpha"]
    assert click(1) == "none"
    assert click(0) == "ascending"
    assert methods(page)[-2:] == ["Alpha", "Beta"]
    assert methods(page, 1) == METHODS  # the other tables keep their order
    assert click(1, 2) == "descending"
    assert methods(page, 2) == ["slow", HOSTILE[0], "Beta"]  # 1,200, 90 and −2


def test_filters_by_protocol_data_set_rows_and_method(page: Any) -> None:
    page.get_by_label("Protocol").select_option("nested")
    assert page.locator(".card h2").all_inner_texts() == ["Table 1, nested"]
    page.get_by_label("Protocol").select_option("-")
    assert page.locator(".card h2").all_inner_texts() == ["Times"]
    page.get_by_label("Protocol").select_option("")
    page.get_by_label("Data set").select_option(HOSTILE[1])
    heads = page.locator(".card").first.locator("thead th").all_inner_texts()
    assert [text.strip("↕\n ") for text in heads] == ["Method", HOSTILE[1], "Gain"]
    assert page.locator(".card").nth(2).locator("thead th").count() == 2
    page.get_by_label("Rows").select_option("control")
    assert methods(page) == ["Alpha"]
    page.get_by_label("Data set").select_option("ENZYMES")
    page.get_by_label("Rows").select_option("+")
    assert methods(page) == METHODS[:2]
    page.get_by_label("Data set").select_option(HOSTILE[1])
    page.get_by_label("Rows").select_option("")
    page.get_by_label("Method", exact=True).fill("bet")
    assert [methods(page, card) for card in range(3)] == [["Beta"]] * 3
    page.get_by_label("Method", exact=True).fill("nobody")
    assert page.locator(".filters p").inner_text() == "Nothing fits these filters."


@pytest.mark.parametrize(
    "page",
    [
        {"viewport": {"width": 390, "height": 800}, "color_scheme": "dark", "bypass_csp": True},
        {"viewport": {"width": 1440, "height": 900}, "bypass_csp": True},
    ],
    ids=["phone-dark", "desktop-light"],
    indirect=True,
)
def test_accessibility_has_no_serious_findings(page: Any) -> None:
    page.evaluate(AXE.read_text())
    page.locator("summary").first.click()
    found = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
    assert [v["id"] for v in found if v["impact"] in ("serious", "critical")] == []
    assert page.evaluate("document.documentElement.scrollWidth") == page.viewport_size["width"]


def test_a_page_without_tables_says_so(browser: Any, tmp_path: Path) -> None:
    (tmp_path / "none.html").write_text(results_page([]))
    context = browser.new_context()
    opened = context.new_page()
    opened.goto((tmp_path / "none.html").as_uri())
    assert "Nothing fits" in opened.locator("main").inner_text()
    context.close()
