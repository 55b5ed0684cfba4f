// The keyboard in a drawing: arrows choose a node, Enter pins it, Shift and arrows pan, + - 0 zoom, Escape clears.

import type { Graph } from "./data";
import type { Panel } from "./panel";
import type { Place, Store } from "./state";

const ARROWS: Record<string, [number, number]> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, 1],
  ArrowDown: [0, -1],
};

export function moveByKey(
  event: KeyboardEvent,
  store: Store,
  graph: Graph,
  panel: Panel,
  toggle: (place: Place) => void,
): void {
  const camera = panel.sigma.getCamera();
  const arrow = ARROWS[event.key];
  const here = store.state.hover ?? store.state.pinned;
  if (arrow && event.shiftKey) {
    const step = 0.1 * camera.ratio;
    camera.setState({ x: camera.x + step * arrow[0], y: camera.y + step * arrow[1] });
  } else if (arrow) {
    const from = here?.level === panel.number ? here.node : null;
    store.set({ hover: { level: panel.number, node: nextNode(graph, panel.number, from, arrow) } });
  } else if (event.key === "Enter" || event.key === " ") {
    if (here?.level === panel.number) toggle(here);
  } else if (event.key === "Escape") store.set({ hover: null, pinned: null });
  else if (event.key === "+" || event.key === "=") void camera.animatedZoom({ duration: 100 });
  else if (event.key === "-") void camera.animatedUnzoom({ duration: 100 });
  else if (event.key === "0") void camera.animatedReset({ duration: 100 });
  else return;
  event.preventDefault();
}

/** The nearest node in the direction of an arrow; at the border, the same one; at first, the node at the left. */
export function nextNode(graph: Graph, number: number, from: number | null, arrow: [number, number]): number {
  const { x, y, size } = graph.levels[number];
  let [best, cost] = [from ?? 0, Infinity];
  for (let node = 0; node < size; node++) {
    const [dx, dy] = from === null ? [x[node] - x[0], 0] : [x[node] - x[from], y[node] - y[from]];
    const ahead = dx * arrow[0] + dy * arrow[1];
    const aside = Math.abs(dx * arrow[1]) + Math.abs(dy * arrow[0]);
    const found = from === null ? dx : ahead + 2 * aside;
    if (node !== from && (from === null || ahead > 1e-6) && found < cost) [best, cost] = [node, found];
  }
  return best;
}
