// The confusion matrix. A cell shows its graphs in the list.

import { mix, textColor, themeColor } from "./colors";
import type { Overview } from "./data";
import { h } from "./dom";
import type { Store } from "./state";
import { counted, PARTS, percent } from "./words";

export function makeConfusion(store: Store, overview: Overview): HTMLElement {
  const element = h("div", { class: "confusion" });
  const render = () => element.replaceChildren(...content(store, overview));
  store.on(["part", "truth", "guess", "theme"], render);
  render();
  return element;
}

function content(store: Store, overview: Overview): Node[] {
  const { part, truth, guess } = store.state;
  const { classes } = overview;
  const counts = classes.map(() => classes.map(() => 0));
  let [total, right] = [0, 0];
  overview.nodes.forEach((_, index) => {
    const [row, column] = [overview.truth![index] as number, overview.guess[index] as number];
    if (row < 0 || (part !== null && overview.split?.[index] !== part)) return;
    counts[row][column]++;
    total++;
    if (row === column) right++;
  });
  const largest = Math.max(1, ...counts.flat());
  const cell = (row: number, column: number) => {
    const count = counts[row][column];
    const chosen = truth === row && guess === column;
    const button = h(
      "button",
      {
        type: "button",
        "aria-pressed": String(chosen),
        "aria-label": `${counted(count, "graph")} of class ${classes[row]}, predicted ${classes[column]}`,
        click: () => store.set(chosen ? { truth: null, guess: null } : { truth: row, guess: column }),
      },
      String(count),
    );
    const color = mix(row === column ? "#0072B2" : "#D55E00", themeColor("panel"), (count / largest) ** 0.7);
    button.style.backgroundColor = color;
    button.style.color = textColor(color);
    return h("td", {}, button);
  };
  const heads = classes.map((name) => h("th", { scope: "col" }, name));
  const rows = classes.map((name, row) =>
    h("tr", {}, h("th", { scope: "row" }, name), ...classes.map((_, column) => cell(row, column))),
  );
  const corner = h("th", { class: "quiet" }, "true \\ predicted");
  const table = h("table", {}, h("thead", {}, h("tr", {}, corner, ...heads)), h("tbody", {}, ...rows));
  const scope = part === null ? "" : `${PARTS[part]} `;
  const summary = `${right} of ${counted(total, `${scope}graph`)} right${total ? ` (${percent(right / total)})` : ""}.`;
  const seen = part === null && overview.split ? " These include the graphs that the model was trained on: choose a part in the list." : "";
  return [h("p", { class: "quiet" }, summary + seen), h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Confusion matrix" }, table)];
}
