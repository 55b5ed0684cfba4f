// A table of accuracies: methods and data sets, with error bars on an axis for each data set.

import { inPlace, makeCard, sorted, type Column, type Order } from "./card";
import { h, svg } from "./dom";
import type { Choice, Fact, Table } from "./results";

interface Row {
  method: string;
  kind: string;
  facts: Map<string, Fact>;
  gain: number | null;
  gainSets: number | null;
  publishedGain: number | null;
}

interface Axis {
  low: number;
  high: number;
}

const [WIDTH, HEIGHT, EDGE] = [120, 14, 5];

export function makeGrid(table: Table): (choice: Choice) => HTMLElement | null {
  const order: Order = { column: -1, down: false };
  const all = rowsOf(table.facts);
  const { protocol } = table.facts[0];
  const given = [...new Set(table.facts.map((fact) => fact.dataset))];
  const gains = all.some((row) => row.gain !== null || row.publishedGain !== null);
  return (choice) => {
    const datasets = given.filter((name) => !choice.dataset || name === choice.dataset);
    const rows = all.filter(
      (row) =>
        (!choice.kind || (choice.kind === "+" ? isMeasured(row, datasets) : row.kind === choice.kind)) &&
        (!choice.words || row.method.toLowerCase().includes(choice.words)) &&
        datasets.some((name) => row.facts.has(name)),
    );
    if ((choice.protocol && choice.protocol !== protocol) || !rows.length || !datasets.length) return null;
    const axes = new Map(datasets.map((name) => [name, axisOf(rows, name)]));
    const columns: Column[] = [
      { title: "Method" },
      ...datasets.map((title) => ({ title, about: "Accuracy in %. Sort by our numbers" })),
      ...(gains ? [{ title: "Gain", about: "Mean difference from GraphSAGE in percentage points" }] : []),
    ];
    const value = (row: Row, column: number) => {
      if (column === 0) return row.method;
      return column <= datasets.length ? (row.facts.get(datasets[column - 1])?.mean ?? null) : row.gain;
    };
    return inPlace((again) => {
      const lines = sorted(rows, order, value).map((row) => {
        const cells = datasets.map((name) => h("td", {}, ...cell(row.facts.get(name), axes.get(name)!)));
        const gain = gains ? h("td", {}, ...gainCell(row)) : null;
        return h("tr", {}, h("th", { scope: "row" }, row.method), ...cells, gain);
      });
      return makeCard(table, columns, order, lines, again);
    })();
  };
}

/** What the marks in the cells mean. */
export function accuracies(facts: Fact[]): HTMLElement | null {
  if (!facts.length) return null;
  const key = (kind: string, text: string) => h("span", {}, bars({ [kind]: [50, 20] }, { low: 0, high: 100 }), text);
  return h("p", { class: "legend" }, key("ours", "ours: mean and standard deviation"), key("published", "published"));
}

function rowsOf(facts: Fact[]): Row[] {
  const rows = new Map<string, Row>();
  for (const fact of facts) {
    const { method, kind, gain, gain_sets: gainSets, published_gain: publishedGain } = fact;
    const row = rows.get(method) ?? { method, kind, facts: new Map(), gain, gainSets, publishedGain };
    row.facts.set(fact.dataset, fact);
    rows.set(method, row);
  }
  return [...rows.values()];
}

function isMeasured(row: Row, datasets: string[]): boolean {
  return datasets.some((name) => (row.facts.get(name)?.mean ?? null) !== null);
}

function axisOf(rows: Row[], dataset: string): Axis {
  const ends = rows.flatMap((row) => {
    const fact = row.facts.get(dataset);
    const pairs = [[fact?.mean, fact?.sd], [fact?.published, fact?.published_sd]];
    return pairs.flatMap(([mean, sd]) => (mean == null ? [] : [mean - (sd ?? 0), mean + (sd ?? 0)]));
  });
  return { low: Math.min(...ends), high: Math.max(...ends) };
}

function cell(fact: Fact | undefined, axis: Axis): (Node | string)[] {
  if (!fact) return ["–"];
  const { mean, sd, published, published_sd: publishedSd } = fact;
  const found: (Node | string)[] = [];
  const marks: Record<string, [number, number | null]> = {};
  if (mean !== null) {
    const times = fact.repeats && fact.repeats > 1 ? ` ×${fact.repeats}` : "";
    const origin = [`${fact.folds} folds`, fact.device, fact.commit && `commit ${fact.commit.slice(0, 7)}`];
    const text = `${mean.toFixed(1)} ± ${(sd ?? 0).toFixed(1)}${times}`;
    found.push(h("div", { class: "ours", title: origin.filter(Boolean).join(", ") }, text, fact.remark && h("span", { class: "quiet" }, ` ${fact.remark}`)));
    marks.ours = [mean, sd];
  } else found.push(h("div", { class: "quiet", title: fact.missing }, fact.missing ? "no record" : "–"));
  if (published !== null) marks.published = [published, publishedSd];
  if (mean !== null || published !== null) found.push(bars(marks, axis));
  if (published !== null) {
    const text = publishedSd === null ? published.toFixed(2) : `${published.toFixed(1)} ± ${publishedSd.toFixed(1)}`;
    found.push(h("div", { class: "quiet" }, `published ${text}`));
  }
  return found;
}

function gainCell(row: Row): (Node | string)[] {
  const signed = (value: number) => (value < 0 ? "−" : "+") + Math.abs(value).toFixed(2);
  const ours = row.gain === null ? "–" : `${signed(row.gain)} [${row.gainSets}]`;
  const published = row.publishedGain === null ? [] : [h("div", { class: "quiet" }, `published ${signed(row.publishedGain)}`)];
  return [h("div", {}, ours), ...published];
}

/** Error bars; the numbers are next to them. */
function bars(marks: Record<string, [number, number | null]>, { low, high }: Axis): SVGElement {
  const x = (value: number) => EDGE + ((value - low) / (high - low || 1)) * (WIDTH - 2 * EDGE);
  const y = HEIGHT / 2;
  const parts = Object.entries(marks).flatMap(([kind, [mean, sd]]) => [
    sd ? svg("line", { class: kind, x1: x(mean - sd), x2: x(mean + sd), y1: y, y2: y }) : null,
    kind === "ours"
      ? svg("circle", { class: kind, cx: x(mean), cy: y, r: 3.5 })
      : svg("path", { class: kind, d: `M${x(mean)} ${y - 5}l5 5l-5 5l-5 -5z` }),
  ]);
  const axis = svg("line", { class: "axis", x1: 0, x2: WIDTH, y1: y, y2: y });
  return svg("svg", { class: "bars", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, "aria-hidden": "true" }, axis, ...parts);
}
