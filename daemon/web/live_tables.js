/* SPDX-License-Identifier: MIT */
// Tables of what passes the filter. A row of the page keeps its place and changes its words, so that the focus stays.
import {class_style, count, duration, element, label_of, percent, place, set_class, set_text, WHAT, WHAT_STYLE} from './live_words.js';

const ROWS = 60, BRANCH = 40;

class Table {
  constructor(section, make, fill) {
    this.body = document.querySelector('#' + section + ' tbody');
    this.make = make;
    this.fill = fill;
    this.rows = [];
  }
  show(items) {
    while (this.rows.length < items.length) {
      const row = this.make();
      this.rows.push(row);
      this.body.append(row.row);
    }
    this.rows.forEach((row, i) => {
      row.row.hidden = i >= items.length;
      if (i < items.length) this.fill(row, items[i]);
    });
    while (this.rows.length > 2 * ROWS + items.length) this.rows.pop().row.remove();
  }
}

// A cell with a bar of its share.
const SVG = 'http://www.w3.org/2000/svg';
function share_cell() {
  const cell = element('td', undefined, 'share'), svg = document.createElementNS(SVG, 'svg'), rect = document.createElementNS(SVG, 'rect');
  svg.setAttribute('viewBox', '0 0 100 10');
  svg.setAttribute('preserveAspectRatio', 'none');
  svg.setAttribute('aria-hidden', 'true');
  rect.setAttribute('height', '10');
  svg.append(rect);
  const words = element('span');
  cell.append(words, svg);
  return {cell, set(value, all) { set_text(words, value ? duration(value) + '  ' + percent(value, all) : ''); rect.setAttribute('width', all > 0 ? (100 * value / all).toFixed(2) : 0); }};
}
function heaviest(values, n, from, max) { // indices of the largest
  const found = [];
  for (let i = from; i < n; i++) if (values[i] > 0) found.push(i);
  return found.sort((a, b) => values[b] - values[a]).slice(0, max);
}

export class Tables {
  constructor(view) {
    this.view = view;
    this.open = new Set();
    this.now = new Table('now', () => this.make_now(), (row, t) => this.fill_now(row, t));
    this.classes = new Table('classes', () => this.make_class(), (row, k) => this.fill_class(row, k));
    this.units = new Table('units', () => this.make_unit(), (row, item) => this.fill_unit(row, item));
    this.functions = new Table('functions', () => this.make_function(), (row, f) => this.fill_function(row, f));
    this.lines = new Table('source', () => this.make_line(), (row, l) => this.fill_line(row, l));
    this.stripe = document.querySelector('#classes svg');
    this.file = document.getElementById('file');
    this.before = new Map();
  }

  // --- threads ---

  make_now() {
    const row = element('tr'), name = element('th'), cpu = element('td'), what = element('td', undefined, 'words'), unit = element('td', undefined, 'words'), where = element('td', undefined, 'words');
    const swatch = element('b'), words = element('span'), label = element('span', undefined, 'name'), at = element('span', undefined, 'name');
    name.scope = 'row';
    what.append(swatch, words);
    unit.append(label);
    where.append(at);
    row.append(name, cpu, what, unit, where);
    return {row, name, cpu, swatch, words, label, at};
  }
  fill_now(row, index) {
    const {model} = this.view, t = model.threads[index], idle = t.ended || t.waits || t.at < model.now - 1e9, chain = [];
    const kind = idle && !t.waits ? (t.ended ? 'ended' : 'asleep') : model.classes.values[t.kind];
    for (let u = idle ? -1 : t.unit; u >= 0; u = model.units.parent[u]) chain.unshift(label_of(model.unit_label(u)));
    const fn = model.functions.values[t.python >= 0 ? t.python : t.leaf], leaf = model.functions.values[t.leaf];
    set_text(row.name, (t.name || 'thread') + ' (' + t.tid + ')');
    const before = this.before.get(index), rate = before && this.view.clock() > before.time ? (t.cpu - before.cpu) / (this.view.clock() - before.time) : 0;
    if (!before || this.view.clock() - before.time > 9e8) this.before.set(index, {time: this.view.clock(), cpu: t.cpu, rate});
    set_text(row.cpu, (100 * Math.min(1, before ? before.rate || rate : rate)).toFixed(0) + '\u00a0%');
    set_class(row.swatch, 'swatch ' + class_style(kind));
    set_text(row.words, kind);
    const words = chain.length ? chain[0] + (chain.length > 1 ? ' \u203a ' + chain[chain.length - 1] : '') : '';
    set_text(row.label, words);
    row.label.title = chain.join(' \u203a ');
    set_text(row.at, !fn ? '' : fn.name + (leaf && leaf !== fn ? ' \u203a ' + leaf.name : ''));
    row.at.title = row.at.textContent + (fn ? '  ' + place(fn.file, fn.line) : '');
  }

  // --- classes ---

  make_class() {
    const row = element('tr'), name = element('th'), swatch = element('b'), words = element('span'), share = share_cell();
    name.scope = 'row';
    name.append(swatch, words);
    row.append(name, share.cell);
    return {row, swatch, words, share};
  }
  fill_class(row, k) {
    const name = this.view.model.classes.values[k];
    set_class(row.swatch, 'swatch ' + class_style(name));
    set_text(row.words, name);
    row.share.set(this.view.sums.kind[k], this.view.sums.total);
  }
  draw_stripe(order) {
    const {sums, model} = this.view;
    let x = 0;
    while (this.stripe.childNodes.length < order.length) this.stripe.append(document.createElementNS(SVG, 'rect'));
    this.stripe.childNodes.forEach((rect, i) => {
      const w = i < order.length ? 100 * sums.kind[order[i]] / (sums.total || 1) : 0;
      rect.setAttribute('class', i < order.length ? class_style(model.classes.values[order[i]]) : '');
      rect.setAttribute('x', x);
      rect.setAttribute('width', w);
      rect.setAttribute('height', 10);
      x += w;
    });
  }

  // --- compiles ---

  // Rows that are seen: those of one name below one parent are one.
  branch(parents, depth, out) {
    const {unodes, labels} = this.view.model, {sums, match_label: match} = this.view, by_name = new Map();
    for (const parent of parents)
      for (let n = unodes.child[parent]; n; n = unodes.next[n]) {
        if (!sums.calls[n]) continue;
        const item = by_name.get(unodes.name[n]) || {nodes: [], label: labels.values[unodes.name[n]], elapsed: 0, cpu: 0, calls: 0, depth};
        item.nodes.push(n);
        item.elapsed += sums.elapsed[n];
        item.cpu += sums.unode[n];
        item.calls += sums.calls[n];
        by_name.set(unodes.name[n], item);
      }
    const items = Array.from(by_name.values()).sort((a, b) => b.elapsed - a.elapsed);
    let left = items.length;
    for (const item of items) {
      if (out.length >= 400 || items.length - left >= BRANCH) break;
      left--;
      const at = out.length;
      item.key = item.nodes[0];
      item.deeper = item.nodes.some(n => unodes.child[n]);
      item.open = match ? true : this.open.has(item.key);
      out.push(item);
      if (item.open && item.deeper && depth < 40) this.branch(item.nodes, depth + 1, out);
      item.match = match && match(item.label);
      // A search leaves what matches, and what is around it.
      if (match && !item.match && out.length === at + 1) out.pop();
    }
    if (left > 0 && !match) out.push({more: left, depth});
  }
  make_unit() {
    const row = element('tr'), head = element('th'), box = element('div'), deep = document.createElementNS(SVG, 'svg'), fold = element('button', '', 'fold');
    const what = element('span'), name = element('span', undefined, 'name'), elapsed = element('td'), share = share_cell(), calls = element('td');
    const it = {row, deep, fold, what, name, elapsed, share, calls, item: null};
    deep.setAttribute('class', 'deep');
    deep.setAttribute('aria-hidden', 'true');
    head.scope = 'row';
    fold.type = 'button';
    fold.addEventListener('click', () => {
      if (this.open.has(it.item.key)) this.open.delete(it.item.key); else this.open.add(it.item.key);
      this.view.refresh();
    });
    box.append(deep, fold, what, name);
    head.append(box);
    row.append(head, elapsed, share.cell, calls);
    return it;
  }
  fill_unit(row, item) {
    row.item = item;
    row.deep.setAttribute('width', 14 * item.depth);
    row.deep.setAttribute('height', 1);
    row.fold.style.visibility = item.deeper ? 'visible' : 'hidden';
    set_class(row.row, item.match ? 'match' : '');
    if (item.more) {
      set_class(row.what, '');
      for (const e of [row.fold, row.what, row.elapsed, row.calls]) set_text(e, '');
      row.share.set(0, 0);
      return set_text(row.name, count(item.more) + ' more');
    }
    set_text(row.fold, item.open ? '\u25be' : '\u25b8');
    row.fold.setAttribute('aria-label', 'what is in ' + item.label.name);
    row.fold.setAttribute('aria-expanded', item.open);
    set_class(row.what, 'what ' + WHAT_STYLE[item.label.kind]);
    set_text(row.what, WHAT[item.label.kind]);
    set_text(row.name, label_of(item.label));
    row.name.title = label_of(item.label) + (item.label.file ? '  ' + place(item.label.file, item.label.line) : '');
    set_text(row.elapsed, duration(item.elapsed));
    row.share.set(item.cpu, this.view.sums.total);
    set_text(row.calls, count(item.calls));
  }

  // --- functions ---

  make_function() {
    const row = element('tr'), head = element('th'), name = element('span', undefined, 'name'), at = element('span', undefined, 'at'), self = share_cell(), all = share_cell();
    head.scope = 'row';
    head.append(name, ' ', at);
    row.append(head, self.cell, all.cell);
    return {row, name, at, self, all};
  }
  fill_function(row, f) {
    const fn = this.view.model.functions.values[f], {sums} = this.view;
    set_text(row.name, fn.name);
    row.name.title = fn.name;
    set_text(row.at, fn.module || place(fn.file, fn.line));
    row.self.set(sums.fn_self[f], sums.total);
    row.all.set(sums.fn[f], sums.total);
  }

  // --- lines ---

  make_line() {
    const row = element('tr'), head = element('th'), share = share_cell();
    head.scope = 'row';
    row.append(head, share.cell);
    return {row, head, share};
  }
  fill_line(row, item) {
    set_text(row.head, item.words);
    row.share.set(item.value, this.view.sums.total);
    const heat = item.value > 0 && this.hottest > 0 ? .08 + .42 * item.value / this.hottest : 0;
    row.head.style.backgroundColor = heat ? 'hsla(28, 90%, 55%, ' + heat.toFixed(3) + ')' : '';
  }
  // Files by their time; the chosen one stays chosen.
  show_lines() {
    const {model, sums, match_path: match} = this.view, times = new Float64Array(model.files.values.length);
    for (let l = 1; l < model.lines.values.length; l++) times[model.lines.values[l].file] += sums.line[l];
    const files = heaviest(times, times.length, 0, 100), chosen = this.file.value;
    const keys = ['-1', ...files.map(String)];
    if (chosen && !keys.includes(chosen)) keys.push(chosen);
    if (keys.join() !== this.files_shown && document.activeElement !== this.file) {
      this.files_shown = keys.join();
      this.file.replaceChildren(...keys.map(key => {
        const option = element('option', key === '-1' ? 'the heaviest lines of all' : place(model.files.values[key]));
        option.value = key;
        return option;
      }));
      this.file.value = chosen || '-1';
    }
    const file = +this.file.value, items = [];
    this.hottest = 0;
    for (let l = 1; l < model.lines.values.length; l++) {
      const line = model.lines.values[l];
      if (sums.line[l] <= 0 || (file >= 0 && line.file !== file)) continue;
      const path = model.files.values[line.file];
      if (match && !match(path)) continue;
      this.hottest = Math.max(this.hottest, sums.line[l]);
      items.push({line: line.line, value: sums.line[l], words: file < 0 ? place(path, line.line) : String(line.line)});
    }
    items.sort((a, b) => file < 0 ? b.value - a.value : a.line - b.line);
    this.lines.show(items.slice(0, file < 0 ? ROWS : 1000));
  }

  show_threads() {
    const {threads} = this.view.model, order = threads.map((_, t) => t).filter(t => !threads[t].ended || threads[t].at > this.view.model.now - 3e9);
    order.sort((a, b) => threads[b].at - threads[a].at > 2e9 ? 1 : threads[a].at - threads[b].at > 2e9 ? -1 : a - b);
    this.now.show(order.slice(0, ROWS));
  }

  show() {
    const {model, sums, match_function: match} = this.view, order = heaviest(sums.kind, model.classes.values.length, 0, 64), rows = [];
    this.classes.show(order);
    this.draw_stripe(order);
    this.branch([0], 0, rows);
    this.units.show(rows);
    let functions = heaviest(sums.fn_self, model.functions.values.length, 0, match ? CAP_SEARCH : ROWS);
    if (match) functions = functions.filter(f => match(model.functions.values[f])).slice(0, ROWS);
    this.functions.show(functions);
    this.show_lines();
  }
}
const CAP_SEARCH = 1 << 17;
