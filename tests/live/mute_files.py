# SPDX-License-Identifier: MIT
"""A FUSE file system with one file, which a process maps; from then on it does not answer.

    mute_files.py FOLDER      prints the pid of the process; goes on until it is killed. Needs root.

Speaks the kernel's protocol (linux/fuse.h, 7.31) itself: no library has to be there.
"""
import ctypes
import os
import select
import signal
import struct
import subprocess
import sys

LOOKUP, GETATTR, OPEN, READ, FLUSH, INIT = 1, 3, 14, 15, 25, 26
FOLDER, FILE = 1, 2
BYTES = b"mapped\n".ljust(4096, b".")
MAPS = """
import mmap, sys, time
with open(sys.argv[1], "rb") as file:
    mapped = mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ)
print(mapped[:6].decode(), flush=True)
time.sleep(600)
"""


def attributes(node, size):
    """struct fuse_attr"""
    mode = 0o40755 if node == FOLDER else 0o100644
    return struct.pack("<6Q10I", node, 0 if node == FOLDER else size, 8, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def answer(operation, node, size=len(BYTES)):
    """The body, or an errno."""
    if operation == INIT:
        return struct.pack("<4I2H7I", 7, 31, 4096, 0, 8, 8, 4096, 0, 0, 0, 0, 0, 0).ljust(64, b"\0")
    if operation == GETATTR:
        return struct.pack("<Q2I", 1000, 0, 0) + attributes(node, size)
    if operation == LOOKUP:
        return struct.pack("<4Q2I", FILE, 0, 1000, 1000, 0, 0) + attributes(FILE, size)
    if operation == OPEN:
        return struct.pack("<Q2I", 1, 0, 0)
    if operation == READ:
        return BYTES
    if operation == FLUSH:
        return b""
    return 38  # ENOSYS


def serve(device, until):
    """Answers until there is something to read from `until`."""
    while True:
        ready = select.select([device, until], [], [])[0]
        if until in ready:
            return
        request = os.read(device, 1 << 17)
        _, operation, unique, node = struct.unpack("<IIQQ", request[:24])
        if operation in (2, 42):  # FORGET and BATCH_FORGET want no answer
            continue
        body = answer(operation, node)
        error, body = (-body, b"") if isinstance(body, int) else (0, body)
        os.write(device, struct.pack("<IiQ", 16 + len(body), error, unique) + body)


def main():
    folder = sys.argv[1]
    device = os.open("/dev/fuse", os.O_RDWR)
    options = "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other" % device
    if ctypes.CDLL(None, use_errno=True).mount(b"mute", folder.encode(), b"fuse", 6, options.encode()):
        sys.exit("mount: " + os.strerror(ctypes.get_errno()))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    process = subprocess.Popen([sys.executable, "-c", MAPS, os.path.join(folder, "file")], stdout=subprocess.PIPE)
    try:
        serve(device, process.stdout)
        print(process.pid, flush=True)
        signal.pause()
    finally:
        process.kill()
        os.close(device)  # whoever waits for an answer is told that there is none


if __name__ == "__main__":
    main()
