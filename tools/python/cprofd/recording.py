# SPDX-License-Identifier: MIT
"""Recordings, and what is in them. Tables and other formats are those of the program `cprofd`, so that all say the same."""
from __future__ import annotations

import dataclasses
import html
import json
import os
import shutil
import subprocess
import tempfile
from typing import Any, Iterator

from .client import Error

KINDS = ("compile", "phase", "pass")


def program() -> str:
    """The program `cprofd`: $CPROFD, or that of PATH."""
    path = os.environ.get("CPROFD") or shutil.which("cprofd") or shutil.which("cprofd", path="/usr/local/bin:/usr/bin")
    if not path:
        raise Error("the program cprofd is not installed here, or not in PATH; CPROFD=/path/to/cprofd names it")
    return path


def run(*words: str) -> bytes:
    done = subprocess.run([program(), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode:
        raise Error(done.stderr.decode(errors="replace").strip())
    return done.stdout


@dataclasses.dataclass(frozen=True)
class Compile:
    """One compile, or a phase or a pass of one. Times are seconds since the recording's begin, `seconds` its wall time."""

    kind: str  # "compile", "phase", "pass"; "other": of a newer cprofd
    name: str  # "" if it is not known
    signature: str
    compiler: str
    begin: float
    end: float
    pid: int
    tid: int
    file: str
    line: int
    parent: Compile | None = dataclasses.field(default=None, repr=False)

    @property
    def seconds(self) -> float:
        return self.end - self.begin

    @property
    def inside(self) -> bool:
        """It is, or is part of, a compile inside of another one."""
        outer = self.parent
        while outer and outer.kind != "compile":
            outer = outer.parent
        return outer is not None

    def __str__(self) -> str:
        return "%s(%s)" % (self.name or "(name unknown)", self.signature) if self.kind == "compile" else self.name


class Recording:
    """A recording in a file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._about: dict[str, Any] | None = None
        self._units: list[Compile] | None = None
        self.begin = 0.0  # CLOCK_MONOTONIC, seconds: time.monotonic() of its begin; known once its events were read

    def __repr__(self) -> str:
        return "cprofd.Recording(%r)" % self.path

    def report(self, *options: str) -> dict[str, Any]:
        """`cprofd report --json` with more options."""
        return json.loads(run("report", "--json", *options, "--", self.path))  # type: ignore[no-any-return]

    @property
    def about(self) -> dict[str, Any]:
        """Totals: "cpu_ns", "wall_ns", "samples" ..."""
        if self._about is None:
            self._about = self.report("--by=class")["recordings"][0]
        return self._about

    def table(self, by: str = "function", *options: str) -> list[dict[str, Any]]:
        """Rows of `cprofd report --by=BY`, heaviest first: "function", "line", "unit", "class", "thread" ..."""
        tables = self.report("--by=" + by, *options)["tables"]
        return tables[0]["rows"] if tables else []

    def to_pandas(self, by: str = "function", *options: str) -> Any:
        """The same as a pandas.DataFrame."""
        import pandas  # type: ignore[import-untyped,unused-ignore]

        return pandas.DataFrame(self.table(by, *options))

    def convert(self, format: str, *options: str) -> bytes:
        """What `cprofd convert -f FORMAT` writes: "html", "svg", "speedscope", "pprof", "perfetto" ..."""
        return run("convert", "-f", format, "-o", "-", *options, "--", self.path)

    def events(self) -> Iterator[dict[str, Any]]:
        """The lines of the recording, as docs/protocol.md has them."""
        with tempfile.TemporaryFile() as errors:
            reader = subprocess.Popen([program(), "convert", "-f", "events", "-o", "-", "--", self.path], stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=errors)
            assert reader.stdout
            with reader.stdout:
                for line in reader.stdout:
                    yield json.loads(line)
            if reader.wait():
                errors.seek(0)
                raise Error(errors.read().decode(errors="replace").strip())

    @property
    def units(self) -> list[Compile]:
        """All compiles, phases and passes, in the order of their begin; what went on in a new epoch is one."""
        if self._units is None:
            self._units = _read_units(self)
        return self._units

    @property
    def compiles(self) -> list[Compile]:
        """The compiles, also those inside of others."""
        return [unit for unit in self.units if unit.kind == "compile"]

    @property
    def outermost(self) -> list[Compile]:
        """Compiles that are inside of no other: their seconds may be added up."""
        return [unit for unit in self.compiles if not unit.inside]

    def _repr_html_(self) -> str:
        return '<iframe srcdoc="%s" style="width:100%%;height:600px;border:0"></iframe>' % html.escape(self.convert("html").decode())


def load(path: str | os.PathLike[str]) -> Recording:
    """Opens a recording. An error here and now if it is none."""
    recording = Recording(path)
    recording.about
    return recording


def _read_units(recording: Recording) -> list[Compile]:
    """Ids of rows begin anew in each epoch, where what goes on has a row again: the same thread, kind and place in the nesting."""
    processes: dict[int, int] = {}
    threads: dict[int, tuple[int, int]] = {}
    rows: list[dict[str, Any]] = []
    ids: dict[int, dict[str, Any]] = {}
    going: list[dict[str, Any]] = []  # at the end of an epoch
    fresh = False
    origin = 0
    for event in recording.events():
        kind = event["ev"]
        if kind == "session" and not origin:
            origin = event["monotonic"]
        elif kind == "epoch":
            going, ids, fresh = [row for row in ids.values() if not row["ended"]], {}, True
        elif kind == "process":
            processes[event["id"]] = event["pid"]
        elif kind == "thread":
            threads[event["id"]] = processes[event["process"]], event["tid"]
        elif kind == "units":
            for number, values in enumerate(event["rows"], event["first"]):
                parent, thread, what, compiler, name, signature, time = values[:7]
                file, line = (values[8:10] + ["", 0])[:2] if len(values) > 8 else ("", 0)
                row = next((old for old in going if fresh and (old["thread"], old["kind"], old["parent"]) == (threads[thread], what, ids.get(parent))), None)
                if row:
                    going.remove(row)
                else:
                    row = {"parent": ids.get(parent), "thread": threads[thread], "kind": what, "compiler": compiler, "name": name,
                           "signature": signature, "begin": time, "end": time, "file": file, "line": line, "ended": False}
                    rows.append(row)
                ids[number] = row
        elif kind == "samples":
            fresh, time = False, 0
            for step, unit in zip(event["t"], event.get("unit", [0] * len(event["t"]))):
                time += step
                held = ids.get(unit)
                while held:
                    held["end"] = max(held["end"], time)
                    held = held["parent"]
        elif kind in ("unit_name", "unit_end"):
            if event.get("name"):
                ids[event["id"]].update(name=event["name"], signature=event.get("signature", ""), file=event.get("file", ""), line=event.get("line", 0))
            if kind == "unit_end":
                ids[event["id"]].update(ended=True, end=event["time"])
        elif kind == "unit_ends":
            time = 0
            for step, number in zip(event["t"], event["id"]):
                time += step
                ids[number].update(ended=True, end=time)
    recording.begin = origin / 1e9
    made: dict[int, Compile] = {}

    def unit_of(row: dict[str, Any]) -> Compile:
        if id(row) not in made:
            parent = unit_of(row["parent"]) if row["parent"] else None
            pid, tid = row["thread"]
            kind = KINDS[row["kind"]] if row["kind"] < len(KINDS) else "other"
            made[id(row)] = Compile(kind, row["name"], row["signature"], row["compiler"], (row["begin"] - origin) / 1e9,
                                    (row["end"] - origin) / 1e9, pid, tid, row["file"], row["line"], parent)
        return made[id(row)]

    return [unit_of(row) for row in sorted(rows, key=lambda row: row["begin"]) if row["kind"] < len(KINDS)]
