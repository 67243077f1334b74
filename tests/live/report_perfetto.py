# SPDX-License-Identifier: MIT
"""report.py: Perfetto's format, decoded by the classes that Perfetto publishes for Python."""
import collections
import gzip
import json
import os
import subprocess
import sys

from lib import ROOT
from report_truth import NO_CLASS, Skip, add_up, cprofd, expect, same

CPU, MONOTONIC = "CPU time", 3


def protos():
    """Debian has none; PyPI's, below build/."""
    venv = os.path.join(ROOT, "build", "perfetto-venv")
    place = os.path.join(venv, "lib", "python%d.%d" % sys.version_info[:2], "site-packages")
    if not os.path.isdir(os.path.join(place, "perfetto")):
        for command in ([sys.executable, "-m", "venv", venv], [os.path.join(venv, "bin", "pip"), "install", "-q", "perfetto>=0.59"]):
            if subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=200).returncode:
                raise Skip("perfetto's Python package is missing, and PyPI's could not be installed")
    if place not in sys.path:
        sys.path.insert(0, place)
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2
    return perfetto_trace_pb2


Slice = collections.namedtuple("Slice", "track category name notes begin end depth flows ended")
Stack = collections.namedtuple("Stack", "time pid tid frames weights")


class Trace:
    """Samples, slices by track and counters, in ns since the recording's begin. What Perfetto would count as an error is one here."""

    def __init__(self, data):
        pb = protos()
        packets = pb.Trace.FromString(gzip.decompress(data)).packet
        self.origin = next(c.timestamp for p in packets if p.HasField("clock_snapshot") for c in p.clock_snapshot.clocks if c.clock_id == MONOTONIC)
        self.tracks, self.samples, self.counters, self.attributes = {}, [], collections.defaultdict(list), {}
        self.measures, known, events = [], collections.defaultdict(dict), collections.defaultdict(list)
        expect(packets[0].sequence_flags & pb.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED, "the first packet clears what was interned")
        for packet in packets:
            expect(packet.trusted_packet_sequence_id == 1, "a sequence")
            for field, items in packet.interned_data.ListFields():
                for item in items:
                    expect(item.iid and item.iid not in known[field.name], "interned twice", field.name, item)
                    known[field.name][item.iid] = item
            time = packet.timestamp - self.origin
            if packet.HasField("trace_packet_defaults"):
                defaults = packet.trace_packet_defaults.stack_sample_defaults
                expect(packet.trace_packet_defaults.timestamp_clock_id == MONOTONIC, "the clock")
                self.measures = [defaults.primary_descriptor.name] + [d.name for d in defaults.follower_descriptors]
            elif packet.HasField("track_descriptor"):
                expect(packet.track_descriptor.uuid not in self.tracks, "a track twice")
                self.tracks[packet.track_descriptor.uuid] = packet.track_descriptor
            elif packet.HasField("stack_sample"):
                sample = packet.stack_sample
                task = known["stack_sample_task_contexts"][sample.task_context_iid]
                frames = [self.frame(known, known["frames"][i]) for i in reversed(known["callstacks"][sample.callstack_iid].frame_ids)]
                self.samples.append(Stack(time, task.pid, task.tid, tuple(frames), (sample.primary_weight, *sample.follower_weights)))
            elif packet.HasField("track_event"):
                event = packet.track_event
                if event.type == pb.TrackEvent.TYPE_COUNTER:
                    self.counters[event.track_uuid].append((time, event.double_counter_value))
                    continue
                notes = {known["debug_annotation_names"][a.name_iid].name: known["debug_annotation_string_values"][a.string_value_iid].str.decode()
                         for a in event.debug_annotations}
                name = known["event_names"][event.name_iid].name if event.name_iid else ""
                category = known["event_categories"][event.category_iids[0]].name if event.category_iids else ""
                events[event.track_uuid].append((time, event.type == pb.TrackEvent.TYPE_SLICE_BEGIN, name, category, notes,
                                                 set(event.flow_ids), set(event.terminating_flow_ids)))
            elif packet.HasField("trace_attributes"):
                self.attributes = {a.key: a.string_value for a in packet.trace_attributes.attribute}
        self.slices = [piece for track, list_of in events.items() for piece in self.nest(track, list_of)]

    @staticmethod
    def frame(known, frame):
        text = known["function_names"][frame.function_name_id].str.decode()
        source = known["source_paths"][frame.source_path_iid].str.decode() if frame.source_path_iid else ""
        module = "".join(known["mapping_paths"][i].str.decode() for i in known["mappings"][frame.mapping_id].path_string_ids) if frame.mapping_id else ""
        return text, source, frame.line_number, module

    def nest(self, track, events):
        """Perfetto sorts by time, and keeps the file's order at one time."""
        expect(track in self.tracks, "slices of a track that is not described")
        open_ones, done = [], []
        for time, begins, name, category, notes, flows, ended in sorted(events, key=lambda e: e[0]):
            if begins:
                open_ones.append((time, name, category, notes, flows, ended))
                continue
            expect(open_ones, "an end without a begin", track, time)
            begin, name, category, notes, flows, ended = open_ones.pop()
            expect(begin < time, "a slice without a length", name, begin)
            done.append(Slice(self.tracks[track], category, name, notes, begin, time, len(open_ones), flows, ended))
        expect(not open_ones, "a slice without an end", open_ones)
        return done

    def thread_of(self, track):
        while not track.HasField("thread"):
            track = self.tracks[track.parent_uuid]
        return track.thread


def of_perfetto(frame):
    """What a frame of the recording is there: with its source line (without one, the function's), or its module."""
    return frame.name, frame.file, frame.line or frame.first, "" if frame.file else frame.module


def test_perfetto(recordings):
    """Its packets give the sums, instants and compiles of the recording."""
    for name in ("python", "native"):
        path, rows = recordings.path(name), recordings.rows(name)
        trace = Trace(cprofd("convert", "--interpreter-frames", path, "-f", "perfetto", "-o", "-", text=False).out)
        expect(trace.measures == [CPU], "measures", trace.measures)
        sums = collections.defaultdict(lambda: [0, 0])
        for sample in trace.samples:
            sums[sample.frames[0]][0] += sample.weights[0]
            for frame in set(sample.frames):
                sums[frame][1] += sample.weights[0]
        same(name, {k: tuple(v) for k, v in sums.items() if v[1]}, add_up(rows, of_perfetto, told=lambda stack: stack))
        same("instants", collections.Counter((s.tid, s.time, s.weights[0]) for s in trace.samples),
             collections.Counter((r.thread["tid"], r.time, r.cpu) for r in rows if r.cpu))
        check_classes(trace, rows)
        check_units(trace, rows, name == "native")
        check_counters(trace, rows)
        # What an earlier ledger had, and the last one has no more, is there as 0.
        lost = {name: n for name, n in json.loads(trace.attributes["cprofd"])["losses"].items() if n}
        expect(lost == losses_of(path), "what was lost", trace.attributes)


def losses_of(path):
    lines = map(json.loads, subprocess.run(["zstdcat", path], stdout=subprocess.PIPE, check=True).stdout.splitlines())
    return [line["losses"] for line in lines if line["ev"] == "ledger"][-1]


def check_classes(trace, rows):
    """A class's slices are as long as its samples ran: what was left out between two is less than a period, most often some us."""
    have, want = collections.Counter(), collections.Counter()
    for piece in trace.slices:
        if piece.category == "class":
            have[trace.thread_of(piece.track).tid, piece.name] += piece.end - piece.begin
    for row in rows:
        # A thread's end brings the CPU time that earlier samples were short of (docs/protocol.md): a slice has no more than the time there was.
        want[row.thread["tid"], row.class_name] += min(row.cpu, row.wall) if row.stack[0].name == "(not sampled)" else row.cpu
    expect({k for k, v in want.items() if v > 5e6} <= set(have), "classes", have, want)
    for key, ns in have.items():
        expect(abs(ns - want[key]) < 0.1 * want[key] + 2e6, "the time of a class", key, ns, want[key])


def check_units(trace, rows, some):
    calls = {unit["serial"]: unit for row in rows for unit in row.units}
    kinds = ("compile", "phase", "pass")
    want = collections.Counter((kinds[unit["kind"]], unit["name"]) for unit in calls.values() if unit["begin"] < unit["end"])
    told = [piece for piece in trace.slices if piece.category in kinds]
    expect(bool(want) == some, "compiles of the truth", want)
    have = collections.Counter((piece.category, piece.name) for piece in told)
    expect(have == want, "units", have - want, want - have)
    # Times: those of the recording, but where one begins before the one beside it ended.
    exact = {(kinds[u["kind"]], u["name"], u["begin"], u["end"]) for u in calls.values()}
    moved = [piece for piece in told if (piece.category, piece.name, piece.begin, piece.end) not in exact]
    for piece in moved:
        near = [u for u in calls.values() if u["name"] == piece.name and abs(u["begin"] - piece.begin) < 2e6 and abs(u["end"] - piece.end) < 2e6]
        expect(near, "a unit's times", piece)
    expect(len(moved) <= 0.2 * len(told), "units with other times", len(moved), len(told))
    for piece in told:
        if piece.category == "compile":
            unit = next(u for u in calls.values() if u["name"] == piece.name and u["signature"] == piece.notes.get("signature", ""))
            expect((piece.notes["file"], piece.notes["line"]) == (unit["defined"][0], str(unit["defined"][1])), "where it is defined", piece, unit)


def check_counters(trace, rows):
    named = {(track.name, track.parent_uuid): trace.counters[uuid] for uuid, track in trace.tracks.items() if track.HasField("counter")}
    areas = [sum(value * (after - time) for (time, value), (after, _) in zip(values, values[1:])) for (name, _), values in named.items() if name == "CPU"]
    cpu = sum(row.cpu for row in rows)
    expect(abs(sum(areas) - cpu) < 1000, "CPU time below the counters", areas, cpu)
    expect({"samples", "losses", "CPU"} <= {name for name, _ in named}, "counters", list(named))


def lines_of(events):
    return "".join(json.dumps(event) + "\n" for event in events).encode()


def made(mode, idle):
    """A recording whose truth is its text: svd is compiled in thread 11, for which 12 works twice, and 13 waits for the GIL."""
    ms = 1000000
    samples = [  # ms, wall, cpu, thread, stack, class, unit, how, caller, call, cause
        (1, 1, 1, 0, 1, 1, 1, 0, 0, 0, 0), (2, 1, 1, 1, 2, 2, 1, 1, 0, 1, 0), (3, 1, 1, 1, 2, 2, 1, 1, 0, 1, 0), (4, 3, 0, 2, 3, 3, 0, 0, 0, 0, 2),
        (9, 6, 1, 1, 2, 2, 1, 1, 0, 1, 0), (10, 9, 1, 0, 1, 1, 1, 0, 0, 0, 0), (11, 1, 1, 0, 1, 1, 0, 0, 0, 0, 0)]
    columns = {key: [s[i] for s in samples] for i, key in ((3, "thread"), (4, "stack"), (5, "class"), (6, "unit"), (7, "how"), (8, "caller"), (9, "call"), (10, "cause"))}
    steps = [b[0] - a[0] for a, b in zip([(0,)] + samples, samples)]
    steps = [s * ms for s in steps]
    steps[0] += 5000 * ms
    return lines_of([
        {"ev": "hello", "major": 1, "minor": 9, "server": "x"},
        {"ev": "session", "id": 1, "pid": 11, "rate": 1000, "mode": mode, "monotonic": 5000 * ms, "boottime": 6000 * ms, "realtime": 7000 * ms, "command": "x", "idle": idle},
        {"ev": "epoch", "number": 1, "time": 5000 * ms},
        {"ev": "process", "id": 0, "pid": 11, "parent": 1, "start": 1, "exec": 0, "time": 5000 * ms, "name": "x", "python": "3.13.0"},
        *({"ev": "thread", "id": i, "process": 0, "tid": 11 + i, "start": 1, "time": 5000 * ms, "name": n} for i, n in enumerate(("main", "pool", "other"))),
        {"ev": "functions", "first": 0, "rows": [["compile", "/c.py", 3, "", 0], ["work", "", 0, "libLLVM.so", 1], ["(waiting: GIL)", "", 0, "", 3]]},
        {"ev": "frames", "first": 0, "rows": [[0, 4, 5, 0], [1, 8, 0, 0], [2, 0, 0, 0]]},
        {"ev": "stacks", "first": 1, "rows": [[0, 0], [0, 1], [1, 2]]},
        {"ev": "classes", "first": 1, "rows": [["interpreter"], ["compiler native"], ["waiting"]]},
        {"ev": "units", "first": 1, "rows": [[0, 0, 0, "Numba", "svd", "int64", 5000 * ms, 1, "/me.py", 7, 1]]},
        {"ev": "samples", "t": steps, "wall": [s[1] * ms for s in samples], "cpu": [s[2] * ms for s in samples], **columns},
        {"ev": "unit_end", "id": 1, "time": 5010 * ms},
        *({"ev": "thread_end", "id": i, "time": 5011 * ms, "wall": 0, "cpu": 0} for i in range(3)),
        {"ev": "ledger", "time": 5011 * ms, "samples": len(samples), "whole": len(samples), "losses": {"tick_missed": 11}},
        {"ev": "end", "time": 5011 * ms, "reason": "target_ended"}])


def test_perfetto_exec(recordings):
    """A process that calls exec is one: Perfetto has a track for each pid and tid. Names that are interned while a slice is written stay what they are."""
    ms, many = 1000000, 300
    head = made("cpu", False).decode().splitlines()[:3]
    names = ["n" * (i % 40 + 1) + str(i) for i in range(many)]
    lines = lines_of([
        *({"ev": "process", "id": i, "pid": 11, "parent": 1, "start": 1, "exec": i, "time": (5000 + i) * ms, "name": n, "python": "3.13.0"} for i, n in enumerate(("first", "second"))),
        *({"ev": "thread", "id": i, "process": i, "tid": 11, "start": 1, "time": (5000 + i) * ms, "name": n} for i, n in enumerate(("first", "second"))),
        {"ev": "functions", "first": 0, "rows": [["f", "/c.py", 3, "", 0]]}, {"ev": "frames", "first": 0, "rows": [[0, 4, 5, 0]]},
        {"ev": "stacks", "first": 1, "rows": [[0, 0]]}, {"ev": "classes", "first": 1, "rows": [[n] for n in names]},
        {"ev": "samples", "t": [5001 * ms] + [ms] * (many - 1), "wall": [ms] * many, "cpu": [ms] * many, "thread": [0] + [1] * (many - 1), "stack": [1] * many,
         "class": list(range(1, many + 1))},
        {"ev": "thread_end", "id": 0, "time": 5002 * ms, "wall": ms, "cpu": 1000}, {"ev": "thread_end", "id": 1, "time": (5000 + many) * ms, "wall": 0, "cpu": 0},
        {"ev": "end", "time": (5000 + many) * ms, "reason": "target_ended"}])
    path = os.path.join(recordings.folder, "exec.ndjson")
    with open(path, "wb") as file:
        file.write("\n".join(head).encode() + b"\n" + lines)
    trace = Trace(cprofd("convert", path, "-f", "perfetto", "-o", "-", text=False).out)
    expect([t.process.process_name for t in trace.tracks.values() if t.HasField("process")] == ["second"], "one process")
    expect([t.thread.thread_name for t in trace.tracks.values() if t.HasField("thread")] == ["second"], "one thread")
    expect([s.name for s in sorted(trace.slices, key=lambda s: s.begin) if s.category == "class"] == names, "classes in their order")
    cpu = next(values for uuid, values in trace.counters.items() if trace.tracks[uuid].name == "CPU")
    expect(max(value for _, value in cpu) <= 1.0001, "one thread has one CPU", cpu)


def test_perfetto_workers_and_waits(recordings):
    ms = 1e6
    path = os.path.join(recordings.folder, "made.ndjson")
    for mode, idle in (("cpu", False), ("wall", False)):
        with open(path, "wb") as file:
            file.write(made(mode, idle))
        trace = Trace(cprofd("convert", path, "-f", "perfetto", "-o", "-", text=False).out)
        told = [(trace.thread_of(s.track).tid, s.category, s.name, s.begin / ms, s.end / ms) for s in trace.slices]
        expect((11, "compile", "svd", 0, 10) in told, "the compile", told)
        work = sorted(s.begin / ms for s in trace.slices if s.category == "work" and s.name == "svd" and trace.thread_of(s.track).tid == 12)
        expect(work == [1, 8], "two spans of work", told)
        begun = [s for s in trace.slices if s.flows]
        ended = [s for s in trace.slices if s.ended]
        expect([s.name for s in begun] == ["svd"] and len(ended) == 1 and begun[0].flows == ended[0].ended and ended[0].begin == 1 * ms, "one arrow", begun, ended)
        expect(ended[0].notes == {"for": "main", "known by": "woken"}, "what is said of it", ended)
        expect((13, "wait", "(waiting: GIL)", 1, 4) in told, "the wait", told)
        waits = [s.weights for s in trace.samples if s.frames[0][0] == "(waiting: GIL)"]
        expect(waits == ([(3 * ms, 0)] if mode == "wall" else []), "samples of waits", waits)
        gil = [values for uuid, values in trace.counters.items() if trace.tracks[uuid].name == "waiting for the GIL"]
        expect([v[0][1] for v in gil] == ([0.03] if mode == "wall" else []), "threads that wait for the GIL", gil)
        losses = [values for uuid, values in trace.counters.items() if trace.tracks[uuid].name == "losses"]
        expect([[(t, round(v)) for t, v in values] for values in losses] == [[(0, 1000)]], "losses a second", losses)
    # A window cuts what it shows; times stay those of the recording.
    trace = Trace(cprofd("convert", path, "--window", "0.002,0.0095", "-f", "perfetto", "-o", "-", text=False).out)
    spans = {(s.category, s.name, s.begin / ms, s.end / ms) for s in trace.slices}
    expect(("compile", "svd", 2, 9.5) in spans and ("wait", "(waiting: GIL)", 2, 4) in spans, "a window", spans)
