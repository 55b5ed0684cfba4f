// Sizes of nodes, and the area that a drawing shows.

import type { Graph } from "./data";

export const UNIT = 100; // a median edge, as in diffpool/explorer/levels.py
const RADIUS = 0.3 * UNIT;

export interface Box {
  x: [number, number];
  y: [number, number];
}

/** The area that all levels of a graph show, so that sizes and positions can be compared. */
export function commonBox(graph: Graph): Box {
  const box: Box = { x: [Infinity, -Infinity], y: [Infinity, -Infinity] };
  graph.levels.forEach((level, number) => {
    for (let node = 0; node < level.size; node++) {
      const radius = nodeRadius(graph, number, node);
      for (const axis of ["x", "y"] as const) {
        box[axis][0] = Math.min(box[axis][0], level[axis][node] - radius);
        box[axis][1] = Math.max(box[axis][1], level[axis][node] + radius);
      }
    }
  });
  return box;
}

/** Whether the longer side of a drawing fits that of the area only after a turn by a right angle. */
export function needsTurn(graph: Graph, width: number, height: number): boolean {
  const { x, y } = commonBox(graph);
  return x[1] - x[0] > y[1] - y[0] !== width > height;
}

/** Turn a drawing by a right angle. Positions are changed in place. */
export function turn(graph: Graph): void {
  for (const level of graph.levels) [level.x, level.y] = [level.y.map((value) => -value), level.x];
}

export function nodeRadius(graph: Graph, number: number, node: number): number {
  return number === 0 ? RADIUS : RADIUS * Math.sqrt(Math.max(graph.levels[number].mass[node], 1));
}
