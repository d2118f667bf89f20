// The picture as SVG text: boxes, and curves between them. Works without a browser.

import { HEADER } from "./layout.js";
import { bytes, count, dtype, escape, shape } from "./text.js";

const r = (value) => Math.round(value * 10) / 10;

export function draw(layout, colour) {
  const boxes = [];
  const curves = [];
  const frames = [];
  const areas = []; // what the map shows: a rectangle for each box
  const visit = (box, x, y) => {
    const inside = layout.of(box);
    for (const edge of inside.edges) curves.push(curve(layout.graph, edge, x, y));
    for (const [key, rect] of Object.entries(inside.at)) {
      const kid = Number(key);
      areas.push({ x: x + rect.x, y: y + rect.y, w: rect.w, h: rect.h, open: layout.open.has(kid) });
      if (layout.open.has(kid)) {
        frames.push(frame(layout, kid, x + rect.x, y + rect.y, rect));
        visit(kid, x + rect.x, y + rect.y);
      } else boxes.push(card(layout, kid, x + rect.x, y + rect.y, colour));
    }
  };
  visit(0, 0, 0);
  const { w, h } = layout.of(0);
  return { width: w, height: h, areas, text: `<g class="frames">${frames.join("")}</g><g class="edges">${curves.join("")}</g><g class="cards">${boxes.join("")}</g>` };
}

function frame(layout, index, x, y, { w, h }) {
  const item = layout.graph.items[index];
  const { label, note } = layout.of(index).title;
  const after = 26 + label.length * 0;
  return (
    `<g class="box frame ${escape(item.kind)}" data-i="${index}" transform="translate(${r(x)},${r(y)})">` +
    `<rect class="area" width="${r(w)}" height="${r(h)}" rx="10"/>` +
    `<g class="head" data-toggle="${index}"><rect class="grip" width="${r(w)}" height="${HEADER}" rx="10"/>` +
    `<path class="chevron" d="M11 13l4.5 4.5l4.5 -4.5"/>` +
    `<text x="${after}" y="20"><tspan class="label">${mark(item.kind)}${escape(label)}</tspan>` +
    (note ? `<tspan class="note" dx="9">${escape(note)}</tspan>` : "") +
    `</text></g></g>`
  );
}

const mark = (kind) => (kind === "loop" ? "↻ " : kind === "conditional" ? "◇ " : "");

function card(layout, index, x, y, colour) {
  const { graph } = layout;
  const item = graph.items[index];
  const { w, h, title, small } = layout.of(index);
  const has = graph.hasInside(index);
  const style = colour ? colour(index) : null;
  const middle = item.kind === "input" || item.kind === "output";
  const kind = [item.kind, has ? "closed" : "leaf", item.category || ""].join(" ");
  const tx = middle ? w / 2 : has ? 30 : 15;
  const anchor = middle ? ' text-anchor="middle"' : "";
  const stack = item.kind === "module" || item.kind === "loop" || item.kind === "part" || item.kind === "conditional" || item.kind === "branch";
  return (
    `<g class="box card ${escape(kind)}" data-i="${index}" transform="translate(${r(x)},${r(y)})"${style ? ` style="--own:${style}"` : ""}>` +
    (stack ? `<rect class="behind" x="3" y="3" width="${r(w)}" height="${h}" rx="7"/>` : "") +
    `<rect class="area" width="${r(w)}" height="${h}" rx="${middle ? h / 2 : 7}"/>` +
    (middle || stack ? "" : `<path class="stripe" d="M7 0H5a5 5 0 0 0 -5 5V${h - 5}a5 5 0 0 0 5 5h2z"/>`) +
    (has ? `<g data-toggle="${index}"><rect class="hit" width="28" height="${h}"/><path class="chevron" d="M14 ${h / 2 - 4.5}l4.5 4.5l-4.5 4.5"/></g>` : "") +
    `<text x="${tx}" y="${small ? 18 : 19.5}"${anchor} class="label">${mark(item.kind)}${escape(title)}</text>` +
    (small ? `<text x="${tx}" y="34"${anchor} class="${stack ? "note" : "shape"}">${escape(small)}</text>` : "") +
    `<title>${escape(hint(item))}</title></g>`
  );
}

// What the pointer is told of a box.
function hint(item) {
  const facts = [item.parameters && `${count(item.parameters)} parameters`, item.flops && `${count(item.flops)}FLOPs`, item.bytes && `${bytes(item.bytes)}`, item.line];
  return [[item.scope, item.label].filter(Boolean).join(" · "), facts.filter(Boolean).join(", ")].filter(Boolean).join("\n");
}

function curve(graph, edge, x, y) {
  const { model } = graph;
  const points = edge.points.map((point) => ({ x: point.x + x, y: point.y + y }));
  const kinds = new Set(edge.edges.map((e) => model.edges[e][3]));
  const kind = edge.back ? "back" : kinds.has("value") ? "value" : kinds.has("back") ? "back" : "size";
  const tensors = new Set(edge.edges.map((e) => model.edges[e][2]));
  let most = 0;
  for (const t of tensors) most = Math.max(most, model.tensors[t].sizes.reduce((a, b) => a * (b == null ? 1 : b), 1));
  const wide = kind === "size" ? 1 : Math.min(4, 1 + Math.max(0, Math.log10(Math.max(most, 1)) - 3) * 0.6);
  const path = edge.back ? around(points, edge.lane + x) : smooth(points, edge.ends);
  const arrow = edge.ends || edge.back ? ` marker-end="url(#arrow-${escape(kind)})"` : "";
  return (
    `<g class="edge ${escape(kind)}" data-e="${escape(edge.edges.join(" "))}"><title>${escape(tensorHint(model, tensors))}</title><path class="wide" d="${path}"/>` +
    `<path class="line" d="${path}" stroke-width="${r(wide)}"${arrow}/></g>`
  );
}

function tensorHint(model, tensors) {
  const lines = [...tensors].slice(0, 4).map((t) => `${model.tensors[t].name}: ${shape(model.tensors[t])} ${dtype(model.tensors[t].dtype)}`);
  return lines.join("\n") + (tensors.size > 4 ? `\nand ${tensors.size - 4} more` : "");
}

function smooth(points, arrow) {
  let text = `M${r(points[0].x)} ${r(points[0].y)}`;
  for (let i = 1; i < points.length; i++) {
    const [a, b] = [points[i - 1], points[i]];
    const end = i === points.length - 1 && arrow ? b.y - 3 : b.y;
    const middle = (a.y + end) / 2;
    text += `C${r(a.x)} ${r(middle)} ${r(b.x)} ${r(middle)} ${r(b.x)} ${r(end)}`;
  }
  return text;
}

// From below the last call of a loop's turn up to what the next turn begins with.
function around([a, b], lane) {
  const [low, high, q] = [a.y + 12, b.y - 14, 8];
  return (
    `M${r(a.x)} ${r(a.y)}V${r(low - q)}q0 ${q} ${q} ${q}H${r(lane - q)}q${q} 0 ${q} ${-q}V${r(high + q)}q0 ${-q} ${-q} ${-q}` +
    `H${r(b.x + q)}q${-q} 0 ${-q} ${q}V${r(b.y - 3)}`
  );
}

export const MARKERS = ["value", "size", "back"]
  .map((kind) => `<marker id="arrow-${kind}" class="${kind}" viewBox="0 0 8 8" refX="4.6" refY="4" markerUnits="userSpaceOnUse" markerWidth="9" markerHeight="9" orient="auto"><path d="M0 .6L7 4L0 7.4z"/></marker>`)
  .join("");
