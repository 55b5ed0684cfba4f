// Which nodes of every level light up for one node or cluster, and how much.

import type { Graph, Level } from "./data";
import type { Place } from "./state";

/** For every level, a number from 0 to 1 for every node. */
export function light(graph: Graph, place: Place, soft: boolean): Float32Array[] {
  const found = graph.levels.map((level) => new Float32Array(level.size));
  found[place.level][place.node] = 1;
  for (let number = place.level; number > 0; number--) {
    down(graph.levels[number - 1], found[number], found[number - 1], soft);
  }
  for (let number = place.level; number + 1 < graph.levels.length; number++) {
    up(graph.levels[number], found[number], found[number + 1], soft);
  }
  return found;
}

function down(level: Level, clusters: Float32Array, nodes: Float32Array, soft: boolean): void {
  const { start, to, share } = level.memberships!;
  for (let node = 0; node < level.size; node++) {
    if (!soft) nodes[node] = clusters[level.cluster![node]];
    else for (let e = start[node]; e < start[node + 1]; e++) nodes[node] += share[e] * clusters[to[e]];
  }
}

function up(level: Level, nodes: Float32Array, clusters: Float32Array, soft: boolean): void {
  const { start, to, share } = level.memberships!;
  for (let node = 0; node < level.size; node++) {
    if (nodes[node] === 0) continue;
    if (!soft) clusters[level.cluster![node]] = 1;
    else for (let e = start[node]; e < start[node + 1]; e++) clusters[to[e]] += nodes[node] * share[e];
  }
  for (let cluster = 0; cluster < clusters.length; cluster++) clusters[cluster] = Math.min(1, clusters[cluster]);
}

/** The input nodes whose first choices lead to a node: itself, or the members of a cluster. */
export function members(graph: Graph, place: Place): number[] {
  const lit = light(graph, place, false)[0];
  return [...lit.keys()].filter((node) => lit[node] > 0);
}

/** The neighbors of a node at its level, the strongest edge first. */
export function neighbors(level: Level, node: number): { node: number; weight: number; edge: number }[] {
  const { source, target, weight } = level.edges;
  const found = [];
  for (let edge = 0; edge < source.length; edge++) {
    const other = source[edge] === node ? target[edge] : target[edge] === node ? source[edge] : -1;
    if (other >= 0) found.push({ node: other, weight: weight ? weight[edge] : 1, edge });
  }
  return found.sort((a, b) => b.weight - a.weight);
}
