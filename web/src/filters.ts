// Search, filters and order of the list.

import type { Overview } from "./data";
import { h, option } from "./dom";
import type { State, Store } from "./state";
import { answer, counted, error, graphName, isRight, PARTS } from "./words";

type Filter = Pick<State, "search" | "truth" | "guess" | "result" | "part">;

const NO_FILTER: Filter = { search: "", truth: null, guess: null, result: "all", part: null };

const ORDERS: Record<string, string> = {
  number: "Number",
  unsure: "Least confident first",
  sure: "Most confident first",
  error: "Largest error first",
  small: "Smallest first",
  large: "Largest first",
  truth: "True class",
  guess: "Predicted class",
};

/** The graphs that pass the filters, in the chosen order. */
export function matching(overview: Overview, state: State): number[] {
  const words = state.search.trim().toLowerCase();
  const found = [...overview.nodes.keys()].filter(
    (index) =>
      (state.truth === null || overview.truth?.[index] === state.truth) &&
      (state.guess === null || overview.guess[index] === state.guess) &&
      (state.part === null || overview.split?.[index] === state.part) &&
      (state.result === "all" || isRight(overview, index) === (state.result === "right")) &&
      (!words || searched(overview, index).includes(words)),
  );
  const by = (key: (index: number) => number) => found.sort((a, b) => key(a) - key(b) || a - b);
  const sure = overview.confidence;
  if (state.sort === "unsure" && sure) by((index) => sure[index]);
  else if (state.sort === "sure" && sure) by((index) => -sure[index]);
  else if (state.sort === "error") by((index) => -error(overview, index));
  else if (state.sort === "small") by((index) => overview.nodes[index]);
  else if (state.sort === "large") by((index) => -overview.nodes[index]);
  else if (state.sort === "truth") by((index) => Number(overview.truth?.[index] ?? 0));
  else if (state.sort === "guess") by((index) => Number(overview.guess[index]));
  return found;
}

function searched(overview: Overview, index: number): string {
  const answers = [overview.truth, overview.guess].map((values) => answer(overview, values, index));
  return [graphName(overview, index), overview.numbers[index], ...answers].join(" ").toLowerCase();
}

export function makeFilters(store: Store, overview: Overview): HTMLElement {
  const search = h("input", { type: "search", placeholder: "Name, number or class", "aria-label": "Search graphs" });
  search.addEventListener("input", () => store.set({ search: search.value }));
  const orders = Object.entries(ORDERS).filter(([name]) => isUseful(name, overview));
  const sort = select("Order", orders, (value) => store.set({ sort: value || "number" }));
  const codes = overview.classes.map((name, code): [string, string] => [String(code), name]);
  const code = (value: string) => (value === "" ? null : Number(value));
  const truth = select("Class", [["", "All"], ...codes], (value) => store.set({ truth: code(value) }));
  const guess = select("Predicted", [["", "All"], ...codes], (value) => store.set({ guess: code(value) }));
  const results: [string, string][] = [["all", "All"], ["right", "Right"], ["wrong", "Wrong"]];
  const result = select("Result", results, (value) => store.set({ result: value as State["result"] }));
  const parts = PARTS.map((name, part): [string, string] => [String(part), `${name} graphs`]);
  const part = select("Part", [["", "All"], ...parts], (value) => store.set({ part: code(value) }));
  const known = overview.truth !== null && overview.classes.length > 0;
  const count = h("span", { role: "status" });
  const clear = h("button", { type: "button", class: "link", click: () => store.set(NO_FILTER) }, "Clear filters");

  store.on(Object.keys(NO_FILTER).concat("sort") as (keyof State)[], (state) => {
    search.value = state.search;
    truth.input.value = String(state.truth ?? "");
    guess.input.value = String(state.guess ?? "");
    result.input.value = state.result;
    part.input.value = String(state.part ?? "");
    store.set({ matches: matching(overview, state) });
  });
  store.on(["matches", "version"], (state) => {
    const all = overview.nodes.length;
    const some = state.matches.length < all;
    count.textContent = some ? `${state.matches.length} of ${counted(all, "graph")}` : counted(all, "graph");
    clear.hidden = !some;
  });
  return h(
    "div",
    { class: "filters" },
    search,
    h(
      "div",
      { class: "selects" },
      sort.label,
      known && truth.label,
      overview.classes.length > 0 && guess.label,
      known && result.label,
      overview.split !== null && part.label,
    ),
    h("div", { class: "count" }, count, clear),
  );
}

function isUseful(name: string, overview: Overview): boolean {
  if (name === "error") return overview.confidence === null && overview.truth !== null;
  if (name === "truth") return overview.classes.length > 0 && overview.truth !== null;
  return !["unsure", "sure", "guess"].includes(name) || overview.confidence !== null;
}

function select(title: string, values: [string, string][], call: (value: string) => void) {
  const input = h("select", { "aria-label": title }, ...values.map(([value, text]) => option(value, text)));
  input.addEventListener("change", () => call(input.value));
  return { input, label: h("label", {}, h("span", {}, title), input) };
}
