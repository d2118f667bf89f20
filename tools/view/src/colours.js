// What the colours of the boxes mean: the kind of work, its share of a figure, or how near it is to torch.

import { bytes, count } from "./text.js";

export const KINDS = [
  "convolution", "product", "attention", "normalization", "activation", "pointwise", "reduction", "sampling",
  "rearranging", "control", "constant",
];
export const MODES = { kind: "operation", flops: "FLOPs", bytes: "bytes", parameters: "parameters", error: "error" };
const WORDS = { flops: count, bytes, parameters: count };

// Lightness and chroma by share; one hue, so that more is simply stronger.
const heat = (share) => `color-mix(in oklab, var(--heat) ${Math.round(8 + 92 * share)}%, var(--card))`;

export function colouring(mode, graph, check) {
  if (mode === "kind") return null;
  if (mode === "error") return (index) => STATES[check.state(index)].colour;
  let most = 1;
  graph.items.forEach((item, index) => { if (!graph.hasInside(index)) most = Math.max(most, item[mode] || 0); });
  // By the root, since a few calls do most of the work.
  return (index) => heat(Math.min(1, Math.sqrt((graph.items[index][mode] || 0) / most)));
}

export const STATES = {
  differs: { colour: "var(--bad)", text: "differs from torch" },
  behind: { colour: "var(--warn)", text: "computed from what differs" },
  agrees: { colour: "var(--good)", text: "equals a call of torch" },
  within: { colour: "var(--good-soft)", text: "between calls that agree" },
  unseen: { colour: "var(--none)", text: "not compared" },
};

export function legend(mode, graph, present) {
  if (mode === "kind")
    return KINDS.filter((kind) => present.has(kind)).map((kind) => `<span class="key ${kind}"><i></i>${kind}</span>`).join("");
  if (mode === "error")
    return Object.values(STATES).map(({ colour, text }) => `<span class="key"><i style="background:${colour}"></i>${text}</span>`).join("");
  let most = 0;
  graph.items.forEach((item, index) => { if (!graph.hasInside(index)) most = Math.max(most, item[mode] || 0); });
  return `<span class="key">0</span><span class="ramp"></span><span class="key">${WORDS[mode](most)}</span>`;
}

// How near each box is to torch: the worst of the tensors that it makes.
const ORDER = ["differs", "behind", "agrees", "within", "unseen"];
export class Check {
  constructor(graph, check) {
    this.graph = graph;
    this.check = check;
    this.states = graph.items.map(() => "unseen");
    const worst = (a, b) => (ORDER.indexOf(a) <= ORDER.indexOf(b) ? a : b);
    graph.items.forEach((item, index) => {
      let state = "unseen";
      for (const tensor of this.tensors(index)) state = worst(state, check.tensors[tensor]?.state || "unseen");
      this.states[index] = state;
    });
    for (let i = graph.items.length - 1; i > 0; i--) {
      const { parent } = graph.items[i];
      if (parent >= 0) this.states[parent] = worst(this.states[parent], this.states[i]);
    }
  }

  tensors(index) {
    const item = this.graph.items[index];
    if (item.tensor !== undefined) return [item.tensor];
    return (item.layers || []).flatMap((layer) => this.graph.model.layers[layer].outputs);
  }

  state(index) {
    return this.states[index];
  }

  // The greatest error in a box, as its second line has it.
  note(index) {
    const errors = this.found(index).map(({ error }) => error).filter((error) => error != null);
    return errors.length ? `off by ${Math.max(...errors).toExponential(1)}` : "";
  }

  // The comparisons of a box's tensors, the worst first.
  found(index) {
    const inside = [];
    for (let i = index; i < this.graph.end[index]; i++) inside.push(...this.tensors(i));
    return [...new Set(inside)]
      .filter((tensor) => this.check.tensors[tensor]?.torch || this.check.tensors[tensor]?.state === "differs")
      .map((tensor) => ({ tensor, ...this.check.tensors[tensor] }))
      .sort((a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state) || (b.error || 0) - (a.error || 0));
  }
}
