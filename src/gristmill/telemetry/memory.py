"""Gives memory back: how this process's allocator deals with large blocks.

glibc keeps what was freed for the next time, more so the larger the blocks were and the more threads asked for them. A
worker that merges or reads something large once would stay that large. Elsewhere than on glibc nothing is changed.
"""

import ctypes
import functools
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # malloc.h
_MMAP_THRESHOLD_BYTES = (
    1 << 20
)  # a block of this size is asked of the system, and given back when it is freed
_TRIM_THRESHOLD_BYTES = 4 << 20  # so much of the heap's end may lie idle
_MAX_ARENAS = 2


@functools.cache
def _libc() -> ctypes.CDLL | None:
    try:
        libc = ctypes.CDLL(None)
        return libc if sys.platform == "linux" and hasattr(libc, "mallopt") else None
    except OSError:
        return None


def return_freed_memory() -> None:
    """From now on, give freed memory back."""
    if (libc := _libc()) is not None:
        for parameter, value in (
            (_ARENA_MAX, _MAX_ARENAS),
            (_MMAP_THRESHOLD, _MMAP_THRESHOLD_BYTES),
            (_TRIM_THRESHOLD, _TRIM_THRESHOLD_BYTES),
        ):
            libc.mallopt(parameter, value)


def trim() -> None:
    """Give back what is free now; takes some milliseconds."""
    if (libc := _libc()) is not None and hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)
