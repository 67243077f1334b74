#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A page of `convert -f html`, opened from disk in a real browser: what it shows is compared with what `report --json` says
of the same recording (NAME.report.json beside NAME.html); its time line is pointed at, clicked, dragged; tables are sorted,
folded, filtered; nothing is asked of a network.

html_test.py --hostile IN OUT: of a recording as NDJSON one whose names try to break out of the page.
html_test.py --sources IN OUT SOURCE: one whose compiles are at lines of SOURCE, which is written, too."""
import json
import re
import sys

from devtools import FAINT

HOSTILE = ("</script><script>window.broken = 1</script>", "<!--<script>", "\"><img src=x onerror='window.broken = 1'>", "]]><b id=broken>",
           "'\"&lt;&#60;`${broken}", "\x01\x1b[31m\x7f", "\u2028\u2029\u202e", "</title></style></textarea>", "\\u003c/script>\\", "http://127.0.0.1:9/x.js")

TABLES = """Object.fromEntries([...document.querySelectorAll('table[data-by]')].map(t => [t.dataset.by, [...t.tBodies[0].rows].map(r => ({
  name: (r.querySelector('.name') || r.querySelector('th')).textContent, depth: +r.dataset.depth, seen: r.getClientRects().length > 0,
  values: [...r.cells].filter(c => c.dataset.value !== undefined).map(c => +c.dataset.value),
  words: [...r.cells].map(c => c.textContent)}))]))"""
LANES = """[...document.querySelectorAll('#time-line figure canvas')].map(c => { const b = c.getBoundingClientRect();
  return {bars: +c.dataset.bars, x: b.x, y: b.y, width: b.width}; })"""
LISTINGS = """[...document.querySelectorAll('#sources details')].map(d => ({name: d.querySelector('.name').textContent,
  rows: [...d.querySelector('tbody').rows].map(r => ({line: r.cells[0].textContent, text: r.cells[4].textContent, heat: r.className}))}))"""
VIEW = "[+document.getElementById('time-line').dataset.from, +document.getElementById('time-line').dataset.to]"
DRAWN = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"


def hostile(source, target):
    """Names of all kinds; an odd one each, so that none hides another."""
    count = 0

    def name():
        nonlocal count
        count += 1
        return HOSTILE[count % len(HOSTILE)] + " %d" % count

    with open(source, encoding="utf-8") as lines, open(target, "w", encoding="utf-8") as out:
        for line in lines:
            event = json.loads(line)
            if event["ev"] == "session":
                event["command"] = "".join(HOSTILE)
            elif event["ev"] in ("thread", "process"):
                event["name"] = name()
            elif event["ev"] in ("functions", "classes", "units"):
                event["rows"] = [[name() if isinstance(cell, str) and cell else cell for cell in row] for row in event["rows"]]
            out.write(json.dumps(event) + "\n")


def sources(recording, target, source):
    with open(source, "w", encoding="utf-8") as out:
        out.writelines("    " * (i % 3) + name + "\n" for i, name in enumerate(name for name in HOSTILE * 4))
    lines = {"ev": "lines", "first": 1, "rows": [[0, 1, source, line] for line in (3, 4, 4, 12, 30)]}
    with open(recording, encoding="utf-8") as events, open(target, "w", encoding="utf-8") as out:
        for event in map(json.loads, events):
            if event["ev"] == "units":
                event["rows"] = [[*row[:8], source, 2, *row[10:]] if len(row) > 8 else row for row in event["rows"]]
            elif event["ev"] == "samples" and "unit" in event:
                event["line"] = [unit and 1 + (unit + i) % 5 for i, unit in enumerate(event["unit"])]
            out.write(json.dumps(event) + "\n")
            if event["ev"] == "epoch":
                out.write(json.dumps(lines) + "\n")


def clean(text):
    """What a page can hold of it."""
    return re.sub("[\x00-\x1f\x7f\u200e\u200f\u202a-\u202e\u2066-\u2069]", "\ufffd", text)


def name_of(row):
    return clean(row["name"] + ("(%s)" % row["signature"] if row.get("compiler") and "signature" in row else ""))


def branches(rows, depth=0):
    for row in rows:
        yield depth, row
        yield from branches(row["rows"], depth + 1)


def shown(value):
    """A page has visible escapes for controls and marks of direction, where the report's JSON has the characters."""
    if isinstance(value, dict):
        return {shown(k): shown(v) for k, v in value.items()}
    if isinstance(value, list):
        return [shown(v) for v in value]
    if not isinstance(value, str):
        return value
    value = value.replace("\n", "\\n").replace("\t", "\\t")
    return re.sub("[\\x00-\\x1f\\x7f-\\x9f]", lambda m: "\\x%02x" % ord(m[0]),
                  re.sub("[\\u061c\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb]", lambda m: "\\u%04x" % ord(m[0]), value))


def check_tables(page, check, name, tables):
    shown = page.run(TABLES)
    for by, rows in shown.items():
        truth = tables[by]["rows"]
        if by == "tree":
            want = [(depth, name_of(r),
                     [r["inclusive_ns"], r["exclusive_ns"], r["elapsed_ns"], r["calls"]]) for depth, r in branches(truth)]
            got = [(r["depth"], r["name"], r["values"]) for r in rows]
        elif by == "thread":
            order = [c["name"] for c in tables["class"]["rows"]]
            want = [(clean(r["name"]), [r["exclusive_ns"]] +
                     [next((c["exclusive_ns"] for c in r["classes"] if c["name"] == n), 0) for n in order]) for r in truth]
            got = [(r["name"], r["values"]) for r in rows]
        else:
            keys = {"class": ("exclusive_ns",), "process": ("exclusive_ns",), "repeat": ("exclusive_ns", "calls")}.get(by, ("exclusive_ns", "inclusive_ns", "elapsed_ns", "calls"))
            want = [(name_of(r), [r[k] for k in keys if k in r]) for r in truth]
            got = [(r["name"], r["values"]) for r in rows]
        wrong = next((pair for pair in zip(got, want) if pair[0] != pair[1]), None)
        check(f"{name}: table of {by}: {len(want)} rows as the report has them", len(got) == len(want) and not wrong, f"{len(got)}: {wrong}")
    wrong = page.run(CUT_NAMES)
    check(f"{name}: each name is one line, and a tooltip has what is cut", not wrong, f"{wrong[:3]}")
    check(f"{name}: all tables are there", set(shown) == {by for by, t in tables.items() if len(t["rows"]) > (by == "process") and by not in ("chain", "source-line")}, f"{set(shown)}")


# Names that take more than a line, or are cut without a tooltip that has the whole.
CUT_NAMES = """[...document.querySelectorAll('table .name')].filter(n => n.offsetParent &&
    (n.clientHeight > 1.6 * parseFloat(getComputedStyle(n).lineHeight) || (n.scrollWidth > n.clientWidth && n.title !== n.textContent)))
    .map(n => [n.textContent, n.title, n.clientHeight])"""


def check_head(page, check, name, report):
    words, recording = page.run("document.querySelector('header').innerText"), report["recordings"][0]
    facts = [f"{recording['samples']:,}", f"{recording['rate_hz']}\u00a0Hz", f"{recording['threads']} thread", str(recording["pid"]), recording["started"],
             clean(recording["command"])]
    check(f"{name}: the head says what was recorded", all(f in words for f in facts), f"{[f for f in facts if f not in words]}")
    losses = page.run("[...document.querySelectorAll('.losses tr')].map(r => [...r.cells].map(c => c.textContent))")
    check(f"{name}: and what was lost", {(loss, f"{n:,}") for loss, n in recording["losses"].items()} == {(r[2], r[0]) for r in losses}, f"{losses}")


def check_sorting(page, check, name):
    def column():
        return page.run("[...document.querySelector('table[data-by=function]').tBodies[0].rows].map(r => +r.cells[3].dataset.value)")

    head = "document.querySelectorAll('table[data-by=function] thead th')[2]"
    before = column()
    page.run(head + ".querySelector('button').click()")
    once, state = column(), page.run(head + ".getAttribute('aria-sort')")
    page.run(head + ".querySelector('button').click()")
    check(f"{name}: a click on a head sorts, the next one the other way round", once == sorted(before, reverse=True) and column() == sorted(before) and
          state == "descending" and before != once, f"{once[:5]}")


def check_filter(page, check, name, tables):
    word = tables["function"]["rows"][3]["name"].split()[-1].lower()
    page.run("document.querySelector('#functions input').focus()")
    page.call("Input.insertText", {"text": word})
    rows = page.run(TABLES)["function"]
    check(f"{name}: the box of a table leaves the rows that have the word", any(r["seen"] for r in rows) and
          all(r["seen"] == any(word in w.lower() for w in r["words"]) for r in rows))
    page.run("{ const box = document.querySelector('#functions input'); box.value = ''; box.dispatchEvent(new Event('input')); }")


def check_folding(page, check, name):
    press = "[...document.querySelectorAll('#tree .tools button')].find(b => b.textContent === '%s').click()"
    page.run(press % "unfold all")
    rows = page.run(TABLES)["tree"]
    stages = page.run("[...document.querySelector('table[data-by=tree]').tBodies[0].rows].map(r => r.className === 'stage')")
    check(f"{name}: the tree unfolds to all compiles", [r["seen"] for r in rows] == [not s for s in stages] and any(stages))
    page.run("document.querySelector('#tree input').click()")
    check(f"{name}: and to their phases and passes", all(r["seen"] for r in page.run(TABLES)["tree"]))
    page.run(press % "fold all")
    check(f"{name}: and folds to the lines that caused them", all(r["seen"] == (r["depth"] == 0) for r in page.run(TABLES)["tree"]))
    page.run("document.querySelector('#tree .fold').click()")
    rows = page.run(TABLES)["tree"]
    second = next((i for i, r in enumerate(rows) if i and r["depth"] == 0), len(rows))
    check(f"{name}: a row unfolds what is below it", all(r["seen"] == (r["depth"] == 0 or i < second and r["depth"] == 1) for i, r in enumerate(rows)))


def point(lane, at, length, row=0):
    return lane["x"] + lane["width"] * at / length, lane["y"] + row * 17 + 8


def lit(page, lane, chain, length):
    """Is something drawn there? The top row, a little apart from the edges."""
    return page.run(f"""(() => {{ const c = document.querySelectorAll('#time-line figure canvas')[{lane}], scale = c.width / c.clientWidth;
      return c.getContext('2d').getImageData(c.width * {(chain[0] + chain[1] / 2) / length}, 3 * scale, 1, 1).data[3]; }})()""")


def check_time_line(page, check, name, report, tables):
    lanes, length = page.run(LANES), report["recordings"][0]["span_ns"]
    calls = sum(r["calls"] for by in ("unit", "phase", "pass") for r in tables[by]["rows"])
    check(f"{name}: as many bars as there were compiles, phases and passes", sum(lane["bars"] for lane in lanes) == calls,
          f"{[lane['bars'] for lane in lanes]}, {calls}")
    threads = list(dict.fromkeys(c["thread"] for c in tables["chain"]["rows"]))
    check(f"{name}: a lane for each thread that compiled", len(lanes) == len(threads), f"{len(lanes)}, {threads}")
    words = page.run("[...document.querySelectorAll('#time-line figcaption')].map(f => f.textContent)")
    check(f"{name}: with its name", all(any(clean(w).startswith(clean(t)) for w in words) for t in threads), f"{words}")
    first = next(i for i, w in enumerate(words) if clean(w).startswith(clean(threads[0])))
    chains = [(c["start_ns"], c["elapsed_ns"], name_of(c)) for c in tables["chain"]["rows"] if c["thread"] == threads[0]]
    dark = [c for c in chains if c[1] > length / 100 and not lit(page, first, c, length)]
    gaps = [(a[0] + a[1], b[0] - a[0] - a[1]) for a, b in zip(chains, chains[1:]) if b[0] - a[0] - a[1] > length / 200]
    check(f"{name}: outermost compiles are drawn where they were, and nothing between them", not dark and
          not [g for g in gaps if lit(page, first, g, length)], f"{dark[:2]}")
    check_pointing(page, check, name, lanes[first], length, max(chains, key=lambda c: c[1]))


def check_pointing(page, check, name, lane, length, chain):
    start, elapsed, label = chain
    middle = point(lane, start + elapsed / 2, length)
    page.mouse("mouseMoved", *middle)
    tip = page.run("document.querySelector('.tip').textContent")
    check(f"{name}: who points at a bar is told its name", label in clean(tip) and "by the clock" in tip, f"{tip!r}, {label!r}")
    page.click(*middle)
    page.run(DRAWN)
    check(f"{name}: a click zooms to it", page.run(VIEW) == [start, start + elapsed], f"{page.run(VIEW)}")
    chosen = clean(page.run("document.querySelector('.chosen .name').textContent"))
    share = page.run("[...document.querySelectorAll('.chosen tbody tr')].map(r => parseFloat(r.cells[2].textContent))")
    check(f"{name}: and tells what its time is made of", label in chosen and share and sum(share) < 101 and (len(share) == 12 or sum(share) > 98), f"{share}")
    page.run("document.querySelectorAll('#time-line figure canvas')[0].focus()")
    page.key("Escape")
    page.run(DRAWN)
    check(f"{name}: Escape shows all again", page.run(VIEW) == [0, length], f"{page.run(VIEW)}")
    page.mouse("mousePressed", *point(lane, 0.25 * length, length))
    page.mouse("mouseMoved", *point(lane, 0.3 * length, length), button="left", buttons=1)
    page.mouse("mouseMoved", *point(lane, 0.5 * length, length), button="left", buttons=1)
    page.mouse("mouseReleased", *point(lane, 0.5 * length, length))
    page.run(DRAWN)
    view, grain = page.run(VIEW), 2 * length / lane["width"]
    check(f"{name}: a drag zooms", abs(view[0] - 0.25 * length) < grain and abs(view[1] - 0.5 * length) < grain, f"{view}")
    page.run("document.querySelectorAll('#time-line figure canvas')[0].focus()")
    page.key("+")
    page.run(DRAWN)
    now = page.run(VIEW)
    check(f"{name}: and so does a key", abs((now[1] - now[0]) - (view[1] - view[0]) / 2) < 2, f"{now}")
    page.key("Escape")


def check_flame_graph(page, check, name, report):
    words = page.run("document.querySelector('#flame-graph').textContent")
    recording = report["recordings"][0]
    shown = recording["shown_wall_ns" if report["weight"] == "wall" else "shown_cpu_ns"]
    check(f"{name}: the flame graph is of all the time", "%.3f s of " % (shown / 1e9) in words, words[:300])
    widths = page.run("[document.querySelector('#frames rect').getBoundingClientRect().width, document.getElementById('flame').getBoundingClientRect().width]")
    check(f"{name}: and as wide as the page", abs(widths[0] - widths[1]) < 2, f"{widths}")
    page.run("document.getElementById('search').focus()")
    page.call("Input.insertText", {"text": "."})
    check(f"{name}: its search finds", "100.00 %" in page.run("document.getElementById('found').textContent"))
    page.key("Escape")


def look(page, scheme):
    page.call("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
    return page.run(FAINT)


def check_without_script(page, check, name, path, tables):
    page.call("Emulation.setScriptExecutionDisabled", {"value": True})
    page.open(path.resolve().as_uri())
    page.wait("document.readyState === 'complete'")
    rows = page.run(TABLES)
    check(f"{name}: without JavaScript its tables are there", all(r["seen"] for by in rows.values() for r in by) and len(rows["unit"]) == len(tables["unit"]["rows"]))
    faint = {scheme: look(page, scheme) for scheme in ("light", "dark")}
    check(f"{name}: contrast of all texts", not any(faint.values()), f"{faint}")
    check(f"{name}: dark for who wants it dark", page.run("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)",
          page.run("getComputedStyle(document.body).backgroundColor"))


def check_sources(page, check, name, report):
    shown = page.run(LISTINGS)
    check(f"{name}: its sources", [listing["name"] for listing in shown] == [listing["name"] for listing in report["sources"]] and len(shown) > 3, f"{len(shown)}")
    hottest = max(line.get("inclusive_ns", 0) for listing in report["sources"] for line in listing["lines"])
    for listing, truth in zip(shown, report["sources"]):
        rows = [row for row in listing["rows"] if row["line"] != "..."]
        check(f"{name}: lines of {truth['name']}", [(int(row["line"]), row["text"]) for row in rows] == [(line["line"], clean(line["text"])) for line in truth["lines"]],
              f"{rows[:4]}")
        heat = [round(9 * line.get("inclusive_ns", 0) / hottest) for line in truth["lines"]]
        check(f"{name}: heat of {truth['name']}", [row["heat"] for row in rows] == ["heat%d" % max(1, h) if "each" in line else "" for h, line in zip(heat, truth["lines"])],
              f"{[row['heat'] for row in rows]}, {heat}")
    check(f"{name}: lines that were left out", [sum(row["line"] == "..." for row in listing["rows"]) for listing in shown] ==
          [sum(b["line"] > a["line"] + 1 for a, b in zip(listing["lines"], listing["lines"][1:])) for listing in report["sources"]])


def check_file(page, check, path, artifacts):
    name, url = path.name, path.resolve().as_uri()
    report = shown(json.loads(path.with_suffix(".report.json").read_text(encoding="utf-8")))
    tables = {t["by"]: t for t in report["tables"]}
    page.call("Emulation.setDeviceMetricsOverride", {"width": 1400, "height": 1000, "deviceScaleFactor": 1, "mobile": False})
    page.open(url)
    page.wait("document.readyState === 'complete' && !!document.querySelector('#time-line canvas')")
    page.run(DRAWN)
    page.screenshot(artifacts / (name + ".png"))
    check_head(page, check, name, report)
    check_time_line(page, check, name, report, tables)
    check_tables(page, check, name, tables)
    if "sources" in report:
        check_sources(page, check, name, report)
    check(f"{name}: nothing broke out of its names", not page.run("window.broken || document.getElementById('broken') || document.querySelector('img')"))
    if "hostile" not in name:  # what is left has little to do with names
        check_sorting(page, check, name)
        check_filter(page, check, name, tables)
        check_folding(page, check, name)
        check_flame_graph(page, check, name, report)
        check_without_script(page, check, name, path, tables)
    check(f"{name}: nothing is asked of anybody", set(page.requests) == {url}, f"{set(page.requests)}")
    check(f"{name}: no complaint on the console", not page.errors, "; ".join(page.errors[:3]))


if __name__ == "__main__":
    {"--hostile": hostile, "--sources": sources}[sys.argv[1]](*sys.argv[2:])
