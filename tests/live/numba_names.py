# SPDX-License-Identifier: MIT
"""Numba's manglings, decoded by the symbols stage, against what Numba says of the
types. Run by numba_names.sh with each Numba there is.

    PYTHON tests/live/numba_names.py SYMBOLIZE

Each function is compiled by this very Numba; its symbols are taken from the library
objects (CodeLibrary) and from the function descriptors, and what a name should be is made of
the descriptor's own module, qualified name and str() of its argument types.
"""
import collections
import re
import subprocess
import sys
import warnings

import numpy as np
import numba
from numba import types, typed
from numba.core import funcdesc, itanium_mangler
from numba.experimental import jitclass

warnings.simplefilter("ignore")

# Every descriptor that this process makes, under each name it gives symbols.
EXPECTED = {}


def remember(desc):
    EXPECTED[desc.mangled_name] = (desc, "")
    EXPECTED[desc.llvm_cpython_wrapper_name] = (desc, " [cpython wrapper]")
    EXPECTED[desc.llvm_cfunc_wrapper_name] = (desc, " [cfunc wrapper]")
    EXPECTED["__gufunc__." + desc.mangled_name] = (desc, " [gufunc loop]")
    EXPECTED["__ufunc__." + desc.mangled_name] = (desc, " [ufunc loop]")
    if hasattr(desc, "llvm_finalizer_name"):
        EXPECTED[desc.llvm_finalizer_name] = (desc, " [generator finalizer]")


original = funcdesc.FunctionDescriptor.__init__


def init(self, *args, **kwargs):
    original(self, *args, **kwargs)
    if self.mangled_name.startswith("_Z"):
        remember(self)


funcdesc.FunctionDescriptor.__init__ = init

SYMBOLS = set()
from numba.core import codegen  # noqa: E402

added = codegen.CPUCodeLibrary._finalize_final_module


def finalize(self):
    added(self)
    for f in self._final_module.functions:
        if not f.is_declaration:
            SYMBOLS.add(f.name)


codegen.CPUCodeLibrary._finalize_final_module = finalize


def attempt(what, f, *args):
    try:
        f(*args)
    except Exception as e:  # what this Numba cannot do is no matter of names
        print("skip %s: %s" % (what, str(e).splitlines()[0] if str(e) else type(e)))


Point = collections.namedtuple("Point", "x y")
Mixed = collections.namedtuple("Mixed", "a b_28")
RECORD = np.dtype([("a", np.int32), ("b_2b", np.float64)])
ALIGNED = np.dtype([("a", np.int32), ("b", np.float64)], align=True)


def ignore(*args):
    return 0


def arrays():
    base = np.arange(256, dtype=np.uint8)
    for dtype in (np.bool_, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64,
                  np.uint64, np.float32, np.float64, np.complex64, np.complex128):
        yield np.zeros(4, dtype)
    for ndim in range(0, 6):
        yield np.zeros((2,) * ndim)
        yield np.asfortranarray(np.zeros((2,) * ndim))
    yield np.zeros((8, 8))[::2, ::2]
    frozen = np.zeros(3)
    frozen.flags.writeable = False
    yield frozen
    yield np.frombuffer(base.tobytes()[1:17], dtype=np.float64)
    yield base[1:17].view(np.float64)
    yield np.zeros(3, RECORD)
    yield np.zeros(3, ALIGNED)
    yield np.zeros(3, "S5")
    yield np.zeros(3, "U7")
    yield np.zeros(3, "M8[ns]")
    yield np.zeros(3, "m8[D]")


def values():
    yield from (1, 2 ** 40, 1.5, 2j, True, None, "text", b"bytes", bytearray(b"x"), memoryview(b"xy"))
    for t in (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64,
              np.float32, np.float64, np.complex64, np.complex128, np.bool_):
        yield t(1)
    yield from arrays()
    yield from ((), (1,), (1, 2), (1, 2.5), (1, (2, 3.5)), ((1, 2), (3, 4)), ("a", "b", 1))
    yield (np.zeros(2), np.zeros((2, 2)))
    yield (np.zeros(2), np.zeros(2))
    yield Point(1, 2)
    yield Point(1, 2.5)
    yield Mixed(1, "x")
    yield [1, 2]
    yield [1.5]
    yield [np.zeros(2)]
    yield [(1, 2)]
    yield {1, 2}
    yield np.zeros(1, RECORD)[0]
    yield np.zeros(1, ALIGNED)[0]
    yield range(3)
    yield slice(1, 3)
    yield slice(1, 3, 2)
    yield np.datetime64("2020-01-01")
    yield np.timedelta64(3, "s")
    l = typed.List()
    l.append(1)
    yield l
    l = typed.List()
    l.append(np.zeros(2))
    yield l
    d = typed.Dict.empty(types.unicode_type, types.float64)
    d["a"] = 1.5
    yield d
    d = typed.Dict.empty(types.UniTuple(types.int64, 2), types.float64[:, ::1])
    yield d
    yield np.dtype(np.float32)
    yield np.float64
    yield np.zeros((2, 2)).flat
    yield np.ndenumerate(np.zeros(2))
    yield enumerate([1])


def main(symbolize):
    for value in values():
        attempt("argument %r" % (type(value),), numba.njit(ignore), value)
        attempt("tuple with %r" % (type(value),), numba.njit(ignore), (value, 1), 2.5)

    for sig in ("(optional(int64),)", "(optional(float64[:,::1]), int8)", "(float16,)", "(voidptr,)",
                "(CPointer(int32),)", "(intp, uintp, boolean)", "(pyobject,)",
                "(Omitted(1),)", "(Omitted(1.25), int64)", "(Omitted(None),)", "(Omitted('x.5'),)",
                "(literal(5),)", "(literal('abc_28'),)", "(literal(-3), literal(True))",
                "(FunctionType(int64(float64)),)", "(DeferredType(),)",
                "(List(int64, reflected=True),)", "(ListType(unicode_type),)",
                "(DictType(int64, ListType(float64)),)", "(Set(int64),)",
                "(StarArgTuple((int64, float64)),)", "(StarArgUniTuple(int64, 3),)",
                "(UnicodeCharSeq(3), CharSeq(9))", "(NPDatetime('ns'), NPTimedelta('D'))",
                "(Array(int64, 2, 'A', readonly=True),)", "(Array(int64, 1, 'C', aligned=False),)",
                "(Array(float32, 1, 'C', readonly=True, aligned=False),)", "(slice2_type, slice3_type)",
                "(range_state64_type,)", "(complex64, complex128)", "(none, none)", "(ellipsis,)",
                "(NestedArray(float64, (2, 3)),)", "(MemInfoPointer(voidptr),)", "(ArrayFlags(float64[:]),)",
                "(ClassInstanceType(int64),)", "(ExternalFunctionPointer,)", "(string,)",
                "(Poison(int64),)", "(undefined,)", "(EnumMember,)"):
        try:
            args = eval("tuple" + sig if False else sig, vars(types))
            name = funcdesc.FunctionDescriptor(True, "mod.sub_28", "Klass.method_3c", "m", "", {}, types.int64, {},
                                               ["a"], (), argtypes=args, abi_tags=["c8tJTIeF_3d"], uid=7)
            SYMBOLS.add(name.mangled_name)
        except Exception as e:
            print("skip %s: %s" % (sig, e))

    @numba.njit
    def outer_28(x, y=1.25, z="a.5"):
        def inner(v):
            return v + y
        return inner(x)
    attempt("closure", outer_28, 1)
    attempt("defaults", outer_28, 1, 2.5)

    attempt("lambda", numba.njit(lambda x: x + 1), 1)

    @numba.njit
    def caféß(x):
        return x
    attempt("unicode", caféß, 1)

    @numba.njit
    def apply(f, x):
        return f(x)
    attempt("dispatcher argument", apply, numba.njit(lambda x: x), 3)

    @numba.cfunc("int64(int64)")
    def callback(x):
        return x + 1
    attempt("first-class function", apply, callback, 3)

    @numba.njit
    def gen(n, a):
        for i in range(n):
            yield i + a[i]

    @numba.njit
    def use(n, a):
        s = 0
        for v in gen(n, a):
            s += v
        return s
    attempt("generator", use, 3, np.ones(3))
    attempt("generator from Python", lambda: list(gen(2, np.ones(3))))

    @jitclass([("x", types.int64), ("v", types.float64[:])])
    class Klass_28:
        def __init__(self, x):
            self.x = x
            self.v = np.zeros(x)

        def total(self, k):
            return self.x * k

        @property
        def double(self):
            return self.x * 2
    attempt("jitclass", lambda: (Klass_28(3).total(2), Klass_28(3).double))
    attempt("jitclass argument", lambda: numba.njit(lambda k: k.x)(Klass_28(3)))

    attempt("vectorize", lambda: numba.vectorize(["float64(float64, float64)", "int32(int32, int32)"])(
        lambda a, b: a + b)(1.0, 2.0))

    @numba.guvectorize(["(float64[:], float64[:])", "(int64[:], int64[:])"], "(n)->(n)")
    def gu(a, out):
        for i in range(len(a)):
            out[i] = a[i] * 2
    attempt("guvectorize", gu, np.ones(3), np.ones(3))

    @numba.vectorize(["float64(float64, float64)"], target="parallel")
    def threads(x, y):
        return x * y + 1
    attempt("vectorize in parallel", threads, np.ones(3), np.ones(3))

    @numba.guvectorize(["(float64[:], float64[:])"], "(n)->(n)", target="parallel")
    def gu_threads(x, y):
        y[:] = x * 3
    attempt("guvectorize in parallel", gu_threads, np.ones(3), np.ones(3))

    @numba.njit(parallel=True)
    def par(a):
        s = 0.0
        for i in numba.prange(len(a)):
            s += a[i] * 2
        return s + (a * 3 + 1).sum()
    attempt("parallel", par, np.ones(100))

    @numba.jit(forceobj=True)
    def objects(x):
        return [x]
    attempt("object mode", objects, 1)

    @numba.njit
    def recursive(n):
        return 1 if n < 2 else n * recursive(n - 1)
    attempt("recursion", recursive, 4)
    attempt("numpy", numba.njit(lambda a: np.linalg.norm(a) + np.sort(a)[0]), np.ones(5))
    attempt("strings", numba.njit(lambda a: a.upper().split("x")), "abxc")
    attempt("dict", numba.njit(lambda a: {a: 1.5}), "k")

    kernels = set()
    for n in list(SYMBOLS):
        m = re.match(r"\.kernel\.\d+___g?ufunc__\.(.*)", n)
        if m and m[1] in EXPECTED:
            EXPECTED[n] = (EXPECTED[m[1]][0], " [parallel kernel]")
            kernels.add(EXPECTED[m[1]][0].qualname.rsplit(".", 1)[-1])
    ours = [n for n in SYMBOLS if n in EXPECTED]
    text = "\n".join(ours) + "\n"
    shown = subprocess.run([symbolize, "names", "--jit"], input=text, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    outside = subprocess.run([symbolize, "names"], input=text, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    wrong, lossy, same, unsure, undecided = [], collections.Counter(), 0, 0, 0
    for name, mine, plain in zip(ours, shown, outside):
        desc, kind = EXPECTED[name]
        where = "%s.%s" % (desc.modname, desc.qualname) if desc.modname else desc.qualname
        want = "%s(%s)%s" % (where, ", ".join(str(t) for t in desc.argtypes), kind)
        if desc.uid is not None and desc.abi_tags and plain != mine:
            wrong.append("%s\n      outside of a JIT's object %s" % (mine, plain))
        unsure += plain != mine
        if mine == want:
            same += 1
        elif undecidable(mine, want):
            undecided += 1
        elif same_but_lost(mine, want):
            lossy[lost_in(mine)] += 1
        else:
            wrong.append("%s\n      decoded %s\n      Numba   %s" % (name, mine, want))
    rest = sorted(SYMBOLS - set(ours))
    print("numba %s: %d names as Numba spells them, %d with a loss %s, %d that could be two texts, "
          "%d known only as a JIT's, %d other symbols" % (
              numba.__version__, same, sum(lossy.values()), dict(lossy), undecided, unsure, len(rest)))
    print("    other: %s" % ", ".join(rest[:12]))
    for line in wrong[:12]:
        print("FAILED " + line)
    if not {"threads", "gu_threads"} <= kernels:
        print("FAILED functions of threads have kernels: only", kernels)
        return 1
    return len(wrong) or same < 100


LOST = r"(Record|NestedArray|[A-Z]\w*)<[^<>]*(?:<[^<>]*>[^<>]*)*>"


def lost_in(mine):
    m = re.search(LOST, mine)
    return m[1] if m else "?"


def undecidable(mine, want):
    """Two texts with one mangling: a name that looks like an escape, a digit behind a dot in a
    string. What was told must be the mangling's own text there."""
    def mangled(text):
        return re.sub(r"\._(?=[0-9])", ".", itanium_mangler._escape_string(text).replace("_2e", "."))
    return bool(re.search(r"_[0-9a-f]{2}|'[^']*\.[0-9]", want)) and mangled(mine) == mangled(want)


def same_but_lost(mine, want):
    """Record<7> stands for whatever Numba wrote there."""
    if not re.search(LOST, mine):
        return False
    parts = [re.escape(p) for p in re.split(LOST, mine)[0::2]]
    return re.fullmatch(".*".join(parts), want, re.S) is not None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) != 0)
