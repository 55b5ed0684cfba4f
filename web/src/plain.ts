// A table whose cells are text.

import { inPlace, makeCard, sorted, type Order } from "./card";
import { h } from "./dom";
import type { Choice, Table } from "./results";

export function makePlain(table: Table): (choice: Choice) => HTMLElement | null {
  const order: Order = { column: -1, down: false };
  return (choice) => {
    const { dataset, datasets, words } = choice;
    if ((choice.protocol && choice.protocol !== "-") || choice.kind) return null;
    const other = (text: string) => dataset !== "" && text !== dataset && datasets.includes(text);
    const kept = [...table.header.keys()].filter((column) => !other(table.header[column]));
    const fits = (line: string[]) => !words || line.some((cell) => cell.toLowerCase().includes(words));
    const lines = table.lines.filter((line) => !line.some(other) && fits(line));
    if (!lines.length && (words || dataset)) return null;
    return inPlace((again) => {
      const columns = kept.map((column) => ({ title: table.header[column] }));
      const rows = sorted(lines, order, (line, column) => valueOf(line[kept[column]])).map((line) =>
        h("tr", {}, ...kept.map((column, place) => h(place ? "td" : "th", place ? {} : { scope: "row" }, line[column] ?? ""))),
      );
      return makeCard(table, columns, order, rows, again);
    })();
  };
}

/** The number that a text begins with, or the text; null if it says that there is none. */
function valueOf(text = ""): number | string | null {
  const number = /^[-+−]?[\d,]*\.?\d+/.exec(text);
  if (number) return Number(number[0].replaceAll(",", "").replace("−", "-"));
  return text === "" || text === "–" ? null : text;
}
