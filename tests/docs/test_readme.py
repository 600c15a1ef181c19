"""The README and the tutorial show what commands print: they are run here, and print just that."""

import shlex
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.docs.pages import blocks, read
from tests.gristmill_process import environment, run_command

pytestmark = pytest.mark.slow

_PROMPT = "$ uv run gristmill "


def shown_commands(page: str) -> list[tuple[list[str], str]]:
    """The commands of a page's console blocks, each with what it prints."""
    commands_found: list[tuple[list[str], str]] = []
    for block in blocks(read(page)):
        if block.language != "console":
            continue
        for part in block.text.split(_PROMPT)[1:]:
            line, _, expected_output = part.partition("\n")
            commands_found.append((shlex.split(line), expected_output))
    return commands_found


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


@pytest.fixture
def folder() -> Generator[Path]:
    """Not below pytest's own, which every new session of the same user closes to others, PostgreSQL's user included."""
    with tempfile.TemporaryDirectory(prefix="gristmill-readme-") as path:
        yield Path(path)


@pytest.mark.parametrize(
    ("page", "names"),
    [("README.md", ["add", "search", "status"]), ("docs/tutorial/first-base.md", ["add", "search"])],
)
def test_the_commands_print_what_the_page_shows(
    page: str, names: list[str], folder: Path, cache_dir: Path
) -> None:
    env = environment(folder / "data", cache_dir)
    commands = shown_commands(page)
    assert [arguments[0] for arguments, _ in commands] == names
    for arguments, expected_output in commands:
        run = run_command(env, *arguments)
        assert run.returncode == 0, run.stderr
        assert lines(run.stdout) == lines(expected_output), arguments


def test_the_two_commands_are_there_to_the_letter() -> None:
    commands = [line for block in blocks(read("README.md")) for line in block.text.splitlines()]
    assert "pip install uv && uv run gristmill serve" in commands
    assert "pip install uv && uv run pytest" in commands
