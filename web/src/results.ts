// The results page: tables of records, sortable and filtered, ours next to the published numbers.

import { h, option } from "./dom";
import { accuracies, makeGrid } from "./grid";
import { makePlain } from "./plain";
import type { State } from "./state";
import { onSystemTheme, readTheme, setTheme } from "./theme";
import { counted } from "./words";

/** One number of a table of accuracies. */
export interface Fact {
  table: string;
  protocol: string;
  method: string;
  kind: string;
  dataset: string;
  mean: number | null;
  sd: number | null;
  folds: number | null;
  repeats: number | null;
  published: number | null;
  published_sd: number | null;
  gain: number | null;
  gain_sets: number | null;
  published_gain: number | null;
  missing: string;
  remark: string;
  device: string | null;
  commit: string | null;
}

export interface Table {
  name: string;
  caption: string;
  header: string[];
  lines: string[][];
  notes: string[];
  facts: Fact[]; // empty unless it is a table of accuracies
}

export interface Choice {
  protocol: string; // empty: all; "-": tables without accuracies
  dataset: string;
  kind: string; // "+": rows with numbers of ours
  words: string;
  datasets: string[]; // all
}

const KINDS: Record<string, string> = {
  kernel: "kernels",
  paper: "rows of the paper",
  control: "controls",
  ensemble: "ensembles",
  other: "other settings",
};

function start(tables: Table[]): void {
  const facts = tables.flatMap((table) => table.facts);
  const unique = (values: string[]) => [...new Set(values)];
  const choice: Choice = { protocol: "", dataset: "", kind: "", words: "", datasets: unique(facts.map((fact) => fact.dataset)) };
  const makers = tables.map((table) => (table.facts.length ? makeGrid(table) : makePlain(table)));
  const count = h("p", { class: "quiet", role: "status" });
  const content = h("div", { class: "tables" });

  function render(): void {
    const shown = makers.map((make) => make(choice)).filter((card) => card !== null);
    content.replaceChildren(...shown);
    count.textContent = shown.length ? counted(shown.length, "table") : "Nothing fits these filters.";
  }

  const pick = (title: string, name: "protocol" | "dataset" | "kind", values: [string, string][]) => {
    const input = h("select", { "aria-label": title }, option("", "All"), ...values.map(([value, text]) => option(value, text)));
    input.addEventListener("change", () => {
      choice[name] = input.value;
      render();
    });
    return h("label", {}, h("span", { class: "quiet" }, title), input);
  };
  const same = (value: string): [string, string] => [value, value];
  const search = h("input", { type: "search", placeholder: "Part of a name", "aria-label": "Method" });
  search.addEventListener("input", () => {
    choice.words = search.value.trim().toLowerCase();
    render();
  });
  const others: [string, string][] = tables.some((table) => !table.facts.length) ? [["-", "tables without accuracies"]] : [];
  const measured: [string, string] = ["+", "with our numbers"];
  const kinds = unique(facts.map((fact) => fact.kind)).map((kind): [string, string] => [kind, KINDS[kind] ?? kind]);
  const filters = h(
    "div",
    { class: "filters", role: "search" },
    h("label", {}, h("span", { class: "quiet" }, "Method"), search),
    pick("Protocol", "protocol", [...unique(facts.map((fact) => fact.protocol)).map(same), ...others]),
    pick("Data set", "dataset", choice.datasets.map(same)),
    pick("Rows", "kind", [measured, ...kinds]),
    count,
  );
  document.getElementById("app")!.replaceChildren(header(), h("main", {}, filters, accuracies(facts), content));
  render();
}

function header(): HTMLElement {
  const theme = h("select", { "aria-label": "Theme" }, option("auto", "Auto"), option("light", "Light"), option("dark", "Dark"));
  theme.value = readTheme();
  const apply = () => setTheme(theme.value as State["theme"]);
  theme.addEventListener("change", apply);
  onSystemTheme(apply);
  apply();
  const about = h("p", { class: "quiet" }, "From the records of this project, next to the published numbers");
  return h("header", { class: "top" }, h("div", { class: "title" }, h("h1", {}, "Results"), about), theme);
}

start(JSON.parse(document.getElementById("tables")!.textContent!) as Table[]);
