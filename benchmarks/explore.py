"""How large are pages of `diffpool explore`, how soon do they open, and how smoothly do they move?

A model is trained for a few epochs on each data set. Its page is opened from disk in a headless Chromium at
1,440 × 900, several times. The first view is the time from navigation to the first frame with the chosen graph. Then
the largest graph is chosen, and its drawing is panned for some seconds; a frame counts if WebGL drew in it. Chromium
computes WebGL on the CPU (SwiftShader).
"""

from __future__ import annotations

import shutil
import tempfile
import time
import warnings
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.record import begin, finish, parser, words_of
from diffpool.data import GraphDataset, RawGraphs, read_graphs
from diffpool.data.tu_collection import load_raw
from diffpool.experiments import settings_for, train_once
from diffpool.explorer import explore

ROOT = Path(__file__).parent.parent
DATASETS = ("ENZYMES", "COLLAB", "DD", "molecules")
SETTINGS: dict[str, dict[str, Any]] = {  # brief training: the clusters are not the question here
    "ENZYMES": {"epochs": 10, "poolings": 2},
    "COLLAB": {"epochs": 1, "hidden": 16},
    "DD": {"epochs": 1, "hidden": 16, "ratio": 0.1},
    "molecules": {"epochs": 10},
}
CHROMIUM = ["--no-sandbox", "--enable-unsafe-swiftshader"]
FIRST_VIEW = """() => new Promise((done) => {
  const check = () => document.documentElement.dataset.shown === undefined
    ? setTimeout(check, 2)
    : requestAnimationFrame(() => setTimeout(() => done(performance.now())));
  check();
})"""
# Counts the frames of the page that follow a call of WebGL, and notes the longest time between two.
COUNT_FRAMES = """() => {
  const counter = { frames: 0, longest: 0, last: performance.now(), drawn: false };
  window.counter = counter;
  for (const name of ["drawArrays", "drawElements", "drawArraysInstanced"]) {
    for (const kind of [WebGLRenderingContext, WebGL2RenderingContext]) {
      const draw = kind.prototype[name];
      if (draw) kind.prototype[name] = function (...words) { counter.drawn = true; return draw.apply(this, words); };
    }
  }
  const frame = () => {
    const now = performance.now();
    if (counter.drawn) {
      counter.frames++;
      counter.longest = Math.max(counter.longest, now - counter.last);
      counter.last = now;
      counter.drawn = false;
    }
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}"""


def load(name: str, data_dir: str | None) -> RawGraphs:
    if name == "molecules":
        return read_graphs(ROOT / "examples" / "data" / "molecules.csv", label="lipophilic")
    return load_raw(name, data_dir)


def pan(page: Any, seconds: float) -> dict[str, float]:
    """Drag the first drawing in circles; frames per second and the longest frame."""
    box = page.locator(".stage").first.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 5, y)
    page.wait_for_timeout(300)
    page.evaluate(COUNT_FRAMES)
    # moved inside the page: moves sent by the test driver would be the limit
    page.evaluate(
        """([x, y, seconds]) => new Promise((done) => {
          const start = performance.now();
          window.counter.last = start;
          const move = () => {
            const now = performance.now();
            if (now - start > 1000 * seconds) return done();
            const angle = (now - start) / 150;
            const [clientX, clientY] = [x + 60 * Math.cos(angle), y + 60 * Math.sin(angle)];
            const at = { clientX, clientY, bubbles: true, buttons: 1 };
            document.elementFromPoint(x, y).dispatchEvent(new MouseEvent("mousemove", at));
            requestAnimationFrame(move);
          };
          move();
        })""",
        [x, y, seconds],
    )
    counter = page.evaluate("window.counter")
    page.mouse.up()
    return {"frames": counter["frames"] / seconds, "longest_ms": counter["longest"]}


def measure(browser: Any, file: Path, largest: int, repeats: int, seconds: float) -> dict[str, Any]:
    """First view and frames while panning the largest graph: medians over the repeats."""
    views, pans = [], []
    for _ in range(repeats):
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.goto(file.as_uri(), wait_until="commit")
        views.append(page.evaluate(FIRST_VIEW) / 1000)
        page.get_by_label("Order").select_option("large")
        start = time.perf_counter()
        page.locator(f"#row-{largest}").click()
        page.wait_for_selector(f"html[data-shown='{largest}']")
        shown = time.perf_counter() - start
        pans.append(pan(page, seconds) | {"choose": shown})
        context.close()
    return {"first_view": median(views)} | {
        name: median(found[name] for found in pans) for name in pans[0]
    }


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--datasets", default=",".join(DATASETS), help="comma-separated")
    options.add_argument("--data-dir", help="folder of the TU data sets")
    options.add_argument("--repeats", type=int, default=3, help="openings of each page (default 3)")
    options.add_argument("--seconds", type=float, default=3.0, help="of panning (default 3)")
    options.add_argument("--keep", type=Path, help="folder for the pages")
    chosen = begin(options)
    from playwright.sync_api import sync_playwright

    executable = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))))
    rows = {}
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=CHROMIUM)
        for name in words_of(chosen.datasets, DATASETS, "data sets"):
            raw = load(name, chosen.data_dir)
            method = settings_for("diffpool", name, **SETTINGS[name])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about brief training
                train_once(method, GraphDataset.from_raw(raw), Path(folder) / name)
            file = (chosen.keep or Path(folder)).resolve() / f"{name}.html"
            start = time.perf_counter()
            written = explore(Path(folder) / name, raw, file)
            seconds = time.perf_counter() - start
            largest = int(raw.sizes.argmax())
            facts = {
                "graphs": written.graphs,
                "megabytes": written.bytes / 1e6,
                "writing": seconds,
                "largest_nodes": int(raw.sizes[largest]),
                "largest_edges": int(raw.undirected().edge_counts[largest]) // 2,
            }
            rows[name] = facts | measure(browser, file, largest, chosen.repeats, chosen.seconds)
            print(name, rows[name], flush=True)
        version = browser.version
        browser.close()
    finish("explore", {"rows": rows, "browser": f"Chromium {version}"}, chosen)


if __name__ == "__main__":
    main()
