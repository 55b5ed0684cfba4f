"""The page in a browser, from disk: what a user does, and what she sees.

All names in the data are hostile: if one of them became markup, the title of the page would change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from explorer.pages import HOSTILE, rings, train

from diffpool.explorer import explore

AXE = Path(__file__).parent / "axe.min.js"
METHOD = "JSON.parse(document.getElementById('overview').textContent).model.method"
DRIVER = "GL Driver Message (OpenGL, Performance"  # that WebGL on the CPU is slow
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    explore(train(folder / "model", rings()), rings(), folder / "page.html")
    return folder / "page.html"


@pytest.fixture
def show(browser: Any, file: Path) -> Iterator[Open]:
    """Opens the page; at the end, nothing was printed, no request was made, and no name became markup."""
    contexts, messages = [], []

    def opened(path: Path = file, width: int = 1280, **options: Any) -> Any:
        context = browser.new_context(viewport={"width": width, "height": 650}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(5000)
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on("request", lambda request: messages.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-shown]")
        return page

    yield opened
    for context in contexts:
        for page in context.pages:
            assert page.title() == f"{HOSTILE[0]} · {page.evaluate(METHOD)}"
            assert page.locator("#app img, #app script, #app svg svg").count() == 0
        context.close()
    own = [text for text in messages if not text.startswith("file:") and DRIVER not in text]
    assert own == []


def chosen(page: Any) -> str:
    return page.locator(".toolbar h2").inner_text()


def lit(page: Any) -> list[str]:
    """The clusters that are lit."""
    return [chip.inner_text() for chip in page.locator(".chip.lit").all()]


def node_position(page: Any, level: int) -> tuple[float, float]:
    """A place in the drawing of a level with a node, found by moving the pointer over it."""
    box = page.locator(".stage").nth(level).bounding_box()
    for row in range(1, 18):
        for column in range(1, 8):
            x = box["x"] + box["width"] * column / 8
            y = box["y"] + box["height"] * row / 18
            page.mouse.move(x, y)
            if re.match("Cluster" if level else "Node", page.locator(".details h3").inner_text()):
                return x, y
    raise AssertionError("no node found")


def test_the_page_opens_from_disk_and_shows_the_first_graph(show: Open) -> None:
    page = show()
    assert chosen(page) == f"{HOSTILE[0]}0"
    assert page.locator(".level:visible h3").all_inner_texts() == [
        "Input: 9 nodes",
        page.locator(".level h3").nth(1).inner_text(),
        page.locator(".level h3").nth(2).inner_text(),
    ]
    assert page.locator(".count").inner_text() == "24 graphs"
    assert page.locator(".row").count() >= 9
    columns = page.locator(".details dl").inner_text()
    assert HOSTILE[1] in columns
    assert HOSTILE[2] in columns


def test_a_row_of_the_list_and_the_arrows_choose_a_graph(show: Open) -> None:
    page = show()
    page.locator(".row").nth(2).click()
    page.wait_for_selector("html[data-shown='2']")
    assert chosen(page) == f"{HOSTILE[2]}2"
    assert page.locator(".row[aria-selected=true]").count() == 1
    page.get_by_role("listbox").press("ArrowDown")
    page.wait_for_selector("html[data-shown='3']")
    page.get_by_role("listbox").press("End")
    page.wait_for_selector("html[data-shown='23']")
    assert page.locator("#row-23").is_visible()
    assert page.get_by_role("listbox").get_attribute("aria-activedescendant") == "row-23"
    page.get_by_role("button", name="Previous graph").click()
    page.wait_for_selector("html[data-shown='22']")


def test_search_filters_and_order(show: Open) -> None:
    page = show()
    page.get_by_label("Search graphs").fill("onerror=document.title='hacked'>3")
    assert page.locator(".count span").inner_text() == "1 of 24 graphs"
    page.get_by_role("button", name="Clear filters").click()
    page.get_by_label("Class", exact=True).select_option("0")
    assert page.locator(".count span").inner_text() == "12 of 24 graphs"
    page.get_by_label("Class", exact=True).select_option("")
    page.get_by_label("Order").select_option("large")
    names = page.locator(".row .name .quiet").all_inner_texts()
    sizes = [int(name.split()[0]) for name in names]
    assert sizes == sorted(rings().sizes.tolist(), reverse=True)[: len(sizes)]
    page.get_by_label("Part").select_option("2")
    assert page.locator(".count span").inner_text().endswith(" of 24 graphs")


def test_a_cluster_lights_up_at_all_levels_and_is_described(show: Open) -> None:
    page = show()
    first = page.locator(".chip").first
    first.hover()
    assert page.locator(".details h3").inner_text() == "Cluster 1"
    assert lit(page)[0] == "1"
    assert "A" in lit(page)  # its cluster of the second pooling
    for words in (
        "Members (first choice)",
        "Share in the prediction",
        "minus that without the members",
    ):
        assert words in page.locator(".details").inner_text()
    page.mouse.move(5, 5)
    assert lit(page) == []
    first.click()
    page.mouse.move(5, 5)
    assert first.get_attribute("aria-pressed") == "true"
    assert re.match(r"cluster 1: \d+ input node", page.locator("p.hidden").inner_text())
    first.click()
    assert first.get_attribute("aria-pressed") == "false"


def test_pointing_at_a_drawing_and_clicking_chooses_a_node(show: Open) -> None:
    page = show()
    x, y = node_position(page, 1)
    name = page.locator(".details h3").inner_text()
    assert name.startswith("Cluster")
    page.mouse.click(x, y)
    page.mouse.move(5, 5)
    assert page.locator(".details h3").inner_text() == name
    assert page.locator(".chip[aria-pressed=true]").count() == 1
    x, y = node_position(page, 0)
    assert "Membership in pooling 1" in page.locator(".details").inner_text()
    assert "attributes" in page.locator(".details").inner_text()


def test_soft_membership_changes_the_colors_of_nodes(show: Open) -> None:
    page = show()
    stage = page.locator(".stage").first
    before = stage.screenshot()
    switch = page.get_by_role("switch", name="Soft membership")
    switch.click()
    assert switch.get_attribute("aria-checked") == "true"
    page.wait_for_timeout(60)
    assert stage.screenshot() != before
    switch.click()
    page.wait_for_timeout(60)
    assert stage.screenshot() == before
    for name in ("Labels", "Edge weights"):
        page.get_by_role("switch", name=name).click()
    page.wait_for_timeout(60)
    assert stage.screenshot() != before


def test_a_node_is_found_by_number_and_by_label(show: Open) -> None:
    page = show()
    search = page.get_by_label("Find a node")
    search.fill("7")
    assert page.locator(".details h3").inner_text() == "Node 7"
    search.fill("</script")
    assert page.locator(".find span").inner_text() == "3 nodes"
    assert page.locator(".details h3").inner_text() == "Node 1"
    search.press("Enter")
    assert page.locator(".details h3").inner_text() == "Node 4"
    search.fill("nothing")
    assert page.locator(".find span").inner_text() == "no such node"


def test_a_drawing_is_used_by_keyboard(show: Open) -> None:
    page = show()
    stage = page.get_by_role("application").nth(1)
    stage.focus()
    before = stage.screenshot()
    stage.press("ArrowRight")
    first = page.locator(".details h3").inner_text()
    assert first.startswith("Cluster")
    stage.press("Enter")
    assert page.locator(".chip[aria-pressed=true]").count() == 1
    stage.press("Escape")
    assert page.locator(".chip[aria-pressed=true]").count() == 0
    stage.press("Shift+ArrowRight")
    stage.press("+")
    page.wait_for_timeout(200)
    assert stage.screenshot() != before


def test_a_cell_of_the_confusion_matrix_filters_the_list(show: Open) -> None:
    page = show()
    page.get_by_role("button", name="Data set").click()
    cells = page.locator(".confusion td button")
    counts = [int(text) for text in cells.all_inner_texts()]
    assert sum(counts) == 24
    largest = counts.index(max(counts))
    cells.nth(largest).click()
    shown = page.locator(".count span").inner_text()
    assert shown == ("24 graphs" if max(counts) == 24 else f"{max(counts)} of 24 graphs")
    assert cells.nth(largest).get_attribute("aria-pressed") == "true"
    titles = page.locator(".card h2").all_inner_texts()
    assert titles == [
        "Confusion matrix",
        "Embedding of all graphs (PCA)",
        "Training",
        "Clusters in use",
    ]
    box = page.locator(".scatter canvas").bounding_box()
    for number in range(400):  # a point is somewhere on these lines
        page.mouse.move(
            box["x"] + box["width"] * (number % 20 + 1) / 21, box["y"] + 17 * (number // 20)
        )
        if "predicted" in page.locator(".tip").inner_text():
            break
    name = page.locator(".tip").inner_text().rsplit(": predicted", 1)[0]
    page.mouse.down()
    page.mouse.up()
    page.wait_for_function(
        "name => document.querySelector('.toolbar h2').textContent === name", arg=name
    )


def test_the_theme_follows_the_system_until_one_is_chosen(show: Open) -> None:
    page = show()
    theme, color = page.locator("html"), "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(color)
    assert theme.get_attribute("data-theme") == "light"
    page.emulate_media(color_scheme="dark")
    page.wait_for_selector("html[data-theme=dark]")
    assert page.evaluate(color) != light
    page.get_by_label("Theme").select_option("light")
    assert theme.get_attribute("data-theme") == "light"
    assert page.evaluate(color) == light


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_accessibility_has_no_serious_findings(show: Open, width: int, scheme: str) -> None:
    """In the list, the graph and the data set; with a cluster chosen. Nothing is wider than the screen."""
    page = show(width=width, color_scheme=scheme, bypass_csp=True)
    page.evaluate(AXE.read_text())
    page.locator(".chip").first.click()
    for tab in ("Graphs", "Graph", "Data set"):
        button = page.get_by_role("button", name=tab, exact=True)
        if button.count() and button.is_visible():
            button.click()
        assert page.evaluate("document.documentElement.scrollWidth") == width
        found = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
        serious = [
            (violation["id"], node["html"][:120])
            for violation in found
            if violation["impact"] in ("serious", "critical")
            for node in violation["nodes"]
        ]
        assert serious == []


def test_regression_and_flat_models_have_a_page(show: Open, tmp_path: Path) -> None:
    raw = rings(targets=True)
    explore(train(tmp_path / "a", raw, "graphsage"), raw, tmp_path / "a.html")
    page = show(tmp_path / "a.html")
    assert page.locator(".level:visible").count() == 1
    assert page.get_by_role("switch", name="Soft membership").count() == 0
    page.get_by_role("button", name="Data set").click()
    assert "Predictions" in page.locator(".card h2").all_inner_texts()


def test_a_graph_that_is_not_drawn_says_so(show: Open, tmp_path: Path) -> None:
    explore(train(tmp_path / "a", rings()), rings(), tmp_path / "a.html", max_nodes=1)
    page = show(tmp_path / "a.html")
    assert "--max-nodes" in page.locator(".note").inner_text()
    assert page.locator(".level:visible").count() == 0
