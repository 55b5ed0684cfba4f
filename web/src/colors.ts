// Colors of clusters, classes and themes.

import type { Graph, Level } from "./data";

type Rgb = [number, number, number];

// Okabe and Ito (2008), as in diffpool/viz/palette.py.
const CLASSES = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442"];
const WITHOUT_POOLING = "#56B4E9";
const parsed = new Map<string, Rgb>();

function rgb(color: string): Rgb {
  let found = parsed.get(color);
  if (!found) {
    const value = parseInt(color.slice(1), 16);
    found = [value >> 16, (value >> 8) & 255, value & 255];
    parsed.set(color, found);
  }
  return found;
}

function hex(parts: number[]): string {
  return "#" + parts.map((part) => Math.round(part).toString(16).padStart(2, "0")).join("");
}

/** A color between two: `share` of the first. */
export function mix(first: string, second: string, share: number): string {
  const [a, b] = [rgb(first), rgb(second)];
  return hex(a.map((part, index) => share * part + (1 - share) * b[index]));
}

export function classColor(code: number): string {
  return code < 0 ? "#8b949c" : CLASSES[code % CLASSES.length];
}

/** A color on the line from blue to orange, for a share from 0 to 1. */
export function scaleColor(share: number): string {
  return mix("#E69F00", "#0072B2", share);
}

/** Black or white, whichever has more contrast with a color, as WCAG computes it. */
export function textColor(color: string): string {
  const [red, green, blue] = rgb(color).map((part) => {
    const value = part / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.179 ? "#ffffff" : "#000000";
}

/** The color of every node of a level: of a cluster its own, of an input node that of its clusters. */
export function nodeColors(graph: Graph, number: number, soft: boolean): string[] {
  const level = graph.levels[number];
  if (number > 0) return level.color;
  if (!level.cluster) return new Array<string>(level.size).fill(WITHOUT_POOLING);
  const clusters = graph.levels[1].color;
  return level.cluster.map((cluster, node) => (soft ? mixture(level, node, clusters) : clusters[cluster]));
}

function mixture(level: Level, node: number, clusters: string[]): string {
  const { start, to, share } = level.memberships!;
  const sum = [0, 0, 0];
  let total = 0;
  for (let entry = start[node]; entry < start[node + 1]; entry++) {
    const color = rgb(clusters[to[entry]]);
    for (let part = 0; part < 3; part++) sum[part] += share[entry] * color[part];
    total += share[entry];
  }
  return total > 0 ? hex(sum.map((part) => part / total)) : clusters[level.cluster![node]];
}

/** A color of the style sheet in the current theme. */
export function themeColor(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
