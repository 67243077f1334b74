/* SPDX-License-Identifier: MIT */
// The flame graph: outermost frame on top, a width is time in the filter. Frames keep their place: in the order in which
// they came.
import {colour, duration, fit, kind_style, pen, percent, place, variable} from './live_words.js';

const ROW = 17, DEPTH_MAX = 200, LEAST = .6;

export class Flame {
  constructor(view) {
    this.view = view;
    this.canvas = document.getElementById('flame');
    this.words = document.getElementById('frame');
    this.zoomed = 0;
    this.chosen = 0;
    this.boxes = []; // x, width, depth, node: of what is drawn
    this.canvas.addEventListener('pointermove', e => this.tell(this.node_at(e.offsetX, e.offsetY)));
    this.canvas.addEventListener('click', e => this.zoom(this.node_at(e.offsetX, e.offsetY)));
    this.canvas.addEventListener('dblclick', () => this.zoom(0));
    this.canvas.addEventListener('keydown', e => this.on_key(e));
  }

  node_at(x, y) {
    const depth = Math.floor(y / ROW), boxes = this.boxes;
    for (let i = 0; i < boxes.length; i += 4) if (boxes[i + 2] === depth && x >= boxes[i] && x < boxes[i] + boxes[i + 1]) return boxes[i + 3];
    return 0;
  }

  zoom(node) {
    this.zoomed = node;
    this.chosen = node;
    this.view.touch();
  }

  on_key(e) {
    const {nodes} = this.view.model, at = this.chosen, sums = this.view.sums;
    const seen = list => { for (let n = list; n; n = nodes.next[n]) if (sums.node[n] > 0) return n; return 0; };
    const keys = {
      ArrowDown: () => seen(nodes.child[at]) || at,
      ArrowUp: () => nodes.parent[at],
      ArrowRight: () => seen(nodes.next[at]) || at,
      ArrowLeft: () => { let last = at; for (let n = nodes.child[nodes.parent[at]]; n && n !== at; n = nodes.next[n]) if (sums.node[n] > 0) last = n; return last; },
    };
    if (e.key === 'Enter') this.zoom(at);
    else if (keys[e.key]) this.tell(this.chosen = keys[e.key]());
    else return;
    this.view.touch();
    e.preventDefault();
  }

  tell(node) {
    const {model, sums} = this.view, fn = model.functions.values[model.nodes.name[node]];
    if (!node || !fn) return void (this.words.textContent = '');
    this.words.textContent = fn.name + '  ' + place(fn.file, fn.line) + (fn.module ? '  ' + fn.module : '') + ': ' + duration(sums.node[node]) + ', ' +
      percent(sums.node[node], sums.total) + ' of all; exclusive ' + duration(sums.self[node]);
  }

  draw() {
    const {model, sums, match_function: match} = this.view, {nodes, functions} = model;
    if (this.zoomed && !sums.node[this.zoomed]) this.zoomed = 0;
    const boxes = this.boxes = [], width = this.canvas.clientWidth, path = [];
    for (let n = this.zoomed; n; n = nodes.parent[n]) path.unshift(n);
    path.forEach((n, depth) => boxes.push(0, width, depth, n));
    let deepest = path.length;
    const scale = width / (sums.node[this.zoomed] || 1), todo = [[this.zoomed, 0, path.length]];
    while (todo.length) {
      const [node, x, depth] = todo.pop();
      if (depth >= DEPTH_MAX) continue;
      let at = x;
      for (let n = nodes.child[node]; n; n = nodes.next[n]) {
        const w = sums.node[n] * scale;
        if (w >= LEAST) {
          boxes.push(at, w, depth, n);
          todo.push([n, at, depth + 1]);
          deepest = Math.max(deepest, depth + 1);
        }
        at += w;
      }
    }
    const context = pen(this.canvas, Math.max(2, deepest) * ROW);
    for (let i = 0; i < boxes.length; i += 4) {
      const fn = functions.values[nodes.name[boxes[i + 3]]], y = boxes[i + 2] * ROW;
      context.globalAlpha = match && !match(fn) ? .3 : 1;
      context.fillStyle = colour(kind_style(fn.kind));
      context.fillRect(boxes[i], y, Math.max(.5, boxes[i + 1] - .5), ROW - 1);
      const words = fit(fn.name, boxes[i + 1]);
      context.fillStyle = '#111';
      if (words) context.fillText(words, boxes[i] + 3, y + ROW / 2);
      context.globalAlpha = 1;
      if (boxes[i + 3] === this.chosen) {
        context.strokeStyle = variable('--text');
        context.lineWidth = 2;
        context.strokeRect(boxes[i] + 1, y + 1, Math.max(1, boxes[i + 1] - 2.5), ROW - 3);
      }
    }
    this.canvas.dataset.frames = boxes.length / 4;
  }
}
