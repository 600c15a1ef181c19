"""Imports without garbage collections.

What modules create while they are imported stays. The collector would look through it hundreds of times, which takes a
sixth of the time that the application takes to import, and would free a megabyte.
"""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def pause_garbage_collector() -> Generator[None]:
    """Import modules in this block. Later collections skip what exists at its end."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
