// All graphs as points: by their embedding, or by target and prediction. A click chooses a graph.

import { classColor, scaleColor, themeColor } from "./colors";
import type { Overview } from "./data";
import { h, swatch } from "./dom";
import type { Store } from "./state";
import { answer, counted, graphName, isRight } from "./words";

const HEIGHT = 340;
const REACH = 14; // pixels around the pointer
const MARGIN = 14;
const MAX_KEYS = 12;

interface Points {
  x: number[];
  y: number[];
  color: (index: number) => string;
  diagonal: boolean; // draw x = y, in equal scales
  label: string;
}

/** The embedding; colors are predictions, and wrong ones have a ring. */
export function makePlane(store: Store, overview: Overview): HTMLElement {
  const [x, y] = overview.plane;
  const { classes } = overview;
  if (!classes.length) {
    const first = (overview.guess as number[][]).map((values) => values[0]);
    const [low, span] = range(first);
    const color = (index: number) => scaleColor((first[index] - low) / span);
    const points = { x, y, color, diagonal: false, label: "Embedding of all graphs, colored by prediction" };
    return h("div", {}, makeScatter(store, overview, points), h("p", { class: "quiet" }, "Blue: small predictions. Orange: large ones."));
  }
  const color = (index: number) => classColor(overview.guess[index] as number);
  const points = { x, y, color, diagonal: false, label: "Embedding of all graphs, colored by predicted class" };
  const keys = classes.slice(0, MAX_KEYS).map((name, code) => h("span", { class: "key" }, swatch(classColor(code)), name));
  const rings = overview.truth !== null && h("span", { class: "quiet" }, "Wrong predictions have a ring.");
  return h("div", {}, makeScatter(store, overview, points), h("p", { class: "legend" }, ...keys, rings));
}

/** Targets and predictions; the first of several. */
export function makeErrors(store: Store, overview: Overview): HTMLElement {
  const [x, y] = [overview.truth, overview.guess].map((values) => (values as number[][]).map((value) => value[0]));
  const points = { x, y, color: () => classColor(0), diagonal: true, label: "Target and prediction of all graphs" };
  return h("div", {}, makeScatter(store, overview, points), h("p", { class: "quiet" }, "Across: target. Up: prediction. On the line, both are equal."));
}

function range(values: number[]): [number, number] {
  const low = values.reduce((a, b) => Math.min(a, b));
  return [low, values.reduce((a, b) => Math.max(a, b)) - low || 1];
}

function makeScatter(store: Store, overview: Overview, points: Points): HTMLElement {
  const canvas = h("canvas", { role: "img", "aria-label": `${points.label}; the list has the same graphs` });
  const tip = h("p", { class: "tip quiet" }, " ");
  const place = h("div", { class: "scatter" }, canvas, tip);
  const [rangeX, rangeY] = points.diagonal ? Array(2).fill(range([...points.x, ...points.y])) : [range(points.x), range(points.y)];
  let [atX, atY]: [number[], number[]] = [[], []];
  let near = -1;

  function layOut(): void {
    const width = Math.max(canvas.clientWidth, 10);
    const pixels = window.devicePixelRatio || 1;
    canvas.width = width * pixels;
    canvas.height = HEIGHT * pixels;
    canvas.getContext("2d")!.scale(pixels, pixels);
    atX = points.x.map((value) => MARGIN + ((value - rangeX[0]) / rangeX[1]) * (width - 2 * MARGIN));
    atY = points.y.map((value) => HEIGHT - MARGIN - ((value - rangeY[0]) / rangeY[1]) * (HEIGHT - 2 * MARGIN));
    render();
  }

  function render(): void {
    const context = canvas.getContext("2d")!;
    const width = canvas.clientWidth;
    const listed = new Set(store.state.matches);
    context.clearRect(0, 0, width, HEIGHT);
    if (points.diagonal) line(context, [MARGIN, HEIGHT - MARGIN], [width - MARGIN, MARGIN]);
    for (const inList of [false, true]) {
      context.globalAlpha = inList ? 0.85 : 0.12;
      for (let index = 0; index < atX.length; index++) {
        if (listed.has(index) === inList) dot(context, index, isRight(overview, index) === false && inList);
      }
    }
    context.globalAlpha = 1;
    circle(context, store.state.index, 8, themeColor("focus"));
    if (near >= 0) circle(context, near, 6, themeColor("text"));
  }

  function dot(context: CanvasRenderingContext2D, index: number, ringed: boolean): void {
    context.fillStyle = points.color(index);
    context.beginPath();
    context.arc(atX[index], atY[index], 3, 0, 2 * Math.PI);
    context.fill();
    if (ringed) circle(context, index, 4.5, themeColor("text"), 1);
  }

  function circle(context: CanvasRenderingContext2D, index: number, radius: number, color: string, width = 2): void {
    context.strokeStyle = color;
    context.lineWidth = width;
    context.beginPath();
    context.arc(atX[index], atY[index], radius, 0, 2 * Math.PI);
    context.stroke();
  }

  function nearest(event: MouseEvent): number {
    let [best, cost] = [-1, REACH * REACH];
    for (let index = 0; index < atX.length; index++) {
      const distance = (atX[index] - event.offsetX) ** 2 + (atY[index] - event.offsetY) ** 2;
      if (distance < cost) [best, cost] = [index, distance];
    }
    return best;
  }

  canvas.addEventListener("mousemove", (event) => {
    const found = nearest(event);
    if (found === near) return;
    near = found;
    canvas.classList.toggle("pointing", near >= 0);
    tip.textContent = near < 0 ? " " : `${graphName(overview, near)}: predicted ${answer(overview, overview.guess, near)}`;
    render();
  });
  canvas.addEventListener("mouseleave", () => {
    near = -1;
    tip.textContent = " ";
    render();
  });
  canvas.addEventListener("click", (event) => {
    const found = nearest(event);
    if (found >= 0) store.set({ index: found, tab: "graph" });
  });
  tip.textContent = counted(points.x.length, "graph");
  store.on(["matches", "index", "theme"], () => {
    if (atX.length) render();
  });
  new ResizeObserver(layOut).observe(canvas);
  return place;
}

function line(context: CanvasRenderingContext2D, from: [number, number], to: [number, number]): void {
  context.strokeStyle = themeColor("line");
  context.beginPath();
  context.moveTo(...from);
  context.lineTo(...to);
  context.stroke();
}
