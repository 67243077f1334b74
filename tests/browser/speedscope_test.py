#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Opens each file in the real speedscope in a real browser (a flame graph .svg, a page .html: by itself) and compares what is shown with what the file says.

speedscope_test.py --site DIRECTORY --artifacts DIRECTORY [--seconds N] FILE...

Prints a line for each check and, last, "N passed, N failed, N skipped"."""
import argparse
import collections
import functools
import http.server
import json
import pathlib
import re
import subprocess
import sys
import threading
import time

import devtools
import diff_test
import html_test
import svg_test

HERE = pathlib.Path(__file__).resolve().parent
ROWS_MAX = 3000  # of a table; beyond, the heaviest are compared

# The table's head and the rows drawn now are tables of their own; the rows' one is in a box that scrolls.
BOX = """const cells = row => [...row.querySelectorAll('td')].map(d => d.innerText.trim());
  const row = [...document.querySelectorAll('tr')].find(r => { const c = cells(r); return c.length === 3 && /^[0-9].*%%\\)$/.test(c[0]); });
  let box = row;
  while (box && !/auto|scroll/.test(getComputedStyle(box).overflowY)) box = box.parentElement;
"""
# Each row with its place in the whole list, and how far there is to scroll.
ROWS = "(() => {" + BOX.replace("%%", "%") + """
  if (!box) return null;
  const top = box.getBoundingClientRect().top;
  return {page: box.clientHeight, all: box.scrollHeight, rows: [...box.querySelectorAll('tr')].map(r => [
    Math.round(r.getBoundingClientRect().top - top + box.scrollTop), ...cells(r)])};
})()"""
SCROLL = "(() => {" + BOX + """
  if (box) box.scrollTop = %d;
  return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))));
})()"""
NAMES = """(() => { const table = [...document.querySelectorAll('table')].find(t => /Total Weight/.test(t.innerText));
  return table && [...table.querySelectorAll('tbody tr')].map(r => [...r.querySelectorAll('td')].map(d => d.innerText.trim())); })()"""


class Checks:
    def __init__(self):
        self.passed = self.failed = 0

    def __call__(self, what, holds, why=""):
        if holds:
            self.passed += 1
        else:
            self.failed += 1
        print(("ok      " if holds else "FAILED  ") + what + (f": {why}" if why and not holds else ""), flush=True)
        return holds


def serve(site, files):
    """The static files of speedscope, and each profile as /profile/INDEX.json."""
    class Handler(http.server.SimpleHTTPRequestHandler):
        def translate_path(self, path):
            match = re.fullmatch(r"/profile/(\d+)\.json", path)
            return str(files[int(match[1])]) if match else super().translate_path(path)

        def copyfile(self, source, output):
            try:
                super().copyfile(source, output)
            except ConnectionError:  # the page was left
                pass

        def log_message(self, *_):
            pass

    handler = functools.partial(Handler, directory=str(site))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


def shown_time(text, unit):
    """(ns, what rounding may hide) of speedscope's words: 1:05, 12:03.4, 5.00s, 228.99ms, 7.00µs, 12.00ns; without a unit 1,234.567."""
    match = re.match(r"(?:(\d+):)?([\d.,]+)(ns|[µμ]s|ms|s)?", text)
    if not match:
        raise devtools.Error(f"not a time: {text!r}")
    minutes, number, word = match.groups()
    scale = {"ns": 1, "µs": 1e3, "μs": 1e3, "ms": 1e6, "s": 1e9, None: 1 if unit == "none" else 1e9}[word]
    value = (int(minutes or 0) * 60 + float(number.replace(",", ""))) * scale
    digits = len(number.split(".")[1]) if "." in number else 0
    # minutes are shown with floored seconds
    return value, scale * 10.0 ** -digits * (1.01 if minutes else 0.51)


def equal_time(text, ns, unit):
    value, slack = shown_time(text, unit)
    return abs(value - ns) <= slack


def read_table(page):
    """Cells (total, self, symbol) of all rows, in order."""
    rows, at = {}, 0
    while True:
        page.run(SCROLL % at)
        state = page.run(ROWS) or {"rows": [], "page": 0, "all": 0}
        for place, *cells in state["rows"]:
            rows[place] = cells
        if at + state["page"] >= state["all"] or len(rows) > ROWS_MAX:
            return [rows[place] for place in sorted(rows)]
        at += max(state["page"] - 60, 40)


def compare_table(rows, expected, unit):
    """None, or the first difference. Rows come sorted by self time; equal names are told apart by their times."""
    if len(rows) < min(len(expected), ROWS_MAX):
        return f"{len(rows)} rows for {len(expected)} frames"
    by_name = collections.defaultdict(list)
    for name, self_ns, total_ns in expected:
        by_name[name.strip()].append((self_ns, total_ns))
    for total, self_time, name in rows:
        for candidate in by_name.get(name, []):
            if equal_time(self_time, candidate[0], unit) and equal_time(total, candidate[1], unit):
                by_name[name].remove(candidate)
                break
        else:
            return f"{name!r} is shown with total {total}, self {self_time}; the file has {by_name.get(name)}"
    return None


def truth_of(path):
    """In a process of its own: the file is big, and the reader is another program."""
    text = subprocess.run([sys.executable, HERE / "check_speedscope.py", "--totals", path],
                          check=True, stdout=subprocess.PIPE).stdout
    return json.loads(text)


def active_of(path):
    head = open(path, encoding="utf-8").read(1 << 16)
    match = re.search(r'"activeProfileIndex":(\d+)', head)
    return int(match[1]) if match else 0


def title_of(page):
    return page.run("document.body.innerText.split('\\n')[1]")


def check_selector(page, check, name, truth):
    page.key("t")
    rows = page.wait(NAMES)
    shown = [row[1] for row in rows]
    check(f"{name}: the selector lists the profiles", shown == [p["name"] for p in truth], f"{shown}")
    # The selector's weight leaves out time of an empty stack, when the thread was not there.
    page.key("Escape")
    page.run("document.activeElement && document.activeElement.blur()")


def check_file(page, check, url, path, artifacts, seconds):
    name = path.name
    truth = truth_of(path)
    active = active_of(path)
    started = time.monotonic()
    page.errors.clear()
    page.open("about:blank")
    page.open(url)
    page.wait("document.body && /Left Heavy/.test(document.body.innerText) && document.body.innerText.split('\\n').length > 2 && "
              "!/Loading/.test(document.body.innerText) && document.querySelectorAll('canvas').length > 0", seconds)
    took = time.monotonic() - started
    heap = page.run("performance.memory ? performance.memory.usedJSHeapSize : 0")
    print(f"        {name}: {path.stat().st_size / 1e6:.1f} MB opened in {took:.1f} s, JS heap {heap / 1e6:.0f} MB")
    check(f"{name}: the main thread is shown first", title_of(page).startswith(truth[active]["name"]), title_of(page))
    for key, view in (("1", "time-order"), ("2", "left-heavy"), ("3", "sandwich")):
        page.key(key)
        page.run("new Promise(done => setTimeout(() => requestAnimationFrame(() => done(true)), 700))")
        page.screenshot(artifacts / f"{path.name.split('.')[0]}-{view}.png")
    page.wait(ROWS)
    if len(truth) > 1:
        check_selector(page, check, name, truth)
    for _ in range(active):
        page.key("p")
    for i, profile in enumerate(truth):
        if i:
            page.key("n")
        page.wait(f"document.body.innerText.split('\\n')[1].startsWith({json.dumps(profile['name'])})", seconds)
        page.run("new Promise(done => setTimeout(() => requestAnimationFrame(() => done(true)), 300))")
        difference = compare_table(read_table(page), profile["frames"], profile["unit"])
        check(f"{name}: {profile['name']}: self and total of {len(profile['frames'])} frames", not difference, difference)
    check(f"{name}: no error in the console", not page.errors, "; ".join(page.errors)[:500])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--site", type=pathlib.Path, required=True)
    parser.add_argument("--artifacts", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=int, default=60, help="that a file may take to open")
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    check = Checks()
    port = serve(options.site, options.files)
    for i, path in enumerate(options.files):
        page = None
        try:
            page = devtools.Page()
            url = f"http://127.0.0.1:{port}/index.html#profileURL=/profile/{i}.json&view=left-heavy"
            if path.name == "diff.svg":
                diff_test.check_svg(page, check, path, options.artifacts)
            elif path.name == "diff.html":
                diff_test.check_page(page, check, path, options.artifacts)
            elif path.suffix == ".svg":
                svg_test.check_file(page, check, path, options.artifacts)
            elif path.suffix == ".html":
                html_test.check_file(page, check, path, options.artifacts)
            else:
                if path.name == "diff.speedscope.json":
                    diff_test.check_profiles(check, path)
                check_file(page, check, url, path, options.artifacts, options.seconds)
        except (devtools.Error, OSError, subprocess.CalledProcessError) as error:
            check(path.name, False, str(error))
        finally:
            if page:
                page.close()
    print(f"{check.passed} passed, {check.failed} failed, 0 skipped")
    return check.failed > 0


if __name__ == "__main__":
    sys.exit(main())
