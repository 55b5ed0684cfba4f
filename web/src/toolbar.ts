// What is shown of the chosen graph, and the search for a node.

import type { Graph, Overview } from "./data";
import { h } from "./dom";
import { step } from "./list";
import type { Place, Store } from "./state";
import { answer, counted, graphName, isRight, nodeLabel } from "./words";

type Switch = "soft" | "labels" | "weights";

export class Toolbar {
  readonly element: HTMLElement;
  private title = h("h2");
  private about = h("p", { class: "quiet" });
  private input = h("input", { type: "search", placeholder: "Node number or label", "aria-label": "Find a node" });
  private found = h("span", { class: "quiet", role: "status" });
  private graph: Graph | null = null;
  private last = -1; // the node that the search found last

  constructor(
    private store: Store,
    private overview: Overview,
    private go: (place: Place) => void,
  ) {
    this.input.addEventListener("input", () => this.find(-1));
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.find(this.last);
    });
    const move = (text: string, label: string, rows: number) =>
      h("button", { type: "button", "aria-label": label, title: label, click: () => step(store, rows) }, text);
    const pooled = overview.model.poolings > 0;
    this.element = h(
      "header",
      { class: "toolbar" },
      h("div", { class: "moves" }, move("‹", "Previous graph", -1), move("›", "Next graph", 1)),
      h("div", { class: "title" }, this.title, this.about),
      h(
        "div",
        { class: "switches" },
        pooled && this.makeSwitch("soft", "Soft membership"),
        this.makeSwitch("labels", overview.molecules ? "Numbers" : "Labels"),
        this.makeSwitch("weights", "Edge weights"),
        h("label", { class: "find" }, this.input, this.found),
      ),
    );
  }

  show(graph: Graph | null, same = false): void {
    const { overview } = this;
    const { index } = this.store.state;
    this.graph = graph;
    this.title.textContent = graphName(overview, index);
    const known = overview.truth !== null;
    const guess = `predicted ${answer(overview, overview.guess, index)}`;
    const truth = `${overview.classes.length ? "class" : "target"} ${answer(overview, overview.truth, index)}`;
    const right = isRight(overview, index);
    const verdict = right === null ? "" : right ? ": right" : ": wrong";
    this.about.textContent = known ? `${truth}, ${guess}${verdict}` : guess;
    if (this.input.value && !same) this.find(-1);
  }

  private makeSwitch(name: Switch, text: string): HTMLElement {
    const button = h(
      "button",
      {
        type: "button",
        role: "switch",
        "aria-checked": String(this.store.state[name]),
        click: () => this.store.set({ [name]: !this.store.state[name] }),
      },
      h("span", { class: "knob", "aria-hidden": "true" }),
      text,
    );
    this.store.on([name], (state) => button.setAttribute("aria-checked", String(state[name])));
    return button;
  }

  /** Choose the next node with this number or label. */
  private find(after: number): void {
    const words = this.input.value.trim().toLowerCase();
    this.last = -1;
    this.found.textContent = "";
    if (!words || !this.graph) return;
    const { size } = this.graph.levels[0];
    const fits = (node: number) =>
      String(node) === words || nodeLabel(this.graph!, this.overview, node).toLowerCase().startsWith(words);
    const nodes = [...Array(size).keys()].filter(fits);
    this.found.textContent = nodes.length ? counted(nodes.length, "node") : "no such node";
    if (!nodes.length) return;
    this.last = nodes.find((node) => node > after) ?? nodes[0];
    this.go({ level: 0, node: this.last });
  }
}
