#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What `diff -o` writes, opened in a real browser: the flame graph (NAME.svg), the page (NAME.html, beside the same
comparison's NAME.svg and NAME.txt), and the file for speedscope. They are compared with the shares that the two recordings
were made with (NAME.truth.json).

diff_test.py --make BEFORE AFTER TRUTH: two recordings as NDJSON, of one thread that spends known shares of its time."""
import json
import random
import sys

import check_speedscope
import svg_test

ODD = "</pre></title></script><script>window.broken = 1</script>&amp;"
ALL = ("main", "work")
# By path: how many of each 100 samples have their end there. So `same` differs by chance alone.
LEAVES = {ALL + ("same",): (50, 50), ALL + ("more", "inner"): (25, 35), ALL + ("more",): (5, 10), ALL + (ODD,): (20, 0), ALL + ("new",): (0, 5)}
SURE = {"more": "more", "inner": "more", "new": "more", ODD: "less"}
SECONDS, HZ = 20, 1000
COLOURS = """[...document.querySelectorAll('#frames g')].map(g => [g.querySelector('title').textContent,
  getComputedStyle(g.querySelector('rect')).fill.match(/\\d+/g).map(Number), g.querySelector('rect').getBoundingClientRect().width])"""


def make(side, path, rng):
    names = sorted({name for leaf in LEAVES for name in leaf})
    stacks, ids = [], {(): 0}
    for leaf in LEAVES:
        for n in range(1, len(leaf) + 1):
            if leaf[:n] not in ids:
                ids[leaf[:n]] = len(stacks) + 1
                stacks.append([ids[leaf[:n - 1]], names.index(leaf[n - 1])])
    counts, period, start = dict.fromkeys(LEAVES, 0), 10 ** 9 // HZ, 10 ** 12
    with open(path, "w", encoding="utf-8") as out:
        def tell(**event):
            out.write(json.dumps(event) + "\n")

        tell(ev="hello", major=1, minor=5)
        tell(ev="session", id=1, pid=7, rate=HZ, mode="cpu", monotonic=start, command="made")
        tell(ev="epoch", number=1, time=start)
        tell(ev="process", id=0, pid=7, time=start, name="made")
        tell(ev="thread", id=0, process=0, tid=7, time=start, name="made")
        tell(ev="functions", first=0, rows=[[name, "/home/me/made.py", 10 + i, "", 0] for i, name in enumerate(names)])
        tell(ev="frames", first=0, rows=[[i, 0, 11 + i, 0] for i in range(len(names))])
        tell(ev="stacks", first=1, rows=stacks)
        for block in range(SECONDS * HZ // 100):
            leaves = [leaf for leaf, share in LEAVES.items() for _ in range(share[side])]
            leaves = [rng.choice(leaves) if rng.random() < 0.2 else leaf for leaf in leaves]
            rng.shuffle(leaves)
            for leaf in leaves:
                counts[leaf] += 1
            tell(ev="samples", t=[start + (100 * block + 1) * period] + [period] * 99, wall=[period] * 100, cpu=[period] * 100,
                 thread=[0] * 100, stack=[ids[leaf] for leaf in leaves])
        tell(ev="end", time=start + SECONDS * 10 ** 9, reason="duration", detail="")
    total = sum(counts.values())
    return {"\t".join(leaf): count / total for leaf, count in counts.items()}


def truth_of(path):
    return json.loads(path.with_name(path.name.split(".")[0] + ".truth.json").read_text(encoding="utf-8"))


def inclusive(truth, name):
    return [sum(share for leaf, share in side.items() if name in leaf.split("\t")) for side in truth]


def near(a, b):
    return abs(a - b) < 1e-6


def kind_of(fill):
    red, green, blue = fill
    return "more" if red > max(green, blue) + 40 else "less" if blue > red + 40 else "same"


def check_frames(page, check, name, truth):
    wrong, met = [], set()
    for title, fill, _ in page.run(COLOURS):
        words = title.split("\n")
        before, after = (1, 1) if words[0] == "all" else inclusive(truth, words[0])
        met.add(words[0])
        if kind_of(fill) != SURE.get(words[0], "same") or not words[-1].startswith("%.3f %% before, %.3f %% after: " % (100 * before, 100 * after)):
            wrong.append((words, fill, before, after))
    check(f"{name}: each frame tells the shares of both sides, and has its colour", not wrong, f"{wrong[:2]}")
    check(f"{name}: all functions are there", met == {"all"} | {n for leaf in LEAVES for n in leaf}, f"{met}")
    check(f"{name}: nothing broke out of its names", not page.run("window.broken || document.querySelector('script script')"))


def check_svg(page, check, path, artifacts):
    svg_test.check_file(page, check, path, artifacts, r"\n[\d.]+ % before, [\d.]+ % after: [+-][\d.]+ points; .+$")
    check_frames(page, check, path.name, truth_of(path))


def check_page(page, check, path, artifacts):
    name, url = path.name, path.resolve().as_uri()
    page.open(url)
    page.wait("document.readyState === 'complete' && document.querySelectorAll('#frames g').length > 0")
    page.screenshot(artifacts / (name + ".png"))
    check_frames(page, check, name, truth_of(path))
    titles = [f[0] for f in svg_test.read(path.with_suffix(".svg"))]
    frames = page.run(COLOURS)
    check(f"{name}: the frames are those of the picture alone", [f[0] for f in frames] == titles, f"{len(frames)}, {len(titles)}")
    check(f"{name}: the tables are those of the terminal", page.run("document.querySelector('pre').textContent").strip() ==
          path.with_suffix(".txt").read_text(encoding="utf-8").strip())
    chosen = next(i for i, f in enumerate(frames) if f[0].startswith("more\n"))
    page.run("document.querySelectorAll('#frames g')[0].scrollIntoView()")
    page.click(*page.run(svg_test.SPOT % chosen))
    now = page.run(COLOURS)
    check(f"{name}: a click zooms", abs(now[chosen][2] - now[0][2]) < 1 and now[chosen][2] > frames[chosen][2] + 1, f"{now[chosen]}")
    page.key("Escape")
    check(f"{name}: Escape resets", all(abs(a[2] - b[2]) < 1 for a, b in zip(page.run(COLOURS), frames)))
    check(f"{name}: nothing is asked of anybody", set(page.requests) == {url}, f"{set(page.requests)}")
    check(f"{name}: no complaint on the console", not page.errors, "; ".join(page.errors[:3]))


def check_profiles(check, path):
    """What the file holds; what of that the viewer shows is checked as of any other."""
    truth, own = truth_of(path), {}
    with open(path, encoding="utf-8") as stream:
        file = json.load(stream)
    for profile, total, frames in check_speedscope.totals(file):
        own[profile] = {frame[0]: frame[1:] for frame in frames.values()}
    leaves = {leaf.split("\t")[-1]: [side[leaf] for side in truth] for leaf in truth[0]}
    for i, side in enumerate(("before", "after")):
        want = {n: (100 * leaves.get(n, (0, 0))[i], 100 * inclusive(truth, n)[i]) for leaf in LEAVES for n in leaf if inclusive(truth, n)[i]}
        check(f"{path.name}: {side}: the shares are those it was made with", set(own[side]) == set(want) and
              all(near(a, b) for n in want for a, b in zip(own[side][n], want[n])), f"{own[side]}, {want}")
    for profile, sign in (("more than before", 1), ("less than before", -1)):
        want = {n: 100 * sign * (after - before) for n, (before, after) in leaves.items() if sign * (after - before) > 1e-9}
        have = {n: self for n, (self, _) in own[profile].items() if self}
        check(f"{path.name}: {profile}", set(have) == set(want) and all(near(have[n], want[n]) for n in want), f"{have}, {want}")
    check(f"{path.name}: what is more is shown first", file["profiles"][file["activeProfileIndex"]]["name"] == "more than before")


def main():
    mode, before, after, truth = sys.argv[1:]
    assert mode == "--make"
    rng = random.Random(1)
    sides = [make(0, before, rng), make(1, after, rng)]
    with open(truth, "w", encoding="utf-8") as out:
        json.dump(sides, out)


if __name__ == "__main__":
    main()
