// Where everything stands: each open box is laid out on its own, and edges go through ports on its border.

import { layout as dagreLayout, Graph as DagreGraph } from "@dagrejs/dagre";
import { IN, OUT } from "./graph.js";
import { cut, shape, width } from "./text.js";

export const HEADER = 30;
const PAD = 16;
const LANE = 14;
const MANY = 14; // tensors that enter or leave a box at places of their own
const LABEL = 13;
const SMALL = 12;
const WIDEST = 250;

export class Layout {
  constructor(graph) {
    this.graph = graph;
    this.open = graph.opened();
    this.aside = false;
    this.note = null; // what stands in a closed box instead of a shape
    this.cache = new Map();
  }

  set(index, isOpen) {
    if (!this.graph.hasInside(index) || isOpen === this.open.has(index)) return;
    if (isOpen) this.open.add(index);
    else this.open.delete(index);
    this.forget(index);
  }

  forget(index) {
    for (const at of [index, ...this.graph.ancestors(index)]) this.cache.delete(at);
  }

  of(index) {
    if (!this.cache.has(index)) this.cache.set(index, this.open.has(index) ? this.#inside(index) : this.card(index));
    return this.cache.get(index);
  }

  // A box that is closed: its size and its two lines of text.
  card(index) {
    const { items, model } = this.graph;
    const item = items[index];
    const title = cut(item.label, LABEL, WIDEST);
    let small = "";
    if (item.tensor !== undefined) small = shape(model.tensors[item.tensor]);
    else if (item.kind === "call" || item.kind === "layer") small = this.result(index);
    else small = [item.note, `${item.count} layers`].filter(Boolean).join(" · ");
    if (this.note) small = this.note(index) || small;
    small = cut(small, SMALL, WIDEST, true);
    const chevron = this.graph.hasInside(index) ? 18 : 0;
    const w = Math.max(width(title, LABEL) * 1.13, width(small, SMALL, true)) + chevron + 30;
    return { w: Math.max(Math.round(w), 64), h: small ? 44 : 30, title, small };
  }

  // The shape of what a call gives to others.
  result(index) {
    const { model } = this.graph;
    const layers = this.graph.layersOf(index);
    const out = this.graph.crossing(index).out.filter((e) => model.edges[e][3] !== "size").map((e) => model.edges[e][2]);
    const tensors = [...new Set(out)];
    if (!tensors.length && layers.length) tensors.push(...model.layers[layers[layers.length - 1]].outputs);
    if (!tensors.length) return "";
    return shape(model.tensors[tensors[0]]) + (tensors.length > 1 ? ` and ${tensors.length - 1} more` : "");
  }

  #inside(box) {
    const { model } = this.graph;
    const kids = this.graph.shown(box, this.aside);
    const here = new Set(kids);
    const local = (this.graph.local.get(box) || []).filter(([from, to, e]) => {
      if (!this.aside && this.#isAside(e)) return false;
      return (from < 0 || here.has(from)) && (to < 0 || here.has(to));
    });
    const port = (side) => {
      const tensors = new Set(local.filter((edge) => edge[side] === (side ? OUT : IN)).map(([, , e]) => model.edges[e][2]));
      return (e) => (tensors.size > MANY ? -1 : model.edges[e][2]);
    };
    const ports = [port(0), port(1)];
    const merged = new Map();
    const back = new Map();
    for (const [from, to, e] of local) {
      const isBack = model.edges[e][3] === "back" && from >= 0 && to >= 0;
      const a = from === IN ? `in ${ports[0](e)}` : String(from);
      const b = to === OUT ? `out ${ports[1](e)}` : String(to);
      const start = from >= 0 && this.open.has(from) ? this.of(from).out(e) : null;
      const end = to >= 0 && this.open.has(to) ? this.of(to).in(e) : null;
      const key = JSON.stringify([a, b, start, end]);
      const into = isBack ? back : merged;
      if (!into.has(key)) into.set(key, { a, b, from, to, start, end, edges: [], isBack });
      into.get(key).edges.push(e);
    }
    const placed = this.#run(kids, [...merged.values()]);
    return this.#assemble(box, kids, placed, [...merged.values()], [...back.values()], ports);
  }

  // Whether an edge carries a size, or comes from or goes to a box that is not shown.
  #isAside(e) {
    const { items, model } = this.graph;
    const [source, target, , kind] = model.edges[e];
    const hidden = (index) => items[index].aside || (items[index].parent >= 0 && items[items[index].parent].aside);
    return kind === "size" || hidden(source) || hidden(target);
  }

  #run(kids, edges) {
    const g = new DagreGraph({ multigraph: true });
    const large = kids.length > 250;
    g.setGraph({ rankdir: "TB", nodesep: 22, ranksep: 28, edgesep: 14, ranker: large ? "longest-path" : "network-simplex" });
    g.setDefaultEdgeLabel(() => ({}));
    for (const kid of kids) {
      const { w, h } = this.of(kid);
      g.setNode(String(kid), { width: w, height: h });
    }
    const names = new Set(edges.flatMap(({ a, b }) => [a, b]).filter((name) => !/^\d/.test(name)));
    for (const name of names) g.setNode(name, { width: 10, height: 1 });
    edges.forEach(({ a, b }, index) => g.setEdge(a, b, { weight: /^\d/.test(a) && /^\d/.test(b) ? 2 : 1 }, String(index)));
    const tops = [...names].filter((name) => name.startsWith("in"));
    const bottoms = [...names].filter((name) => name.startsWith("out"));
    const plain = kids.map(String);
    const begins = (name) => this.graph.items[name].category === "control"; // what a turn begins with stands at the top
    if (tops.length || plain.some(begins)) { // the ports stand above everything else
      g.setNode("top", { width: 1, height: 1 });
      for (const name of tops) g.setEdge("top", name, { weight: 60 }, "pin");
      for (const name of plain) {
        const before = g.inEdges(name).filter(({ v }) => !v.startsWith("in"));
        if (!before.length) g.setEdge("top", name, { weight: begins(name) ? 20 : 0, minlen: 2 }, "pin");
      }
    }
    if (bottoms.length) {
      g.setNode("bottom", { width: 1, height: 1 });
      for (const name of bottoms) g.setEdge(name, "bottom", { weight: 60 }, "pin");
      for (const name of plain) if (!g.outEdges(name).length) g.setEdge(name, "bottom", { weight: 0, minlen: 2 }, "pin");
    }
    dagreLayout(g);
    return g;
  }

  #assemble(box, kids, g, merged, back, ports) {
    let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
    const grow = (x0, y0, x1, y1) => {
      [left, right] = [Math.min(left, x0), Math.max(right, x1)];
      [top, bottom] = [Math.min(top, y0), Math.max(bottom, y1)];
    };
    const all = g.nodes().filter((name) => name !== "top" && name !== "bottom");
    for (const name of all) {
      const { x, y, width: w, height: h } = g.node(name);
      grow(x - w / 2, y - h / 2, x + w / 2, y + h / 2);
    }
    merged.forEach(({ a, b }, index) => {
      for (const { x, y } of g.edge(a, b, String(index)).points) grow(x, y, x, y);
    });
    if (!all.length) [left, right, top, bottom] = [0, 120, 0, 20];
    const root = box === 0;
    const head = root ? 0 : HEADER;
    const dx = PAD - left;
    const [above, below] = ["in", "out"].map((side) => (all.some((name) => name.startsWith(side)) ? 0 : PAD));
    const dy = head + above - top;
    const title = this.title(box);
    const lanes = back.length * LANE;
    const w = Math.max(right - left + 2 * PAD + (lanes ? lanes + 6 : 0), title.width + 30);
    const slack = Math.max(0, (w - (right - left + 2 * PAD + (lanes ? lanes + 6 : 0))) / 2);
    const shift = dx + slack;
    const h = bottom - top + above + below + head + (back.length ? 12 : 0);
    const at = {};
    for (const kid of kids) {
      const node = g.node(String(kid));
      const { w: kw, h: kh } = this.of(kid);
      at[kid] = { x: node.x + shift - kw / 2, y: node.y + dy - kh / 2, w: kw, h: kh };
    }
    const rows = new Map(); // the band of each rank: what leaves a low box beside a tall one goes straight down first
    for (const name of all) {
      const { rank, y, height } = g.node(name);
      const band = rows.get(rank) || [Infinity, -Infinity];
      rows.set(rank, [Math.min(band[0], y - height / 2), Math.max(band[1], y + height / 2)]);
    }
    const edgeOfRow = (name, side) => rows.get(g.node(name).rank)[side] + dy;
    const straight = new Map(); // a side's only port that leads to one box stands before that box
    for (const [name, kid, port] of [["a", "to", "end"], ["b", "from", "start"]]) {
      const own = merged.filter((edge) => !/^\d/.test(edge[name]));
      if (own.length === 1 && own[0][kid] >= 0) straight.set(own[0][name], at[own[0][kid]].x + (own[0][port] ?? at[own[0][kid]].w / 2));
    }
    const portAt = (name) => straight.get(name) ?? (g.hasNode(name) ? g.node(name).x + shift : w / 2);
    const edges = merged.map((edge, index) => {
      const found = g.edge(edge.a, edge.b, String(index)).points.map(({ x, y }) => ({ x: x + shift, y: y + dy }));
      const line = found.length > 3 ? undefined : straight.get(edge.from === IN ? edge.a : edge.to === OUT ? edge.b : "");
      const points = line === undefined ? found : found.map(({ y }) => ({ x: line, y }));
      const first = edge.from === IN ? { x: portAt(edge.a), y: head } : this.#end(at[edge.from], edge.start, points[0], true);
      const last = edge.to === OUT ? { x: portAt(edge.b), y: h } : this.#end(at[edge.to], edge.end, points[points.length - 1], false);
      const inner = points.slice(1, -1);
      if (edge.from !== IN) inner.unshift({ x: first.x, y: Math.max(first.y, edgeOfRow(edge.a, 1)) });
      if (edge.to !== OUT) inner.push({ x: last.x, y: Math.min(last.y, edgeOfRow(edge.b, 0)) });
      return { points: [first, ...inner, last], edges: edge.edges, from: edge.from, to: edge.to, ends: edge.end === null && edge.to !== OUT };
    });
    back.forEach((edge, index) => {
      const source = this.#end(at[edge.from], edge.start, { x: at[edge.from].x + at[edge.from].w / 2 }, true);
      const target = this.#end(at[edge.to], edge.end, { x: at[edge.to].x + at[edge.to].w / 2 }, false);
      edges.push({ points: [source, target], lane: w - 8 - LANE * (index + 0.5), edges: edge.edges, from: edge.from, to: edge.to, back: true });
    });
    return {
      w, h, at, edges, title,
      in: (e) => portAt(`in ${ports[0](e)}`),
      out: (e) => portAt(`out ${ports[1](e)}`),
    };
  }

  #end(rect, port, point, isStart) {
    const x = port === null ? Math.min(Math.max(point.x, rect.x + 12), rect.x + rect.w - 12) : rect.x + port;
    return { x, y: isStart ? rect.y + rect.h : rect.y };
  }

  title(box) {
    const item = this.graph.items[box];
    const label = cut(item.label, LABEL, 420);
    const note = cut(item.note || "", SMALL, 260);
    return { label, note, width: 34 + width(label, LABEL) * 1.13 + (note ? 12 + width(note, SMALL) : 0) };
  }

  visible() {
    let found = 0;
    const visit = (box) => {
      for (const kid of this.graph.shown(box, this.aside)) {
        found++;
        if (this.open.has(kid)) visit(kid);
      }
    };
    visit(0);
    return found;
  }
}
