// The page: the list of graphs, the chosen graph, and views of the whole data set.

import { readGraph, readOverview, type Graph, type Overview } from "./data";
import { DataSet } from "./dataset";
import { Details } from "./details";
import { h, option } from "./dom";
import { makeFilters, matching } from "./filters";
import { Levels } from "./levels";
import { samePlaces, Training } from "./training";
import { makeList } from "./list";
import { Store, type State } from "./state";
import { onSystemTheme, readTheme, setTheme } from "./theme";
import { Toolbar } from "./toolbar";
import { counted } from "./words";

const TABS: [State["tab"], string][] = [
  ["list", "Graphs"],
  ["graph", "Graph"],
  ["data", "Data set"],
];

function start(overview: Overview): void {
  const store = new Store({
    index: 0,
    hover: null,
    pinned: null,
    soft: false,
    labels: false,
    weights: false,
    tab: "graph",
    theme: readTheme(),
    search: "",
    truth: null,
    guess: null,
    result: "all",
    part: null,
    sort: "number",
    matches: [],
    version: 0,
  });
  setTheme(store.state.theme);
  store.on(["theme"], (state) => setTheme(state.theme)); // before the views read the colors
  onSystemTheme(() => store.announce(["theme"]));
  const status = h("p", { class: "hidden", role: "status" });
  const levels = new Levels(store, overview, (message) => (status.textContent = message));
  const toolbar = new Toolbar(store, overview, (place) => levels.find(place));
  const details = new Details(store, overview, (place) => levels.find(place));
  const tooLarge = h("p", { class: "note" }, "This graph is not drawn: it has no nodes, or more than the page may draw (--max-nodes).");
  const panes = {
    list: h("nav", { class: "side", "aria-label": "List of graphs" }, makeFilters(store, overview), makeList(store, overview)),
    graph: h("section", { class: "graph", "aria-label": "Chosen graph" }, toolbar.element, tooLarge, levels.element, details.element),
    data: new DataSet(store, overview).element,
  };
  const training = overview.live ? new Training(store, overview, renew) : null;
  document
    .getElementById("app")!
    .replaceChildren(header(store, overview, training), h("main", {}, panes.list, panes.graph, panes.data), status);

  let shown: Graph | null = null;

  async function show(): Promise<void> {
    const { index } = store.state;
    store.set({ hover: null, pinned: null });
    const graph = await (training ? training.graph(index) : readGraph(index));
    if (graph !== undefined && store.state.index === index) showGraph(graph);
  }

  /** The same graph after an epoch of training, or another one. */
  function renew(index: number, graph: Graph | null): void {
    Object.assign(store.state, { matches: matching(overview, store.state) });
    if (store.state.index === index) {
      Object.assign(store.state, samePlaces(store.state, shown, graph));
      showGraph(graph, true);
      store.announce(["pinned"]);
    }
  }

  function showGraph(graph: Graph | null, same = false): void {
    shown = graph;
    tooLarge.hidden = graph !== null;
    levels.element.hidden = graph === null;
    toolbar.show(graph, same);
    levels.show(graph, same);
    details.show(graph);
    document.documentElement.dataset.shown = String(store.state.index);
  }

  store.on(["index"], () => void show());
  store.on(["tab"], showTab);

  function showTab(): void {
    document.body.dataset.tab = store.state.tab;
    if (store.state.tab !== "data") window.dispatchEvent(new Event("resize"));
  }

  showTab();
  store.set({ matches: matching(overview, store.state) });
  void show().then(() => training?.follow());
}

function header(store: Store, overview: Overview, training: Training | null): HTMLElement {
  const tabs = TABS.map(([tab, text]) => {
    const button = h("button", { type: "button", class: `tab-${tab}`, click: () => store.set({ tab }) }, text);
    const mark = () => {
      if (store.state.tab === tab) button.setAttribute("aria-current", "page");
      else button.removeAttribute("aria-current");
    };
    store.on(["tab"], mark);
    mark();
    return button;
  });
  const theme = h("select", { "aria-label": "Theme" }, option("auto", "Auto"), option("light", "Light"), option("dark", "Dark"));
  theme.value = store.state.theme;
  theme.addEventListener("change", () => store.set({ theme: theme.value as State["theme"] }));
  const { model } = overview;
  const members = model.members > 1 ? `, ensemble of ${model.members} (clusters of the first)` : "";
  const shown = overview.nodes.length;
  const sample = shown < overview.total ? ` (a sample of ${overview.total.toLocaleString("en-US")})` : "";
  return h(
    "header",
    { class: "top" },
    h("div", { class: "title" }, h("h1", {}, overview.data), h("p", { class: "quiet" }, `${model.method}${members} · ${counted(shown, overview.live?.part ?? "graph")}${sample}`)),
    training && training.element,
    h("nav", { class: "tabs", "aria-label": "Views" }, ...tabs),
    theme,
  );
}

start(readOverview());
