# SPDX-License-Identifier: MIT
"""A flame graph opened from disk in a real browser: a click zooms, the box searches, Escape resets. What is shown is
compared with the file, read as XML."""
import re
import xml.etree.ElementTree

SPACE = "{http://www.w3.org/2000/svg}"
WIDTH = 1200.0
# [name, x, width, is shown, is a match, label] of each frame as it is now, in the file's units, though the picture is as wide as the
# window; the 4th is of the screen.
NOW = """(() => { const k = 1200 / document.documentElement.getBoundingClientRect().width;
  return [...document.querySelectorAll('#frames g')].map(g => { const r = g.querySelector('rect');
  return [g.querySelector('title').textContent, k * r.getAttribute('x'), k * r.getAttribute('width'), r.getClientRects().length > 0,
          g.classList.contains('match'), g.querySelector('text').textContent, g.classList.contains('above')]; }); })()"""
SPOT = """(() => { const b = document.querySelectorAll('#frames g')[%d].querySelector('rect').getBoundingClientRect();
  return [b.x + b.width / 2, b.y + b.height / 2]; })()"""


def read(path):
    frames = []
    for group in xml.etree.ElementTree.parse(path).getroot().iter(SPACE + "g"):
        if group.get("id") is None:
            rect = group.find(SPACE + "rect")
            frames.append((group.find(SPACE + "title").text, float(rect.get("x")), float(rect.get("width")), float(rect.get("y"))))
    return frames


def near(a, b):
    return abs(a - b) < 0.02


def covered(frames):
    """Width of the union."""
    total = end = 0.0
    for x, width in sorted((x, w) for _, x, w, _ in frames):
        total += max(0.0, x + width - max(x, end))
        end = max(end, x + width)
    return total


def check_zoom(page, check, name, frames):
    chosen = next(i for i, f in enumerate(frames) if f[3] > frames[0][3] and 0.1 * WIDTH < f[2] < 0.7 * WIDTH)
    _, x, width, y = frames[chosen]
    page.click(*page.run(SPOT % chosen))
    now = page.run(NOW)
    check(f"{name}: a click zooms", near(now[chosen][1], 0) and near(now[chosen][2], WIDTH), f"{now[chosen]}")
    wrong = []
    for frame, state in zip(frames, now):
        below = frame[3] >= y and frame[1] >= x - 1e-3 and frame[1] + frame[2] <= x + width + 1e-3
        above = frame[3] < y and frame[1] <= x + 1e-3 and frame[1] + frame[2] >= x + width - 1e-3
        if state[3] != (below or above) or state[6] != above:
            wrong.append(state)
        elif below and not (near(state[1], (frame[1] - x) * WIDTH / width) and near(state[2], frame[2] * WIDTH / width)):
            wrong.append(state)
    check(f"{name}: what is below it fills the width, the rest is gone", not wrong, f"{wrong[:2]}")
    check(f"{name}: the wide frame has its name", frames[chosen][0].startswith(now[chosen][5].rstrip("\u2026")) and now[chosen][5], f"{now[chosen]}")
    page.key("Escape")
    now = page.run(NOW)
    check(f"{name}: Escape resets", all(near(s[1], f[1]) and near(s[2], f[2]) and s[3] for f, s in zip(frames, now)))


def check_search(page, check, name, frames):
    word = max((f for f in frames[1:] if f[2] < 0.9 * WIDTH), key=lambda f: f[2])[0].split("\n")[0][-12:]
    page.key("/")
    page.call("Input.insertText", {"text": re.escape(word)})
    matching = [f for f in frames if word.lower() in f[0].split("\n")[0].lower()]
    now = page.run(NOW)
    check(f"{name}: the search marks what is found", {i for i, s in enumerate(now) if s[4]} == {frames.index(f) for f in matching} and matching)
    told = re.search(r"([\d.]+) %", page.run("document.getElementById('found').textContent"))
    want = 100 * covered(matching) / WIDTH
    check(f"{name}: and tells its share", told and abs(float(told[1]) - want) < 0.02, f"{told and told[0]}, {want}")
    page.key("Escape")
    page.run("document.getElementById('search').focus()")
    page.call("Input.insertText", {"text": "(["})  # no expression: searched for as it is
    check(f"{name}: a broken expression does no harm", "0.00 %" in page.run("document.getElementById('found').textContent"))
    page.key("Escape")
    check(f"{name}: Escape ends the search", not any(s[4] for s in page.run(NOW)))


# The widest frame is as wide as the window. (Resizing is told to the page a moment later.)
FILLED = "Math.abs(document.querySelector('#frames rect').getBoundingClientRect().width - document.documentElement.clientWidth) < 2"


def check_window(page, check, name, frames):
    """It fills the window, whatever that is; dark where the reader's system is; and tells what is below the pointer."""
    for width in (900, 1700):
        page.call("Emulation.setDeviceMetricsOverride", {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False})
        page.wait(f"innerWidth === {width} && {FILLED}")
        spots = page.run("""['search', 'reset'].map(id => document.getElementById(id).getBoundingClientRect().right)""")
        check(f"{name}: fills a window of {width}, its search box too", width - 30 < spots[0] <= width, f"{spots}")
    backgrounds = []
    for scheme in ("light", "dark"):
        page.call("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
        backgrounds.append(page.run("getComputedStyle(document.documentElement).backgroundColor + ' ' + getComputedStyle(document.getElementById('title')).fill"))
    numbers = [[sum(map(int, part.split(",")[:3])) for part in re.findall(r"\(([\d, ]+)\)", text)] for text in backgrounds]
    check(f"{name}: light and dark", numbers[0][0] > 600 > 300 > numbers[0][1] and numbers[1][0] < 200 < 500 < numbers[1][1], f"{backgrounds}")
    page.call("Emulation.setEmulatedMedia", {"features": []})
    chosen = max(range(len(frames)), key=lambda i: (frames[i][3], frames[i][2]) if frames[i][2] > 40 else (0, 0))
    x, y = page.run(SPOT % chosen)
    page.call("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": x, "y": y})
    page.wait("document.getElementById('status').textContent !== ''")
    told = page.run("document.getElementById('status').textContent")
    check(f"{name}: the status line has the frame's whole name, time and share", told == frames[chosen][0].replace("\n", "  "), f"{told}")
    page.call("Emulation.clearDeviceMetricsOverride", {})
    page.wait(f"innerWidth !== {width} && {FILLED}")


def check_file(page, check, path, artifacts, tooltip=r"\n[\d.]+ m?s, [\d.]+ %$"):
    frames, name = read(path), path.name
    page.open(path.resolve().as_uri())
    page.wait("document.readyState === 'complete' && document.querySelectorAll('#frames g').length > 0 && " + FILLED)
    now = page.run(NOW)
    check(f"{name}: opens, with all its frames", len(now) == len(frames) and near(now[0][2], WIDTH), f"{len(now)}, {len(frames)}")
    check(f"{name}: a tooltip tells time and share", all(re.search(tooltip, s[0]) for s in now))
    page.screenshot(artifacts / (name + ".png"))
    check_window(page, check, name, frames)
    check_zoom(page, check, name, frames)
    check_search(page, check, name, frames)
    check(f"{name}: no complaint on the console", not page.errors, "; ".join(page.errors[:3]))
