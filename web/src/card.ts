// The frame of a table on the results page: caption, sortable columns, notes.

import { h } from "./dom";
import type { Table } from "./results";

export interface Order {
  column: number; // -1: as given
  down: boolean;
}

export interface Column {
  title: string;
  about?: string;
}

/** The rows in this order. Rows without a value come last. */
export function sorted<Row>(rows: Row[], order: Order, value: (row: Row, column: number) => number | string | null): Row[] {
  if (order.column < 0) return rows;
  const sign = order.down ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [x, y] = [value(a, order.column), value(b, order.column)];
    if (x === null || y === null) return Number(x === null) - Number(y === null);
    return sign * (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), "en"));
  });
}

/** A table with a caption and notes. A click on a column: the largest first, then the smallest, then as given. */
export function makeCard(table: Table, columns: Column[], order: Order, rows: HTMLElement[], again: () => void): HTMLElement {
  const heads = columns.map(({ title, about }, column) => {
    const active = order.column === column;
    const direction = active ? (order.down ? "descending" : "ascending") : "none";
    const sort = () => {
      const first = column > 0; // names begin with A
      const next = !active ? first : order.down === first ? !first : null;
      Object.assign(order, next === null ? { column: -1, down: false } : { column, down: next });
      again();
    };
    const mark = h("span", { class: "mark", "aria-hidden": "true" }, active ? (order.down ? "▼" : "▲") : "↕");
    return h("th", { scope: "col", "aria-sort": direction }, h("button", { type: "button", title: about, click: sort }, title, mark));
  });
  const [title, ...sentences] = table.caption.split(/(?<=\.) /);
  const body = h("table", {}, h("thead", {}, h("tr", {}, ...heads)), h("tbody", {}, ...rows));
  return h(
    "section",
    { class: "card" },
    h("h2", {}, title.replace(/\.$/, "") || table.name),
    sentences.length > 0 && h("p", { class: "quiet" }, sentences.join(" ")),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title || table.name }, body),
    table.notes.length > 0 && h("details", {}, h("summary", {}, `Notes (${table.notes.length})`), h("ul", {}, ...table.notes.map((note) => h("li", {}, note)))),
  );
}

/** A function that makes a card again in its place. */
export function inPlace(make: (again: () => void) => HTMLElement | null): () => HTMLElement | null {
  let card: HTMLElement | null = null;
  const build = (): HTMLElement | null => {
    const fresh = make(() => {
      const before = card;
      const focused = before ? [...before.querySelectorAll("button")].indexOf(document.activeElement as HTMLButtonElement) : -1;
      const after = build();
      if (before && after) before.replaceWith(after);
      if (after && focused >= 0) after.querySelectorAll("button")[focused].focus();
    });
    card = fresh;
    return fresh;
  };
  return build;
}
