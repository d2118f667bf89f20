// The side panel: all that is known of the selected box, or of the whole network.

import { KINDS, STATES } from "./colours.js";
import { bytes, count, dotted, dtype, escape, percent, product, seconds, shape, sizes } from "./text.js";

const row = (name, value) => (value ? `<dt>${name}</dt><dd>${value}</dd>` : "");
const section = (name, text, note = "") => (text ? `<section><h3>${name}${note ? `<small>${note}</small>` : ""}</h3>${text}</section>` : "");
export const link = (index, text) => `<button class="link" data-go="${escape(index)}">${text}</button>`;

export function tensorText(tensor) {
  const now = sizes(tensor);
  const named = shape(tensor);
  return `<span class="shape">${escape(named)}</span>${now !== named && tensor.shape.length ? `<span class="now">${escape(now)}</span>` : ""}<span class="dtype">${escape(dtype(tensor.dtype))}</span>`;
}

const MANY = 12;
function long(rows, name) {
  if (rows.length <= MANY) return rows.join("");
  return `${rows.slice(0, MANY).join("")}<details class="more"><summary>${rows.length - MANY} more ${name}</summary>${rows.slice(MANY).join("")}</details>`;
}

export function code(line, name) {
  if (!line || !line.code.length) return "";
  const text = line.code
    .map((each, place) => {
      const number = line.first + place;
      return `<div class="${number === line.line ? "here" : ""}"><i>${escape(number)}</i>${escape(each) || " "}</div>`;
    })
    .join("");
  return `<div class="code" aria-label="${escape(name)}">${text}</div>`;
}

export class Panel {
  constructor(host, app) {
    this.host = host;
    this.app = app;
  }

  show(index) {
    this.host.innerHTML = index > 0 ? this.#box(index) : this.#whole();
    this.host.scrollTop = 0;
  }

  #facts(item, index) {
    const { graph } = this.app;
    const whole = graph.items[0];
    const share = (name) => (index && item[name] && whole[name] ? `<small>${percent(item[name] / whole[name])}</small>` : "");
    const intensity = item.flops && item.bytes ? `${(item.flops / item.bytes).toFixed(1)} FLOPs per byte` : "";
    return `<dl>${row("parameters", item.parameters ? count(item.parameters) + share("parameters") : "")}${row("FLOPs", item.flops ? count(item.flops) + share("flops") : item.flops === null ? "not known" : "")}${row("bytes, each<br>layer alone", item.bytes ? bytes(item.bytes) + share("bytes") : "")}${row("intensity", intensity)}</dl>`;
  }

  #whole() {
    const { model, graph, program, check } = this.app;
    if (!graph) return this.#engineOnly();
    const item = graph.items[0];
    const { network } = model;
    const dims = network.dims
      .map(({ name, range, size }) => `<tr><td><b>${escape(name)}</b></td><td>${range ? `${escape(range[0])} … ${escape(range[2])}` : "no range"}</td><td>${size == null ? "" : `shown at ${escape(size)}`}</td></tr>`)
      .join("");
    const by = {};
    graph.items.forEach((each, index) => {
      if (!graph.hasInside(index) && each.category) by[each.category] = (by[each.category] || 0) + (each.flops || 0);
    });
    const bars = KINDS.filter((kind) => by[kind] > 0.0005 * (item.flops || 0)) // what rounds to 0.0 % is left out
      .sort((a, b) => by[b] - by[a])
      .map((kind) => `<div class="bar ${kind}"><span>${kind}</span><i><b style="width:${((100 * by[kind]) / item.flops).toFixed(2)}%"></b></i><em>${percent(by[kind] / item.flops)}</em></div>`)
      .join("");
    const ends = (kind) =>
      graph.items.map((each, index) => (each.kind === kind ? `<div class="tensor">${link(index, escape(each.label))}${tensorText(network.tensors[each.tensor])}</div>` : "")).filter(Boolean);
    return (
      `<header><div class="sort">network</div><h2>${escape(network.name)}</h2><p class="sub">${escape(network.backend)}${network.precision ? ` · ${escape(network.precision)}` : ""} · ${escape(item.count)} layers</p></header>` +
      this.#facts(item, 0) +
      (check ? section("Check", this.#verdict()) : "") +
      (program ? section("Program", `<p>${escape(program.totals.launches)} launches, ${bytes(program.totals.bytes)} moved by the fused launches, at least ${seconds(program.floor.seconds)} on ${escape(program.floor.device)} <small>(estimate)</small></p><button class="action" data-tab="program">Show the program</button>`) : "") +
      section("Inputs", long(ends("input"), "inputs")) +
      section("Outputs", long(ends("output"), "outputs")) +
      section("Dimensions", dims && `<table>${dims}</table>`) +
      section("FLOPs by operation", bars) +
      section("Boxes and lines", `<p class="boxes">${[["module", "module"], ["call", "your call"], ["loop", "loop or branch"], ["end", "input, output"], ["value", "tensor"], ["back", "to the next turn"]].map(([kind, text]) => `<span><i class="${kind}"></i>${text}</span>`).join("")}</p>`) +
      section("Keys", `<p class="keys"><kbd>/</kbd> search <kbd>↵</kbd> open or close <kbd>↑↓←→</kbd> walk <kbd>+</kbd><kbd>−</kbd><kbd>0</kbd> zoom <kbd>f</kbd> fill the view <kbd>e</kbd><kbd>a</kbd><kbd>c</kbd> expand, all, collapse <kbd>1</kbd><kbd>2</kbd> tabs <kbd>Esc</kbd> let go</p>`)
    );
  }

  #engineOnly() {
    const { model, program } = this.app;
    const facts = model.engine || {};
    const ends = (tensors) =>
      Object.entries(tensors || {})
        .map(([name, { dtype: type, shape: dims }]) => `<div class="tensor"><b>${escape(name)}</b><span class="shape">${escape(product(dims))}</span><span class="dtype">${escape(dtype(type))}</span></div>`)
        .join("");
    return (
      `<header><div class="sort">engine</div><h2>${escape(model.name)}</h2><p class="sub">${escape(program.backend)}</p></header>` +
      `<dl>${row("file", escape(facts.file || ""))}${row("size", facts.bytes ? bytes(facts.bytes) : "")}${row("built", escape(facts.built || ""))}${row("precision", escape(facts.precision || ""))}${row("GPUs", escape((facts.capabilities || []).join(", ")))}</dl>` +
      section("Inputs", ends(facts.inputs)) + section("Outputs", ends(facts.outputs)) +
      (facts.manifest === false ? section("Manifest", "<p>There is none beside the engine: names of dimensions are not known.</p>") : "")
    );
  }

  #verdict() {
    const { check } = this.app.model;
    const outputs = check.outputs
      .map(({ name, passed, error, limit, at }) => `<div class="tensor ${passed ? "agrees" : "differs"}"><b>${escape(name)}</b><span>${passed ? "equal" : "differs"}</span><span>off by at most ${escape(error)}, ${escape(limit)}</span><span class="now">${escape(at)}</span></div>`)
      .join("");
    const first = check.first == null ? "" : `<p>First call that differs: ${link(check.first, escape(this.app.graph.items[check.first].label))}</p>`;
    const problems = check.problems.map((text) => `<li>${escape(text)}</li>`).join("");
    return `<p class="${check.passed ? "good" : "bad"}">${escape(check.verdict)}</p>${outputs}${problems && `<ul>${problems}</ul>`}${first}<p><small>${escape(check.statement)}</small></p>`;
  }

  #box(index) {
    const { graph, model, program, check } = this.app;
    const { network } = model;
    const item = graph.items[index];
    const near = graph.crossing(index);
    const sort = { call: item.category || "call", layer: item.category || "layer", part: "part of a long list", branch: "branch" }[item.kind] || item.kind;
    const times = item.times === undefined ? "" : item.times == null ? "as often as the loop turns" : item.times;
    const weights = (item.weights || []).map((name) => `<div class="weight">${dotted(name)}</div>`);
    const line = item.line && network.lines[item.line];
    const launches = program ? program.launchesOf(index) : [];
    return (
      `<header><div class="sort ${escape(item.category || "")}"><i></i>${escape(sort)}</div><h2>${dotted(item.label)}</h2>` +
      (item.scope ? `<p class="sub mono">${dotted(item.scope)}</p>` : "") + (item.note ? `<p class="sub">${escape(item.note)}</p>` : "") + `</header>` +
      this.#facts(item, index) +
      `<dl>${row("layers", graph.hasInside(index) ? escape(item.count) : "")}${row("runs", escape(times))}</dl>` +
      (check ? section("Against torch", this.#error(index)) : "") +
      section("Code", line ? code(line, item.line) : "", line ? `<span class="mono">${escape(item.line)}</span>` : "") +
      section("Reads", this.#ends(near.in, "in")) +
      section("Gives", this.#ends(near.out, "out") || (item.tensor !== undefined ? `<div class="tensor">${tensorText(network.tensors[item.tensor])}</div>` : "")) +
      section("Weights", long(weights, "weights")) +
      section("Launches", launches.length ? program.list(launches) : "", launches.length ? `${launches.length} of this line` : "") +
      section(item.layers && item.layers.length > 1 ? "Layers" : "Layer", long(this.#layers(index), "layers"))
    );
  }

  // Each tensor once for each call at its other end; values first, and what only carries sizes folded away.
  #ends(edges, side) {
    const { graph, model } = this.app;
    const { network } = model;
    const once = new Map();
    for (const e of edges) {
      const [source, target, tensor, kind] = network.edges[e];
      const end = side === "in" ? source : target;
      const other = graph.callOf(end);
      const key = `${other} ${tensor}`;
      const folded = kind === "size" || graph.items[other].aside;
      if (once.has(key) && (folded || !once.get(key).folded)) continue;
      const text = `<div class="tensor ${escape(kind)}">${link(other, dotted(graph.items[other].label))}${tensorText(network.tensors[tensor])}${kind === "back" ? "<em>next turn</em>" : ""}</div>`;
      once.set(key, { folded, text });
    }
    const all = [...once.values()];
    const sizes = all.filter(({ folded }) => folded).map(({ text }) => text);
    const more = sizes.length ? `<details class="more"><summary>${sizes.length} of sizes and constants</summary>${sizes.join("")}</details>` : "";
    return long(all.filter(({ folded }) => !folded).map(({ text }) => text), "tensors") + more;
  }

  #error(index) {
    const { check, model, graph } = this.app;
    const state = check.state(index);
    const { colour, text } = STATES[state];
    const rows = check.found(index).slice(0, 8).map(({ tensor, error, torch, state: own }) =>
      `<tr class="${escape(own)}"><td class="mono">${escape(model.network.tensors[tensor].name)}</td><td>${error == null ? "" : escape(Number(error).toExponential(1))}</td><td>${escape(torch || "")}</td></tr>`);
    return `<p class="state"><i style="background:${colour}"></i>${text}</p>` + (rows.length ? `<table>${rows.join("")}</table><p><small>greatest difference, as a part of the greatest element</small></p>` : "");
  }

  #layers(index) {
    const { graph, model } = this.app;
    const own = ["call", "layer"].includes(graph.items[index].kind) ? graph.layersOf(index) : [];
    return own.map((place) => {
      const layer = model.network.layers[place];
      const facts = Object.entries(layer.attributes || {}).map(([name, value]) => `<span>${escape(name.replace(/_/g, " "))} <b>${escape(value)}</b></span>`).join("");
      return `<div class="layer"><b>${escape(layer.type)}</b><div class="mono">${dotted(layer.name)}</div>${facts && `<div class="facts">${facts}</div>`}</div>`;
    });
  }
}
