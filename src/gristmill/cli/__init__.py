"""The `gristmill` command."""

import contextlib
import os
import signal
import sys
from io import TextIOWrapper
from types import FrameType

from gristmill.cli.imports import pause_garbage_collector

__all__ = ["main"]

_INTERRUPTED = 130


def main() -> None:
    """Run the command. Ctrl-C ends it with one line and exit code 130 at any time, also while modules are imported and
    while the interpreter shuts down."""
    signal.signal(signal.SIGINT, _exit_at_once)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(
            stream, TextIOWrapper
        ):  # what the terminal's encoding lacks is shown as an escape sequence
            with contextlib.suppress(OSError):  # its file was exchanged for a pipe meanwhile
                stream.reconfigure(errors="backslashreplace")
    # Looking for plugins of pydantic would read the metadata of every installed package, in every process.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    with pause_garbage_collector():  # a third of a second, in which Ctrl-C would print a traceback
        from gristmill.cli.commands import run

    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        code = run()
    except KeyboardInterrupt:
        code = _INTERRUPTED
    finally:
        signal.signal(signal.SIGINT, _exit_at_once)
    if code == _INTERRUPTED:
        _print_interrupted()
    sys.exit(code)


def _exit_at_once(_number: int, _frame: FrameType | None) -> None:
    """End the process. Nothing has been started yet, or everything has been closed."""
    _print_interrupted()
    os._exit(_INTERRUPTED)


def _print_interrupted() -> None:
    os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, b"gristmill: interrupted.\n")
