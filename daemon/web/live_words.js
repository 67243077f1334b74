/* SPDX-License-Identifier: MIT */
// Words, colours and elements that the parts of the live page share.

export function duration(ns) {
  for (const [size, unit] of [[6e10, 'min'], [1e9, 's'], [1e6, 'ms'], [1e3, '\u00b5s']])
    if (ns >= size * (unit === 'min' ? 2 : .9995)) return (ns / size).toFixed(ns / size < 9.995 ? 2 : ns / size < 99.95 ? 1 : 0) + '\u00a0' + unit;
  return Math.round(ns) + '\u00a0ns';
}
export function count(n) { return n.toLocaleString('en'); }
export function percent(part, all) { return all > 0 ? (100 * part / all).toFixed(1) + '\u00a0%' : ''; }
export function place(file, line) { return file ? file.split('/').slice(-3).join('/') + (line ? ':' + line : '') : ''; }
export function label_of(label) { return label.kind === 0 && label.signature ? label.name + '(' + label.signature + ')' : label.name; }
export const WHAT = ['compile', 'phase', 'pass'], WHAT_STYLE = ['unit', 'phase', 'pass'];

const CLASSES = {kernel: 'kernel', GC: 'gc', 'compiler native': 'compiler', 'JIT code': 'jit', 'JIT dispatch': 'dispatch', import: 'import', 'C call': 'call',
  interpreter: 'interpreter', waiting: 'waiting', ready: 'ready', 'without the GIL': 'waiting'};
export function class_style(name) { return 'c-' + (CLASSES[name] || 'other'); }
const KINDS = ['python', 'native', 'kernel', 'interpreter', 'jit', 'interpreter', 'call'];
export function kind_style(kind) { return 'f-' + (KINDS[kind] || 'native'); }

// The colour that a style has: canvases know no classes.
const colours = new Map(), probe = document.createElement('b');
export function colour(style) {
  if (!colours.has(style)) {
    if (!probe.parentNode) document.body.append(probe);
    probe.className = style;
    probe.hidden = true;
    colours.set(style, getComputedStyle(probe).backgroundColor);
  }
  return colours.get(style);
}
export function variable(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

export function element(tag, words, style) {
  const e = document.createElement(tag);
  if (words !== undefined) e.textContent = words;
  if (style) e.className = style;
  return e;
}
export function set_text(e, words) { if (e.textContent !== words) e.textContent = words; }
export function set_class(e, words) { if (e.className !== words) e.className = words; }

// A canvas of this height, as sharp as the screen; its context.
export function pen(canvas, height) {
  const scale = devicePixelRatio || 1, width = canvas.clientWidth, w = Math.round(width * scale), h = Math.round(height * scale);
  if (canvas.style.height !== height + 'px') canvas.style.height = height + 'px';
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
  }
  const context = canvas.getContext('2d');
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = '11px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace';
  context.textBaseline = 'middle';
  return context;
}
const LETTER = 6.7;
export function fit(words, width) {
  const letters = Math.floor((width - 6) / LETTER);
  return letters < 3 ? '' : words.length <= letters ? words : words.slice(0, letters - 1) + '\u2026';
}
