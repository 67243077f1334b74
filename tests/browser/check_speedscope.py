#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a speedscope file says, read without any code of this project.

check_speedscope.py --schema FILE...   the official schema (of npm's speedscope) and the invariants
check_speedscope.py --totals FILE      JSON: of each profile its name, unit, total, and self/total of each frame

Exit code 77: --schema is not possible here (what is missing is said)."""
import collections
import json
import pathlib
import sys

TREE = pathlib.Path(__file__).resolve().parents[2]
SCHEMA = "build/npm/node_modules/speedscope/dist/release/file-format-schema.json"
SCHEMA_BYTES_MAX = 20_000_000  # python3-jsonschema takes minutes for more


def spans(profile):
    """(frames outermost first, ns) of an evented profile, each stretch between two events."""
    stack, before = [], profile["startValue"]
    for event in profile["events"]:
        assert event["at"] >= before, "events are not in order"
        if event["at"] > before:
            yield tuple(stack), event["at"] - before
        before = event["at"]
        if event["type"] == "O":
            stack.append(event["frame"])
        else:
            assert stack and stack.pop() == event["frame"], "events are not balanced"
    assert not stack and before <= profile["endValue"], "events are not balanced"


def slices(profile):
    return zip(profile["samples"], profile["weights"]) if profile["type"] == "sampled" else spans(profile)


def totals(file):
    """(name, total, {frame: [self, total]}) of each profile; a frame counts once in a stack."""
    frames = file["shared"]["frames"]
    for profile in file["profiles"]:
        times = collections.defaultdict(lambda: [0, 0])
        total = 0
        for stack, weight in slices(profile):
            total += weight
            if stack:
                times[stack[-1]][0] += weight
            for frame in set(stack):
                times[frame][1] += weight
        yield profile["name"], total, {
            i: (frames[i]["name"], *t) for i, t in times.items()}


def difference(file):
    """Of a comparison: shares, not times."""
    used = set()
    for profile in file["profiles"]:
        samples, weights = profile["samples"], profile["weights"]
        assert profile["type"] == "sampled" and len(samples) == len(weights) and all(w > 0 for w in weights), profile["name"]
        assert profile["startValue"] == 0 and abs(sum(weights) - profile["endValue"]) < 1e-5, profile["name"]
        used.update(frame for stack in samples for frame in stack)
    shown = [(f["name"], f.get("file")) for f in file["shared"]["frames"]]
    assert len(set(shown)) == len(shown) and used == set(range(len(shown))), "frames that nothing uses, or the reverse"
    assert 0 <= file["activeProfileIndex"] < len(file["profiles"])


def invariants(file):
    if file["profiles"] and file["profiles"][0]["unit"] == "none":
        return difference(file)
    frames = file["shared"]["frames"]
    shown = [(f["name"], f.get("file"), f.get("line")) for f in frames]
    assert len(set(shown)) == len(shown), "a frame is twice in the table"
    used, ends = set(), set()
    for profile in file["profiles"]:
        name = profile["name"]
        if profile["type"] == "evented":
            for stack, _ in spans(profile):
                used.update(stack)
            assert profile["unit"] == "nanoseconds" and profile["startValue"] == 0, name
            ends.add(profile["endValue"])
            continue
        samples, weights = profile["samples"], profile["weights"]
        assert profile["type"] == "sampled" and profile["unit"] == "nanoseconds", name
        assert len(samples) == len(weights), f"{name}: samples and weights differ in number"
        assert all(w > 0 for w in weights), f"{name}: a weight is not positive"
        assert sum(weights) == profile["endValue"] - profile["startValue"], f"{name}: weights do not add up"
        assert profile["startValue"] == 0, name
        assert all(a != b for a, b in zip(samples, samples[1:])), f"{name}: equal neighbours"
        for stack in samples:
            used.update(stack)
        if name != "all threads":
            ends.add(profile["endValue"])
    assert len(ends) <= 1, "threads end at different times"
    assert used == set(range(len(frames))), "frames that nothing uses, or the reverse"
    assert 0 <= file["activeProfileIndex"] < max(len(file["profiles"]), 1)


def schema_of():
    path = TREE / SCHEMA
    try:
        import jsonschema
    except ImportError:
        sys.exit(missing("python3-jsonschema is not installed"))
    if not path.exists():
        sys.exit(missing(f"{SCHEMA} is not there: tests/browser/run.sh installs it"))
    schema = json.loads(path.read_text())
    return jsonschema.Draft7Validator(schema)


def missing(what):
    print(f"skipped: {what}", file=sys.stderr)
    return 77


def main():
    mode, paths = sys.argv[1], sys.argv[2:]
    if mode == "--totals":
        with open(paths[0], encoding="utf-8") as stream:
            file = json.load(stream)
        json.dump([{"name": name, "unit": profile["unit"], "total": total, "frames": list(frames.values())}
                   for profile, (name, total, frames) in zip(file["profiles"], totals(file))], sys.stdout)
        return 0
    validator = schema_of()
    for path in paths:
        text = pathlib.Path(path).read_text(encoding="utf-8")
        file = json.loads(text)
        invariants(file)
        if len(text) <= SCHEMA_BYTES_MAX:
            validator.validate(file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
