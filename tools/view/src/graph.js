// The model's boxes and the edges between them, as each open box sees them.

export const IN = -2;
export const OUT = -3;

export class Graph {
  constructor(model) {
    this.model = model;
    this.items = model.items;
    this.children = model.items.map(() => []);
    this.depth = new Array(model.items.length).fill(0);
    model.items.forEach((item, index) => {
      if (item.parent < 0) return;
      this.children[item.parent].push(index);
      this.depth[index] = this.depth[item.parent] + 1;
    });
    this.end = new Array(model.items.length); // boxes are numbered so that those inside one follow it
    for (let i = model.items.length - 1; i >= 0; i--) {
      const kids = this.children[i];
      this.end[i] = kids.length ? this.end[kids[kids.length - 1]] : i + 1;
    }
    this.local = new Map(); // box -> edges inside it: [from, to, edge]
    model.edges.forEach(([source, target], index) => this.#place(source, target, index));
    this.touching = model.items.map(() => []);
    model.edges.forEach(([source, target], index) => {
      this.touching[source].push(index);
      this.touching[target].push(index);
    });
  }

  #place(source, target, index) {
    const put = (box, from, to) => {
      if (!this.local.has(box)) this.local.set(box, []);
      this.local.get(box).push([from, to, index]);
    };
    let [a, b] = [source, target];
    while (this.items[a].parent !== this.items[b].parent) {
      if (this.depth[a] >= this.depth[b]) {
        put(this.items[a].parent, a, OUT);
        a = this.items[a].parent;
      } else {
        put(this.items[b].parent, IN, b);
        b = this.items[b].parent;
      }
    }
    if (a !== b) put(this.items[a].parent, a, b);
  }

  hasInside(index) {
    return this.children[index].length > 0;
  }

  ancestors(index) {
    const found = [];
    for (let at = this.items[index].parent; at >= 0; at = this.items[at].parent) found.push(at);
    return found.reverse();
  }

  // The call that a layer is part of; any other box itself.
  callOf(index) {
    let at = index;
    if (this.items[index].kind === "layer") while (this.items[at].kind !== "call") at = this.items[at].parent;
    return at;
  }

  // All layers in a box.
  layersOf(index) {
    return this.items.slice(index, Math.max(this.end[index], index + 1)).flatMap(({ layers }) => layers || []);
  }

  // Whether a box holds what a reader wants to see beside others: of calls, those with loops or branches of their own.
  unfolds(index) {
    const { kind } = this.items[index];
    return this.hasInside(index) && (kind !== "call" || this.children[index].some((child) => this.hasInside(child)));
  }

  contains(outer, inner) {
    return outer <= inner && inner < this.end[outer];
  }

  // Edges with one end in a box and the other outside.
  crossing(index) {
    const found = { in: [], out: [] };
    for (let i = index; i < this.end[index]; i++)
      for (const e of this.touching[i]) {
        const [source, target] = this.model.edges[e];
        const from = this.contains(index, source);
        if (from !== this.contains(index, target)) found[from ? "out" : "in"].push(e);
      }
    return found;
  }

  // The boxes that are open at first: level by level, as long as the picture stays easy to take in.
  opened(most = 44) {
    const open = new Set([0]);
    let visible = this.shown(0).length;
    let level = [0];
    while (level.length) {
      const inside = (box) => this.shown(box).length;
      const next = level.flatMap((box) => this.shown(box)).filter((child) => inside(child) && this.items[child].kind !== "call");
      const small = next.sort((a, b) => inside(a) - inside(b));
      const all = small.reduce((sum, child) => sum + inside(child), 0);
      level = [];
      if (visible + all > most && small.length > 3) break;
      for (const child of small) {
        if (visible + inside(child) > most) break;
        open.add(child);
        visible += inside(child);
        level.push(child);
      }
    }
    return open;
  }

  shown(box, aside = false) {
    return this.children[box].filter((child) => aside || !this.items[child].aside);
  }
}
