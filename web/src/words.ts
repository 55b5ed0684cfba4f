// The names of graphs, nodes and clusters.

import type { Graph, Overview } from "./data";
import type { Place } from "./state";

export const PARTS = ["training", "validation", "test"];

export function counted(count: number, one: string, several = `${one}s`): string {
  return `${count.toLocaleString("en-US")} ${count === 1 ? one : several}`;
}

export function number(value: number): string {
  if (Number.isInteger(value)) return value.toLocaleString("en-US");
  return Number(value.toPrecision(4)).toString();
}

export function percent(share: number): string {
  return `${(100 * share).toFixed(share > 0.995 || share < 0.005 ? 1 : 0)} %`;
}

export function graphName(overview: Overview, index: number): string {
  return overview.ids?.[index] || `graph ${overview.numbers[index]}`;
}

/** What the model predicts, or what is true: a class or a list of targets. */
export function answer(overview: Overview, values: number[] | number[][] | null, index: number): string {
  const value = values?.[index];
  if (value === undefined || value === -1) return "unknown";
  if (Array.isArray(value)) return value.map(number).join(", ");
  return overview.classes[value];
}

/** Whether a prediction is right; null if unknown, or for regression. */
export function isRight(overview: Overview, index: number): boolean | null {
  const truth = overview.truth?.[index];
  if (truth === undefined || truth === -1 || Array.isArray(truth)) return null;
  return truth === overview.guess[index];
}

/** The absolute error of a regression, the mean over the targets; 0 if unknown. */
export function error(overview: Overview, index: number): number {
  const [truth, guess] = [overview.truth?.[index], overview.guess[index]];
  if (!Array.isArray(truth) || !Array.isArray(guess)) return 0;
  return truth.reduce((sum, value, target) => sum + Math.abs(value - guess[target]), 0) / truth.length;
}

export function levelTitle(graph: Graph, overview: Overview, index: number, level: number): string {
  const size = graph.levels[level].size;
  if (level === 0) return `Input: ${counted(size, overview.molecules ? "atom" : "node")}`;
  return `Pooling ${level}: ${size} of ${counted(overview.allowed[index][level - 1], "cluster")}`;
}

export function placeName(graph: Graph, overview: Overview, place: Place): string {
  if (place.level > 0) return `cluster ${graph.levels[place.level].names[place.node]}`;
  return `${overview.molecules ? "atom" : "node"} ${place.node}`;
}

/** The first label of an input node; empty if there are none. */
export function nodeLabel(graph: Graph, overview: Overview, node: number): string {
  return graph.labels.length ? overview.labels[0].words[graph.labels[0][node]] : "";
}
