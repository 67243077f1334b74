/* SPDX-License-Identifier: MIT */
// The time line: a lane for each thread, a row in it for each depth, all on one scale. A click on a bar or a drag
// zooms; what is pointed at is told; what was clicked is told below, with what its time is made of.
'use strict';
(function () {
const section = document.getElementById('time-line');
if (!section) return;
const report = JSON.parse(document.getElementById('data').textContent), line = report.timeline;
const LENGTH = line.to_ns - line.from_ns, ROW = 17, AXIS = 22, LETTER = 6.05, ROWS_MAX = 12;
const HUES = {unit: [215, 70], phase: [165, 42], pass: [32, 85]};
let from = 0, to = LENGTH; // what is shown; ns
let chosen = null;

// --- the data ---

function hash(text) {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  return h >>> 16;
}
for (const name of line.names) {
  const [hue, saturation] = HUES[name.what];
  name.label = name.what === 'unit' ? name.name + '(' + name.signature + ')' : name.name;
  name.colour = 'hsl(' + hue + ',' + saturation + '%,' + (66 + hash(name.label) % 16) + '%)';
}
// Spans of a thread, in the order of time, callers before what they called.
function spans_of(thread) {
  const spans = [];
  for (let i = 0; i < thread.spans.length; i += 4) {
    const [name, parent, begin, length] = thread.spans.slice(i, i + 4), around = parent < 0 ? null : spans[parent];
    spans.push({name: line.names[name], around, begin, end: begin + length, self: length, depth: around ? around.depth + 1 : 0});
    if (around) around.self -= length;
  }
  return spans;
}

// --- words ---

function duration(ns) {
  for (const [size, unit] of [[1e9, 's'], [1e6, 'ms'], [1e3, '\u00b5s']])
    if (ns >= size * 0.9995) return (ns / size).toFixed(ns / size < 9.995 ? 2 : ns / size < 99.95 ? 1 : 0) + '\u00a0' + unit;
  return Math.round(ns) + '\u00a0ns';
}
function element(tag, words, style) {
  const e = document.createElement(tag);
  if (words !== undefined) e.textContent = words;
  if (style) e.className = style;
  return e;
}
function place(at) {
  return at.file ? at.file.split('/').slice(-3).join('/') + (at.line ? ':' + at.line : '') : '';
}
const WHAT = {unit: 'compile', phase: 'phase', pass: 'pass'};
function row_of(name) {
  const table = report.tables.find(t => t.by === name.what);
  return table && table.rows.find(r => r.name === name.name && r.compiler === name.compiler &&
    (name.what !== 'unit' || (r.signature === name.signature && r.file === name.file && r.line === name.line)));
}
function outermost(span) {
  while (span.around) span = span.around;
  return span;
}
// What is known of a span, as elements.
function told(span) {
  const name = span.name, row = row_of(name), weight = report.weight === 'wall' ? 'wall' : 'CPU';
  const head = element('p', undefined, 'head');
  head.append(element('span', WHAT[name.what], 'what ' + name.what), element('span', name.label, 'name'));
  const lines = [head, element('p', duration(span.end - span.begin) + ' by the clock, ' + duration(span.self) +
    ' of it in no bar below; began at ' + duration(span.begin + line.from_ns))];
  if (row)
    lines.push(element('p', 'all ' + row.calls + ' of this name: ' + duration(row.inclusive_ns) + ' ' + weight + ' inclusive, ' +
      duration(row.exclusive_ns) + ' exclusive'));
  const trigger = outermost(span).name.trigger;
  if (name.file) lines.push(element('p', 'defined at ' + place(name), 'at'));
  if (trigger) lines.push(element('p', 'caused by ' + trigger.name + '  ' + place(trigger), 'at'));
  return lines;
}

// --- drawing ---

const box = element('div', undefined, 'lanes'), tip = element('div', undefined, 'tip'), about = element('div', undefined, 'chosen');
const dark = matchMedia('(prefers-color-scheme: dark)');
function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }
function pen(canvas, height) {
  const scale = devicePixelRatio || 1, width = canvas.clientWidth;
  canvas.style.height = height + 'px';
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const context = canvas.getContext('2d');
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = '11px ui-monospace, Menlo, Consolas, monospace';
  context.textBaseline = 'middle';
  return context;
}
function step(width) {
  const least = (to - from) / Math.max(1, width / 110);
  for (let size = 1; ; size *= 10) for (const n of [1, 2, 5]) if (n * size >= least) return n * size;
}
function tick_words(ns, size) {
  const [unit, words] = size >= 1e9 ? [1e9, ' s'] : size >= 1e6 ? (to >= 1e9 ? [1e9, ' s'] : [1e6, ' ms']) : [1e6, ' ms'];
  return (ns / unit).toFixed(Math.max(0, Math.ceil(Math.log10(unit / size)))) + words;
}
function draw_axis() {
  const width = axis.clientWidth, context = pen(axis, AXIS), size = step(width), start = line.from_ns;
  context.fillStyle = colour('--dim');
  context.strokeStyle = colour('--edge');
  for (let at = Math.ceil((from + start) / size) * size; at <= to + start; at += size) {
    const x = (at - start - from) / (to - from) * width;
    context.beginPath();
    context.moveTo(x + .5, AXIS - 6);
    context.lineTo(x + .5, AXIS);
    context.stroke();
    const words = tick_words(at, size), room = context.measureText(words).width;
    context.fillText(words, Math.min(Math.max(0, x - room / 2), width - room), 8);
  }
}
function first_after(spans, time) { // of one depth: the first that ends after it
  let low = 0, high = spans.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (spans[middle].end <= time) low = middle + 1; else high = middle;
  }
  return low;
}
function draw_bar(context, span, x, y, w) {
  context.fillStyle = span.name.colour;
  context.fillRect(x, y, Math.max(w - .5, .7), ROW - 1);
  if (span === chosen) {
    context.strokeStyle = colour('--text');
    context.lineWidth = 2;
    context.strokeRect(x + 1, y + 1, Math.max(w - 2.5, 1), ROW - 3);
  }
  const letters = Math.floor((w - 6) / LETTER * .92), name = span.name.label;
  if (letters < 3) return;
  context.fillStyle = '#111';
  context.fillText(name.length <= letters ? name : name.slice(0, letters - 1) + '\u2026', x + 3, y + ROW / 2);
}
function draw_lane(lane) {
  const width = lane.canvas.clientWidth, context = pen(lane.canvas, lane.depths.length * ROW), scale = width / (to - from);
  let drawn = 0;
  lane.depths.forEach((spans, depth) => {
    let last = -1; // px: bars too narrow to see are one
    for (let i = first_after(spans, from); i < spans.length && spans[i].begin < to; i++) {
      const x = Math.max(0, (spans[i].begin - from) * scale), end = Math.min(width, (spans[i].end - from) * scale);
      drawn++;
      if (end <= last) continue;
      draw_bar(context, spans[i], x, depth * ROW, end - x);
      last = Math.max(end, x + .7);
    }
  });
  if (lane.drag) {
    context.fillStyle = colour('--select');
    context.fillRect(Math.min(...lane.drag), 0, Math.abs(lane.drag[1] - lane.drag[0]), lane.depths.length * ROW);
  }
  lane.canvas.dataset.shown = drawn;
}
let waiting = false;
function draw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    draw_axis();
    lanes.forEach(draw_lane);
    section.dataset.from = Math.round(from);
    section.dataset.to = Math.round(to);
    reset.hidden = from <= 0 && to >= LENGTH;
  });
}

// --- what the reader does ---

function show(begin, end) {
  const least = 1000, length = Math.min(LENGTH, Math.max(least, end - begin));
  from = Math.min(Math.max(0, begin), LENGTH - length);
  to = from + length;
  draw();
}
function zoom(factor, at) { show(at - (at - from) * factor, at + (to - at) * factor); }
function time_at(canvas, x) { return from + (to - from) * x / canvas.clientWidth; }
function span_at(lane, x, y) {
  const spans = lane.depths[Math.floor(y / ROW)], grain = (to - from) / lane.canvas.clientWidth;
  if (!spans) return null;
  const time = time_at(lane.canvas, x), i = first_after(spans, time - grain / 2);
  return i < spans.length && spans[i].begin <= time + grain / 2 ? spans[i] : null;
}
// What the time of a span is made of: of each name in it the time that is in nothing else.
function parts(spans, span) {
  const sums = new Map();
  for (let i = spans.indexOf(span); i < spans.length && spans[i].begin < span.end; i++) {
    const s = spans[i], sum = sums.get(s.name.what + s.name.label) || {name: s.name, self: 0, n: 0};
    sum.self += s.self;
    sum.n++;
    sums.set(s.name.what + s.name.label, sum);
  }
  return Array.from(sums.values()).sort((a, b) => b.self - a.self);
}
function choose(lane, span) {
  chosen = span;
  about.replaceChildren();
  if (!span) return;
  const table = element('table'), body = element('tbody'), all = parts(lane.spans, span);
  for (const part of all.slice(0, ROWS_MAX)) {
    const row = element('tr'), name = element('th');
    name.append(element('span', WHAT[part.name.what], 'what ' + part.name.what), element('span', part.name.label, 'name'));
    row.append(name, element('td', duration(part.self)), element('td', (100 * part.self / (span.end - span.begin)).toFixed(1) + '\u00a0%'),
      element('td', part.n));
    body.append(row);
  }
  const caption = element('caption', 'Its time by the clock, and what it was spent in' +
    (all.length > ROWS_MAX ? ' (the first ' + ROWS_MAX + ' of ' + all.length + ')' : ''));
  table.append(caption, body);
  about.append(...told(span), table);
}
function hide_tip() { tip.hidden = true; }
function show_tip(lane, event) {
  const span = span_at(lane, event.offsetX, event.offsetY);
  lane.canvas.style.cursor = span ? 'pointer' : 'crosshair';
  if (!span) return hide_tip();
  tip.replaceChildren(...told(span));
  tip.hidden = false;
  const edge = document.documentElement.clientWidth, x = event.clientX + 14, below = event.clientY + 18;
  tip.style.left = Math.max(4, Math.min(x, edge - tip.offsetWidth - 8)) + 'px';
  tip.style.top = (below + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 10 : below) + 'px';
}
function listen(lane) {
  const canvas = lane.canvas;
  canvas.addEventListener('pointerdown', e => {
    if (e.button) return;
    lane.drag = [e.offsetX, e.offsetX];
    canvas.setPointerCapture(e.pointerId);
  });
  canvas.addEventListener('pointermove', e => {
    if (!lane.drag) return show_tip(lane, e);
    lane.drag[1] = e.offsetX;
    hide_tip();
    draw();
  });
  canvas.addEventListener('pointerup', e => {
    if (!lane.drag) return;
    const [a, b] = lane.drag.sort((p, q) => p - q);
    lane.drag = null;
    if (b - a > 4) return show(time_at(canvas, a), time_at(canvas, b));
    const span = span_at(lane, e.offsetX, e.offsetY);
    if (!span) return;
    choose(lane, span);
    show(span.begin, span.end);
  });
  canvas.addEventListener('pointercancel', () => { lane.drag = null; draw(); });
  canvas.addEventListener('pointerleave', hide_tip);
  canvas.addEventListener('dblclick', () => show(0, LENGTH));
  canvas.addEventListener('wheel', e => {
    if (e.ctrlKey || e.metaKey) zoom(Math.exp(e.deltaY / 200), time_at(canvas, e.offsetX));
    else if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) pan((e.deltaX || e.deltaY) / canvas.clientWidth);
    else return;
    e.preventDefault();
    hide_tip();
  }, {passive: false});
  canvas.addEventListener('keydown', e => {
    const keys = {'+': () => zoom(.5, (from + to) / 2), '=': () => zoom(.5, (from + to) / 2), '-': () => zoom(2, (from + to) / 2),
      ArrowLeft: () => pan(-.1), ArrowRight: () => pan(.1), Home: () => show(0, LENGTH), '0': () => show(0, LENGTH),
      Escape: () => { choose(null, null); show(0, LENGTH); }};
    if (!keys[e.key] || e.ctrlKey || e.metaKey || e.altKey) return;
    keys[e.key]();
    e.preventDefault();
  });
}
function pan(part) { show(from + part * (to - from), to + part * (to - from)); }

// --- its place ---

const axis = element('canvas', undefined, 'axis'), lanes = [];
const reset = element('button', 'whole recording');
reset.type = 'button';
reset.addEventListener('click', () => show(0, LENGTH));
const legend = element('p', undefined, 'legend');
for (const what of Object.keys(HUES)) {
  const item = element('span');
  item.append(element('b', '', 'swatch ' + what), WHAT[what]);
  legend.append(item, ' ');
}
legend.append(element('span', 'a click or a drag zooms, Esc or a double click shows all again; with the keyboard: + - \u2190 \u2192'), ' ', reset);
box.append(axis);
for (const thread of line.threads) {
  if (!thread.spans.length) continue;
  const figure = element('figure'), canvas = element('canvas'), spans = spans_of(thread), depths = [];
  for (const span of spans) (depths[span.depth] = depths[span.depth] || []).push(span);
  const sum = depths[0].reduce((all, s) => all + s.end - s.begin, 0), count = spans.filter(s => s.name.what === 'unit').length;
  const words = count + (count === 1 ? ' compile, ' : ' compiles, ') + duration(sum) + ' of ' + duration(thread.wall_ns);
  const caption = element('figcaption');
  caption.append(element('span', thread.name, 'name'), ' (' + thread.tid + '): ' + words);
  canvas.tabIndex = 0;
  canvas.setAttribute('role', 'img');
  canvas.setAttribute('aria-label', 'time line of thread ' + thread.tid + ': ' + words + '; the same is in the tables below');
  canvas.dataset.bars = spans.length;
  figure.append(caption, canvas);
  box.append(figure);
  lanes.push({canvas, spans, depths, drag: null});
  listen(lanes[lanes.length - 1]);
}
section.append(legend, box);
if (lanes.length < line.threads.length) section.append(element('p', 'Threads not shown compiled nothing.', 'note'));
section.append(about);
tip.hidden = true;
document.body.append(tip);
new ResizeObserver(draw).observe(box);
dark.addEventListener('change', draw);
draw();
})();
