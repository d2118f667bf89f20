// The page: its head, its two tabs, and what one tells the other.

import { Canvas } from "./canvas.js";
import { Check, MODES, colouring, legend } from "./colours.js";
import { Graph } from "./graph.js";
import { Panel, link } from "./panel.js";
import { Program } from "./program.js";
import { Search } from "./search.js";
import { bytes, count, escape } from "./text.js";

export { svg } from "./static.js";

class App {
  constructor(model, host) {
    this.model = model;
    this.graph = model.network && new Graph(model.network);
    this.check = this.graph && model.check && new Check(this.graph, model.check);
    host.innerHTML = this.#frame();
    this.find = (name) => host.querySelector(name);
    this.host = host;
    this.panel = new Panel(this.find("aside"), this);
    if (model.program) this.program = new Program(this.find("#program"), this);
    if (this.graph) {
      this.canvas = new Canvas(this.find("#graph"), this.graph, (index) => this.selected(index));
      this.search = new Search(this.find("#search"), this.find("#found"), this.graph, (index) => this.go(index));
      this.mode(this.check ? "error" : "kind");
    }
    this.tab(this.graph ? "network" : "program");
    this.panel.show(0);
    this.crumbs(-1);
    host.addEventListener("click", (event) => this.#clicked(event));
    document.addEventListener("keydown", (event) => this.#key(event));
    this.find("#colour")?.addEventListener("change", (event) => this.mode(event.target.value));
    this.find("#aside")?.addEventListener("change", (event) => this.canvas.setAside(event.target.checked));
    document.documentElement.dataset.ready = "yes";
  }

  #frame() {
    const { model, graph, check } = this;
    const whole = graph ? graph.items[0] : null;
    const chips = whole ? [`${whole.count} layers`, whole.parameters && `${count(whole.parameters)} parameters`, whole.flops && `${count(whole.flops)}FLOPs`, whole.bytes && `${bytes(whole.bytes)} layer by layer`] : [];
    const verdict = model.check ? `<span class="verdict ${model.check.passed ? "good" : "bad"}">${model.check.passed ? "✓ equals torch" : "✗ differs"}</span>` : "";
    const modes = Object.entries(MODES).filter(([mode]) => mode !== "error" || check).map(([mode, name]) => `<option value="${mode}">${name}</option>`).join("");
    const tabs = [graph && ["network", "Network"], model.program && ["program", "Program"]].filter(Boolean);
    return (
      `<header class="top"><h1>${escape(model.name)}</h1><div class="chips">${chips.filter(Boolean).map((text) => `<span>${escape(text)}</span>`).join("")}${verdict}</div>` +
      `<nav role="tablist">${tabs.map(([id, name]) => `<button role="tab" data-tab="${id}">${name}</button>`).join("")}</nav>` +
      (graph ? `<div class="search"><input id="search" type="search" placeholder="Search  /" aria-label="Search calls, layers, modules, weights, lines" spellcheck="false" autocomplete="off"><div id="found" role="listbox" hidden></div></div>` : "") +
      `</header><main><section id="network" hidden>` +
      (graph
        ? `<div id="crumbs"></div><div id="graph"></div>` +
          `<div class="buttons"><button data-do="more" title="Open one level more (e)">Expand</button><button data-do="open" title="Open all levels (a)">All</button><button data-do="close" title="Collapse all (c)">Collapse</button><i></i><button data-do="in" title="Zoom in (+)">+</button><button data-do="out" title="Zoom out (−)">−</button><button data-do="fit" title="Show everything (0)">Fit</button></div>` +
          `<div class="foot"><label>Colour <select id="colour">${modes}</select></label><div id="legend"></div><label class="check"><input type="checkbox" id="aside"> sizes and counts</label><span id="note" role="status"></span></div>`
        : "") +
      `</section><section id="program" hidden></section><aside></aside></main>`
    );
  }

  // -- what happens -------------------------------------------------------------------------------------------------

  tab(name) {
    for (const id of ["network", "program"]) this.find(`#${id}`).hidden = id !== name;
    for (const button of this.host.querySelectorAll("[role=tab]")) button.setAttribute("aria-selected", button.dataset.tab === name);
    this.current = name;
    if (name === "network" && this.canvas && !this.canvas.fitted) this.canvas.fit();
  }

  mode(name) {
    this.canvas.colour = colouring(name, this.graph, this.check);
    this.canvas.svg.classList.toggle("plain", name !== "kind");
    this.canvas.layout.note = name === "error" ? (index) => this.check.note(index) : null;
    this.canvas.layout.cache.clear();
    this.canvas.render();
    this.find("#colour").value = name;
    const present = new Set(this.graph.items.map((item) => item.category));
    this.find("#legend").innerHTML = legend(name, this.graph, present);
  }

  selected(index) {
    if (index < 0) this.canvas.light([]);
    this.panel.show(index);
    this.crumbs(index);
    if (this.program) this.program.only(null);
  }

  // A launch was clicked: its calls light up in the network.
  launched(number) {
    this.panel.host.innerHTML = this.program.details(number);
    if (this.canvas) this.canvas.light(this.program.boxes[number]);
  }

  go(index) {
    this.tab("network");
    this.canvas.reveal(index);
    this.find("#aside").checked = this.canvas.layout.aside;
    this.panel.show(index);
    this.crumbs(index);
  }

  crumbs(index) {
    if (!this.graph) return;
    const { items } = this.graph;
    const chain = index > 0 ? [...this.graph.ancestors(index), index] : [0];
    const crumbs = this.find("#crumbs");
    crumbs.innerHTML = chain.map((at) => link(at, escape(items[at].label))).join("<i>›</i>");
    crumbs.scrollLeft = crumbs.scrollWidth; // of a long path, the end is seen
  }

  say(text) {
    this.find("#note").textContent = text;
  }

  #do(what) {
    const { canvas } = this;
    this.say("");
    if (what === "open") this.say(canvas.openAll() ? "" : "Very much to see: the rest stays folded");
    else if (what === "more") this.say(canvas.openLevel() ? "" : "Nothing more is folded");
    else if (what === "close") canvas.closeAll();
    else if (what === "in") canvas.zoom(1.3);
    else if (what === "out") canvas.zoom(1 / 1.3);
    else canvas.fitWhole();
  }

  #clicked(event) {
    const at = (name) => event.target.closest(`[data-${name}]`)?.dataset[name];
    if (at("tab")) this.tab(at("tab"));
    else if (at("do")) this.#do(at("do"));
    else if (at("show") !== undefined) {
      this.tab("network");
      const boxes = this.program.boxes[at("show")];
      if (boxes.length) this.canvas.reveal(boxes[0], false);
      this.canvas.light(boxes);
    } else if (at("go") !== undefined) {
      const index = Number(at("go"));
      if (index > 0) this.go(index);
      else { this.canvas.select(-1); this.canvas.fit(); }
    } else if (at("launch") !== undefined && event.target.closest("aside")) {
      this.tab("program");
      this.program.only(null);
      this.program.select(Number(at("launch")));
    }
  }

  #key(event) {
    if (event.target.matches("input[type=search], select") || event.ctrlKey || event.metaKey || event.altKey) return;
    const done = () => event.preventDefault();
    if (event.key === "/" && this.search) { this.tab("network"); this.find("#search").focus(); this.find("#search").select(); return done(); }
    if (event.key === "1" && this.graph) return this.tab("network");
    if (event.key === "2" && this.program) return this.tab("program");
    if (this.current !== "network" || event.target.matches("button, summary, aside *") && event.key === "Enter") return;
    if (event.key === "e") return this.#do("more");
    if (event.key === "a") return this.#do("open");
    if (event.key === "c") return this.#do("close");
    if (this.canvas.key(event)) done();
  }
}

// A page without a model asks for a view that was saved: its JSON, or its page.
function open(host) {
  host.innerHTML =
    `<div class="open"><h2>Open a saved view</h2><p>Choose what <code>trtdsl view NETWORK.py -o view.json</code> wrote, or the HTML page of a view, or drop it here. It stays on this machine.</p>` +
    `<p><input type="file" accept=".json,.html" aria-label="A saved view"></p><p class="bad" role="alert"></p></div>`;
  const read = async (file) => {
    if (!file) return;
    try {
      const text = await file.text();
      const json = text.trimStart().startsWith("{") ? text : new DOMParser().parseFromString(text, "text/html").getElementById("model").textContent;
      const model = JSON.parse(json);
      if (model.kind !== "view") throw new Error();
      document.title = `${model.name} · trtdsl view`;
      host.ondrop = host.ondragover = null;
      new App(model, host);
    } catch {
      host.querySelector(".bad").textContent = `${file.name} is no view of trtdsl`;
    }
  };
  host.querySelector("input").addEventListener("change", (event) => read(event.target.files[0]));
  host.ondragover = (event) => event.preventDefault();
  host.ondrop = (event) => { event.preventDefault(); read(event.dataTransfer.files[0]); };
}

if (typeof document !== "undefined") {
  const start = performance.now();
  const model = JSON.parse(document.getElementById("model").textContent);
  const host = document.getElementById("app");
  if (model.kind === "view") new App(model, host);
  else open(host);
  document.documentElement.dataset.milliseconds = Math.round(performance.now() - start);
}
