# SPDX-License-Identifier: MIT
"""Functions that torch.compile compiles for the CPU, after a line came on stdin: compile_inductor_units.py FUNCTIONS.

The last line on stdout is JSON: {"version", "frames": [[function, compile id, begin, end]], "graphs": [[name, way, begin, end]],
"phases": [[name, begin, end]]}, CLOCK_MONOTONIC ns. What was compiled torch tells itself: its
records of each frame, what it logs of each graph, and its timed events, of which a clock is kept here. Where it times nothing, a function is wrapped.
"""
import functools
import json
import os
import sys
import tempfile
import threading
import time

folder = tempfile.TemporaryDirectory()
os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder.name
import torch
import torch._dynamo.guards
import torch._dynamo.symbolic_convert
import torch._dynamo.utils as utils
import torch._inductor.compile_fx

events, open_events, logged = [], [], []
MAIN = threading.get_ident()


def begin(self, event_name, time_ns, metadata, *more, own=utils.ChromiumEventLogger.log_event_start, **others):
    if threading.get_ident() == MAIN:
        open_events.append([event_name, metadata.get("fn_name", event_name), str(torch._guards.CompileContext.current_compile_id()),
                            time.monotonic_ns()])
    return own(self, event_name, time_ns, metadata, *more, **others)


def end(self, event_name, *args, own=utils.ChromiumEventLogger.log_event_end, **others):
    if threading.get_ident() == MAIN:
        while open_events:
            name, key, number, start = open_events.pop()
            if name == event_name:
                events.append([key, number, start, time.monotonic_ns()])
                break
    return own(self, event_name, *args, **others)


def timed(name, function, of=object):
    @functools.wraps(function)
    def call(self, *args, **more):
        start = time.monotonic_ns()
        try:
            return function(self, *args, **more)
        finally:
            if type(self) is of or of is object:
                events.append([name, None, start, time.monotonic_ns()])
    return call


def wrap():
    utils.ChromiumEventLogger.log_event_start, utils.ChromiumEventLogger.log_event_end = begin, end
    translator = torch._dynamo.symbolic_convert
    if "bytecode_tracing" not in open(translator.__file__.replace("symbolic_convert", "convert_frame")).read():
        # The one inside of the function that rules name, which asks who called it.
        translator.InstructionTranslatorBase.run = timed("bytecode_tracing", translator.InstructionTranslatorBase.run, translator.InstructionTranslator)
        torch._dynamo.guards.CheckFunctionManager.__init__ = timed("build_guards", torch._dynamo.guards.CheckFunctionManager.__init__)
    torch._inductor.compile_fx._step_logger = lambda: lambda level, message, *_, **__: logged.append(message)


def elementwise(number):
    def work(x, y):
        return torch.sin(x * number) + torch.relu(y - number) * x
    return work


def reduction(number):
    def work(x, y):
        return torch.softmax(x * y + number, dim=-1).sum(0) / (1 + number + y.abs().mean())
    return work


def broken(number):
    def work(x, y):
        z = (x * number).cos()
        torch._dynamo.graph_break()
        return (z + y).exp() * number
    return work


def trained(number):
    def work(x, y):
        return ((x * number).tanh() @ y.t()).pow(2).sum()
    return work


KINDS = (elementwise, reduction, broken, trained)


def build(number):
    """A function of its own name, twice: the second shape makes it compile once more."""
    kind = KINDS[number % len(KINDS)]
    source = kind(number)
    name = "%s%d" % (kind.__name__, number)
    source.__code__ = source.__code__.replace(co_name=name, **({"co_qualname": name} if sys.version_info >= (3, 11) else {}))
    compiled = torch.compile(source)
    for size in (32, 48):
        x = torch.rand(size, size, requires_grad=kind is trained)
        result = compiled(x, torch.rand(size, size))
        if kind is trained:
            result.backward()


def main():
    wrap()
    print("ready", flush=True)
    sys.stdin.readline()
    # What is loaded on first use; and the sampler is told which locals to give some 20 ms after it met a code object.
    build(3)
    time.sleep(0.1)
    before, known = len(events), {str(m.compile_id) for m in utils.get_compilation_metrics()}
    del logged[:]
    for number in range(4, 4 + int(sys.argv[1])):
        build(number)
    time.sleep(0.2)
    whole = "dynamo" if any(key == "dynamo" for key, *_ in events) else "_compile.compile_inner"
    names = {str(m.compile_id): m.co_name for m in utils.get_compilation_metrics() if m.co_name and str(m.compile_id) not in known}
    mine = events[before:]
    graphs = [[key.rsplit(".", 1)[-1], start, stop] for key, _, start, stop in mine if key.endswith(("fw_compiler_base", "bw_compiler"))]
    # Each way of a graph is logged once, while it is timed.
    words = [message.split("torchinductor compiling ")[1].split(" ", 1) for message in logged if "torchinductor compiling" in message]
    assert len(words) == len(graphs)
    print(json.dumps({
        "version": torch.__version__,
        "frames": [[names[number], number, start, stop] for key, number, start, stop in mine if key == whole],
        "graphs": [[name, way.replace("FORWARDS", "forward").replace("BACKWARDS", "backward"), start, stop]
                   for (way, name), (_, start, stop) in zip(words, graphs)],
        "phases": [[key, start, stop] for key, _, start, stop in mine]}), flush=True)


main()
