// Follows a training: asks every second what is new, and says how far the training is.

import { unpacked, type Graph, type Overview, type PackedGraph, type Status } from "./data";
import { h } from "./dom";
import type { Place, State, Store } from "./state";
import { counted } from "./words";

interface News {
  status: Status;
  overview?: Overview;
  graph?: PackedGraph | null;
}

export type Ask = (address: string) => Promise<unknown>;

const PERIOD = 1000; // milliseconds
const MAX_FAILURES = 3;

export class Training {
  readonly element: HTMLElement;
  private text = h("span", { "aria-live": "off" }); // the epochs are not read aloud, the end is
  private button = h("button", { type: "button", click: () => this.pause() }, "Pause");
  private ask = (globalThis as unknown as { diffpoolAsk: Ask }).diffpoolAsk;
  private version: number;
  private paused = false;
  private failures = 0;
  private graphs = new Map<number, Graph | null>(); // as they were last seen
  private timer = 0;

  constructor(
    private store: Store,
    private overview: Overview,
    private renew: (index: number, graph: Graph | null) => void,
  ) {
    this.version = overview.live!.version;
    this.element = h("div", { class: "training" }, this.text, this.button);
    this.say(overview.live!);
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden && this.timer) this.now();
    });
  }

  /** A graph as it is now; without a connection, as it was last seen; undefined if it never was. */
  async graph(index: number): Promise<Graph | null | undefined> {
    try {
      const { graph } = (await this.ask(`graph/${index}`)) as News;
      return this.keep(index, graph);
    } catch {
      if (this.graphs.has(index)) return structuredClone(this.graphs.get(index)); // a drawing turns it in place
      this.lose();
      return undefined;
    }
  }

  /** Ask again and again, until the training has ended. */
  follow(): void {
    this.timer = window.setTimeout(() => void this.look(), PERIOD);
  }

  private now(): void {
    clearTimeout(this.timer);
    void this.look();
  }

  private async look(): Promise<void> {
    this.timer = 0;
    if (this.paused || document.hidden) return this.follow();
    try {
      const { index } = this.store.state;
      const news = (await this.ask(`news/${this.version}/${index}`)) as News;
      this.failures = 0;
      if (!this.paused) this.take(news, index);
      if (news.status.state === "ended" || news.status.state === "stopped") return this.end();
    } catch {
      if (++this.failures >= MAX_FAILURES) return this.lose();
    }
    this.follow();
  }

  private take(news: News, index: number): void {
    this.say(news.status);
    if (!news.overview) return;
    this.version = news.status.version;
    Object.assign(this.overview, news.overview);
    this.renew(index, this.keep(index, news.graph));
    this.store.set({ version: this.version });
    document.documentElement.dataset.epoch = String(news.status.epoch);
  }

  private keep(index: number, packed: PackedGraph | null | undefined): Graph | null {
    const graph = packed ? unpacked(packed) : null;
    this.graphs.set(index, structuredClone(graph));
    return graph;
  }

  private pause(): void {
    this.paused = !this.paused;
    this.button.textContent = this.paused ? "Resume" : "Pause";
    if (this.paused) this.text.textContent += " (paused)";
    else if (this.timer) this.now();
  }

  private say(status: Status): void {
    const { epoch, done, epochs, state } = status;
    const of = epochs === null ? "" : ` of ${epochs}`;
    this.element.dataset.state = state;
    if (state !== "training") this.text.setAttribute("aria-live", "polite");
    this.text.textContent = {
      training: epoch === 0 ? `Before training${done ? `, epoch ${done}${of}` : ""}` : `Epoch ${epoch}${of}`,
      ended: `Ended after ${counted(done, "epoch")}: the best model`,
      stopped: `Stopped after ${counted(done, "epoch")}: the best model so far`,
      failed: `Epoch ${done}${of}, without further changes: see the terminal`,
    }[state];
  }

  private end(): void {
    this.button.hidden = true;
  }

  private lose(): void {
    this.end();
    this.element.dataset.state = "lost";
    this.text.setAttribute("aria-live", "polite");
    this.text.textContent = "Connection lost: the command has ended. The page shows what came last";
  }
}

/** The chosen places in the same graph after an epoch: clusters are the same if they have the same column in S. */
export function samePlaces(state: State, before: Graph | null, after: Graph | null): Pick<State, "hover" | "pinned"> {
  const same = (place: Place | null): Place | null => {
    if (!place || place.level === 0) return place;
    const column = before?.levels[place.level]?.column[place.node];
    const node = column === undefined ? -1 : (after?.levels[place.level]?.column.indexOf(column) ?? -1);
    return node < 0 ? null : { level: place.level, node };
  };
  return { hover: same(state.hover), pinned: same(state.pinned) };
}
