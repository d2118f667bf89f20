// Finds boxes by the name of a call, a layer, a module, a weight or a line.

import { escape } from "./text.js";

const MOST = 60;

export class Search {
  constructor(input, list, graph, choose) {
    Object.assign(this, { input, list, graph, choose, found: [], at: 0 });
    this.texts = graph.items.map((item, index) => {
      const layers = (item.layers || []).map((place) => graph.model.layers[place]);
      return [item.label, item.kind, item.scope, item.note, item.line, ...(item.weights || []), ...layers.flatMap(({ name, type }) => [name, type])]
        .filter(Boolean).join("\n").toLowerCase();
    });
    input.addEventListener("input", () => this.run());
    input.addEventListener("focus", () => this.run());
    input.addEventListener("blur", () => setTimeout(() => (list.hidden = true), 150));
    input.addEventListener("keydown", (event) => this.#key(event));
    list.addEventListener("pointerdown", (event) => {
      const row = event.target.closest("[data-found]");
      if (row) this.#take(Number(row.dataset.found));
      event.preventDefault();
    });
  }

  run() {
    const words = this.input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const { items } = this.graph;
    const rank = (index) => {
      const label = items[index].label.toLowerCase();
      const [first] = words;
      return (label === first ? 0 : label.startsWith(first) ? 1 : label.includes(first) ? 2 : 3) + (items[index].aside ? 4 : 0);
    };
    const all = words.length ? items.map((_, index) => index).filter((index) => index && words.every((word) => this.texts[index].includes(word))) : [];
    all.sort((a, b) => rank(a) - rank(b) || a - b);
    this.found = all.slice(0, MOST);
    this.at = 0;
    this.total = all.length;
    this.list.hidden = !words.length;
    this.#draw();
  }

  #draw() {
    const rows = this.found.map((index, place) => {
      const item = this.graph.items[index];
      return `<div role="option" class="${place === this.at ? "at" : ""}" aria-selected="${place === this.at}" data-found="${index}"><i class="dot ${escape(item.category || item.kind)}"></i><b>${escape(item.label)}</b><span>${escape(item.scope || item.kind)}</span><em>${escape(item.line || "")}</em></div>`;
    });
    const more = this.total > MOST ? `<p>${this.total - MOST} more</p>` : "";
    this.list.innerHTML = rows.join("") + more || `<p>Nothing has this name.</p>`;
    this.list.querySelector(".at")?.scrollIntoView({ block: "nearest" });
  }

  #key(event) {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const step = event.key === "ArrowDown" ? 1 : -1;
      this.at = Math.min(Math.max(this.at + step, 0), this.found.length - 1);
      this.#draw();
      event.preventDefault();
    } else if (event.key === "Enter" && this.found.length) this.#take(this.found[this.at]);
    else if (event.key === "Escape") this.input.blur();
    event.stopPropagation();
  }

  #take(index) {
    this.list.hidden = true;
    this.input.blur();
    this.choose(index);
  }
}
