// Bonds of a molecule: one to three lines; the second line of an aromatic bond is dashed.

import type Sigma from "sigma";
import { mix } from "./colors";
import type { Graph } from "./data";

// By twice the bond order: the offsets of the lines across the bond.
const SHIFTS: Record<number, number[]> = { 2: [0], 3: [-1, 1], 4: [-1, 1], 6: [-2, 0, 2] };
const AROMATIC = 3;

interface Paint {
  color: string;
  background: string;
  lit: Float32Array | null;
}

export function drawBonds(context: CanvasRenderingContext2D, sigma: Sigma, graph: Graph, paint: Paint): void {
  const { x, y, edges } = graph.levels[0];
  const gap = sigma.getGraphToViewportRatio() * 9; // hundredths of a median bond
  for (let bond = 0; bond < edges.source.length; bond++) {
    const [i, j] = [edges.source[bond], edges.target[bond]];
    const a = sigma.graphToViewport({ x: x[i], y: y[i] });
    const b = sigma.graphToViewport({ x: x[j], y: y[j] });
    const length = Math.hypot(b.x - a.x, b.y - a.y) || 1;
    const [acrossX, acrossY] = [(-(b.y - a.y) / length) * gap, ((b.x - a.x) / length) * gap];
    const share = paint.lit ? Math.max(0.15, Math.min(paint.lit[i], paint.lit[j])) : 1;
    context.strokeStyle = mix(paint.color, paint.background, share);
    context.lineWidth = Math.max(1, gap / 3);
    const order = graph.order![bond];
    (SHIFTS[order] ?? [0]).forEach((shift, line) => {
      context.setLineDash(order === AROMATIC && line === 1 ? [gap, gap * 0.7] : []);
      context.beginPath();
      context.moveTo(a.x + shift * acrossX, a.y + shift * acrossY);
      context.lineTo(b.x + shift * acrossX, b.y + shift * acrossY);
      context.stroke();
    });
  }
  context.setLineDash([]);
}
