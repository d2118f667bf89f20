// The first tab: the picture, moved and zoomed, opened and closed.

import { draw, MARKERS } from "./draw.js";
import { Layout } from "./layout.js";

const SOME = 2500; // boxes that are opened at once at most
const READABLE = 1; // the scale at which a shape, the smallest text, has 12 pixels
const MAP = { width: 240, height: 190 }; // pixels that the map may take where the graph has room for them

export class Canvas {
  constructor(host, graph, onSelect) {
    this.graph = graph;
    this.layout = new Layout(graph);
    this.onSelect = onSelect;
    this.selected = -1;
    this.lit = new Set();
    this.colour = null;
    this.view = { x: 0, y: 0, k: 1 };
    host.innerHTML = `<svg class="canvas" tabindex="0" role="application" aria-label="The network as a graph"><defs>${MARKERS}</defs><g class="world"></g></svg><svg class="map" aria-hidden="true"><g></g><rect class="seen"/></svg>`;
    this.host = host;
    [this.svg, this.map] = host.children;
    this.world = this.svg.querySelector(".world");
    this.#pointer();
    this.#mapPointer();
    new ResizeObserver(() => this.#resized()).observe(host);
    this.render();
  }

  // -- drawing ------------------------------------------------------------------------------------------------------

  render() {
    const { width, height, areas, text } = draw(this.layout, this.colour);
    this.size = { width, height };
    this.#drawMap(areas);
    this.world.innerHTML = text;
    this.#marks();
    this.#apply();
  }

  place(index) {
    const chain = [...this.graph.ancestors(index), index]; // of the whole network, the place is that of the picture
    let [x, y] = [0, 0];
    for (let i = 1; i < chain.length; i++) {
      if (!this.layout.open.has(chain[i - 1])) return null;
      const rect = this.layout.of(chain[i - 1]).at[chain[i]];
      if (!rect) return null;
      [x, y] = [x + rect.x, y + rect.y];
    }
    const { w, h } = this.layout.of(index);
    return { x, y, w, h };
  }

  toggle(index, isOpen = !this.layout.open.has(index)) {
    if (index === 0 || !this.graph.hasInside(index)) return;
    const before = this.place(index);
    this.layout.set(index, isOpen);
    this.#stay(index, before);
    this.render();
  }

  // Moves the picture so that a box stays where it was on the screen.
  #stay(index, before) {
    const after = this.place(index);
    if (!before || !after) return;
    const { k } = this.view;
    this.view.x += (before.x + before.w / 2 - after.x - after.w / 2) * k;
    this.view.y += (before.y - after.y) * k;
  }

  // Opens each folded box that is seen. Says whether there was one.
  openLevel() {
    const { graph, layout } = this;
    const folded = [];
    const look = (box) => {
      for (const kid of graph.shown(box, layout.aside))
        if (layout.open.has(kid)) look(kid);
        else if (graph.unfolds(kid)) folded.push(kid);
    };
    look(0);
    const near = this.#nearest(folded);
    const before = near && this.place(near);
    for (const box of folded) layout.open.add(box);
    layout.cache.clear();
    this.render();
    if (before && this.#whole() < READABLE) { // what one looked at is still seen
      this.#stay(near, before);
      this.#apply();
    } else this.fit();
    return folded.length > 0;
  }

  // Of some boxes the one that is nearest to the middle of what is seen.
  #nearest(boxes) {
    const { x, y, k } = this.view;
    const { clientWidth: w, clientHeight: h } = this.host;
    const far = (box) => {
      const at = this.place(box);
      return Math.hypot((at.x + at.w / 2) * k + x - w / 2, (at.y + at.h / 2) * k + y - h / 2);
    };
    return boxes.reduce((best, box) => (best === undefined || far(box) < far(best) ? box : best), undefined);
  }

  // Opens what is folded, level by level, until there is nothing folded or very much to see. Says whether all is open.
  openAll() {
    const { graph, layout } = this;
    let level = [0];
    let visible = 0;
    let whole = true;
    while (level.length) {
      const next = [];
      for (const box of level) {
        const kids = graph.shown(box, layout.aside);
        if (visible + kids.length > SOME) {
          whole = false;
          continue;
        }
        visible += kids.length;
        layout.open.add(box);
        next.push(...kids.filter((kid) => graph.hasInside(kid)));
      }
      level = next;
    }
    layout.cache.clear();
    this.render();
    this.fit();
    return whole;
  }

  closeAll() {
    this.layout.open = new Set([0]);
    this.layout.cache.clear();
    this.render();
    this.fit();
  }

  setAside(shown) {
    this.layout.aside = shown;
    this.layout.cache.clear();
    this.render();
  }

  // Opens all that a box stands in, and brings it to the middle.
  reveal(index, select = true) {
    if (this.graph.items[index].aside && !this.layout.aside) {
      this.layout.aside = true;
      this.layout.cache.clear();
    }
    for (const at of this.graph.ancestors(index)) this.layout.set(at, true);
    this.render();
    if (select) this.select(index, false);
    this.centre(index);
  }

  // -- marks --------------------------------------------------------------------------------------------------------

  select(index, tell = true) {
    this.selected = index;
    this.#marks();
    if (tell) this.onSelect(index);
  }

  light(indices) {
    this.lit = new Set(indices);
    this.#marks();
  }

  // The box that stands for another: itself, or the folded one that it is in.
  standing(index) {
    for (const at of [...this.graph.ancestors(index), index]) if (!this.layout.open.has(at)) return at;
    return index;
  }

  #marks() {
    for (const box of this.world.querySelectorAll(".selected, .lit")) box.classList.remove("selected", "lit");
    for (const edge of this.world.querySelectorAll(".edge.near")) edge.classList.remove("near");
    const box = (index) => this.world.querySelector(`[data-i="${index}"]`);
    for (const index of new Set([...this.lit].map((each) => this.standing(each)))) box(index)?.classList.add("lit");
    this.svg.classList.toggle("lighting", this.lit.size > 0);
    if (this.selected <= 0) return;
    box(this.standing(this.selected))?.classList.add("selected");
    const near = this.graph.crossing(this.selected);
    const edges = new Set([...near.in, ...near.out].map(String));
    for (const edge of this.world.querySelectorAll(".edge"))
      if (edge.dataset.e.split(" ").some((e) => edges.has(e))) edge.classList.add("near");
  }

  // -- moving -------------------------------------------------------------------------------------------------------

  #apply() {
    const { x, y, k } = this.view;
    this.world.setAttribute("transform", `translate(${x.toFixed(2)},${y.toFixed(2)}) scale(${k.toFixed(4)})`);
    this.svg.classList.toggle("far", k < 0.35);
    this.#seen();
  }

  // -- the map: the whole picture, small, and what of it is seen -------------------------------------------------------

  #drawMap(areas) {
    const { width, height } = this.size;
    const k = Math.min(MAP.width / width, MAP.height / height);
    this.map.setAttribute("width", Math.max(width * k, 8).toFixed(1));
    this.map.setAttribute("height", Math.max(height * k, 8).toFixed(1));
    this.map.setAttribute("viewBox", `0 0 ${width.toFixed(1)} ${height.toFixed(1)}`);
    const rect = ({ x, y, w, h, open }) => `<rect x="${x.toFixed(1)}" y="${y.toFixed(1)}" width="${w.toFixed(1)}" height="${h.toFixed(1)}"${open ? ' class="open"' : ""}/>`;
    this.map.firstElementChild.innerHTML = areas.map(rect).join("");
  }

  #seen() {
    const { clientWidth: w, clientHeight: h } = this.host;
    const { x, y, k } = this.view;
    const { width, height } = this.size;
    const whole = x >= 0 && y >= 0 && x + width * k <= w && y + height * k <= h;
    this.map.toggleAttribute("hidden", whole || !w);
    const seen = { x: -x / k, y: -y / k, width: w / k, height: h / k };
    for (const [name, value] of Object.entries(seen)) this.map.lastElementChild.setAttribute(name, value.toFixed(1));
  }

  #mapPointer() {
    const go = (event) => {
      if (!event.buttons) return;
      const box = this.map.getBoundingClientRect();
      const { k } = this.view;
      this.view.x = this.host.clientWidth / 2 - ((event.clientX - box.left) / box.width) * this.size.width * k;
      this.view.y = this.host.clientHeight / 2 - ((event.clientY - box.top) / box.height) * this.size.height * k;
      this.#apply();
    };
    this.map.addEventListener("pointerdown", (event) => { this.map.setPointerCapture(event.pointerId); go(event); });
    this.map.addEventListener("pointermove", go);
  }

  #resized() {
    if (!this.fitted && this.host.clientWidth) this.fit();
  }

  fit() {
    const { clientWidth: w, clientHeight: h } = this.host;
    if (!w || !h) return;
    this.fitted = true;
    const whole = this.#whole();
    const k = Math.max(whole, READABLE); // what is larger begins at its top, above its first box
    const wide = this.size.width * k > w - 40;
    const first = wide && this.graph.shown(0, this.layout.aside).map((box) => this.place(box)).find(Boolean);
    const middle = first ? first.x + first.w / 2 : this.size.width / 2;
    const left = w / 2 - middle * k;
    const x = wide ? Math.max(Math.min(left, 20), w - 20 - this.size.width * k) : left;
    this.view = { k, x, y: whole < k ? 44 : 44 + (h - 70 - this.size.height * k) / 2 };
    this.#apply();
  }

  // The scale at which the whole picture is seen.
  #whole() {
    return Math.min((this.host.clientWidth - 40) / this.size.width, (this.host.clientHeight - 70) / this.size.height, 1.15);
  }

  fitWhole() {
    const { clientWidth: w, clientHeight: h } = this.host;
    const k = Math.min((w - 40) / this.size.width, (h - 60) / this.size.height, 1.15);
    this.view = { k, x: (w - this.size.width * k) / 2, y: (h - this.size.height * k) / 2 };
    this.#apply();
  }

  // Fits one box into the view.
  frame(index) {
    const at = this.place(this.standing(index));
    if (!at) return;
    const { clientWidth: w, clientHeight: h } = this.host;
    const k = Math.min((w - 60) / at.w, (h - 120) / at.h, 1.4);
    this.view = { k, x: (w - at.w * k) / 2 - at.x * k, y: 54 + (h - 120 - at.h * k) / 2 - at.y * k };
    this.#apply();
  }

  zoom(factor, cx = this.host.clientWidth / 2, cy = this.host.clientHeight / 2) {
    const { x, y, k } = this.view;
    const next = Math.min(Math.max(k * factor, 0.02), 4);
    this.view = { k: next, x: cx - ((cx - x) * next) / k, y: cy - ((cy - y) * next) / k };
    this.#apply();
  }

  pan(dx, dy) {
    this.view.x += dx;
    this.view.y += dy;
    this.#apply();
  }

  centre(index) {
    const at = this.place(this.standing(index));
    if (!at) return;
    const { clientWidth: w, clientHeight: h } = this.host;
    if (this.view.k < 0.55) this.view.k = 0.9;
    const { k } = this.view;
    const tall = at.h * k > h - 120;
    this.view = { k, x: w / 2 - (at.x + at.w / 2) * k, y: tall ? 60 - at.y * k : h / 2 - (at.y + at.h / 2) * k };
    this.#apply();
  }

  #pointer() {
    const { svg } = this;
    const held = new Map();
    let moved = 0;
    let captured = false;
    svg.addEventListener("pointerdown", (event) => {
      if (event.button > 1) return;
      if (!held.size) [moved, captured] = [0, false];
      held.set(event.pointerId, [event.clientX, event.clientY]);
    });
    svg.addEventListener("pointermove", (event) => {
      const last = held.get(event.pointerId);
      if (!last) return;
      const [dx, dy] = [event.clientX - last[0], event.clientY - last[1]];
      if (held.size === 2) {
        const [other] = [...held].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
        const before = Math.hypot(last[0] - other[0], last[1] - other[1]);
        const after = Math.hypot(event.clientX - other[0], event.clientY - other[1]);
        const box = svg.getBoundingClientRect();
        if (before > 0) this.zoom(after / before, (event.clientX + other[0]) / 2 - box.left, (event.clientY + other[1]) / 2 - box.top);
      }
      moved += Math.abs(dx) + Math.abs(dy);
      if (moved > 4) {
        if (!captured) svg.setPointerCapture(event.pointerId);
        captured = true;
        this.pan(dx / held.size, dy / held.size);
      }
      held.set(event.pointerId, [event.clientX, event.clientY]);
    });
    const release = (event) => held.delete(event.pointerId);
    svg.addEventListener("pointerup", release);
    svg.addEventListener("pointercancel", release);
    svg.addEventListener("click", (event) => moved <= 4 && this.#clicked(event));
    svg.addEventListener("dblclick", (event) => {
      const box = event.target.closest("[data-i]");
      if (box && this.graph.items[box.dataset.i].kind === "call") this.toggle(Number(box.dataset.i));
    });
    svg.addEventListener("wheel", (event) => {
      event.preventDefault();
      const box = svg.getBoundingClientRect();
      const unit = event.deltaMode === 1 ? 16 : 1;
      if (event.ctrlKey || event.metaKey || (Math.abs(event.deltaY) >= 100 && !event.deltaX && !event.shiftKey))
        this.zoom(Math.exp(-event.deltaY * unit * (event.ctrlKey ? 0.01 : 0.0016)), event.clientX - box.left, event.clientY - box.top);
      else if (event.shiftKey) this.pan(-event.deltaY * unit, 0);
      else this.pan(-event.deltaX * unit, -event.deltaY * unit);
    }, { passive: false });
  }

  #clicked(event) {
    const box = event.target.closest("[data-i]");
    if (!box) return this.select(-1);
    const index = Number(box.dataset.i);
    const { kind } = this.graph.items[index];
    const handle = event.target.closest("[data-toggle]");
    const folded = !this.layout.open.has(index) && this.graph.hasInside(index) && kind !== "call";
    this.select(index);
    if (handle || folded) this.toggle(index);
  }

  // -- keyboard -----------------------------------------------------------------------------------------------------

  key(event) {
    const step = 60;
    const moves = { ArrowUp: [0, 1], ArrowDown: [0, -1], ArrowLeft: [1, 0], ArrowRight: [-1, 0] };
    const move = moves[event.key];
    if (move && (event.shiftKey || this.selected <= 0)) this.pan(move[0] * step, move[1] * step);
    else if (move) this.#walk(event.key);
    else if (event.key === "Enter" || event.key === " ") this.toggle(this.standing(this.selected));
    else if (event.key === "Escape") { this.light([]); this.select(-1); }
    else if (event.key === "+" || event.key === "=") this.zoom(1.25);
    else if (event.key === "-") this.zoom(0.8);
    else if (event.key === "0") this.fitWhole();
    else if (event.key === "f") this.frame(Math.max(this.selected, 0));
    else return false;
    return true;
  }

  // To the nearest box in a direction, so that arrows follow what one sees.
  #walk(key) {
    const from = this.place(this.standing(this.selected));
    if (!from) return;
    const centre = ({ x, y, w, h }) => [x + w / 2, y + Math.min(h, 44) / 2];
    const [fx, fy] = centre(from);
    let best = null;
    for (const box of this.world.querySelectorAll("[data-i]")) {
      const index = Number(box.dataset.i);
      if (index === this.standing(this.selected)) continue;
      const [x, y] = centre(this.place(index));
      const [dx, dy] = [x - fx, y - fy];
      const [ahead, aside] = key === "ArrowDown" ? [dy, dx] : key === "ArrowUp" ? [-dy, dx] : key === "ArrowRight" ? [dx, dy] : [-dx, dy];
      if (ahead <= 1) continue;
      const far = ahead + 2.5 * Math.abs(aside);
      if (!best || far < best.far) best = { far, index };
    }
    if (!best) return;
    this.select(best.index);
    const at = this.place(best.index);
    const { k, x, y } = this.view;
    const [sx, sy] = [at.x * k + x, at.y * k + y];
    const { clientWidth: w, clientHeight: h } = this.host;
    if (sx < 20 || sy < 50 || sx + at.w * k > w - 20 || sy + Math.min(at.h * k, 60) > h - 40) this.centre(best.index);
  }
}
