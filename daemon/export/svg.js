/* SPDX-License-Identifier: MIT */
// Zoom and search of a flame graph: by itself, or in a page, where it is as wide as the page gives it room.
// It has no address of anything: the file works offline.
// A frame is <g><title>name, place, time</title><rect/><text/></g>; x and width of its rect are those of the whole
// picture, which a zoom reads again.
(function () {
'use strict';
const root = document.getElementById('flame'), found = document.getElementById('found');
const reset = document.getElementById('reset'), box = document.getElementById('search');
if (!root) return;
const width = +root.dataset.width, letter = +root.dataset.letter, alone = root === document.documentElement;
let room = width, shown = null; // px that the picture has; the frame that is zoomed to
const frames = Array.from(document.querySelectorAll('#frames g'), g => {
  const [title, rect, text] = g.children;
  return {g, rect, text, name: title.textContent.split('\n', 1)[0], x: +rect.getAttribute('x'),
          w: +rect.getAttribute('width'), y: +rect.getAttribute('y')};
});
const of = new Map(frames.map(f => [f.g, f]));
function label(f, w) {
  const fits = Math.floor((w - 6) / letter), letters = Array.from(f.name);
  f.text.textContent = fits < 3 ? '' : letters.length <= fits ? f.name : letters.slice(0, fits - 1).join('') + '\u2026';
}
function zoom(to) {
  const from = to ? to.x : 0, scale = room / (to ? to.w : width), end = to ? to.x + to.w : width, grain = 1e-3;
  for (const f of frames) {
    const above = to && f.y < to.y && f.x <= from + grain && f.x + f.w >= end - grain;
    const inside = f.x >= from - grain && f.x + f.w <= end + grain && (!to || f.y >= to.y);
    f.g.style.display = above || inside ? '' : 'none';
    f.g.classList.toggle('above', !!above);
    if (!above && !inside) continue;
    const x = above ? 0 : (f.x - from) * scale, w = above ? room : f.w * scale;
    f.rect.setAttribute('x', x);
    f.rect.setAttribute('width', w);
    f.text.setAttribute('x', x + 3);
    label(f, w);
  }
  shown = to;
  reset.style.display = to ? '' : 'none';
}
function pattern(words) {
  try { return new RegExp(words, 'i'); }
  catch (e) { return new RegExp(words.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'), 'i'); }
}
function search(words) {
  const want = words ? pattern(words) : null, hits = [];
  for (const f of frames) {
    const hit = !!want && want.test(f.name);
    f.g.classList.toggle('match', hit);
    if (hit) hits.push(f);
  }
  hits.sort((a, b) => a.x - b.x || b.w - a.w);
  let sum = 0, end = -1; // a match below a match counts once
  for (const f of hits) {
    if (f.x + f.w <= end) continue;
    sum += f.w;
    end = f.x + f.w;
  }
  found.textContent = want ? 'found: ' + (100 * sum / width).toFixed(2) + ' % of the time, ' + hits.length + ' frames' : '';
}
if (alone) { // a status line: the frame below the pointer, whole
  const status = document.getElementById('status');
  document.getElementById('frames').addEventListener('mouseover', e => {
    const f = of.get(e.target.closest('g'));
    status.textContent = f ? f.g.firstElementChild.textContent.replace(/\n/g, '  ') : '';
  });
  document.getElementById('frames').addEventListener('mouseleave', () => { status.textContent = ''; });
}
document.getElementById('frames').addEventListener('click', e => {
  const f = of.get(e.target.closest('g'));
  if (f) zoom(f.w >= width - 1e-3 ? null : f);
});
reset.addEventListener('click', () => zoom(null));
box.addEventListener('input', () => search(box.value));
document.addEventListener('keydown', e => {
  if (e.key === 'Escape') { box.value = ''; search(''); zoom(null); box.blur(); }
  else if (e.key === '/' && document.activeElement !== box) { e.preventDefault(); box.focus(); }
});
root.removeAttribute('viewBox'); // without a script the picture is scaled to the page, letters and all
if (alone) root.setAttribute('width', '100%');
new ResizeObserver(() => {
  room = root.getBoundingClientRect().width || width;
  if (alone) { // the tools stay at the right
    box.parentNode.setAttribute('x', room - 256);
    reset.setAttribute('x', room - 90);
  }
  zoom(shown);
}).observe(root);
})();
