/* SPDX-License-Identifier: MIT */
// The time line: above, CPU time of the whole session by class; below, the compiles of each thread in the window that is
// looked at. Both choose a range by a drag.
import {class_style, colour, duration, element, fit, label_of, pen, place, variable, WHAT, WHAT_STYLE} from './live_words.js';

const ROW = 17, HEAD = 16, AXIS = 20, BINS = 200, DEPTH_MAX = 12, LANES_MAX = 24, OVERVIEW = 54;

export class TimeLine {
  constructor(view, on_range) {
    this.view = view;
    this.on_range = on_range;
    this.overview = document.getElementById('overview');
    this.canvas = document.getElementById('lanes');
    this.tip = document.getElementById('tip');
    this.bins = [];
    this.lanes = [];
    this.drag = null;
    this.listen(this.overview, x => x / this.overview.clientWidth * this.view.end());
    this.listen(this.canvas, x => this.time_at(x));
    this.canvas.addEventListener('pointermove', e => { if (!this.drag) this.show_tip(e); });
    this.canvas.addEventListener('pointerleave', () => { this.tip.hidden = true; });
  }

  time_at(x) {
    const [from, to] = this.view.window();
    return from + (to - from) * x / this.canvas.clientWidth;
  }

  listen(canvas, time) {
    canvas.addEventListener('pointerdown', e => {
      if (e.button) return;
      this.drag = {canvas, from: time(e.offsetX), to: time(e.offsetX), x: e.offsetX};
      canvas.setPointerCapture(e.pointerId);
    });
    canvas.addEventListener('pointermove', e => {
      if (!this.drag || this.drag.canvas !== canvas) return;
      this.drag.to = time(e.offsetX);
      this.view.touch();
    });
    canvas.addEventListener('pointerup', e => {
      const drag = this.drag;
      this.drag = null;
      if (!drag) return;
      if (Math.abs(e.offsetX - drag.x) > 4) this.on_range(Math.max(0, Math.min(drag.from, drag.to)), Math.max(drag.from, drag.to));
      else this.choose(canvas, e);
    });
    canvas.addEventListener('pointercancel', () => { this.drag = null; });
    canvas.addEventListener('dblclick', () => this.on_range(0, Infinity));
    canvas.addEventListener('wheel', e => {
      const zooms = e.ctrlKey || e.metaKey, moves = e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY);
      if (!zooms && !moves) return;
      if (zooms) this.view.zoom(Math.exp(e.deltaY / 200), this.time_at(e.offsetX));
      else this.view.pan((e.deltaX || e.deltaY) / canvas.clientWidth);
      e.preventDefault();
    }, {passive: false});
    canvas.addEventListener('keydown', e => {
      const keys = {'+': () => this.view.zoom(.5), '=': () => this.view.zoom(.5), '-': () => this.view.zoom(2), ArrowLeft: () => this.view.pan(-.1),
        ArrowRight: () => this.view.pan(.1), r: () => this.on_range(...this.view.window())};
      if (!keys[e.key] || e.ctrlKey || e.metaKey || e.altKey) return;
      keys[e.key]();
      e.preventDefault();
    });
  }

  choose(canvas, e) { // a click on a compile: its time
    const u = canvas === this.canvas ? this.unit_at(e.offsetX, e.offsetY) : -1, units = this.view.model.units;
    if (u >= 0) this.on_range(units.begin[u], Math.min(units.end[u], this.view.model.now));
  }

  // --- overview ---

  sum_bins() { // at the pace of tables
    const {rows, classes} = this.view.model, end = this.view.end(), filter = this.view.filter();
    this.bins = new Float64Array(BINS * 64);
    this.bins_end = end;
    for (let i = 0; i < rows.count; i++)
      if (filter.thread < 0 || rows.thread[i] === filter.thread) this.bins[Math.min(BINS - 1, Math.floor(rows.t[i] / end * BINS)) * 64 + rows.kind[i]] += rows.w[i];
    this.most = 1;
    for (let b = 0; b < BINS; b++) {
      let sum = 0;
      for (let k = 0; k < classes.values.length; k++) sum += this.bins[b * 64 + k];
      this.most = Math.max(this.most, sum);
    }
  }

  draw_overview() {
    const context = pen(this.overview, OVERVIEW), width = this.overview.clientWidth, end = this.view.end(), scale = width / end;
    const [from, to] = this.view.window(), classes = this.view.model.classes.values;
    context.fillStyle = variable('--page');
    context.fillRect(0, 0, width, OVERVIEW);
    for (let b = 0; b < BINS && this.bins.length; b++) {
      const x = b / BINS * this.bins_end * scale, w = this.bins_end / BINS * scale;
      let y = OVERVIEW;
      for (let k = 0; k < classes.length; k++) {
        const h = this.bins[b * 64 + k] / this.most * (OVERVIEW - 4);
        if (h < .2) continue;
        context.fillStyle = colour(class_style(classes[k]));
        context.fillRect(x, y - h, Math.max(w - .3, .7), h);
        y -= h;
      }
    }
    context.strokeStyle = variable('--text');
    context.lineWidth = 1.5;
    context.strokeRect(Math.max(.75, from * scale), .75, Math.max(3, Math.min(width, to * scale) - Math.max(0, from * scale) - 1.5), OVERVIEW - 1.5);
    this.draw_range(context, t => t * scale, OVERVIEW);
  }

  draw_range(context, x, height) {
    const {from, to} = this.drag ? {from: Math.min(this.drag.from, this.drag.to), to: Math.max(this.drag.from, this.drag.to)} : this.view.filter();
    if (from <= 0 && to === Infinity) return;
    context.fillStyle = variable('--select');
    context.fillRect(x(from), 0, Math.max(1, x(Math.min(to, this.view.end())) - x(from)), height);
  }

  // --- lanes ---

  // Which threads have a lane, and how deep it is.
  arrange() {
    const {units, threads} = this.view.model, depth = new Int8Array(threads.length), filter = this.view.filter();
    for (let u = 0; u < units.count; u++) depth[units.thread[u]] = Math.max(depth[units.thread[u]], Math.min(DEPTH_MAX, units.depth[u] + 1));
    this.lanes = [];
    this.lane_of = new Int32Array(threads.length).fill(-1);
    let y = AXIS;
    for (let t = 0; t < threads.length && this.lanes.length < LANES_MAX; t++) {
      if (!depth[t] || (filter.thread >= 0 && filter.thread !== t)) continue;
      this.lane_of[t] = this.lanes.length;
      this.lanes.push({thread: t, y, depth: depth[t], last: new Float64Array(DEPTH_MAX)});
      y += HEAD + depth[t] * ROW + 4;
    }
    this.height = Math.max(y, AXIS + HEAD);
  }

  draw_axis(context, from, to, width) {
    const least = (to - from) / Math.max(1, width / 110);
    let size = 1;
    for (;; size *= 10) {
      const n = [1, 2, 5].find(k => k * size >= least);
      if (n) { size *= n; break; }
    }
    context.fillStyle = variable('--dim');
    context.strokeStyle = variable('--edge');
    context.lineWidth = 1;
    for (let at = Math.max(0, Math.ceil(from / size) * size); at <= to; at += size) {
      const x = (at - from) / (to - from) * width, words = size >= 1e9 ? (at / 1e9).toFixed(0) + ' s' : (at / 1e9).toFixed(Math.max(0, Math.ceil(9 - Math.log10(size)))) + ' s';
      context.beginPath();
      context.moveTo(x + .5, AXIS - 6);
      context.lineTo(x + .5, this.height);
      context.stroke();
      context.fillText(words, Math.min(x + 3, width - words.length * 7), 7);
    }
  }

  draw() {
    const {model} = this.view, {units, threads} = model, [from, to] = this.view.window();
    if (this.arranged !== model.version) this.arrange();
    this.arranged = model.version;
    const context = pen(this.canvas, this.height), width = this.canvas.clientWidth, scale = width / (to - from), match = this.view.match_label;
    this.draw_axis(context, from, to, width);
    context.fillStyle = variable('--text');
    for (const lane of this.lanes) {
      lane.last.fill(-1);
      context.fillText(fit((threads[lane.thread].name || 'thread') + ' (' + threads[lane.thread].tid + ')', width), 3, lane.y + HEAD / 2);
    }
    const colours = WHAT_STYLE.map(style => colour('swatch ' + style)), warn = variable('--text');
    let drawn = 0;
    for (let u = 0; u < units.count; u++) {
      const end = Math.min(units.end[u], model.now);
      if (end < from || units.begin[u] > to) continue;
      const lane = this.lanes[this.lane_of[units.thread[u]]], depth = units.depth[u];
      if (!lane || depth >= DEPTH_MAX) continue;
      const x = Math.max(0, (units.begin[u] - from) * scale), x2 = Math.min(width, (end - from) * scale);
      drawn++;
      if (x2 <= lane.last[depth]) continue;
      const label = model.unit_label(u), y = lane.y + HEAD + depth * ROW, w = Math.max(x2 - x - .5, .7);
      context.fillStyle = colours[label.kind];
      context.globalAlpha = match && !match(label) ? .3 : 1;
      context.fillRect(x, y, w, ROW - 1);
      lane.last[depth] = Math.max(x2, x + .7);
      const words = fit(label_of(label), w);
      if (words) {
        context.fillStyle = '#111';
        context.fillText(words, x + 3, y + ROW / 2);
      }
      context.globalAlpha = 1;
      if (units.end[u] === Infinity && w > 2) { // goes on
        context.fillStyle = warn;
        context.fillRect(x2 - 1.5, y, 1.5, ROW - 1);
      }
    }
    this.draw_range(context, t => (t - from) * scale, this.height);
    this.canvas.dataset.shown = drawn;
    this.drawn_units = units.count;
    this.draw_overview();
  }

  unit_at(x, y) {
    const {units, now} = this.view.model, [from, to] = this.view.window(), time = this.time_at(x), grain = (to - from) / this.canvas.clientWidth;
    const lane = this.lanes.find(l => y >= l.y + HEAD && y < l.y + HEAD + l.depth * ROW), depth = lane && Math.floor((y - lane.y - HEAD) / ROW);
    if (!lane) return -1;
    for (let u = units.count - 1; u >= 0; u--)
      if (units.thread[u] === lane.thread && units.depth[u] === depth && units.begin[u] <= time + grain && Math.min(units.end[u], now) >= time - grain) return u;
    return -1;
  }

  show_tip(e) {
    const u = this.unit_at(e.offsetX, e.offsetY), {model} = this.view;
    this.tip.hidden = u < 0;
    if (u < 0) return;
    const label = model.unit_label(u), end = Math.min(model.units.end[u], model.now), head = element('p');
    head.append(element('span', WHAT[label.kind], 'what ' + WHAT_STYLE[label.kind]), element('span', label_of(label), 'name'));
    this.tip.replaceChildren(head, element('p', duration(end - model.units.begin[u]) + ' by the clock' + (model.units.end[u] === Infinity ? ', and goes on' : '') +
      '; began at ' + duration(model.units.begin[u])));
    if (label.file) this.tip.append(element('p', 'defined at ' + place(label.file, label.line), 'at'));
    const edge = document.documentElement.clientWidth, below = e.clientY + 18;
    this.tip.style.left = Math.max(4, Math.min(e.clientX + 14, edge - this.tip.offsetWidth - 8)) + 'px';
    this.tip.style.top = (below + this.tip.offsetHeight > innerHeight ? e.clientY - this.tip.offsetHeight - 10 : below) + 'px';
  }
}
