"""Ctrl-C ends a command with one line and exit code 130, whatever it is doing."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

# Sends the signal at the moment a module is imported.
INTERRUPT_AT_IMPORT = """
import os, signal, sys
class InterruptAtImport:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, InterruptAtImport())
from gristmill.cli import main
main()
"""


@pytest.mark.parametrize("module", ["typer", "gristmill.settings", "gristmill.app", "psycopg"])
def test_an_interrupted_import_is_one_line_and_no_traceback(env: dict[str, str], module: str) -> None:
    process = subprocess.run(
        [sys.executable, "-c", INTERRUPT_AT_IMPORT.format(module=module), "status"],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (process.returncode, process.stdout, process.stderr) == (130, "", "gristmill: interrupted.\n")
