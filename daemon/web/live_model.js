/* SPDX-License-Identifier: MIT */
// What a session's events (docs/protocol.md) leave in the page: tables and columns whose size does not grow with time.
//
//   rows   samples: time, weight, thread, class, stack, compile, line. When there are too many, old ones of equal stack
//          within a bin of time become one; if that is not enough, their innermost frames go
//   units  compiles, phases, passes: begin, end. When there are too many, the shortest go; their sums stay
//   nodes  the tree of stacks, by function; unodes: the tree of compiles, by name
//
// Ids of the protocol are of an epoch; those in here are of the session. Times are ns since the session's begin.

export const CAP = {rows: 1 << 19, units: 1 << 17, nodes: 1 << 18, unodes: 1 << 16, functions: 1 << 17, lines: 1 << 16, threads: 4096};
export const KINDS = ['unit', 'phase', 'pass'];
const BIN = 1e7, LAST_BIN = 1e10;
const COLUMNS = ['t', 'w', 'thread', 'kind', 'node', 'unode', 'line']; // of rows

// Strings and their numbers; what does not fit is the last one.
class Names {
  constructor(max) { this.max = max; this.ids = new Map(); this.values = []; }
  add(key, make) {
    let id = this.ids.get(key);
    if (id !== undefined) return id;
    if (this.values.length >= this.max) return this.max - 1;
    id = this.values.length;
    this.values.push(make());
    this.ids.set(key, id);
    return id;
  }
}
// A tree whose nodes are (parent, name); a parent's id is below its children's. 0 is the root.
class Tree {
  constructor(max) {
    this.max = max;
    this.count = 1;
    this.parent = new Int32Array(max);
    this.name = new Int32Array(max);
    this.child = new Int32Array(max);  // the first one; 0: none
    this.next = new Int32Array(max);   // of the same parent
    this.last = new Int32Array(max);
    this.ids = new Map();
  }
  add(parent, name, alone) { // alone: never an old one
    const key = parent * 2097152 + name;
    let id = alone ? undefined : this.ids.get(key);
    if (id !== undefined) return id;
    if (this.count === this.max) return parent;
    id = this.count++;
    this.parent[id] = parent;
    this.name[id] = name;
    if (this.last[parent]) this.next[this.last[parent]] = id; else this.child[parent] = id;
    this.last[parent] = id;
    if (!alone) this.ids.set(key, id);
    return id;
  }
}

export class Model {
  constructor() { this.reset(); }

  reset() {
    this.session = null;
    this.base = 0;
    this.now = 0;          // the newest time that an event has
    this.sampled = 0;      // ... and a sample: samples come later than what is told of them
    this.samples = 0;      // of the newest ledger
    this.losses = {};
    this.gaps = 0;
    this.ended = null;
    this.version = 0;      // counts up with each change
    this.processes = [];
    this.threads = [];
    this.classes = new Names(64);
    this.functions = new Names(CAP.functions);
    this.files = new Names(1 << 14);
    this.lines = new Names(CAP.lines);
    this.lines.add('', () => ({file: -1, line: 0}));
    this.labels = new Names(1 << 16);
    this.classes.add('', () => 'not known');
    this.nodes = new Tree(CAP.nodes);
    this.outermost = new Uint8Array(CAP.nodes); // no caller of a node is the same function
    this.unodes = new Tree(CAP.unodes);
    this.rows = {count: 0, bin: 0, folded: false, t: new Float64Array(CAP.rows), w: new Float64Array(CAP.rows), thread: new Uint16Array(CAP.rows),
      kind: new Uint8Array(CAP.rows), node: new Int32Array(CAP.rows), unode: new Int32Array(CAP.rows), line: new Int32Array(CAP.rows)};
    this.units = {count: 0, below: 0, begin: new Float64Array(CAP.units), end: new Float64Array(CAP.units), first: new Float64Array(CAP.units),
      thread: new Uint16Array(CAP.units), depth: new Uint8Array(CAP.units), unode: new Int32Array(CAP.units), parent: new Int32Array(CAP.units)};
    this.moved = {node: new Float64Array(CAP.nodes), unode: new Float64Array(CAP.unodes), line: new Float64Array(CAP.lines)}; // what fold_rows() took
    this.lost = {elapsed: new Float64Array(CAP.unodes), calls: new Float64Array(CAP.unodes)}; // of units that are gone
    this.epoch();
  }

  // --- tables of an epoch ---

  epoch() {
    this.of = {process: [], thread: [], function: [], kind: [], frame: [], line: [], stack: [0], stack_line: [0], leaf: [-1], python: [-1], class: [0], unit: [-1]};
  }

  on_epoch(e) {
    const t = e.time - this.base;
    for (let u = 0; u < this.units.count; u++) if (this.units.end[u] === Infinity) this.units.end[u] = t;
    this.epoch();
  }

  on_session(e) {
    this.session = e;
    this.base = e.monotonic;
    this.wall = e.mode === 'wall';
    this.clock = e.realtime / 1e6; // ms since 1970 of the session's begin
  }

  on_process(e) {
    this.of.process[e.id] = e;
    this.processes.push(e);
    if (this.processes.length > 256) this.processes.shift();
  }

  on_thread(e) {
    const process = this.of.process[e.process], pid = process ? process.pid : 0;
    let index = this.threads.findIndex(t => t.tid === e.tid && t.start === e.start && t.pid === pid);
    if (index < 0 && this.threads.length === CAP.threads) index = CAP.threads - 1;
    if (index < 0) {
      index = this.threads.length;
      this.threads.push({tid: e.tid, pid, start: e.start, begin: e.time - this.base, ended: false, cpu: 0, at: -Infinity, kind: 0, unit: -1, leaf: -1, python: -1});
    }
    this.threads[index].name = e.name || '';
    this.threads[index].ended = false;
    this.of.thread[e.id] = index;
  }

  on_thread_end(e) {
    const thread = this.threads[this.of.thread[e.id]];
    if (thread) thread.ended = true;
  }

  on_functions(e) {
    e.rows.forEach((row, i) => {
      const [name, file, line, module, kind] = row;
      this.of.function[e.first + i] = this.functions.add(name + '\0' + file + '\0' + line + '\0' + (module || ''),
        () => ({name, file, line, module: module || '', kind: kind || 0}));
    });
  }

  on_frames(e) {
    e.rows.forEach((row, i) => {
      this.of.frame[e.first + i] = this.of.function[row[0]];
      this.of.line[e.first + i] = row[2] || 0;
    });
  }

  on_stacks(e) {
    const of = this.of;
    e.rows.forEach((row, i) => {
      const id = e.first + i, [parent, frame] = row, name = of.frame[frame], fn = this.functions.values[name];
      let node = of.stack[parent], line = of.stack_line[parent], leaf = of.leaf[parent], python = of.python[parent];
      if (!fn) return void (of.stack[id] = node);
      // The interpreter's own frames count as the frame that they run.
      if (fn.kind !== 5 || !parent) node = this.add_node(node, name);
      if (fn.kind === 0) {
        line = this.add_line(fn.file, of.line[frame]);
        python = name;
      }
      of.stack[id] = node;
      of.stack_line[id] = line;
      of.leaf[id] = fn.kind === 5 ? leaf : name;
      of.python[id] = python;
    });
  }

  add_node(parent, name) {
    const before = this.nodes.count, node = this.nodes.add(parent, name);
    if (node >= before) {
      let above = parent;
      while (above && this.nodes.name[above] !== name) above = this.nodes.parent[above];
      this.outermost[node] = above ? 0 : 1;
    }
    return node;
  }

  add_line(path, line) {
    if (!path || !line) return 0;
    return this.lines.add(path + '\0' + line, () => ({file: this.files.add(path, () => path), line}));
  }

  on_classes(e) {
    e.rows.forEach((row, i) => { this.of.class[e.first + i] = this.classes.add(row[0], () => row[0]); });
  }

  // --- compiles ---

  label(kind, compiler, name, signature, file, line) {
    return this.labels.add([kind, compiler, name, signature, file, line].join('\0'), () => ({kind, compiler, name: name || '\u2026', signature, file, line}));
  }

  on_units(e) {
    e.rows.forEach((row, i) => { this.of.unit[e.first + i] = this.add_unit(row); });
  }

  add_unit([parent, thread, kind, compiler, name, signature, time, , file, line]) {
    const units = this.units;
    let above = parent ? this.of.unit[parent] : -1;
    if (above === undefined) above = -1;
    if (kind >= KINDS.length) return above;
    if (units.count === CAP.units) {
      this.shorten_units();
      above = parent ? this.of.unit[parent] : -1;
    }
    const u = units.count++, around = above >= 0 ? units.unode[above] : 0;
    units.begin[u] = time - this.base;
    units.end[u] = Infinity;
    units.first[u] = NaN;
    units.thread[u] = this.of.thread[thread];
    units.depth[u] = above >= 0 && units.thread[above] === units.thread[u] ? Math.min(255, units.depth[above] + 1) : 0;
    units.parent[u] = above;
    // What has no name yet is alone until it has one.
    units.unode[u] = this.unodes.add(around, this.label(kind, compiler, name, signature, file || '', line || 0), !name);
    return u;
  }

  on_unit_name(e) {
    const u = this.of.unit[e.id];
    if (u === undefined || u < 0 || !e.name) return;
    const unode = this.units.unode[u], old = this.labels.values[this.unodes.name[unode]];
    if (old.name !== '\u2026') return;
    this.unodes.name[unode] = this.label(old.kind, old.compiler, e.name, e.signature || '', e.file || old.file, e.line || old.line);
  }

  on_unit_end(e) {
    this.on_unit_name(e);
    this.end_unit(e.id, e.time);
  }

  on_unit_ends(e) {
    let t = 0;
    e.t.forEach((dt, i) => { t += dt; this.end_unit(e.id[i], t); });
  }

  end_unit(id, time) {
    const u = this.of.unit[id];
    if (u >= 0) this.units.end[u] = Math.max(this.units.begin[u], time - this.base);
  }

  // The shortest go, until there is room for more.
  shorten_units() {
    const units = this.units, length = u => units.end[u] - units.begin[u];
    const sorted = Float64Array.from({length: units.count}, (_, u) => length(u)).sort(), to = new Int32Array(units.count);
    const below = Math.max(sorted[units.count >> 1], 1);
    let n = 0;
    units.below = below;
    for (let u = 0; u < units.count; u++) {
      if (length(u) <= below) {
        this.lost.elapsed[units.unode[u]] += length(u);
        this.lost.calls[units.unode[u]]++;
        to[u] = units.parent[u] >= 0 ? to[units.parent[u]] : -1;
        continue;
      }
      to[u] = n;
      for (const column of ['begin', 'end', 'first', 'thread', 'depth', 'unode']) units[column][n] = units[column][u];
      units.parent[n] = units.parent[u] >= 0 ? to[units.parent[u]] : -1;
      n++;
    }
    units.count = n;
    const ids = this.of.unit;
    for (let i = 0; i < ids.length; i++) if (ids[i] >= 0) ids[i] = to[ids[i]];
    for (const thread of this.threads) if (thread.unit >= 0) thread.unit = to[thread.unit];
  }

  // --- samples ---

  on_samples(e) {
    const {wall, cpu, given, others} = e, of = this.of;
    let t = -this.base;
    for (let i = 0; i < e.t.length; i++) {
      t += e.t[i];
      const time = t, w = this.wall ? (wall ? wall[i] : 0) : (cpu ? cpu[i] : 0) - (given ? given[i] : 0) + (others ? others[i] : 0);
      const index = of.thread[e.thread ? e.thread[i] : 0], thread = this.threads[index], stack = e.stack ? e.stack[i] : 0;
      const kind = of.class[e.class ? e.class[i] : 0] || 0, unit = of.unit[e.unit ? e.unit[i] : 0], u = unit === undefined ? -1 : unit;
      if (!thread) continue;
      if (u >= 0 && Number.isNaN(this.units.first[u])) this.units.first[u] = time;
      if (time >= thread.at) {
        thread.at = time;
        thread.kind = kind;
        thread.unit = u;
        thread.waits = Boolean(e.cause && e.cause[i]);
        thread.leaf = of.leaf[stack];
        thread.python = of.python[stack];
      }
      thread.cpu += cpu ? cpu[i] : 0;
      this.now = Math.max(this.now, time);
      this.sampled = Math.max(this.sampled, time);
      if (w > 0) this.add_row(time, w, index, kind, of.stack[stack] || 0, u >= 0 ? this.units.unode[u] : 0, of.stack_line[stack] || 0);
    }
  }

  add_row(t, w, thread, kind, node, unode, line) {
    const rows = this.rows;
    if (rows.count === CAP.rows) this.merge_rows();
    const i = rows.count++;
    rows.t[i] = t;
    rows.w[i] = w;
    rows.thread[i] = thread;
    rows.kind[i] = kind;
    rows.node[i] = node;
    rows.unode[i] = unode;
    rows.line[i] = line;
  }

  // There is no room: of the older half, rows of a bin that differ in nothing become one. Bins grow, then stacks and
  // compiles lose their innermost names, until that half is much smaller. Times of threads and classes stay as they are.
  merge_rows() {
    const rows = this.rows, half = rows.count >> 1;
    let n = half;
    for (let round = 0; n > half * .6; round++) {
      if (rows.bin < LAST_BIN) rows.bin = Math.min(LAST_BIN, Math.max(BIN, 4 * rows.bin));
      else if (round) this.fold_rows(n, round > 12);
      n = this.merge_oldest(n);
    }
    for (const column of COLUMNS) rows[column].copyWithin(n, half, rows.count);
    rows.count -= half - n;
  }

  fold_rows(count, all) {
    const {rows, nodes, unodes} = this;
    const move = (column, i, to) => {
      this.moved[column][rows[column][i]] += rows.w[i];
      this.moved[column][to] -= rows.w[i];
      rows[column][i] = to;
    };
    for (let i = 0; i < count; i++) {
      move('node', i, all ? 0 : nodes.parent[rows.node[i]]);
      move('unode', i, all ? 0 : unodes.parent[rows.unode[i]]);
      if (all) move('line', i, 0);
    }
    rows.folded = true;
  }

  merge_oldest(count) { // how many are left
    const rows = this.rows, table = new Int32Array(CAP.rows).fill(-1), mask = table.length - 1;
    let n = 0;
    for (let i = 0; i < count; i++) {
      const bin = Math.floor(rows.t[i] / rows.bin);
      let slot = Math.imul(bin, 0x9e3779b1) ^ Math.imul(rows.node[i], 0x85ebca6b) ^ Math.imul(rows.line[i], 0xc2b2ae35) ^
        Math.imul(rows.unode[i] * 64 + rows.kind[i], 0x27d4eb2f) ^ rows.thread[i], j;
      slot = (slot ^ slot >>> 15) & mask;
      while ((j = table[slot]) >= 0 && !(rows.node[j] === rows.node[i] && rows.line[j] === rows.line[i] && rows.unode[j] === rows.unode[i] &&
          rows.kind[j] === rows.kind[i] && rows.thread[j] === rows.thread[i] && Math.floor(rows.t[j] / rows.bin) === bin)) slot = slot + 1 & mask;
      if (j >= 0) {
        rows.w[j] += rows.w[i];
        continue;
      }
      for (const column of COLUMNS) rows[column][n] = rows[column][i];
      table[slot] = n++;
    }
    return n;
  }

  // --- the rest ---

  on_ledger(e) {
    this.samples = e.samples;
    this.losses = e.losses || {};
    this.now = Math.max(this.now, e.time - this.base);
  }

  on_gap() { this.gaps++; }

  on_end(e) {
    this.now = Math.max(this.now, e.time - this.base);
    for (let u = 0; u < this.units.count; u++) if (this.units.end[u] === Infinity) this.units.end[u] = this.now;
    this.ended = e;
  }

  on_hello() { this.reset(); }

  // One line of the protocol; what is not known is skipped.
  take(event) {
    const handler = this['on_' + event.ev];
    if (handler) handler.call(this, event);
    this.version++;
  }

  unit_label(u) { return this.labels.values[this.unodes.name[this.units.unode[u]]]; }
}

// Sums of what passes a filter: {from, to} in ns, thread (-1: all). Reused from call to call, so they are valid until the next one.
export class Sums {
  constructor() {
    this.node = new Float64Array(CAP.nodes);
    this.self = new Float64Array(CAP.nodes);
    this.unode = new Float64Array(CAP.unodes);   // weight inside of it
    this.elapsed = new Float64Array(CAP.unodes);
    this.calls = new Float64Array(CAP.unodes);
    this.fn = new Float64Array(CAP.functions);
    this.fn_self = new Float64Array(CAP.functions);
    this.line = new Float64Array(CAP.lines);
    this.kind = new Float64Array(64);
    this.thread = new Float64Array(CAP.threads);
    this.total = 0;
  }

  compute(model, {from, to, thread}) {
    const {rows, units, nodes, unodes} = model, all = from <= 0 && to === Infinity && thread < 0;
    for (const column of ['node', 'self', 'unode', 'elapsed', 'calls', 'fn', 'fn_self', 'line', 'kind', 'thread']) this[column].fill(0);
    this.total = 0;
    for (let i = 0; i < rows.count; i++) {
      if (rows.t[i] < from || rows.t[i] > to || (thread >= 0 && rows.thread[i] !== thread)) continue;
      const w = rows.w[i];
      this.total += w;
      this.self[rows.node[i]] += w;
      this.unode[rows.unode[i]] += w;
      this.line[rows.line[i]] += w;
      this.kind[rows.kind[i]] += w;
      this.thread[rows.thread[i]] += w;
    }
    if (all)
      for (const [column, sums] of [['node', this.self], ['unode', this.unode], ['line', this.line]])
        for (let n = 0; n < sums.length; n++) sums[n] += model.moved[column][n];
    for (let n = nodes.count - 1; n > 0; n--) {
      this.node[n] += this.self[n];
      this.node[nodes.parent[n]] += this.node[n];
      this.fn_self[nodes.name[n]] += this.self[n];
      if (model.outermost[n]) this.fn[nodes.name[n]] += this.node[n];
    }
    this.node[0] = this.total;
    for (let n = unodes.count - 1; n > 0; n--) if (unodes.parent[n]) this.unode[unodes.parent[n]] += this.unode[n];
    for (let u = 0; u < units.count; u++) {
      const length = Math.min(units.end[u], to, model.now) - Math.max(units.begin[u], from);
      if (length < 0 || (thread >= 0 && units.thread[u] !== thread)) continue;
      this.elapsed[units.unode[u]] += length;
      this.calls[units.unode[u]]++;
    }
    if (all)
      for (let n = 1; n < unodes.count; n++) {
        this.elapsed[n] += model.lost.elapsed[n];
        this.calls[n] += model.lost.calls[n];
      }
    return this;
  }
}
