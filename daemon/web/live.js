/* SPDX-License-Identifier: MIT */
// The live page: events come in (live_model.js), and what is looked at is drawn: the time line with each frame of the
// screen, sums and tables twice a second.
import {Model, Sums} from './live_model.js';
import {TimeLine} from './live_time.js';
import {Flame} from './live_flame.js';
import {Tables} from './live_tables.js';
import {class_style, count, duration, element, set_text} from './live_words.js';

const REFRESH_MS = 500, EDGE = 1e8;
const $ = id => document.getElementById(id);

class View {
  constructor() {
    this.model = new Model();
    this.sums = new Sums();
    this.range = null;    // [from, to] of the filter; null: all
    this.seconds = 30;    // of the window that follows; 0: all
    this.fixed = null;    // [from, to] of a window that stays
    this.paused = null;   // when it was, ns
    this.thread = -1;
    this.dirty = true;
    this.connected = false;
    this.failed = false;
    this.match_label = this.match_function = this.match_path = null;
    this.time = new TimeLine(this, (from, to) => this.choose(from, to));
    this.flame = new Flame(this);
    this.tables = new Tables(this);
    this.listen();
    this.connect();
    new ResizeObserver(() => this.touch()).observe(document.body);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.touch());
    setInterval(() => { if (this.paused === null && this.seen !== this.model.version) this.refresh(); else this.show_head(); }, REFRESH_MS);
    const frame = () => { this.draw(); requestAnimationFrame(frame); };
    requestAnimationFrame(frame);
  }

  // --- events ---

  connect() {
    const source = new EventSource('events');
    source.onopen = () => { this.connected = true; };
    source.onmessage = message => {
      const event = JSON.parse(message.data);
      this.model.take(event);
      this.dirty = true;
      if (event.ev === 'session') this.show_session(event);
      if (event.ev === 'end') source.close();
    };
    // Not again by itself: who listens at this port then may be somebody else.
    source.onerror = () => {
      source.close();
      this.failed = !this.model.ended;
      this.connected = false;
    };
  }

  // --- what is looked at ---

  clock() { // now, in ns of the session
    if (!this.model.session) return 0;
    if (this.model.ended || this.failed) return this.model.now;
    return Math.max(this.model.now, (performance.timeOrigin + performance.now() - this.model.clock) * 1e6);
  }
  end() { return Math.max(1e9, this.paused === null ? this.clock() : this.paused); }
  window() {
    if (this.fixed) return this.fixed;
    const end = this.end();
    return this.seconds ? [Math.max(0, end - this.seconds * 1e9), Math.max(end, this.seconds * 1e9)] : [0, end];
  }
  filter() {
    const to = this.paused === null ? Infinity : this.paused;
    return this.range ? {from: this.range[0], to: this.range[1], thread: this.thread} : {from: 0, to, thread: this.thread};
  }
  touch() { this.dirty = true; }

  choose(from, to) {
    this.range = from <= 0 && to === Infinity ? null : [from, to];
    if (!this.range) this.fixed = null;
    this.refresh();
  }
  follow(seconds) {
    this.fixed = null;
    this.seconds = seconds;
    this.touch();
  }
  zoom(factor, at) {
    const [from, to] = this.window(), middle = at === undefined ? (from + to) / 2 : at, end = this.end();
    const length = Math.min(Math.max(1e5, (to - from) * factor), end), begin = Math.max(0, middle - (middle - from) * factor);
    this.fixed = [begin, begin + length];
    this.touch();
  }
  pan(part) {
    const [from, to] = this.window(), length = to - from, begin = Math.min(Math.max(0, from + part * length), Math.max(0, this.end() - length / 2));
    this.fixed = [begin, begin + length];
    this.touch();
  }
  pause(on) {
    this.paused = on ? this.model.sampled : null;
    $('pause').setAttribute('aria-pressed', on);
    set_text($('pause'), on ? 'Go on' : 'Pause');
    this.refresh();
  }
  search(words) {
    const wanted = words.trim().toLowerCase(), has = text => Boolean(text) && text.toLowerCase().includes(wanted);
    this.match_label = wanted ? label => has(label.name) || has(label.signature) || has(label.file) : null;
    this.match_function = wanted ? fn => has(fn.name) || has(fn.file) || has(fn.module) : null;
    this.match_path = wanted ? has : null;
    this.refresh();
  }

  // --- drawing ---

  refresh() {
    this.seen = this.model.version;
    this.sums.compute(this.model, this.filter());
    this.time.sum_bins();
    this.tables.show();
    this.flame.draw();
    this.show_head();
    this.dirty = true;
  }
  draw() {
    const moves = this.paused === null && !this.fixed && !this.model.ended && !this.failed && this.model.session;
    if (!this.dirty && !moves) return;
    if (this.dirty && this.paused === null) this.tables.show_threads();
    this.dirty = false;
    this.time.draw();
  }

  // --- the head ---

  show_session(session) {
    const name = session.command || 'process ' + session.pid;
    set_text($('command'), name);
    document.title = name + ' - cprofd view';
  }
  show_head() {
    const {model} = this, lost = Object.values(model.losses).reduce((sum, n) => sum + n, 0);
    const state = model.ended ? 'ended' + ({exited: ': the process has ended', duration: ' after its duration', failed: ': ' + model.ended.detail}[model.ended.reason] || '') :
      this.failed ? 'cprofd has ended: what came before is still here' : this.paused !== null ? 'paused, recording goes on' : this.connected ? 'live' : 'connecting';
    set_text($('state'), state);
    $('state').className = this.failed ? 'bad' : model.ended || this.paused !== null ? '' : 'live';
    if (!model.session) return;
    set_text($('facts'), '\u00b7 pid ' + model.session.pid + ' \u00b7 ' + duration(this.clock()) + ' \u00b7 ' + count(model.samples) + ' samples at ' + model.session.rate + ' Hz \u00b7 ' +
      model.threads.filter(t => !t.ended).length + ' threads' + (lost ? ' \u00b7 ' + count(lost) + ' lost or cut short' : '') + (model.gaps ? ' \u00b7 gaps: ' + model.gaps : ''));
    const below = model.units.below, folded = model.rows.folded;
    $('left-out').hidden = !below && !folded;
    set_text($('left-out'), (below ? 'Older compiles, phases and passes shorter than ' + duration(below) + ' are left out here, and of ranges; the sums of the whole session have them. ' : '') +
      (folded ? 'Ranges lack innermost frames of older samples; the sums of the whole session have them.' : ''));
    $('range').hidden = !this.range;
    if (this.range) set_text($('range-words'), duration(this.range[0]) + ' to ' + duration(Math.min(this.range[1], model.now)));
    for (const button of document.querySelectorAll('button[data-seconds]')) button.setAttribute('aria-pressed', !this.fixed && +button.dataset.seconds === this.seconds);
    this.show_choice();
    this.show_legend();
    this.show_save();
  }
  show_choice() {
    const select = $('thread'), {threads} = this.model, key = threads.map(t => t.name).join('\n');
    if (key === this.choice || document.activeElement === select) return;
    this.choice = key;
    const options = threads.slice(0, 200).map((t, i) => { const option = element('option', (t.name || 'thread') + ' (' + t.tid + ')'); option.value = i; return option; });
    const all = element('option', 'all');
    all.value = -1;
    select.replaceChildren(all, ...options);
    select.value = this.thread;
  }
  show_legend() {
    const names = this.model.classes.values, key = names.join();
    if (key === this.legend) return;
    this.legend = key;
    $('legend').replaceChildren(...[['unit', 'compile'], ['phase', 'phase'], ['pass', 'pass']].map(([style, words]) => {
      const item = element('span');
      item.append(element('b', '', 'swatch ' + style), words);
      return item;
    }), element('span', '\u00b7 above, by class:'), ...names.slice(1).map(name => {
      const item = element('span');
      item.append(element('b', '', 'swatch ' + class_style(name)), name);
      return item;
    }));
  }
  show_save() {
    let words = 'format=' + ($('format').value || 'html');
    if (this.range) words += '&window=' + (this.range[0] / 1e9).toFixed(6) + ',' + (Math.min(this.range[1], this.model.now) / 1e9).toFixed(6);
    if (this.thread >= 0) words += '&thread=' + this.model.threads[this.thread].tid;
    $('save').href = 'save?' + words;
  }

  listen() {
    $('pause').addEventListener('click', () => this.pause(this.paused === null));
    for (const button of document.querySelectorAll('button[data-seconds]')) button.addEventListener('click', () => this.follow(+button.dataset.seconds));
    $('thread').addEventListener('change', e => { this.thread = +e.target.value; this.time.arranged = -1; this.refresh(); });
    $('file').addEventListener('change', () => this.refresh());
    $('search').addEventListener('input', e => this.search(e.target.value));
    $('range-clear').addEventListener('click', () => this.choose(0, Infinity));
    $('format').addEventListener('change', () => this.show_save());
    $('save').addEventListener('click', () => this.show_save());
    document.addEventListener('keydown', e => {
      const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
      if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented) return;
      if (e.key === 'Escape') {
        if (typing && $('search').value) { $('search').value = ''; this.search(''); }
        document.activeElement.blur();
        this.flame.zoomed = this.flame.chosen = 0;
        this.choose(0, Infinity);
      } else if (typing) return;
      else if (e.key === '/') $('search').focus();
      else if (e.key === 'p') this.pause(this.paused === null);
      else if (e.key === '0') this.follow(0);
      else return;
      e.preventDefault();
    });
    fetch('formats').then(answer => answer.json()).then(formats => {
      $('format').replaceChildren(...formats.map(f => { const option = element('option', f); option.value = f; return option; }));
      $('format').value = 'html';
      this.show_save();
    });
  }
}
window.cprofd = new View(); // for tests, and for those who look at it with the browser's tools
