/* SPDX-License-Identifier: MIT */
// Tables: a click on a head sorts, the tree folds, long tables have a box to filter by.
'use strict';
(function () {
// Value of a cell: a number where it has one, else its words.
function value(row, column) {
  const cell = row.cells[column];
  return cell.dataset.value === undefined ? cell.textContent.toLowerCase() : +cell.dataset.value;
}
function sort(table, head) {
  const down = head.getAttribute('aria-sort') === 'descending', body = table.tBodies[0], column = head.cellIndex;
  const rows = Array.from(body.rows, row => [value(row, column), row]);
  const numbers = rows.every(([v]) => typeof v === 'number'), up = head.hasAttribute('aria-sort') ? down : !numbers;
  rows.sort(([a], [b]) => (a < b ? -1 : a > b) * (up ? 1 : -1));
  for (const other of table.tHead.rows[0].cells) other.removeAttribute('aria-sort');
  head.setAttribute('aria-sort', up ? 'ascending' : 'descending');
  body.append(...rows.map(([, row]) => row));
}
function button(words, act) {
  const b = document.createElement('button');
  b.type = 'button';
  b.textContent = words;
  b.addEventListener('click', act);
  return b;
}
function make_sortable(table) {
  for (const head of table.tHead.querySelectorAll('th')) {
    const b = button('', () => sort(table, head));
    b.append(...head.childNodes);
    head.append(b);
  }
}
function make_filter(table) {
  const box = document.createElement('input');
  box.type = 'search';
  box.placeholder = 'only rows with ...';
  box.setAttribute('aria-label', 'filter of ' + table.dataset.by);
  box.addEventListener('input', () => {
    const want = box.value.toLowerCase();
    for (const row of table.tBodies[0].rows) row.hidden = !row.textContent.toLowerCase().includes(want);
  });
  tools(table).append(box);
}
function tools(table) {
  const box = table.closest('.box');
  if (!box.previousElementSibling.classList.contains('tools')) {
    const p = document.createElement('p');
    p.className = 'tools';
    box.before(p);
  }
  return box.previousElementSibling;
}

// --- the tree ---

const OPEN_SHARE = 0.05; // at first: what has so much of the time
const STEP = 14; // px of the indent, as tree.c has it
function make_tree(table) {
  const rows = Array.from(table.tBodies[0].rows, row => ({row, depth: +row.dataset.depth, stage: row.className === 'stage',
    
    share: parseFloat(row.querySelector('.share').textContent) / 100, step: row.querySelector('svg'), open: false}));
  let stages = false; // phases and passes are shown, too
  function show() {
    const folded = [], indent = []; // by depth: a row around is folded; how far in its rows are
    rows.forEach((r, i) => {
      const hidden = r.depth > 0 && folded[r.depth - 1], passed = r.stage && !stages;
      r.row.hidden = hidden || passed;
      folded[r.depth] = hidden || !(r.open || passed);
      const around = r.depth ? indent[r.depth - 1] : 0;
      indent[r.depth] = around + (passed ? 0 : STEP);
      r.step.setAttribute('width', around);
      let k = i + 1;
      while (k < rows.length && rows[k].depth > r.depth && rows[k].stage && !stages) k++;
      const has = k < rows.length && rows[k].depth > r.depth;
      r.toggle.textContent = has ? (r.open ? '\u25be' : '\u25b8') : '';
      r.toggle.disabled = !has;
      r.toggle.setAttribute('aria-expanded', String(r.open));
    });
  }
  function set(which, open) {
    for (const r of rows) if (which(r)) r.open = open;
    show();
  }
  for (const r of rows) {
    r.toggle = button('', () => { r.open = !r.open; show(); });
    r.toggle.className = 'fold';
    r.toggle.setAttribute('aria-label', 'what is in it');
    r.row.cells[0].querySelector('.what').before(r.toggle);
    r.row.cells[0].addEventListener('dblclick', () => { r.open = !r.open; show(); });
  }
  const bar = tools(table), stage = document.createElement('input'), label = document.createElement('label');
  stage.type = 'checkbox';
  stage.addEventListener('change', () => { stages = stage.checked; show(); });
  label.append(stage, ' phases and passes');
  bar.append(button('unfold all', () => set(() => true, true)), button('fold all', () => set(() => true, false)), label);
  set(r => r.share >= OPEN_SHARE, true);
}

for (const table of document.querySelectorAll('table[data-by]')) {
  if (table.dataset.by === 'tree') {
    make_tree(table);
    continue;
  }
  make_sortable(table);
  if (table.tBodies[0].rows.length > 20) make_filter(table);
}
})();
