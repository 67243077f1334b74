# SPDX-License-Identifier: MIT
"""The list of JIT objects of this very process, followed from inside with ctypes: its descriptor's address is
told by readelf and /proc/self/maps."""
import ctypes
import functools
import os
import subprocess


class Entry(ctypes.Structure):
    pass


Entry._fields_ = [("next", ctypes.POINTER(Entry)), ("prev", ctypes.c_void_p), ("image", ctypes.c_void_p),
                  ("size", ctypes.c_uint64)]


class Descriptor(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("action", ctypes.c_uint32), ("relevant", ctypes.c_void_p),
                ("first", ctypes.POINTER(Entry))]


@functools.lru_cache(None)
def descriptors():
    with open("/proc/self/maps") as f:
        modules = [(line.split()[5], int(line.split("-")[0], 16)) for line in f
                   if len(line.split()) > 5 and line.split()[2] == "00000000" and line.split()[5].endswith((".so", ".so.1"))]
    found_at = []
    for path, base in modules:
        if not any(word in os.path.basename(path) for word in ("LLVM", "llvmlite", "jax_common")):
            continue
        found = subprocess.run(["readelf", "-W", "-s", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode()
        for line in found.splitlines():
            word = line.split()
            if len(word) == 8 and word[7].split("@")[0] == "__jit_debug_descriptor":
                found_at.append(base + int(word[1], 16))
                break
    return found_at


def write(directory):
    n = 0
    for address in descriptors():
        entry = Descriptor.from_address(address).first
        while entry:
            with open(os.path.join(directory, "%x.o" % entry.contents.image), "wb") as f:
                f.write(ctypes.string_at(entry.contents.image, entry.contents.size))
            entry = entry.contents.next
            n += 1
    return n
