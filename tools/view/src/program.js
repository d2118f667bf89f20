// The second tab: what the GPU runs, launch by launch, and which of the author's calls each belongs to.

import { code } from "./panel.js";
import { bytes, count, dtype, escape, percent, product, seconds } from "./text.js";

const COLUMNS = [
  ["index", "#"], ["kind", "kind"], ["name", "name"], ["stream", "stream"], ["times", "runs"], ["moved", "bytes"],
  ["flops", "FLOPs"], ["floor", "floor"], ["line", "line"],
];

export class Program {
  constructor(host, app) {
    this.host = host;
    this.app = app;
    Object.assign(this, app.model.program);
    this.sort = ["index", 1];
    this.filter = null;
    this.selected = -1;
    this.hazardsOf = this.launches.map(() => []);
    this.hazards.forEach((hazard, index) => hazard.launches.forEach((launch) => this.hazardsOf[launch].push(index)));
    const said = { stream: (launch) => launch.stream !== this.launches[0].stream, times: (launch) => launch.times !== 1, flops: (launch) => launch.flops, line: (launch) => launch.lines.length };
    this.columns = COLUMNS.filter(([key]) => !said[key] || this.launches.some(said[key])); // those that say something
    this.most = Math.max(1, ...this.launches.map((launch) => launch.moved));
    this.#link();
    this.#draw();
  }

  // Boxes and launches belong together that have an author's call in common, or at least its line.
  #link() {
    const { graph } = this.app;
    this.boxes = this.launches.map(() => []);
    this.ofBox = new Map();
    if (!graph) return;
    const byLine = new Map();
    graph.items.forEach((item, index) => {
      if (!item.line || item.kind !== "call") return;
      if (!byLine.has(item.line)) byLine.set(item.line, []);
      byLine.get(item.line).push(index);
    });
    this.launches.forEach((launch, number) => {
      const all = launch.lines.flatMap((line) => byLine.get(line) || []);
      const calls = new Set(launch.calls);
      const near = all.filter((index) => (graph.items[index].calls || []).some((call) => calls.has(call)));
      this.boxes[number] = near.length ? near : all;
      for (const index of this.boxes[number])
        for (const at of [index, ...graph.ancestors(index)]) {
          if (!this.ofBox.has(at)) this.ofBox.set(at, new Set());
          this.ofBox.get(at).add(number);
        }
    });
  }

  launchesOf(index) {
    return [...(this.ofBox.get(this.app.graph.callOf(index)) || [])].sort((a, b) => a - b);
  }

  list(numbers, most = 8) {
    const rows = numbers.map((number) => {
      const launch = this.launches[number];
      return `<div class="launchref"><button class="link" data-launch="${number}"><i class="dot p-${escape(launch.kind)}"></i>${number} ${escape(launch.name)}</button><span>${bytes(launch.moved)}</span></div>`;
    });
    if (rows.length <= most) return rows.join("");
    return `${rows.slice(0, most).join("")}<details class="more"><summary>${rows.length - most} more launches</summary>${rows.slice(most).join("")}</details>`;
  }

  #draw() {
    const { totals, floor, dims } = this;
    const [flops, whose] = this.#flops();
    const waiting = this.launches.reduce((sum, launch) => sum + (this.#isOverhead(launch) ? launch.times : 0), 0);
    const rows = totals.launches === this.launches.length ? "" : `${this.launches.length} in the table`;
    const at = Object.entries(dims).map(([name, size]) => `${escape(name)} = ${escape(size)}`).join(", ");
    const tile = (value, name, note = "") => `<div class="tile"><b>${value}</b><span>${name}</span>${note ? `<small>${note}</small>` : ""}</div>`;
    this.host.innerHTML =
      `<div class="program">${this.notes.length ? `<ul class="notes">${this.notes.map((note) => `<li>${escape(note)}</li>`).join("")}</ul>` : ""}<div class="tiles">` +
      tile(escape(totals.launches.toLocaleString("en")), totals.launches === 1 ? "launch" : "launches", [at && `at ${at}`, rows].filter(Boolean).join("; ")) +
      tile(bytes(totals.bytes), "moved", totals.bytes ? `${percent(totals.rearranged_bytes / totals.bytes)} only rearranged` : "") +
      tile(count(flops), "FLOPs", whose) +
      tile(seconds(floor.seconds), "floor", `on ${escape(floor.device)}, an estimate${waiting ? `; ${waiting} of the launches take the minimum of ${seconds(floor.overhead)}` : ""}`) +
      tile(bytes(totals.memory), "activations", `${bytes(totals.constant_bytes)} of constants`) +
      `</div>${this.#timeline()}${this.#hazardList()}<div class="tools"></div><table class="launches"><thead></thead><tbody></tbody></table>` +
      `<p class="fine">${escape(floor.note)}</p></div>`;
    this.host.addEventListener("click", (event) => this.#clicked(event));
    this.host.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && event.target.matches("tr[data-launch]")) this.select(Number(event.target.dataset.launch));
    });
    this.#table();
  }

  // Each launch as wide as its floor, in the lane of its stream, in the order in which they are put on the GPU.
  #timeline() {
    const streams = [...new Set(this.launches.map((launch) => launch.stream))].sort((a, b) => a - b);
    const total = this.floor.seconds || 1;
    const [w, lane] = [1000, 22];
    let x = 0;
    const bars = this.launches.map((launch, number) => {
      const wide = (launch.floor / total) * w;
      const y = streams.indexOf(launch.stream) * (lane + 4);
      const text = `<rect class="p-${escape(launch.kind)}" data-launch="${number}" x="${x.toFixed(2)}" y="${y}" width="${Math.max(wide - 0.15, 0.35).toFixed(2)}" height="${lane}"><title>${number} ${escape(launch.name)}: ${seconds(launch.floor)}, ${bytes(launch.moved)}</title></rect>`;
      x += wide;
      return text;
    });
    const kinds = [...new Set(this.launches.map((launch) => launch.kind))];
    const key = kinds.map((kind) => `<span class="key"><i class="p-${escape(kind)}"></i>${escape(kind)}</span>`).join("");
    const h = streams.length * (lane + 4) - 4;
    return `<figure class="timeline"><figcaption>${streams.length > 1 ? `${streams.length} streams, ` : ""}launches in order, as wide as their floor<span>${key}</span></figcaption><svg viewBox="0 0 ${w} ${Math.max(h, lane)}" preserveAspectRatio="none" style="height:${Math.max(h, lane) * 1.3}px">${bars.join("")}</svg><div class="axis">${[0, 0.25, 0.5, 0.75, 1].map((part) => `<span>${part ? seconds(total * part, total) : "0"}</span>`).join("")}</div></figure>`;
  }

  #hazardList() {
    if (!this.hazards.length) return `<p class="good clear">No hazards found.</p>`;
    const rows = this.hazards.map((hazard, index) =>
      `<button class="hazard" data-hazard="${index}"><b>${escape(hazard.name)}</b><span class="share">${percent(hazard.share)} of all bytes</span><span class="mono">${escape(hazard.place)}</span><p>${escape(hazard.text)}. ${escape(hazard.advice)}</p></button>`);
    return `<details class="hazards" ${rows.length <= 4 ? "open" : ""}><summary>${rows.length} ${rows.length === 1 ? "hazard" : "hazards"}</summary>${rows.join("")}</details>`;
  }

  #table() {
    const [column, way] = this.sort;
    const head = this.columns.map(([key, name]) => `<th class="${key}" data-sort="${key}" aria-sort="${key === column ? (way > 0 ? "ascending" : "descending") : "none"}">${name}${key === column ? (way > 0 ? " ↑" : " ↓") : ""}</th>`);
    this.host.querySelector("thead").innerHTML = `<tr>${head.join("")}</tr>`;
    const order = this.launches.map((_, number) => number).filter((number) => !this.filter || this.filter.has(number));
    const value = (number) => {
      const launch = this.launches[number];
      return column === "index" ? number : column === "line" ? launch.lines[0] || "" : launch[column] ?? -1;
    };
    order.sort((a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : a - b) * way);
    const rows = order.map((number) => {
      const launch = this.launches[number];
      const line = launch.lines[launch.lines.length - 1] || "";
      const cells = {
        index: number,
        kind: `<i class="dot p-${escape(launch.kind)}"></i><span>${escape(launch.kind)}</span>`,
        name: `${this.hazardsOf[number].length ? `<abbr title="hazard">⚠</abbr> ` : ""}${escape(launch.name)}${launch.epilogue.length ? `<small> + ${escape(launch.epilogue.join(" "))}</small>` : ""}`,
        stream: escape(launch.stream),
        times: launch.times === 1 ? "" : `×${escape(launch.times)}`,
        moved: `<i class="p-${escape(launch.kind)}" style="width:${((launch.moved / this.most) * 100).toFixed(1)}%"></i><span>${bytes(launch.moved)}</span>`,
        flops: launch.flops ? count(launch.flops) : "",
        floor: this.#isOverhead(launch) ? `<small>${seconds(launch.floor)}</small>` : seconds(launch.floor),
        line: `<i>${escape(line.slice(0, line.lastIndexOf(":")))}</i>${escape(line.slice(line.lastIndexOf(":")))}${launch.lines.length > 1 ? ` <small>+${launch.lines.length - 1}</small>` : ""}`,
      };
      const titles = { kind: launch.kind, name: launch.name, line: launch.lines.join(", "), floor: this.#isOverhead(launch) ? "a launch's overhead, which is more than its bytes and operations take" : "" };
      const row = this.columns.map(([key]) => `<td class="${key}${key === "line" ? " mono" : ""}"${titles[key] ? ` title="${escape(titles[key])}"` : ""}>${cells[key]}</td>`);
      return `<tr data-launch="${number}" tabindex="0" class="${number === this.selected ? "selected" : ""}">${row.join("")}</tr>`;
    });
    this.host.querySelector("tbody").innerHTML = rows.join("");
    this.host.querySelector(".tools").innerHTML = this.filter
      ? `<span class="chip">${this.filter.size} of ${this.launches.length} launches</span><button class="action" data-all="1">Show all</button>` : "";
  }

  // Whether a launch takes what any launch takes, however little it does.
  #isOverhead(launch) {
    return launch.floor <= this.floor.overhead * launch.times * 1.0001;
  }

  // FLOPs of the network's layers, as the first tab counts them, where that is at the same sizes; else of the launches.
  #flops() {
    const { model, graph } = this.app;
    const same = graph && model.network.dims.every(({ name, size }) => this.dims[name] === size);
    return same && graph.items[0].flops != null ? [graph.items[0].flops, "of the network's layers"] : [this.totals.flops, "of the launches"];
  }

  only(numbers) {
    this.filter = numbers && new Set(numbers);
    this.#table();
  }

  select(number, tell = true) {
    this.selected = number;
    for (const each of this.host.querySelectorAll("[data-launch].selected")) each.classList.remove("selected");
    for (const each of this.host.querySelectorAll(`[data-launch="${number}"]`)) each.classList.add("selected");
    this.host.querySelector(`tr[data-launch="${number}"]`)?.scrollIntoView({ block: "nearest" });
    if (tell) this.app.launched(number);
  }

  #clicked(event) {
    const sorted = event.target.closest("[data-sort]");
    if (sorted) {
      const key = sorted.dataset.sort;
      const falling = ["moved", "flops", "floor", "times"].includes(key) ? -1 : 1;
      this.sort = this.sort[0] === key ? [key, -this.sort[1]] : [key, falling];
      return this.#table();
    }
    const hazard = event.target.closest("[data-hazard]");
    if (hazard) return this.only(this.hazards[hazard.dataset.hazard].launches);
    if (event.target.closest("[data-all]")) return this.only(null);
    const launch = event.target.closest("[data-launch]");
    if (launch) this.select(Number(launch.dataset.launch));
  }

  // What the side panel says of a launch.
  details(number) {
    const { model, graph } = this.app;
    const launch = this.launches[number];
    const operand = ([tensor, moved]) => {
      const { name, shape, dims, dtype: type, order, constant, place } = this.tensors[tensor];
      const channels = order.join() !== [...order].sort((a, b) => a - b).join() ? ` · in memory ${escape(order.join(" "))}` : "";
      const kind = constant ? "constant" : place === "caller" ? "of the caller" : "";
      return `<div class="tensor"><span class="mono name">${escape(name)}</span><span class="shape">${escape(product(dims.length ? dims : shape))}</span><span class="dtype">${escape(dtype(type))}</span><span class="now">${bytes(moved)}${channels}${kind && ` · ${kind}`}</span></div>`;
    };
    const part = (name, rows) => (rows.length ? `<section><h3>${name}</h3>${rows.join("")}</section>` : "");
    const lines = launch.lines.map((line) => {
      const known = model.network && model.network.lines[line];
      return `<h4 class="mono">${escape(line)}</h4>${known ? code(known, line) : ""}`;
    });
    const boxes = this.boxes[number];
    const calls = boxes.slice(0, 40).map((index) => `<div class="tensor"><button class="link" data-go="${index}">${escape(graph.items[index].label)}</button><span class="shape">${escape(graph.items[index].scope || "")}</span></div>`);
    const facts = [
      ["stream", escape(launch.stream)], ["runs", escape(launch.times)], ["bytes", bytes(launch.moved)], ["FLOPs", launch.flops ? count(launch.flops) : ""],
      ["floor", `${seconds(launch.floor)} <small>${percent(launch.floor / (this.floor.seconds || 1))}${this.#isOverhead(launch) ? ", a launch's overhead" : ""}</small>`],
      ["dtype", escape(dtype(launch.dtype))], ["grid", escape(launch.grid.join(" × "))], ["block", escape(launch.block.join(" × "))],
      ["epilogue", escape(launch.epilogue.join(", "))], ["why", escape(launch.cause)],
    ];
    return (
      `<header><div class="sort p-${escape(launch.kind)}"><i></i>${escape(launch.kind)}</div><h2 class="mono">${escape(launch.name)}</h2><p class="sub">launch ${number} of 0 … ${this.launches.length - 1}</p></header>` +
      `<dl>${facts.filter(([, value]) => value !== "" && value != null).map(([name, value]) => `<dt>${name}</dt><dd>${value}</dd>`).join("")}</dl>` +
      this.hazardsOf[number].map((index) => `<section class="warning"><h3>⚠ ${escape(this.hazards[index].name)}</h3><p>${escape(this.hazards[index].text)}. ${escape(this.hazards[index].advice)}</p></section>`).join("") +
      part("Calls", calls.length && graph ? [...calls, `<button class="action" data-show="${number}">Show in the network</button>`] : []) +
      part("Code", lines) + part("Reads", launch.reads.map(operand)) + part("Writes", launch.writes.map(operand))
    );
  }
}
