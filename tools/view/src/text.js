// Numbers, units and widths of text, without a browser.

export const escape = (text) =>
  String(text).replace(/[&<>"']/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" })[c])
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, "\ufffd");

// A dotted name as HTML, which is broken behind its dots rather than within a word.
export const dotted = (text) => escape(text).replace(/\./g, ".<wbr>");

const scaled = (value, units, base = 1000) => {
  let at = 0;
  while (value >= base && at < units.length - 1) [value, at] = [value / base, at + 1];
  return `${value < 10 && at ? value.toFixed(2) : value < 100 && at ? value.toFixed(1) : Math.round(value)}\u202f${units[at]}`;
};
export const count = (value) => (value == null ? "?" : value < 1000 ? String(Number(value)) : scaled(value, ["", "k", "M", "G", "T", "P", "E"]));
export const bytes = (value) => (value == null ? "?" : scaled(value, ["B", "kB", "MB", "GB", "TB", "PB"]));
export const seconds = (value, greatest = value) =>
  greatest >= 1 ? `${value.toFixed(2)}\u202fs` : greatest >= 1e-3 ? `${(value * 1e3).toFixed(2)}\u202fms` : `${(value * 1e6).toFixed(1)}\u202fµs`;
export const percent = (part) => `${(part * 100).toFixed(part < 0.0995 ? 1 : 0)}\u202f%`;

const wide = (c) => c > 0x2e7f;
const NARROW = new Set("iljtfrI.,:;'|!()[] /");
const BROAD = new Set("mwMW@%");
export function width(text, size, mono) {
  let em = 0;
  for (const char of text) {
    const code = char.codePointAt(0);
    if (wide(code)) em += 1.04;
    else if (mono) em += 0.605;
    else if (NARROW.has(char)) em += 0.36;
    else if (BROAD.has(char)) em += 0.9;
    else em += code < 97 && code > 64 ? 0.69 : 0.57;
  }
  return em * size;
}
export function cut(text, size, most, mono) {
  if (width(text, size, mono) <= most) return text;
  const chars = [...text];
  while (chars.length && width(chars.join("") + "…", size, mono) > most) chars.pop();
  return chars.join("") + "…";
}
/** A shape in the author's dimensions; a sum in it stands in parentheses, as (W//4 + 1) × N. */
export const product = (dims) =>
  dims.map((size) => (/ [+-] /.test(String(size).replace(/\(.*\)/, "")) ? `(${size})` : size)).join(" × ") || "scalar";
export const shape = (tensor) => product(tensor.shape);
export const sizes = (tensor) => tensor.sizes.map((size) => (size == null ? "?" : size)).join(" × ");
const SHORT = { float32: "f32", float16: "f16", bfloat16: "bf16", int64: "i64", int32: "i32", int8: "i8", uint8: "u8", bool: "bool" };
export const dtype = (name) => SHORT[name] || name;
