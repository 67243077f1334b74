#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`cprofd view PID` in a real browser, of a Numba compile: what the page shows is compared with the events that it was made
of, and with the recording that it saves; three pages at once; keys, range, thread, search, pause.

view_test.py PID [ARTIFACTS]: the target's PID; pictures go to ARTIFACTS."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import urllib.request

from devtools import FAINT, Page

ROOT = pathlib.Path(__file__).resolve().parents[2]
CPROFD = os.environ.get("CPROFD", str(ROOT / "build/cprofd"))
counts = {True: 0, False: 0}
DRAWN = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"
# Of each unit that is drawn: ms from its first sample to the frame that has it.
WATCH = """(() => { const seen = window.delays = []; let last = cprofd.model.units.count;
  const frame = () => { const {units, clock} = cprofd.model;
    for (let n = cprofd.time.drawn_units; last < n; last++)
      if (units.first[last] > 0) seen.push(performance.timeOrigin + performance.now() - clock - units.first[last] / 1e6);
    requestAnimationFrame(frame); };
  requestAnimationFrame(frame); return true; })()"""
# Sums of the page by its own columns, and by its tables; of one moment, as events go on coming between two calls.
SUMS = """(() => { cprofd.refresh(); const m = cprofd.model, s = cprofd.sums; let rows = 0; for (let i = 0; i < m.rows.count; i++) rows += m.rows.w[i];
  return {rows, total: s.total, kinds: m.classes.values.reduce((a, _, k) => a + s.kind[k], 0), root: s.node[0],
    self: s.self.reduce((a, b) => a + b, 0), fn: s.fn_self.reduce((a, b) => a + b, 0), lines: s.line.reduce((a, b) => a + b, 0), samples: m.samples}; })()"""


def check(good, name, *details):
    counts[bool(good)] += 1
    print("ok" if good else "FAILED", name, *([] if good else details), flush=True)
    return good


class View:
    def __init__(self, pid, *options):
        env = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER") and not k.startswith("SUDO_")}
        self.process = subprocess.Popen([CPROFD, "view", str(pid), *options], stderr=subprocess.PIPE, text=True, env=env)
        line = self.process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+/[0-9a-f]{40}/", line)
        if not found:
            raise SystemExit(line + self.process.stderr.read())
        self.address = found[0]

    def save(self, query):
        with urllib.request.urlopen(self.address + "save?" + query) as answer:
            return answer.read(), answer.headers

    def end(self):
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(30)


def close(a, b, part=1e-6):
    return abs(a - b) <= part * max(abs(a), abs(b), 1)


def check_page(page, view, artifacts):
    page.open(view.address)
    page.wait("window.cprofd && cprofd.model.session && cprofd.model.units.count > 50")
    page.run(WATCH)
    time.sleep(6)
    sums = page.run(SUMS)
    check(sums["total"] > 1e9 and all(close(sums["total"], sums[k]) for k in ("rows", "kinds", "root", "self", "fn", "lines")), "all tables have the same sum", sums)
    words = page.run("document.querySelector('#units tbody').innerText")
    check("foo" in words and "compile" in words, "the table of compiles has what is compiled", words[:300])
    now = page.run("document.querySelector('#now tbody').innerText")
    check("%" in now and page.run("document.querySelectorAll('#now tbody tr').length") > 0, "threads now are there", now[:200])
    check(int(page.run("document.getElementById('lanes').dataset.shown")) > 10, "the time line has compiles")
    check(int(page.run("document.getElementById('flame').dataset.frames")) > 20, "the flame graph has frames")
    delays = sorted(page.run("delays"))
    print("       from a unit's first sample to its frame, ms: median %.0f, 90 %% %.0f, most %.0f (%d units)" %
          (delays[len(delays) // 2], delays[len(delays) * 9 // 10], delays[-1], len(delays)), flush=True)
    check(len(delays) > 20, "compiles come while they go on", len(delays))
    return sums


def check_filters(page, view):
    page.run("cprofd.choose(1e9, 3e9)")
    part = page.run(SUMS)
    check(0 < part["total"] < part["rows"] and all(close(part["total"], part[k]) for k in ("kinds", "self", "fn", "lines")), "a range filters everything", part)
    check(page.run("!document.getElementById('range').hidden"), "and the page says which")
    data, _ = view.save("format=collapsed&window=1.0,3.0")
    saved = sum(int(line.rsplit(b" ", 1)[1]) for line in data.splitlines() if b"(idle)" not in line)
    check(saved > 0, "a range can be saved", saved)
    page.key("Escape")
    check(page.run("cprofd.range === null"), "Escape shows all again")
    page.key("/")
    page.call("Input.insertText", {"text": "native_lowering"})
    rows = page.run("[...document.querySelectorAll('#units tbody tr.match .name')].filter(n => n.offsetParent).map(n => n.textContent)")
    check(rows and all("native_lowering" in r for r in rows), "a search finds phases", rows)
    page.key("Escape")
    page.key("p")
    before = page.run("(cprofd.refresh(), cprofd.sums.total)")
    time.sleep(1)
    check(page.run("(cprofd.refresh(), cprofd.sums.total)") == before, "p: nothing moves while it is paused")
    page.key("p")
    page.run("document.getElementById('lanes').focus()")
    page.key("ArrowLeft")
    page.key("-")
    check(page.run("cprofd.fixed !== null && cprofd.fixed[1] > cprofd.fixed[0]"), "keys move and zoom the time line")
    page.run("cprofd.follow(30)")
    box = page.run("(() => { document.getElementById('overview').scrollIntoView({block: 'center'}); const b = document.getElementById('overview').getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; })()")
    page.mouse("mousePressed", box[0] + box[2] * .3, box[1] + 20)
    page.mouse("mouseMoved", box[0] + box[2] * .6, box[1] + 20, buttons=1)
    page.mouse("mouseReleased", box[0] + box[2] * .6, box[1] + 20)
    check(page.run("cprofd.range !== null && cprofd.range[1] > cprofd.range[0]"), "a drag chooses a range")
    page.key("Escape")


def check_saves(page, view):
    formats = page.run("[...document.getElementById('format').options].map(o => o.value)")
    check({"html", "speedscope", "svg", "collapsed", "pprof", "firefox", "perfetto", "otlp", "events"} <= set(formats), "every format can be saved", formats)
    for name in formats:
        data, headers = view.save("format=" + name)
        check(len(data) > 1000 and "attachment" in headers["Content-Disposition"], f"saved as {name}: {len(data)} bytes")
        if name == "events":
            lines = [json.loads(line) for line in data.splitlines()]
            check(lines[0]["ev"] == "hello" and lines[-1]["ev"] == "end" and lines[-1]["reason"] == "snapshot", "a saved recording is whole")
            sums = page.run("new Promise(done => setTimeout(() => done(cprofd.model.samples), 1500))")
            ledger = [line["samples"] for line in lines if line["ev"] == "ledger"][-1]
            check(0 < ledger <= sums, "and has the samples that the page has, up to then", ledger, sums)
    for bad in ("format=none", "format=html&window=--open", "format=html&thread=-o", ""):
        try:
            view.save(bad)
            check(False, f"save?{bad} is refused")
        except urllib.error.HTTPError as error:
            check(error.code == 400, f"save?{bad} is refused", error.code)


def main():
    pid, artifacts = int(sys.argv[1]), pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "build/artifacts")
    view = View(pid)
    pages = [Page(size=(1280, 800)), Page(size=(420, 800)), Page(size=(1280, 800))]
    first, narrow, late = pages
    try:
        check_page(first, view, artifacts)
        check_filters(first, view)
        for page, name in ((first, "view"), (narrow, "view-narrow")):
            if page is narrow:
                page.open(view.address)
                page.wait("window.cprofd && cprofd.model.units.count > 50")
            for scheme in ("light", "dark"):
                page.call("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
                page.run("cprofd.refresh(); scrollTo(0, 0)")
                page.run(DRAWN)
                faint = page.run(FAINT)
                check(not faint, f"{name}, {scheme}: contrast of all texts", faint)
                page.screenshot(artifacts / f"{name}-{scheme}.png")
                height = page.run("document.documentElement.scrollHeight")
                data = page.call("Page.captureScreenshot", {"format": "png", "captureBeyondViewport": True,
                                                            "clip": {"x": 0, "y": 0, "width": page.run("innerWidth"), "height": min(height, 4000), "scale": 1}})["data"]
                import base64
                (artifacts / f"{name}-{scheme}-whole.png").write_bytes(base64.b64decode(data))
            wide = page.run("document.documentElement.scrollWidth - innerWidth")
            check(wide <= 0, f"{name}: nothing is wider than the page", wide)
        late.open(view.address)
        late.wait("window.cprofd && cprofd.model.units.count > 50")
        time.sleep(2)
        figures = [page.run("[cprofd.model.units.count, cprofd.model.samples, cprofd.model.rows.t[0]]") for page in pages]
        check(len({f[2] for f in figures}) == 1 and max(f[0] for f in figures) - min(f[0] for f in figures) < 1000, "three pages at once have the whole session", figures)
        check_saves(first, view)
        for page in pages:
            check(not page.errors, "no error on the console", page.errors[:3])
            foreign = [url for url in page.requests if not url.startswith((view.address, "about:", "data:"))]
            check(not foreign, "nothing is asked of elsewhere", foreign)
        check(view.end() == 0, "Ctrl-C ends it")
        first.wait("cprofd.failed", 20)
        check("has ended" in first.run("(cprofd.show_head(), document.getElementById('state').textContent)"), "the page says that it ended, and keeps what it has")
    finally:
        view.process.kill()
        for page in pages:
            page.close()
    print("%d passed, %d failed, 0 skipped" % (counts[True], counts[False]))
    return 1 if counts[False] else 0


if __name__ == "__main__":
    sys.exit(main())
