# SPDX-License-Identifier: MIT
"""Python called by C called by Python: qsort with a ctypes callback, over and over, a few levels deep; and a timer
whose handler is Python's. Prints "ready" when it runs."""
import ctypes
import signal

libc = ctypes.CDLL(None)
COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
ticks = 0


def on_timer(number, frame):
    global ticks
    ticks += sum(i * i for i in range(200))


def sort(depth):
    def compare(a, b):
        if depth and a[0] == 3:
            sort(depth - 1)
        return (a[0] > b[0]) - (a[0] < b[0])

    numbers = (ctypes.c_int * 5)(3, 1, 4, 5, 2)
    libc.qsort(numbers, 5, ctypes.sizeof(ctypes.c_int), COMPARE(compare))
    return sorted(numbers, key=lambda n: -n)


signal.signal(signal.SIGALRM, on_timer)
signal.setitimer(signal.ITIMER_REAL, 0.003, 0.003)
print("ready", flush=True)
while True:
    sort(2)
