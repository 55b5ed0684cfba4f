// One level of the chosen graph, drawn by sigma (WebGL).

import { UndirectedGraph } from "graphology";
import Sigma from "sigma";
import { EdgeLineProgram, EdgeRectangleProgram, NodeCircleProgram, NodePointProgram } from "sigma/rendering";
import { drawBonds } from "./bonds";
import { mix, nodeColors, textColor, themeColor } from "./colors";
import type { Graph, Overview } from "./data";
import { nodeRadius, UNIT, type Box } from "./geometry";
import { nodeLabel } from "./words";

export interface Look {
  soft: boolean;
  labels: boolean;
  weights: boolean;
}

const MAX_EDGE_LABELS = 1500;
const MANY = 1000; // nodes or edges: of more, points and lines are drawn, which WebGL does ten times as fast
const DENSE = 20_000; // edges: of more, none are drawn while the drawing moves
const FADED = 0.12; // how much of its color a node keeps that is not lit

export class Panel {
  readonly sigma: Sigma;
  private colors: string[] = [];
  private lit: Float32Array | null = null;
  private marked: number | null = null;
  private background = "#ffffff";
  private edgeColor = "#000000";
  private graph: Graph | null = null;
  private look: Look = { soft: false, labels: false, weights: false };

  constructor(
    container: HTMLElement,
    readonly number: number,
    private overview: Overview,
  ) {
    this.sigma = new Sigma(new UndirectedGraph(), container, {
      allowInvalidContainer: true,
      itemSizesReference: "positions",
      zoomToSizeRatioFunction: (ratio) => ratio,
      minEdgeThickness: 0.5,
      labelFont: "system-ui, sans-serif",
      nodeProgramClasses: { circle: NodeCircleProgram, point: NodePointProgram },
      edgeProgramClasses: { rectangle: EdgeRectangleProgram, line: EdgeLineProgram },
      defaultNodeType: "circle",
      defaultEdgeType: "rectangle",
      labelRenderedSizeThreshold: 4,
      renderEdgeLabels: false,
      zIndex: true,
      minCameraRatio: 0.01,
      maxCameraRatio: 4,
      nodeReducer: (node, data) => this.reducedNode(Number(node), data),
      edgeReducer: (edge, data) => this.reducedEdge(Number(edge), data),
      defaultDrawNodeLabel: (context, data) => this.drawLabel(context, data),
      defaultDrawNodeHover: () => undefined,
    });
    // below the nodes; the types do not know the option
    this.sigma.createCanvasContext("bonds", { beforeLayer: "nodes" } as never);
    this.sigma.createCanvasContext("ring");
    this.sigma.getCanvases().ring.classList.add("ring");
    this.sigma.on("afterRender", () => this.drawOver());
  }

  /** Draw a level of a graph, in this area; `same`: of the same graph as before, which keeps the camera. */
  show(graph: Graph, box: Box, look: Look, same: boolean): void {
    this.graph = graph;
    this.look = look;
    this.lit = null;
    this.marked = null;
    const level = graph.levels[this.number];
    const drawn = new UndirectedGraph();
    this.readTheme();
    this.colors = nodeColors(graph, this.number, look.soft);
    for (let node = 0; node < level.size; node++) {
      const size = nodeRadius(graph, this.number, node);
      const type = level.size > MANY ? "point" : "circle";
      drawn.addNode(node, { x: level.x[node], y: level.y[node], size, type, label: this.label(node), zIndex: 0 });
    }
    const { source, target, weight } = level.edges;
    const heaviest = weight ? Math.max(...weight.slice(0, 100_000), 1e-12) : 1;
    const bonds = graph.order !== null && this.number === 0;
    for (let edge = 0; edge < source.length && !bonds; edge++) {
      const share = weight ? weight[edge] / heaviest : 0.3;
      const size = UNIT * (0.03 + (this.number ? 0.14 : 0.12) * share);
      const type = source.length > MANY ? "line" : "rectangle";
      const look = { size, type, forceLabel: true, label: this.edgeLabel(edge) };
      drawn.addEdgeWithKey(edge, source[edge], target[edge], look);
    }
    this.sigma.setSetting("hideEdgesOnMove", source.length > DENSE);
    this.sigma.setCustomBBox(box);
    this.sigma.setGraph(drawn);
    this.sigma.setSetting("labelDensity", drawn.order < 300 ? 100 : 1);
    this.applyLook();
    if (!same) this.sigma.getCamera().setState({ x: 0.5, y: 0.5, angle: 0, ratio: 1 });
  }

  /** Light up some nodes, and draw a ring around one; null: all are lit. */
  light(lit: Float32Array | null, marked: number | null): void {
    this.lit = lit;
    this.marked = marked;
    this.sigma.refresh({ skipIndexation: true });
  }

  setLook(look: Look): void {
    if (!this.graph) return;
    this.look = look;
    this.colors = nodeColors(this.graph, this.number, look.soft);
    this.sigma.getGraph().updateEachNodeAttributes((node, data) => ({ ...data, label: this.label(Number(node)) }));
    this.applyLook();
    this.sigma.refresh({ skipIndexation: true });
  }

  /** Read the colors of the theme again. */
  setTheme(): void {
    this.readTheme();
    this.applyLook();
    this.sigma.refresh({ skipIndexation: true });
  }

  /** Move the camera to a node. */
  goTo(node: number): void {
    const data = this.sigma.getNodeDisplayData(String(node));
    const camera = this.sigma.getCamera();
    if (data) void camera.animate({ x: data.x, y: data.y, ratio: Math.min(camera.ratio, 0.5) }, { duration: 250 });
  }

  private applyLook(): void {
    const few = (this.graph?.levels[this.number].edges.source.length ?? 0) <= MAX_EDGE_LABELS;
    this.sigma.setSetting("renderEdgeLabels", this.look.weights && few);
    this.sigma.setSetting("edgeLabelColor", { color: themeColor("text") });
  }

  private readTheme(): void {
    this.background = themeColor("canvas");
    this.edgeColor = themeColor("edge");
  }

  private label(node: number): string | null {
    const graph = this.graph!;
    if (this.number > 0) return graph.levels[this.number].names[node];
    if (graph.order) {
      const symbol = nodeLabel(graph, this.overview, node).replace("other", "*");
      return this.look.labels ? `${symbol}${node}` : symbol;
    }
    if (!this.look.labels) return null;
    return nodeLabel(graph, this.overview, node) || String(node);
  }

  private edgeLabel(edge: number): string {
    const { weight } = this.graph!.levels[this.number].edges;
    if (weight) return String(Number(weight[edge].toPrecision(3)));
    const codes = this.number === 0 ? this.graph!.edgeLabel : null;
    return codes ? this.overview.edgeLabels[codes[edge]] : "1";
  }

  private reducedNode(node: number, data: object) {
    const share = this.lit ? FADED + (1 - FADED) * this.lit[node] : 1;
    const color = mix(this.colors[node] ?? "#888888", this.background, share);
    const forceLabel = this.number > 0 || this.graph?.order !== null;
    return { ...data, color, forceLabel, zIndex: this.lit && this.lit[node] > 0 ? 1 : 0 };
  }

  private reducedEdge(edge: number, data: object) {
    const { source, target } = this.graph!.levels[this.number].edges;
    const share = this.lit ? Math.max(0.1, Math.min(this.lit[source[edge]], this.lit[target[edge]])) : 1;
    return { ...data, color: mix(this.edgeColor, this.background, share) };
  }

  /** A name: in the middle of a cluster or an atom, next to a node. */
  private drawLabel(context: CanvasRenderingContext2D, data: { label: string | null; x: number; y: number; size: number; color: string }): void {
    if (!data.label) return;
    const inside = this.number > 0 || this.graph?.order !== null;
    const size = inside ? Math.min(16, (1.5 * data.size) / Math.max(1, 0.62 * data.label.length)) : 11;
    if (size < 6) return;
    context.font = `${inside ? 600 : 400} ${size}px system-ui, sans-serif`;
    context.textBaseline = "middle";
    context.textAlign = inside ? "center" : "left";
    context.fillStyle = inside ? textColor(data.color) : themeColor("text");
    context.fillText(data.label, data.x + (inside ? 0 : data.size + 2), data.y + 0.5);
  }

  private drawOver(): void {
    const graph = this.graph;
    const canvases = this.sigma.getCanvases();
    for (const name of ["bonds", "ring"]) {
      const context = canvases[name].getContext("2d")!;
      const { width, height } = this.sigma.getDimensions();
      context.clearRect(0, 0, width, height);
      if (name === "bonds" && graph?.order && this.number === 0) {
        drawBonds(context, this.sigma, graph, { color: this.edgeColor, background: this.background, lit: this.lit });
      }
      if (name === "ring" && this.marked !== null) this.drawRing(context, String(this.marked));
    }
  }

  private drawRing(context: CanvasRenderingContext2D, node: string): void {
    const data = this.sigma.getNodeDisplayData(node);
    if (!data) return;
    const { x, y } = this.sigma.framedGraphToViewport(data);
    context.beginPath();
    context.arc(x, y, Math.max(this.sigma.scaleSize(data.size), 3) + 3, 0, 2 * Math.PI);
    context.lineWidth = 2.5;
    context.strokeStyle = themeColor("focus");
    context.stroke();
  }
}
