// The levels of the chosen graph side by side, with the names of their clusters as buttons.

import type { Graph, Overview } from "./data";
import { h, renew, swatch } from "./dom";
import { commonBox, needsTurn, turn } from "./geometry";
import { moveByKey } from "./keys";
import { light } from "./light";
import { Panel } from "./panel";
import { samePlace, type Place, type Store } from "./state";
import { counted, levelTitle, placeName } from "./words";

const MAX_PANELS = 5; // each needs three WebGL contexts, and browsers keep sixteen
const MAX_CHIPS = 200;

interface Row {
  panel: Panel;
  section: HTMLElement;
  stage: HTMLElement;
  title: HTMLElement;
  chips: HTMLElement;
}

export class Levels {
  readonly element = h("div", { class: "levels" });
  private rows: Row[] = [];
  private graph: Graph | null = null;
  private turned = false;

  constructor(
    private store: Store,
    private overview: Overview,
    private say: (message: string) => void,
  ) {
    store.on(["hover", "pinned"], () => this.lightUp());
    store.on(["soft", "labels", "weights"], () => {
      this.rows.forEach((row) => row.panel.setLook(this.store.state));
      this.lightUp();
    });
    store.on(["theme"], () => this.rows.forEach((row) => row.panel.setTheme()));
  }

  /** Draw a graph; `same`: the one that is shown, after an epoch of training. */
  show(graph: Graph | null, same = false): void {
    this.graph = graph;
    const shown = Math.min(graph?.levels.length ?? 0, MAX_PANELS);
    while (this.rows.length < shown) this.rows.push(this.makeRow(this.rows.length));
    this.rows.forEach((row, number) => (row.section.hidden = number >= shown));
    this.element.dataset.count = String(shown);
    if (!graph) return;
    const { clientWidth, clientHeight } = this.rows[0].stage;
    if (!same) this.turned = needsTurn(graph, clientWidth, clientHeight);
    if (this.turned) turn(graph);
    const box = commonBox(graph);
    for (const row of this.rows.slice(0, shown)) {
      const { number } = row.panel;
      const title = levelTitle(graph, this.overview, this.store.state.index, number);
      row.title.textContent = title;
      row.stage.setAttribute("aria-label", `${title}. Arrow keys choose a node, Enter pins it, + and - zoom.`);
      renew(row.chips, this.chips(graph, number));
      row.chips.hidden = number === 0;
      row.panel.sigma.resize(true);
      row.panel.show(graph, box, this.store.state, same);
    }
  }

  /** Choose a node and move the camera to it. */
  find(place: Place): void {
    this.store.set({ pinned: place, hover: null });
    this.rows[place.level]?.panel.goTo(place.node);
  }

  private makeRow(number: number): Row {
    const title = h("h3");
    const stage = h("div", { class: "stage", tabindex: 0, role: "application" });
    const chips = h("div", { class: "chips", role: "group", "aria-label": `Clusters of pooling ${number}` });
    const button = (text: string, label: string, call: () => void) =>
      h("button", { type: "button", "aria-label": `${label}, level ${number}`, title: label, click: call }, text);
    const zoom = (factor: number) => void panel.sigma.getCamera().animatedZoom({ factor, duration: 150 });
    const section = h(
      "section",
      { class: "level" },
      h(
        "header",
        {},
        title,
        h(
          "div",
          { class: "zoom" },
          button("−", "Zoom out", () => zoom(1 / 1.5)),
          button("+", "Zoom in", () => zoom(1.5)),
          button("⟲", "Show all", () => void panel.sigma.getCamera().animatedReset({ duration: 150 })),
        ),
      ),
      stage,
      chips,
    );
    this.element.append(section);
    const panel = new Panel(stage, number, this.overview);
    const captor = panel.sigma.getMouseCaptor();
    panel.sigma.on("enterNode", ({ node }) => {
      if (!captor.isMouseDown) this.store.set({ hover: { level: number, node: Number(node) } });
    });
    panel.sigma.on("leaveNode", () => {
      if (!captor.isMouseDown) this.store.set({ hover: null });
    });
    panel.sigma.on("clickNode", ({ node }) => this.toggle({ level: number, node: Number(node) }));
    panel.sigma.on("clickStage", () => this.store.set({ pinned: null }));
    stage.addEventListener("keydown", (event) => {
      if (this.graph) moveByKey(event, this.store, this.graph, panel, (place) => this.toggle(place));
    });
    stage.addEventListener("blur", () => this.store.set({ hover: null }));
    return { panel, section, stage, title, chips };
  }

  private chips(graph: Graph, number: number): Node[] {
    const level = graph.levels[number];
    const count = number === 0 ? 0 : Math.min(level.size, MAX_CHIPS);
    const found: Node[] = [];
    for (let node = 0; node < count; node++) {
      const place = { level: number, node };
      found.push(
        h(
          "button",
          {
            type: "button",
            class: "chip",
            "aria-pressed": "false",
            "aria-label": `${placeName(graph, this.overview, place)}, size ${level.mass[node]}`,
            "data-node": node,
            click: () => this.toggle(place),
            mouseenter: () => this.store.set({ hover: place }),
            mouseleave: () => this.store.set({ hover: null }),
          },
          swatch(level.color[node]),
          level.names[node],
        ),
      );
    }
    if (number > 0 && level.size > count) found.push(h("span", {}, `and ${level.size - count} more`));
    return found;
  }

  private toggle(place: Place): void {
    const pinned = samePlace(this.store.state.pinned, place) ? null : place;
    this.store.set({ pinned });
    if (pinned && this.graph) {
      const lit = light(this.graph, pinned, false)[0].filter((share) => share > 0).length;
      this.say(`${placeName(this.graph, this.overview, pinned)}: ${counted(lit, "input node")}`);
    } else this.say("Nothing chosen");
  }

  private lightUp(): void {
    if (!this.graph) return;
    const { hover, pinned, soft } = this.store.state;
    const place = hover ?? pinned;
    const lit = place && light(this.graph, place, soft);
    for (const { panel, chips } of this.rows.slice(0, this.graph.levels.length)) {
      panel.light(lit && lit[panel.number], place?.level === panel.number ? place.node : null);
      for (const chip of chips.querySelectorAll<HTMLElement>(".chip")) {
        const node = Number(chip.dataset.node);
        chip.setAttribute("aria-pressed", String(pinned?.level === panel.number && pinned.node === node));
        chip.classList.toggle("lit", lit !== null && lit[panel.number][node] > 0.05);
      }
    }
  }
}
