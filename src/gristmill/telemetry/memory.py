"""Makes the memory allocator return freed memory to the system.

glibc keeps freed memory for later, the more so with large blocks and many threads. A worker that once merged or read
something large would stay that large. Without glibc, nothing changes.
"""

import ctypes
import functools
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # malloc.h
_MMAP_THRESHOLD_BYTES = 1 << 20  # larger blocks are mapped separately, and unmapped when freed
_TRIM_THRESHOLD_BYTES = 4 << 20  # free memory at the end of the heap that is kept
_MAX_ARENAS = 2


@functools.cache
def _libc() -> ctypes.CDLL | None:
    try:
        libc = ctypes.CDLL(None)
        return libc if sys.platform == "linux" and hasattr(libc, "mallopt") else None
    except OSError:
        return None


def return_freed_memory() -> None:
    """Configure the allocator to return freed memory from now on."""
    if (libc := _libc()) is not None:
        for parameter, value in (
            (_ARENA_MAX, _MAX_ARENAS),
            (_MMAP_THRESHOLD, _MMAP_THRESHOLD_BYTES),
            (_TRIM_THRESHOLD, _TRIM_THRESHOLD_BYTES),
        ):
            libc.mallopt(parameter, value)


def trim() -> None:
    """Return all free memory now; takes a few milliseconds."""
    if (libc := _libc()) is not None and hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)
