# SPDX-License-Identifier: MIT
"""A target that means harm: what a profiler reads of it is damaged, changes while it is read, or goes away.

    hostile.py LIBRARY FOLDER KIND SEED SECONDS

LIBRARY: tests/targets/hostile.c, built. FOLDER: of its own, writable. Prints "ready" when it is so, and spins for so long. The kinds are KINDS."""
import ctypes
import os
import random
import shutil
import signal
import struct
import sys
import threading
import time

SPOILED = ["tstate", "runtime", "head", "interpreters", "frames", "code", "texts", "lines", "names", "values", "all"]
HOWS = ["once", "storm", "pages"]
JITS = ["cycle", "self", "huge", "garbage", "flipped", "long", "changes", "wild"]
SECTIONS = [".eh_frame", ".eh_frame_hdr", ".symtab", ".strtab", ".debug_line", ".debug_info", ".debug_abbrev", ".debug_str", ".debug_loclists",
            ".debug_rnglists", ".dynamic", ".dynsym", ".note.gnu.build-id", ".shstrtab"]
ELFS = ["elf-" + name for name in SECTIONS + ["header", "segments", "sections", "counts", "cut", "changes", "inflates", "packed", "link"]]
FILES = ["map-garbage", "map-huge", "map-lines", "map-grows", "dump-garbage", "dump-huge", "dump-flipped", "dump-grows"]
# Needs HOSTILE_MUTE, the name of a file that can be mapped, and is never read.
MUTES = ["mute-" + what for what in ["tstate", "runtime", "frames", "code", "texts", "lines", "names", "values", "jit", "image", "file", "stack"]]
KINDS = (["%s-%s" % (what, how) for what in SPOILED for how in HOWS] + ["jit-" + how for how in JITS] + ELFS + FILES +
         ["thread-names", "many-maps", "deep", "children"])

if __name__ == "__main__":
    library = ctypes.PyDLL(sys.argv[1])  # holds the GIL
    seconds = ctypes.c_double(float(sys.argv[5]))


class Region(ctypes.Structure):
    _fields_ = [("at", ctypes.c_uint64), ("size", ctypes.c_uint64)]


# --- the interpreter's own memory ---

def writable():
    with open("/proc/self/maps") as file:
        for line in file:
            words = line.split()
            if words[1].startswith("rw"):
                start, end = words[0].split("-")
                yield int(start, 16), int(end, 16)


def is_there(mapped, address, size):
    return any(start <= address and address + size <= end for start, end in mapped)


def led_to(mapped, address, size, of):
    """What the words there point to."""
    for i in range(0, size - 7, 8):
        word = ctypes.c_uint64.from_address(address + i).value
        if word % 8 == 0 and is_there(mapped, word, of):
            yield word, of


def of_object(one):
    return id(one), max(32, sys.getsizeof(one) // 8 * 8)


def runtime():
    try:
        return ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
    except ValueError:
        return 0


def codes():
    frame = sys._getframe()
    while frame:
        yield frame.f_code
        frame = frame.f_back


def frames():
    frame = sys._getframe()
    while frame:
        yield frame
        frame = frame.f_back


def lines_of(code):
    for name in "co_linetable", "co_lnotab":
        table = getattr(code, name, None)
        if table:
            yield of_object(table)


def areas(what, values):
    mapped = list(writable())
    ctypes.pythonapi.PyThreadState_Get.restype = ctypes.c_void_p
    tstate = ctypes.pythonapi.PyThreadState_Get()
    if what == "tstate":
        return [(tstate, 320)]
    if what == "runtime":
        return [(runtime() or tstate, 2048)]
    if what == "head":  # _Py_DebugOffsets, in versions that have it
        return [(runtime() or tstate, 512)]
    if what == "interpreters":
        return [(tstate, 64)] + list(led_to(mapped, runtime() or tstate, 1024, 256)) + list(led_to(mapped, tstate, 64, 256))
    if what == "frames":
        return [one for frame in frames() for one in [of_object(frame)] + list(led_to(mapped, id(frame), 96, 96))] + list(led_to(mapped, tstate, 128, 96))
    if what == "code":
        return [of_object(code) for code in codes()]
    if what == "texts":
        return [of_object(text) for code in codes() for text in (code.co_name, code.co_filename, getattr(code, "co_qualname", code.co_name))]
    if what == "lines":
        return [one for code in codes() for one in lines_of(code)]
    if what == "names":
        return [of_object(one) for code in codes() for one in (code.co_names, code.co_varnames) + code.co_varnames if one]
    return [of_object(one) for one in values] + [one for value in values for one in led_to(mapped, id(value), 64, 64)]


# --- files of code ---

def sections(data):
    offset, = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    rows = [struct.unpack_from("<IIQQQQ", data, offset + i * size) for i in range(count)]
    for i, (name, _, _, _, at, length) in enumerate(rows):
        begin = rows[names][4] + name
        yield data[begin:data.index(b"\0", begin)].decode(), offset + i * size, at, length


def damage(data, what, draw):
    """The file's bytes, such that the loader is content as long as it has been loaded before."""
    found = {name: (header, at, length) for name, header, at, length in sections(data)}
    if what in found:
        header, at, length = found[what]
        for i in range(draw.choice((1, 4, 64, length))):
            data[at + draw.randrange(length)] = draw.choice((0, 255, 128, draw.randrange(256)))
        if not draw.randrange(3):
            struct.pack_into("<Q", data, header + 8 * draw.randrange(8), draw.getrandbits(draw.randrange(1, 65)))
    elif what == "header":
        for i in range(draw.randrange(1, 12)):
            data[draw.randrange(4, 64)] = draw.randrange(256)
    elif what == "segments":
        for i in range(draw.randrange(1, 30)):
            data[64 + draw.randrange(56 * data[56])] = draw.choice((0, 255, draw.randrange(256)))
    elif what == "sections":
        for name, (header, _, _) in found.items():
            if not draw.randrange(3):
                struct.pack_into("<Q", data, header + 8 * draw.randrange(8), draw.getrandbits(draw.randrange(1, 65)))
    elif what == "counts":
        struct.pack_into("<HHHHH", data, 54, *(draw.choice((0, 1, 56, 64, 65535, draw.randrange(65536))) for i in range(5)))
    elif what == "cut":
        del data[draw.randrange(found[".bss"][1], len(data)):]
    elif what in ("inflates", "packed"):
        for name, (header, at, length) in found.items():
            if name.startswith(".debug_"):  # SHF_COMPRESSED, ELFCOMPRESS_ZLIB or ZSTD, and how large it says that it is
                struct.pack_into("<Q", data, header + 8, 0x800)
                struct.pack_into("<IIQQ", data, at, draw.choice((1, 2, 3)), 0, draw.getrandbits(draw.randrange(1, 65)), 1)
                if what == "packed":
                    import zlib
                    packed = zlib.compress(b"\0" * draw.choice((1 << 20, 64 << 20)), 9)
                    struct.pack_into("<QQ", data, header + 24, len(data), 24 + len(packed))
                    data += struct.pack("<IIQQ", 1, 0, draw.choice((1 << 20, 64 << 20, 1 << 32, 100)), 1) + packed
    elif what == "link":
        header, at, length = found[".comment"]
        name = draw.choice((b"../../../../etc/passwd", b"/etc/shadow", b"x" * 5000, b"", b"\xff\x1b[2J"))
        struct.pack_into("<QQ", data, header + 24, len(data), len(name) + 8)
        data += name + b"\0\0\0\0crcc"
        struct.pack_into("<I", data, header, 0)
        texts = found[".shstrtab"]
        data[texts[1]:texts[1] + 16] = b".gnu_debuglink\0\0"
    return data


def run_damaged(what, draw, folder):
    path = os.path.join(folder, "victim.so")
    shutil.copyfile(sys.argv[1], path)
    run = ctypes.PyDLL(path).victim
    with open(path, "rb") as file:
        data = bytearray(file.read())
    name = draw.choice(SECTIONS + ["sections", "segments", "counts"]) if what == "changes" else what
    changed = damage(bytearray(data), name, draw)
    file = os.open(path, os.O_RDWR)  # the same inode: what is mapped is what changes
    if what == "changes" and not os.fork():
        while os.getppid() > 1:
            for one in (changed, data, damage(bytearray(data), draw.choice(SECTIONS), draw)):
                os.pwrite(file, one[4096 * 3:], 4096 * 3)
                os.pwrite(file, one[:56], 0)
                os.ftruncate(file, len(one))
        os._exit(0)
    untouched = range(4096, 4096 * 3) if what != "cut" else range(0)
    for at in range(0, len(changed), 4096):
        if at not in untouched:
            os.pwrite(file, changed[at:at + 4096], at)
    os.ftruncate(file, max(len(changed), 4096 * 4))
    run(seconds)


# --- perf's files ---

def garbage_map(draw, code, size):
    def number():
        return draw.choice(("%x" % (code + draw.randrange(size)), "%x" % draw.getrandbits(draw.randrange(1, 70)), "-1", "", "0x10", "zz"))
    while True:
        yield "%s %s %s\n" % (number(), number(), "".join(chr(draw.choice((draw.randrange(1, 255), 0x1b, 10, 0x202e, 92))) for i in range(draw.randrange(300))))


def write_map(what, draw, code, size, folder):
    path = "/tmp/perf-%d.map" % os.getpid()
    rows = garbage_map(draw, code, size)
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        if what == "garbage":
            file.writelines(next(rows) for i in range(2000))
        elif what == "huge":
            file.writelines("%x 10 f%d\n" % (code + i * 16 % size, i) for i in range(400000))
        elif what == "lines":
            file.write("%x 40 %s\n" % (code, "a" * (4 << 20)))
            file.write("%x ffffffffffffffff all\n" % (code + 64) * 1000)
        else:
            file.write("%x 40 first\n" % code)
    if what == "grows" and not os.fork():
        while os.getppid() > 1:
            with open(path, "a" if draw.randrange(20) else "w", encoding="utf-8", errors="surrogateescape") as file:
                file.writelines(next(rows) for i in range(200))
        os._exit(0)
    return path


def dump_records(draw, code, size):
    index = 0
    while True:
        index += 1
        kind = draw.choice((0, 0, 0, 1, 2, 3, 4, 9))
        at = code + draw.randrange(size // 64) * 64
        name = b"f%d\0" % index
        body = {0: struct.pack("<IIQQQQ", os.getpid(), os.getpid(), at, at, 64, index) + name + b"\x90" * 64,
                1: struct.pack("<IIQQQQQ", os.getpid(), os.getpid(), at, at, at + 64, 64, draw.randrange(index + 1)),
                2: struct.pack("<QQ", at, draw.choice((1, 3, 1 << 60))) + struct.pack("<QII", at, 1, 0) + b"file.py\0",
                4: struct.pack("<QQQ", draw.choice((8, 1 << 62)), 20, 20) + bytes(draw.randrange(256) for i in range(64))}.get(kind, b"x" * 32)
        yield struct.pack("<IIQ", kind, 16 + len(body), time.monotonic_ns()) + body


def write_dump(what, draw, code, size, folder):
    import mmap
    path = os.path.join(folder, "jit-%d.dump" % os.getpid())
    head = struct.pack("<IIIIIIQQ", 0x4A695444, 1, 40, 62, 0, os.getpid(), time.monotonic_ns(), 0)
    rows = dump_records(draw, code, size)
    data = bytearray(head + b"".join(next(rows) for i in range(20000 if what == "huge" else 500)))
    if what == "garbage":
        data[40:] = bytes(draw.randrange(256) for i in range(len(data) - 40))
    if what == "flipped":
        for i in range(200):
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    with open(path, "w+b") as file:
        file.write(data)
        file.flush()
        keep.append(mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC, flags=mmap.MAP_PRIVATE))
    if what == "grows" and not os.fork():
        while os.getppid() > 1:
            with open(path, "ab") as file:
                file.write(b"".join(next(rows) for i in range(100))[:draw.randrange(10000)])
                if not draw.randrange(30):
                    file.truncate(draw.randrange(1, 1000))
        os._exit(0)
    return path


keep = []


def run_named(kind, what, draw, folder):
    size = 1 << 20
    library.hostile_code.restype = ctypes.c_void_p
    code = library.hostile_code(ctypes.c_uint64(size))
    path = (write_map if kind == "map" else write_dump)(what, draw, code, size, folder)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    library.hostile_run(ctypes.c_void_p(code), ctypes.c_uint64(size), seconds)
    os.unlink(path)


# --- others ---

def thread_names(draw):
    prctl = ctypes.CDLL(None).prctl

    def burn(name):
        prctl(15, name, 0, 0, 0)  # PR_SET_NAME
        while True:
            sum(range(2000))
    for i in range(20):
        name = bytes(draw.choice((draw.randrange(1, 256), 0x1b, 10, 41, 32)) for i in range(15))
        threading.Thread(target=burn, args=(name,), daemon=True).start()
    print("ready", flush=True)
    time.sleep(seconds.value)
    os._exit(0)


def many_maps():
    import mmap
    for i in range(20000):
        keep.append(mmap.mmap(-1, 4096, prot=mmap.PROT_READ | (mmap.PROT_EXEC if i % 2 else mmap.PROT_WRITE), flags=mmap.MAP_PRIVATE))
    print("ready", flush=True)
    end = time.monotonic() + seconds.value
    while time.monotonic() < end:
        keep.pop().close()
        keep.append(mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC, flags=mmap.MAP_PRIVATE))
    os._exit(0)


def deep(n):
    if n:
        return deep(n - 1)
    library.victim(seconds)


def children():
    """Each is gone soon; some become another program."""
    print("ready", flush=True)
    end = time.monotonic() + seconds.value
    while time.monotonic() < end:
        if not os.fork():
            sum(range(random.randrange(100000)))
            if random.randrange(2):
                os.execv("/bin/true", ["true"])
            os._exit(0)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass
        time.sleep(0.002)
    os._exit(0)


def spoil(what, how, seed, words, values):
    regions = [one for area in ([what] if what != "all" else SPOILED[:-1]) for one in areas(area, values)]
    given = (Region * len(regions))(*regions)
    library.hostile_spoil(given, len(regions), ctypes.c_uint64(seed), HOWS.index(how), words, seconds)


def mute(what, values):
    file = os.open(os.environ["HOSTILE_MUTE"], os.O_RDONLY)
    if what in ("jit", "image"):
        library.hostile_mute_jit(file, what == "image", seconds)
    if what == "stack":
        library.hostile_mute_stack(file, seconds)
    if what == "file":  # of code, which is never run
        import mmap
        keep.append(mmap.mmap(file, 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC, flags=mmap.MAP_PRIVATE))
        library.hostile_mute(None, 0, file, seconds)
    regions = areas(what, values)
    library.hostile_mute((Region * len(regions))(*regions), len(regions), file, seconds)


COMPILER = """
def compile_extra(typingctx, func, args, call):
    return call([typingctx, func, func.__qualname__, func.__dict__, func.__code__, args] + list(args) + [arg.name for arg in args])
"""


def within_compile(folder, call):
    """A frame whose locals are read, by the rules of Numba."""
    path = os.path.join(folder, "numba/core/compiler.py")
    names = {}
    exec(compile(COMPILER, path, "exec"), names)

    def compiled(): pass

    class Type: pass
    types = []
    for name in "int64", "array(float64, 2d, C)", "\x1b[2J\u202e", "x" * 3000:
        types.append(Type())
        types[-1].name = name
    compiled.more = {i: str(i) for i in range(100)}
    names["compile_extra"]({}, compiled, tuple(types), call)


def main():
    folder, kind, seed = sys.argv[2], sys.argv[3], int(sys.argv[4])
    draw = random.Random(seed)
    first, _, rest = kind.partition("-")
    if first in SPOILED and rest in HOWS:
        within_compile(folder, lambda values: spoil(first, rest, seed, draw.choice((1, 3, 10, 100)), values))
    elif first == "mute":
        within_compile(folder, lambda values: mute(rest, values))
    elif first == "jit":
        with open(sys.argv[1], "rb") as file:
            image = file.read()
        library.hostile_jit(image, ctypes.c_uint64(len(image)), ctypes.c_uint64(seed), JITS.index(rest), seconds)
    elif first == "elf":
        run_damaged(rest, draw, folder)
    elif first in ("map", "dump"):
        run_named(first, rest, draw, folder)
    elif kind == "thread-names":
        thread_names(draw)
    elif kind == "many-maps":
        many_maps()
    elif kind == "deep":
        sys.setrecursionlimit(20000)
        threading.stack_size(512 << 20)
        thread = threading.Thread(target=deep, args=(15000,))
        thread.start()
        thread.join()
    else:
        children()


if __name__ == "__main__":
    main()
