// Views of the whole data set. They are drawn when they are first shown.

import { makeConfusion } from "./confusion";
import { makeCurves } from "./curves";
import type { Overview } from "./data";
import { h, renew } from "./dom";
import { makePlane, makeErrors } from "./scatter";
import type { Store } from "./state";
import { makeUsage } from "./usage";

export class DataSet {
  readonly element = h("section", { class: "data", "aria-label": "Data set" });
  private drawn = false;
  private forget = () => {}; // the listeners of what is drawn

  constructor(
    private store: Store,
    private overview: Overview,
  ) {
    store.on(["tab"], (state) => {
      if (state.tab === "data" && !this.drawn) this.draw();
    });
    store.on(["version"], (state) => {
      this.drawn = false;
      if (state.tab === "data") this.draw();
    });
  }

  private draw(): void {
    this.drawn = true;
    this.forget();
    this.forget = this.store.scoped(() => renew(this.element, this.cards()));
  }

  private cards(): Node[] {
    const { store, overview } = this;
    const known = overview.truth !== null;
    const classes = overview.classes.length > 0;
    const cards = [
      known && classes ? card("Confusion matrix", makeConfusion(store, overview)) : null,
      known && !classes ? card("Predictions", makeErrors(store, overview)) : null,
      card(`Embedding of all graphs (${overview.embedding === "pca" ? "PCA" : "t-SNE"})`, makePlane(store, overview)),
      overview.curves ? card("Training", makeCurves(overview.curves)) : null,
      overview.used[0]?.length ? card("Clusters in use", makeUsage(overview)) : null,
    ];
    return cards.filter((found) => found !== null);
  }
}

function card(title: string, content: HTMLElement): HTMLElement {
  return h("section", { class: "card" }, h("h2", {}, title), content);
}
