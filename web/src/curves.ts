// Loss and accuracy of the training and validation graphs by epoch.

import type { Curves } from "./data";
import { h, svg } from "./dom";
import { number } from "./words";

type Line = (number | null)[];

const [WIDTH, HEIGHT] = [420, 220];
const MARGIN = { left: 46, right: 10, top: 10, bottom: 30 };

export function makeCurves(curves: Curves): HTMLElement {
  const charts = [
    chart("Loss", curves, curves.train_class_loss, curves.validation_loss, 1),
    chart("Accuracy, %", curves, curves.train_accuracy, curves.validation_accuracy, 100),
  ];
  const legend = h(
    "p",
    { class: "legend" },
    h("span", { class: "key train" }, "training"),
    h("span", { class: "key validation" }, "validation"),
    curves.best.length > 0 && h("span", { class: "key best" }, `epoch ${curves.best[0]}, kept`),
  );
  return h("div", {}, legend, h("div", { class: "charts" }, ...charts.filter((found) => found !== null)));
}

function chart(title: string, curves: Curves, train: Line, validation: Line, factor: number): HTMLElement | null {
  const values = [...train, ...validation].filter((value) => value !== null).map((value) => value * factor);
  if (!values.length) return null;
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const span = high - low || 1;
  const last = Math.max(2, curves.epoch[curves.epoch.length - 1]);
  const x = (epoch: number) => MARGIN.left + ((epoch - 1) / (last - 1)) * (WIDTH - MARGIN.left - MARGIN.right);
  const y = (value: number) => HEIGHT - MARGIN.bottom - ((value - low) / span) * (HEIGHT - MARGIN.top - MARGIN.bottom);
  const path = (line: Line) => {
    let pen = "M";
    let found = "";
    line.forEach((value, row) => {
      if (value === null) pen = "M";
      else {
        found += `${pen}${x(curves.epoch[row]).toFixed(1)} ${y(value * factor).toFixed(1)}`;
        pen = "L";
      }
    });
    return found;
  };
  const text = (at: [number, number], anchor: string, words: string) =>
    svg("text", { x: at[0], y: at[1], "text-anchor": anchor }, words);
  const ticks = [low, low + span / 2, high].flatMap((value) => [
    svg("line", { class: "grid", x1: MARGIN.left, x2: WIDTH - MARGIN.right, y1: y(value), y2: y(value) }),
    text([MARGIN.left - 6, y(value) + 4], "end", number(Number(value.toPrecision(3)))),
  ]);
  const best = curves.best.map((epoch) =>
    svg("line", { class: "best", x1: x(epoch), x2: x(epoch), y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom }),
  );
  const end = (line: Line) => line.filter((value) => value !== null).at(-1);
  const finals = [end(train), end(validation)].map((value) => (value === undefined ? "unknown" : number(Number((value * factor).toPrecision(3)))));
  return h(
    "figure",
    {},
    h("figcaption", {}, title),
    svg(
      "svg",
      {
        viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
        role: "img",
        "aria-label": `${title} by epoch: after the last, ${finals[0]} on training and ${finals[1]} on validation graphs`,
      },
      ...ticks,
      ...best,
      svg("path", { class: "train", d: path(train) }),
      svg("path", { class: "validation", d: path(validation) }),
      text([MARGIN.left, HEIGHT - 8], "start", "1"),
      text([WIDTH - MARGIN.right, HEIGHT - 8], "end", `epoch ${last}`),
    ),
  );
}
