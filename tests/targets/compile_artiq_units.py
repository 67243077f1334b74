# SPDX-License-Identifier: MIT
"""A package of our own with the names and frames of ARTIQ's compiler, for any CPython: after a line came on stdin it "compiles"
kernels, and tells which. compile_artiq_units.py KERNELS

The last line on stdout is JSON: {"kernels": [[name, begin, end]], "phases": {name: ns}}, CLOCK_MONOTONIC ns; a phase's time is
with what is in it. Visitors go into a tree by recursion, most through a visit() that they share; a link waits for a child, and for
what it writes."""
import functools
import json
import os
import subprocess
import sys
import tempfile
import time

FILES = {
    "llvmlite/ir/module.py": '''
class Module:
    def __repr__(self):
        work(8)
        return "module"

IRModule = Module
''',
    "llvmlite/binding/module.py": '''
class ModuleRef:
    def verify(self):
        work(3)

def parse_assembly(text):
    work(5)
    return ModuleRef()
''',
    "pythonparser/algorithm.py": '''
class Visitor:
    def _visit_one(self, node):
        return getattr(self, "visit_" + type(node).__name__, self.generic_visit)(node)

    def generic_visit(self, node):
        for child in node.children:
            self.visit(child)
        work(node.cost * self.weight)

    def visit(self, node):
        return self._visit_one(node)
''',
    "artiq/compiler/transforms/inferencer.py": '''
class Inferencer(Visitor):
    weight = 2

    def visit_Function(self, node):
        self.generic_visit(node)
''',
    "artiq/compiler/transforms/int_monomorphizer.py": '''
class IntMonomorphizer(Visitor):
    weight = 1
''',
    "artiq/compiler/validators/escape.py": '''
class EscapeValidator(Visitor):
    weight = 1
''',
    "artiq/compiler/transforms/iodelay_estimator.py": '''
class IODelayEstimator(Visitor):
    weight = 1

    def visit_fixpoint(self, node):
        for _ in range(2):
            self.visit(node)
''',
    "artiq/compiler/analyses/devirtualization.py": '''
class FunctionResolver(Visitor):
    weight = 1

class Devirtualization:
    def visit(self, node):
        FunctionResolver().visit(node)
''',
    "artiq/compiler/transforms/artiq_ir_generator.py": '''
class ARTIQIRGenerator(Visitor):
    weight = 3

    def visit(self, node):
        return super().visit(node)
''',
    "artiq/compiler/transforms/dead_code_eliminator.py": '''
class DeadCodeEliminator:
    def process(self, functions):
        for func in functions:
            self.process_function(func)

    def process_function(self, func):
        work(func)
''',
    "artiq/compiler/transforms/llvm_ir_generator.py": '''
class LLVMIRGenerator:
    def process(self, functions, attribute_writeback):
        for func in functions:
            self.process_function(func)

    def process_function(self, func):
        work(4 * func)
''',
    "artiq/compiler/embedding.py": '''
class StitchingInferencer(Inferencer):
    weight = 1

class StitchingASTTypedRewriter(Visitor):
    weight = 1

    def visit_quoted_function(self, node, function, remote_fn):
        return self.visit(node)

class SpecializedFunction:
    def __init__(self, host_function):
        self.host_function = host_function

class Stitcher:
    def __init__(self, trees):
        self.trees = trees

    def stitch_call(self, function, args, kwargs):
        with span("embed function"):
            self._quote_embedded_function(SpecializedFunction(function), {})

    def finalize(self):
        inferencer = StitchingInferencer()
        for _ in range(3):
            with span("StitchingInferencer"):
                inferencer.visit(self.trees)
            with span("embed function"):
                self._quote_embedded_function(SpecializedFunction(None), {})

    def _quote_embedded_function(self, function, flags):
        work(3)
        asttyped_rewriter = StitchingASTTypedRewriter()
        with span("StitchingASTTypedRewriter"):
            asttyped_rewriter.visit_quoted_function(self.trees, function, False)
''',
    "artiq/compiler/module.py": '''
class Module:
    def __init__(self, src, ref_period=1e-6):
        self.artiq_ir = list(range(1, 6))
        int_monomorphizer, inferencer, escape_validator = IntMonomorphizer(), Inferencer(), EscapeValidator()
        iodelay_estimator, devirtualization = IODelayEstimator(), Devirtualization()
        artiq_ir_generator, dead_code_eliminator = ARTIQIRGenerator(), DeadCodeEliminator()
        with span("IntMonomorphizer"):
            int_monomorphizer.visit(src.trees)
        with span("Inferencer"):
            inferencer.visit(src.trees)
        with span("validators"):
            escape_validator.visit(src.trees)
        with span("IODelayEstimator"):
            iodelay_estimator.visit_fixpoint(src.trees)
        with span("Devirtualization"):
            devirtualization.visit(src.trees)
        with span("ARTIQIRGenerator"):
            artiq_ir_generator.visit(src.trees)
        with span("DeadCodeEliminator"):
            dead_code_eliminator.process(self.artiq_ir)

    def build_llvm_ir(self, target):
        with span("LLVMIRGenerator"):
            return LLVMIRGenerator().process(self.artiq_ir, True)
''',
    "artiq/compiler/targets.py": '''
class Target:
    def compile(self, module):
        module.build_llvm_ir(self)
        with span("print LLVM IR"):
            text = str(IRModule())
        with span("parse LLVM IR"):
            parsed = parse_assembly(text)
        with span("verify LLVM IR"):
            parsed.verify()
        with span("optimize"):
            self.optimize(parsed)
        return parsed

    def optimize(self, llmodule):
        work(12)

    def assemble(self, llmodule):
        work(6)

    def link(self, objects):
        work(1)
        subprocess.run(["sh", "-c", "sleep 0.02; echo linked; sleep 0.03; echo written; sleep 0.004"], stdout=subprocess.PIPE, check=True)

    def compile_and_link(self, modules):
        objects = []
        for module in modules:
            with span("LLVM"):
                parsed = self.compile(module)
            with span("emit object"):
                objects.append(self.assemble(parsed))
        with span("link"):
            return self.link(objects)

    def strip(self, library):
        work(2)
''',
    "artiq/coredevice/core.py": '''
class Core:
    def compile(self, function, args, kwargs, set_result=None, attribute_writeback=True, target=None):
        stitcher = Stitcher(args[0].tree)
        with span("stitcher"):
            stitcher.stitch_call(function, args, kwargs)
        with span("stitcher"):
            stitcher.finalize()
        with span("module"):
            module = Module(stitcher)
        target = target if target is not None else Target()
        library = target.compile_and_link([module])
        with span("strip"):
            target.strip(library)
        return lambda addresses: target.symbolize(library, addresses)

    def run(self, function, args, kwargs):
        self.compile(function, args, kwargs)
''',
}
kernels, sums = [], {}


def work(cost):
    until = time.thread_time_ns() + cost * 150000
    while time.thread_time_ns() < until:
        sum(range(100))


class Node:
    def __init__(self, depth, cost):
        self.children = [Node(depth - 1, cost)] if depth else []
        self.cost = cost


class Function(Node):
    pass


class span:
    """A phase of the truth, by the clock of the one who calls it."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        self.begin = time.monotonic_ns()

    def __exit__(self, *_):
        sums[self.name] = sums.get(self.name, 0) + time.monotonic_ns() - self.begin


def kernel(function):
    @functools.wraps(function)
    def run_on_core(self, *args):
        kernels.append([function.__qualname__, time.monotonic_ns(), 0])
        self.core.run(run_on_core, (self,) + args, {})
        kernels[-1][2] = time.monotonic_ns()
    return run_on_core


def experiment(number, core):
    class Experiment:
        tree = Function(60 if number % 3 else 12, 1 if number % 3 else 3)

        @kernel
        def run(self):
            pass

        @kernel
        def calibrate(self):
            pass

    for name in "run", "calibrate":
        function = getattr(Experiment, name)
        function.__qualname__ = function.__wrapped__.__qualname__ = "Experiment%d.%s" % (number, name)
    made = Experiment()
    made.core = core
    return made


def main():
    names = {"__name__": "artiq", "work": work, "span": span, "subprocess": subprocess}
    with tempfile.TemporaryDirectory() as folder:
        for path, text in FILES.items():
            exec(compile(text, os.path.join(folder, path), "exec"), names)
    core = names["Core"]()
    print("ready", flush=True)
    sys.stdin.readline()
    # The sampler is told which locals to give some 20 ms after it met a code object.
    experiment(0, core).run()
    time.sleep(0.1)
    del kernels[:]
    sums.clear()
    for number in range(1, int(sys.argv[1]) + 1):
        made = experiment(number, core)
        made.run()
        made.calibrate()
    time.sleep(0.2)
    print(json.dumps({"kernels": kernels, "phases": sums}), flush=True)


main()
