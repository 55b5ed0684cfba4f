// The data on the page: the overview of all graphs, and the details of one, which are unpacked when it is chosen.

export interface Curves {
  epoch: number[];
  train_loss: (number | null)[];
  train_class_loss: (number | null)[];
  validation_loss: (number | null)[];
  train_accuracy: (number | null)[];
  validation_accuracy: (number | null)[];
  best: number[];
}

/** How far a training is, on the page of `diffpool train --watch`. */
export interface Status {
  version: number; // of the overview
  epoch: number; // that the page shows
  done: number; // epochs
  epochs: number | null; // maximum number
  part: string; // what the page shows: "validation graph"
  state: "training" | "ended" | "stopped" | "failed";
}

export interface Overview {
  model: { method: string; dataset: string; members: number; poolings: number };
  data: string;
  classes: string[]; // empty for regression
  ids: string[] | null;
  numbers: number[]; // of each graph in the data
  total: number;
  nodes: number[];
  edges: number[];
  drawn: boolean[];
  used: number[][]; // clusters of each graph, for each pooling
  allowed: number[][];
  molecules: boolean;
  effects: string; // the method that computed the shares of clusters, or "none"
  labels: { name: string; words: string[] }[];
  attributes: string[];
  allAttributes?: number;
  edgeLabels: string[];
  guess: number[] | number[][]; // class codes, or targets
  truth: number[] | number[][] | null; // -1: unknown
  confidence: number[] | null; // null for regression
  split: number[] | null;
  curves: Curves | null;
  embedding: string;
  plane: [number[], number[]];
  live?: Status;
}

interface PackedEdges {
  count: number[];
  step: number[];
}

interface PackedLevel {
  x: number[];
  y: number[];
  edges: PackedEdges;
  weight?: number[];
  names?: string[];
  color?: string[];
  mass?: number[];
  column?: number[];
  inside?: number[];
  outside?: number[];
  effect?: number[];
  part?: number[];
  cluster?: number[];
  choices?: number[];
  to?: number[];
  share?: number[];
}

export interface PackedGraph {
  levels: PackedLevel[];
  output: number[];
  labels?: number[][];
  attributes?: number[][];
  weight?: number[];
  edgeLabel?: number[];
  order?: number[];
  columns?: [string, string][];
}

export interface Edges {
  source: Int32Array;
  target: Int32Array;
  weight: number[] | null;
}

/** The largest memberships of every node: node i has the entries start[i] to start[i + 1]. */
export interface Memberships {
  start: Int32Array;
  to: number[];
  share: number[]; // from 0 to 1
}

export interface Level {
  size: number;
  x: number[];
  y: number[];
  edges: Edges;
  names: string[];
  color: string[];
  mass: number[];
  column: number[]; // number of each cluster in the assignment matrix
  inside: number[];
  outside: number[];
  effect: number[] | null; // of each cluster on the prediction
  part: number[] | null; // the share of each cluster in the prediction, from -1 to 1
  cluster: number[] | null; // the node of the next level that is the first choice
  memberships: Memberships | null;
}

export interface Graph {
  levels: Level[];
  output: number[];
  labels: number[][];
  attributes: number[][];
  edgeLabel: number[] | null;
  order: number[] | null; // of bonds, twice
  columns: [string, string][];
}

export function readOverview(): Overview {
  return JSON.parse(document.getElementById("overview")!.textContent!) as Overview;
}

/** The details of a graph; null if it is too large to be drawn. */
export async function readGraph(index: number): Promise<Graph | null> {
  const packed = document.getElementById(`graph-${index}`)?.textContent;
  if (!packed) return null;
  const bytes = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return unpacked(JSON.parse(await new Response(stream).text()) as PackedGraph);
}

export function unpacked(graph: PackedGraph): Graph {
  return {
    levels: graph.levels.map((level, number) => unpackedLevel(level, number === 0 ? graph.weight : level.weight)),
    output: graph.output,
    labels: graph.labels ?? [],
    attributes: graph.attributes ?? [],
    edgeLabel: graph.edgeLabel ?? null,
    order: graph.order ?? null,
    columns: graph.columns ?? [],
  };
}

function unpackedLevel(level: PackedLevel, weight: number[] | undefined): Level {
  return {
    size: level.x.length,
    x: level.x,
    y: level.y,
    edges: { ...unpackedEdges(level.edges), weight: weight ?? null },
    names: level.names ?? [],
    color: level.color ?? [],
    mass: level.mass ?? [],
    column: level.column ?? [],
    inside: level.inside ?? [],
    outside: level.outside ?? [],
    effect: level.effect ?? null,
    part: level.part ?? null,
    cluster: level.cluster ?? null,
    memberships: unpackedMemberships(level),
  };
}

function unpackedEdges(packed: PackedEdges): { source: Int32Array; target: Int32Array } {
  const source = new Int32Array(packed.step.length);
  const target = new Int32Array(packed.step.length);
  let edge = 0;
  packed.count.forEach((count, node) => {
    let last = node;
    for (let number = 0; number < count; number++, edge++) {
      last += packed.step[edge];
      source[edge] = node;
      target[edge] = last;
    }
  });
  return { source, target };
}

function unpackedMemberships(level: PackedLevel): Memberships | null {
  if (!level.choices || !level.to || !level.share) return null;
  const start = new Int32Array(level.choices.length + 1);
  level.choices.forEach((count, node) => (start[node + 1] = start[node] + count));
  return { start, to: level.to, share: level.share.map((share) => share / 1000) };
}
