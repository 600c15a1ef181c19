"""A forked process is like one that was started: its own environment, arguments, folder, streams, signals and exit code."""

import signal
import subprocess
from pathlib import Path

import pytest

from tests import process_template

STATEMENT = ("timeit", "-n1", "-r1", "-s")  # a module of the standard library that runs a statement


def test_a_forked_process_gets_its_environment_arguments_folder_and_streams(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    script = "import os, sys; print(*os.environ, os.environ['WORD'], sys.argv[1], os.getcwd());"
    script += "sys.stderr.write('to the log'); sys.stdout.flush(); os._exit(3)"
    with (tmp_path / "log").open("w") as log:
        process = process_template.start([*STATEMENT, script], {"WORD": "rye"}, stderr=log)
    assert process.stdout is not None
    with process.stdout as stdout:
        assert stdout.read() == f"WORD rye -n1 {tmp_path}\n"
    assert (process.wait(120), process.poll()) == (3, 3)
    assert (tmp_path / "log").read_text() == "to the log"


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGKILL, -9), (signal.SIGTERM, -15), (signal.SIGINT, 1)]
)
def test_a_forked_process_is_ended_by_signals(tmp_path: Path, number: signal.Signals, code: int) -> None:
    """SIGINT raises KeyboardInterrupt in it, although the process that it was forked from ignores it."""
    script = "import time; print('ready', flush=True); time.sleep(600)"
    with (tmp_path / "log").open("w") as log:
        process = process_template.start([*STATEMENT, script], {}, stderr=log)
    assert process.stdout is not None
    with process.stdout as stdout:
        assert stdout.readline() == "ready\n"
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        process.send_signal(number)
        assert process.wait(120) == code
    process.kill()  # nothing is there to be killed
    assert ("KeyboardInterrupt" in (tmp_path / "log").read_text()) == (number == signal.SIGINT)
