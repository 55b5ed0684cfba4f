// The list of graphs. Only the rows in view exist: a page may have thousands of graphs.

import { classColor } from "./colors";
import type { Overview } from "./data";
import { bar, h } from "./dom";
import type { Store } from "./state";
import { answer, counted, error, graphName, isRight, number, percent } from "./words";

const ROW = 54; // pixels, as in page.css
const SPARE = 6; // rows above and below those in view

export function makeList(store: Store, overview: Overview): HTMLElement {
  const spacer = h("div", { class: "rows", role: "presentation" });
  const list = h(
    "div",
    { class: "list", role: "listbox", tabindex: 0, "aria-label": "Graphs" },
    spacer,
  );

  function render(): void {
    const { matches, index } = store.state;
    spacer.style.height = `${matches.length * ROW}px`;
    const first = Math.max(0, Math.floor(list.scrollTop / ROW) - SPARE);
    const last = Math.min(matches.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + SPARE);
    const rows = [];
    for (let position = first; position < last; position++) rows.push(makeRow(matches[position], position));
    spacer.replaceChildren(...rows);
    const chosen = rows.some((row) => row.id === `row-${index}`);
    if (chosen) list.setAttribute("aria-activedescendant", `row-${index}`);
    else list.removeAttribute("aria-activedescendant");
  }

  function makeRow(graph: number, position: number): HTMLElement {
    const right = isRight(overview, graph);
    const row = h(
      "div",
      {
        class: "row",
        id: `row-${graph}`,
        role: "option",
        "aria-selected": String(graph === store.state.index),
        "aria-posinset": position + 1,
        "aria-setsize": store.state.matches.length,
      },
      h(
        "span",
        { class: "name" },
        h("b", {}, graphName(overview, graph)),
        h("span", { class: "quiet" }, counted(overview.nodes[graph], "node")),
      ),
      h("span", { class: "answer" }, ...answerOf(graph, right)),
    );
    row.style.top = `${position * ROW}px`;
    return row;
  }

  function answerOf(graph: number, right: boolean | null): (Node | null)[] {
    const guess = answer(overview, overview.guess, graph);
    if (!overview.confidence) {
      const known = overview.truth !== null;
      return [
        h("span", { class: "guess" }, `predicted ${guess}`),
        known ? h("span", { class: "quiet" }, `error ${number(error(overview, graph))}`) : null,
      ];
    }
    const truth = answer(overview, overview.truth, graph);
    const mark = right === null ? null : h("span", { class: right ? "right" : "wrong" }, right ? "✓" : "✗");
    mark?.setAttribute("aria-label", right ? "right" : "wrong");
    mark?.setAttribute("role", "img");
    const sure = overview.confidence[graph];
    return [
      mark,
      h("span", { class: "guess" }, right === false ? `${guess}, not ${truth}` : guess),
      h("span", { class: "sure" }, bar(sure, classColor(overview.guess[graph] as number)), percent(sure)),
    ];
  }

  function scrollToChosen(): void {
    const position = store.state.matches.indexOf(store.state.index);
    if (position < 0) return;
    if (position * ROW < list.scrollTop) list.scrollTop = position * ROW;
    const end = (position + 1) * ROW - list.clientHeight;
    if (end > list.scrollTop) list.scrollTop = end;
  }

  const moves: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -1e9, End: 1e9 };
  list.addEventListener("keydown", (event) => {
    const move = moves[event.key];
    if (event.key === "Enter") store.set({ tab: store.state.tab === "list" ? "graph" : store.state.tab });
    if (move === undefined) return;
    event.preventDefault();
    step(store, move);
  });
  // by position: a row may be replaced while the button is down
  list.addEventListener("click", (event) => {
    const position = Math.floor((event.clientY - spacer.getBoundingClientRect().top) / ROW);
    const index = store.state.matches[position];
    if (index !== undefined) store.set({ index, tab: store.state.tab === "list" ? "graph" : store.state.tab });
  });
  list.addEventListener("scroll", render, { passive: true });
  new ResizeObserver(render).observe(list);
  store.on(["version"], render);
  store.on(["matches"], () => {
    list.scrollTop = 0;
    render();
  });
  store.on(["index"], () => {
    scrollToChosen();
    render();
  });
  return list;
}

/** Choose another graph: so many rows down. */
export function step(store: Store, rows: number): void {
  const { matches, index } = store.state;
  if (!matches.length) return;
  const position = matches.indexOf(index);
  const next = position < 0 ? 0 : Math.min(matches.length - 1, Math.max(0, position + rows));
  store.set({ index: matches[next] });
}
