# SPDX-License-Identifier: MIT
"""Reads the contents of all BPF maps of the machine, as root: for tests that search them for data that must not be there."""
import ctypes
import os
import struct

BPF = 321  # x86-64
LOOKUP, NEXT_KEY, MAP_NEXT_ID, MAP_FD, INFO, LOOKUP_BATCH = 1, 4, 12, 14, 15, 24
HASH, ARRAY, PERCPU_HASH, PERCPU_ARRAY, LRU = 1, 2, 5, 6, 9
PER_CPU = PERCPU_HASH, PERCPU_ARRAY
LIBC = ctypes.CDLL(None, use_errno=True)
ATTR_BYTES = 64


def bpf(command, attr):
    buffer = ctypes.create_string_buffer(attr.ljust(ATTR_BYTES, b"\0"), ATTR_BYTES)
    return LIBC.syscall(BPF, command, buffer, ATTR_BYTES), buffer.raw


def cpus():
    with open("/sys/devices/system/cpu/possible") as file:
        return int(file.read().split("-")[-1]) + 1


def ids():
    at = 0
    while True:
        result, attr = bpf(MAP_NEXT_ID, struct.pack("<II", at, 0))
        if result:
            return
        at = struct.unpack_from("<II", attr)[1]
        yield at


def info(fd):
    """type, id, key size, value size, entries, flags, name"""
    room = ctypes.create_string_buffer(256)
    result, _ = bpf(INFO, struct.pack("<IIQ", fd, 256, ctypes.addressof(room)))
    return None if result else struct.unpack_from("<IIIIII16s", room.raw)


def values(fd, kind, key_size, value_size, entries):
    """Pieces of memory that hold all values."""
    if kind in PER_CPU:
        value_size = (value_size + 7) // 8 * 8 * cpus()
    count = min(entries, max(1, (4 << 20) // value_size))
    keys, found = ctypes.create_string_buffer(key_size * count), ctypes.create_string_buffer(value_size * count)
    cursor, after = ctypes.create_string_buffer(max(8, key_size)), ctypes.create_string_buffer(max(8, key_size))
    begins = True
    while True:
        result, attr = bpf(LOOKUP_BATCH, struct.pack("<QQQQIIQQ", 0 if begins else ctypes.addressof(cursor), ctypes.addressof(after), ctypes.addressof(keys),
                                                     ctypes.addressof(found), count, fd, 0, 0))
        n = struct.unpack_from("<QQQQI", attr)[4]
        if result and ctypes.get_errno() != 2:  # ENOENT: that was the last piece
            return
        yield found.raw[:n * value_size]
        if result or not n:
            return
        ctypes.memmove(cursor, after, len(cursor))
        begins = False


def hold(pattern):
    """In how many maps it is; rings are not asked (who maps them has them in memory)."""
    n = 0
    for id_ in ids():
        fd, _ = bpf(MAP_FD, struct.pack("<II", id_, 0))
        if fd < 0:
            continue
        try:
            about = info(fd)
            if about and about[0] in (HASH, ARRAY, PERCPU_HASH, PERCPU_ARRAY, LRU):
                n += any(pattern in piece for piece in values(fd, about[0], *about[2:5]))
        finally:
            os.close(fd)
    return n
