"""Commands against the shared test server."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from gristmill.errors import GristmillError
from tests.command_line import invoke
from tests.gristmill_process import environment


@dataclass(frozen=True)
class CommandOutcome:
    """How a command ended: its exit code or the code of its error, and what it printed."""

    code: int | str
    stdout: str


RunCommand = Callable[..., CommandOutcome]


@pytest.fixture
def env(data_dir: Path, cache_dir: Path, database_url: str) -> dict[str, str]:
    """The environment of a command, with a data dir and a database of its own."""
    return environment(data_dir, cache_dir, database_url=database_url)


@pytest.fixture
def run(env: dict[str, str]) -> RunCommand:
    """Runs commands in this process, as into a pipe."""

    def run_command(*words: str, **variables: str) -> CommandOutcome:
        result = invoke(words, {**env, **variables})
        error = result.exception
        return CommandOutcome(
            error.code if isinstance(error, GristmillError) else result.exit_code, result.stdout
        )

    return run_command
