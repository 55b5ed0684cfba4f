// How many clusters of each pooling are the first choice of some node.

import type { Overview } from "./data";
import { bar, h } from "./dom";
import { counted } from "./words";

const MAX_BINS = 12;

export function makeUsage(overview: Overview): HTMLElement {
  const poolings = overview.used[0].map((_, pooling) => {
    const used = overview.used.map((counts) => counts[pooling]);
    const allowed = overview.allowed.map((counts) => counts[pooling]);
    const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
    const [low, high] = [min(used), max(used)];
    const width = Math.max(1, Math.ceil((high - low + 1) / MAX_BINS));
    const bins = new Array<number>(Math.floor((high - low) / width) + 1).fill(0);
    for (const count of used) bins[Math.floor((count - low) / width)]++;
    const largest = max(bins);
    const rows = bins.map((count, bin) => {
      const from = low + bin * width;
      const range = width === 1 ? String(from) : `${from} to ${from + width - 1}`;
      return h("div", { class: "measure" }, h("span", { class: "what" }, range), bar(count / largest), h("span", {}, counted(count, "graph")));
    });
    const summary = `On average ${mean(used).toFixed(1)} of ${mean(allowed).toFixed(1)} clusters are used.`;
    return h("div", {}, h("h3", {}, `Pooling ${pooling + 1}`), h("p", { class: "quiet" }, summary), ...rows);
  });
  return h("div", { class: "usage" }, ...poolings);
}

function min(values: number[]): number {
  return values.reduce((a, b) => Math.min(a, b));
}

function max(values: number[]): number {
  return values.reduce((a, b) => Math.max(a, b));
}
