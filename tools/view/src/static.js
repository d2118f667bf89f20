// The picture of the folded network as one SVG file, made without a browser.

import { draw, MARKERS } from "./draw.js";
import { Graph } from "./graph.js";
import { Layout } from "./layout.js";
import { escape } from "./text.js";

export function svg(text, style, most) {
  const graph = new Graph(JSON.parse(text));
  const layout = new Layout(graph);
  if (most) layout.open = graph.opened(most);
  const { width, height, text: picture } = draw(layout, null);
  const [w, h] = [Math.ceil(width), Math.ceil(height)];
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" class="canvas" width="${w}" height="${h}" viewBox="0 0 ${w} ${h}">` +
    `<title>${escape(graph.items[0].label)}</title><style>${escape(style)}</style><defs>${MARKERS}</defs>` +
    `<rect width="100%" height="100%" style="fill:var(--page)"/>${picture}</svg>\n`
  );
}
