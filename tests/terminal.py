"""`gristmill` commands in a terminal: a pseudo-terminal of a given width, with keys typed at a prompt."""

import fcntl
import os
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.process_template import Process, control_terminal, start_in_terminal

_ESCAPE_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


@dataclass(frozen=True)
class TerminalSession:
    """What a terminal showed, without colours, and the exit code of the command."""

    code: int
    text: str

    @property
    def lines(self) -> list[str]:
        """The lines on the screen."""
        return self.text.splitlines()


def run_in_terminal(
    env: Mapping[str, str],
    *arguments: str,
    columns: int = 80,
    prompt: str = "",
    keys: str = "",
    program: Sequence[str] = (),
) -> TerminalSession:
    """Run a command in a terminal of this width; once it shows `prompt`, type `keys`. With `program`, these options of an
    interpreter of its own run the command."""
    controller, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    variables = {name: value for name, value in env.items() if name not in ("COLUMNS", "NO_COLOR")}
    variables["TERM"] = "xterm-256color"
    process: Process
    if program:
        process = subprocess.Popen(
            [sys.executable, *program, *arguments],
            env=variables,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            preexec_fn=lambda: control_terminal(terminal),
            text=True,
        )
    else:
        process = start_in_terminal(["gristmill", *arguments], variables, terminal)
    os.close(terminal)
    output = b""
    unsent = keys.encode()
    try:
        while part := _read(controller):
            output += part
            if unsent and prompt.encode() in output:
                os.write(controller, unsent)
                unsent = b""
        code = process.wait(120)
    finally:
        os.close(controller)
        if process.poll() is None:
            process.kill()
            process.wait(120)
    return TerminalSession(code, _ESCAPE_SEQUENCE.sub("", output.decode()).replace("\r\n", "\n"))


def _read(controller: int) -> bytes:
    try:
        return os.read(controller, 65536)
    except OSError:  # the command has closed the terminal
        return b""
