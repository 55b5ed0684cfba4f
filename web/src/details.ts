// What is known about the chosen graph, or about the node or cluster that is lit.

import { classColor } from "./colors";
import type { Graph, Level, Overview } from "./data";
import { bar, h, swatch } from "./dom";
import { members, neighbors } from "./light";
import type { Place, Store } from "./state";
import { answer, counted, graphName, nodeLabel, number, PARTS, percent, placeName } from "./words";

const MAX_NEIGHBORS = 6;
const MAX_CLASSES = 12;
const MAX_MEMBERS = 60;

// What the effect of a cluster is, by method.
const EFFECTS: Record<string, string> = {
  "leave-out": "Output, minus that without the members",
  keep: "Output of the members alone, minus that of nothing",
  gradients: "Integrated gradients, log-odds",
};

export class Details {
  readonly element = h("aside", { class: "details", tabindex: 0, "aria-label": "Details" });
  private graph: Graph | null = null;

  constructor(
    private store: Store,
    private overview: Overview,
    private go: (place: Place) => void,
  ) {
    store.on(["hover", "pinned", "soft"], () => this.render());
  }

  show(graph: Graph | null): void {
    this.graph = graph;
    this.render();
  }

  private render(): void {
    const { hover, pinned } = this.store.state;
    const place = hover ?? pinned;
    const { graph } = this;
    let content: (Node | null)[];
    if (!graph) content = this.aboutGraph();
    else if (!place) content = [...this.aboutGraph(), h("p", { class: "quiet" }, "Point at a node, or choose one.")];
    else content = place.level > 0 ? this.aboutCluster(graph, place) : this.aboutNode(graph, place);
    this.element.replaceChildren(...content.filter((node) => node !== null));
  }

  private aboutGraph(): (Node | null)[] {
    const { overview, graph } = this;
    const { index } = this.store.state;
    const facts: [string, string][] = [
      ["Nodes", number(overview.nodes[index])],
      ["Edges", number(overview.edges[index])],
    ];
    const part = overview.split?.[index];
    if (part !== undefined) facts.push(["Used for", PARTS[part]]);
    overview.used[index].forEach((used, pooling) =>
      facts.push([`Clusters of pooling ${pooling + 1}`, `${used} of ${overview.allowed[index][pooling]} used`]),
    );
    facts.push(...(graph?.columns ?? []));
    return [h("h3", {}, graphName(overview, index)), list(facts), this.outputs(index)];
  }

  private outputs(index: number): Node | null {
    const { overview, graph } = this;
    if (!overview.confidence) {
      const known = overview.truth !== null;
      return list([
        ["Predicted", answer(overview, overview.guess, index)],
        ...(known ? [["Target", answer(overview, overview.truth, index)] as [string, string]] : []),
      ]);
    }
    if (!graph) return null;
    const order = [...graph.output.keys()].sort((a, b) => graph.output[b] - graph.output[a]).slice(0, MAX_CLASSES);
    const rows = order.map((code) => {
      const name = overview.classes[code];
      const truth = overview.truth?.[index] === code ? " (true class)" : "";
      return measure(name + truth, graph.output[code], classColor(code));
    });
    return h("div", {}, h("h4", {}, "Probability"), ...rows);
  }

  private aboutCluster(graph: Graph, place: Place): (Node | null)[] {
    const level = graph.levels[place.level];
    const inside = members(graph, place);
    const [within, between] = [level.inside[place.node], level.outside[place.node]];
    const facts: [string, string][] = [
      ["Members (first choice)", number(inside.length)],
      ["Size (sum of memberships)", number(level.mass[place.node])],
      ["Weight within", number(within)],
      ["Weight to others", number(between)],
    ];
    return [
      this.heading(graph, place, level.color[place.node]),
      h("p", { class: "quiet" }, `Pooling ${place.level}, column ${level.column[place.node]} of S`),
      list(facts),
      this.effect(level, place.node),
      this.composition(graph, inside),
      this.memberships(graph, place),
      this.neighbors(graph, place),
      h("p", { class: "quiet" }, h("b", {}, "Members: "), shortList(inside)),
    ];
  }

  private aboutNode(graph: Graph, place: Place): (Node | null)[] {
    const { overview } = this;
    const facts: [string, string][] = graph.labels.map((codes, column) => [
      overview.labels[column].name,
      overview.labels[column].words[codes[place.node]],
    ]);
    facts.push(["Neighbors", number(neighbors(graph.levels[0], place.node).length)]);
    const values = graph.attributes[place.node] ?? [];
    const rows = values.map((value, column): [string, string] => [overview.attributes[column], number(value)]);
    const more = (overview.allAttributes ?? 0) - rows.length;
    const title = `${counted(rows.length, "attribute")}${more > 0 ? ` of ${rows.length + more}` : ""}`;
    return [
      this.heading(graph, place, null),
      list(facts),
      this.memberships(graph, place),
      this.neighbors(graph, place),
      rows.length > 0 ? h("details", { open: rows.length <= 8 }, h("summary", {}, title), list(rows)) : null,
    ];
  }

  /** What the cluster contributes to the prediction. */
  private effect(level: Level, node: number): Node | null {
    if (!level.part || !level.effect) return null;
    const [part, effect] = [level.part[node], level.effect[node]];
    const row = measure(part < 0 ? "against it" : "for it", Math.abs(part), part < 0 ? "#d55e00" : "#009e73");
    const meaning = EFFECTS[this.overview.effects];
    const about = h("p", { class: "quiet" }, `${meaning}: ${effect > 0 ? "+" : ""}${number(effect)}`);
    return h("div", {}, h("h4", {}, "Share in the prediction"), row, about);
  }

  private heading(graph: Graph, place: Place, color: string | null): Node {
    const name = placeName(graph, this.overview, place);
    return h("h3", {}, color && swatch(color), name[0].toUpperCase() + name.slice(1));
  }

  /** The clusters that a node belongs to. */
  private memberships(graph: Graph, place: Place): Node | null {
    const { memberships } = graph.levels[place.level];
    if (!memberships) return null;
    const { start, to, share } = memberships;
    const next = graph.levels[place.level + 1];
    const rows = [];
    for (let entry = start[place.node]; entry < start[place.node + 1]; entry++) {
      const target = { level: place.level + 1, node: to[entry] };
      rows.push(measure(this.link(graph, target), share[entry], next.color[to[entry]]));
    }
    return h("div", {}, h("h4", {}, `Membership in pooling ${place.level + 1}`), ...rows);
  }

  private neighbors(graph: Graph, place: Place): Node | null {
    const level = graph.levels[place.level];
    const found = neighbors(level, place.node);
    if (!found.length) return null;
    const plain = level.edges.weight === null && graph.edgeLabel === null;
    const rows = found.slice(0, MAX_NEIGHBORS).map(({ node, weight, edge }) => {
      const kind = place.level === 0 && graph.edgeLabel ? this.overview.edgeLabels[graph.edgeLabel[edge]] : "";
      const about = level.edges.weight ? number(weight) : kind;
      const link = this.link(graph, { level: place.level, node });
      return h("div", { class: "measure" }, link, plain ? null : h("span", {}, about));
    });
    const more = found.length - rows.length;
    const rest = more > 0 ? h("p", { class: "quiet" }, `and ${more} more`) : null;
    return h("div", {}, h("h4", {}, plain ? "Neighbors" : "Neighbors, by weight of the edge"), ...rows, rest);
  }

  /** How often each label occurs among some input nodes. */
  private composition(graph: Graph, nodes: number[]): Node | null {
    if (!graph.labels.length) return null;
    const counts = new Map<string, number>();
    for (const node of nodes) {
      const label = nodeLabel(graph, this.overview, node);
      counts.set(label, (counts.get(label) ?? 0) + 1);
    }
    const rows = [...counts].sort((a, b) => b[1] - a[1]).slice(0, MAX_NEIGHBORS);
    const title = this.overview.labels[0].name;
    return h("div", {}, h("h4", {}, `By ${title}`), ...rows.map(([name, count]) => measure(name, count / nodes.length)));
  }

  private link(graph: Graph, place: Place): HTMLElement {
    const label = place.level === 0 ? nodeLabel(graph, this.overview, place.node) : "";
    const name = placeName(graph, this.overview, place) + (label && `: ${label}`);
    return h("button", { type: "button", class: "link", click: () => this.go(place) }, name);
  }
}

function list(facts: [string, string][]): Node {
  return h("dl", {}, ...facts.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

function measure(name: string | Node, share: number, color?: string): HTMLElement {
  return h("div", { class: "measure" }, h("span", { class: "what" }, name), bar(share, color), h("span", {}, percent(share)));
}

function shortList(nodes: number[]): string {
  const shown = nodes.slice(0, MAX_MEMBERS).join(", ");
  return nodes.length > MAX_MEMBERS ? `${shown}, and ${nodes.length - MAX_MEMBERS} more` : shown;
}
