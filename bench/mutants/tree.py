"""A copy of the repository in which mutants are tried, one after the other. The working tree is never touched."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Literal

from bench.mutants.mutant import ROOT

_COPIED = ("src", "tests", "bench", "docs", "deploy")
_BYTECODE = Path(tempfile.gettempdir()) / "gristmill-tests-cache" / "bytecode"
_NO_TEST_FAILED, _TEST_FAILED = 0, 1  # exit codes of pytest
_FAILED_TEST = re.compile(r"^FAILED (\S+::\w+)(\[.*?\])?(?: - (.*))?$", re.MULTILINE)

Verdict = Literal["killed", "timed out", "survived", "broken", "unproved"]


@dataclass(frozen=True)
class Trial:
    """What the tests said: `broken` when they could not run, or failed before the test itself, which proves nothing;
    `unproved` when the test that failed also fails without a mutant."""

    verdict: Verdict
    seconds: float
    output: str

    @property
    def failed_tests(self) -> list[str]:
        """The tests that failed, in pytest's notation, without their parameters."""
        return [match[1] for match in _FAILED_TEST.finditer(self.output)]

    @property
    def reason(self) -> str:
        """The first test that failed, and how."""
        match = _FAILED_TEST.search(self.output)
        return f"{match[1]}{match[2] or ''}: {match[3] or ''}" if match else ""


class Tree:
    """One copy of the repository."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = count(1)
        for name in _COPIED:
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        for path in ROOT.iterdir():
            if path.is_file():
                shutil.copy2(path, folder)

    def read(self, path: Path) -> str:
        """A file of the copy."""
        return (self._folder / path).read_text(encoding="utf-8")

    @contextmanager
    def changed(self, path: Path, text: str) -> Generator[None]:
        """Give a file this text for a while."""
        target = self._folder / path
        original, times = target.read_bytes(), target.stat()
        try:
            target.write_text(text, encoding="utf-8", newline="\n")
            # Python recognises a changed file by its size and second: two mutants of one length need two seconds.
            moment = time.time() + 10 * next(self._numbers)
            os.utime(target, (moment, moment))
            self._freeze_schema(path)
            yield
        finally:
            target.write_bytes(original)
            os.utime(target, ns=(times.st_atime_ns, times.st_mtime_ns))
            self._freeze_schema(path)

    def run_tests(self, tests: Sequence[str], limit: float, *, stop: bool = True) -> Trial:
        """Run tests, usually until one fails. Without any, the mutant survives."""
        if not tests:
            return Trial("survived", 0.0, "No test names its requirements.")
        # Loading the other installed plugins takes longer than most of the tests.
        plugins = ["-p", "pytest_asyncio.plugin", "-p", "xdist.plugin", "-p", "bench.mutants.no_shrinking"]
        command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "--tb=line", "-rfE", *plugins]
        if stop:
            command.append("-x")
        started = time.monotonic()
        process = subprocess.Popen(
            ["nice", "-n", "2", *command, *tests],
            cwd=self._folder,
            env=self._environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            process.terminate()  # pytest stops its database server
            output, _ = process.communicate()
            return Trial("timed out", time.monotonic() - started, output)
        except BaseException:
            process.terminate()
            raise
        return Trial(_verdict(process.returncode, output), time.monotonic() - started, output)

    def _freeze_schema(self, path: Path) -> None:
        """Tests make their databases from the migrations, which are written from the schema."""
        if path.parts[2:4] in (("db", "schema"), ("db", "functions")):
            command = [sys.executable, "-m", "tests.db.freeze_baseline"]
            subprocess.run(command, cwd=self._folder, env=self._environment(), check=True)

    def _environment(self) -> dict[str, str]:
        bytecode = str(self._folder / ".bytecode")
        return {
            **os.environ,
            "PYTHONPATH": str(self._folder / "src"),
            "PYTHONPYCACHEPREFIX": bytecode,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "COLUMNS": "300",  # so that pytest prints reasons in full
        }


def _verdict(exit_code: int, output: str) -> Verdict:
    if exit_code == _NO_TEST_FAILED:
        return "survived"
    return "killed" if exit_code == _TEST_FAILED and _FAILED_TEST.search(output) else "broken"


@contextmanager
def open_tree() -> Generator[Tree]:
    """A copy that is removed in the end."""
    folder = Path(tempfile.mkdtemp(prefix="gristmill-mutants-"))
    try:
        yield Tree(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(_BYTECODE / folder.relative_to("/"), ignore_errors=True)
