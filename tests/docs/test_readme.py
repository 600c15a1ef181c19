"""The README shows what happens: its commands are run, and print what it says."""

import shlex
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.docs.pages import blocks, read
from tests.gristmill_process import environment, run_command

_PROMPT = "$ uv run gristmill "


def shown_commands() -> list[tuple[list[str], str]]:
    """The commands of the README's console blocks, each with what it prints."""
    found: list[tuple[list[str], str]] = []
    for block in blocks(read("README.md")):
        if block.language != "console":
            continue
        for part in block.text.split(_PROMPT)[1:]:
            line, _, printed = part.partition("\n")
            found.append((shlex.split(line), printed))
    return found


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


@pytest.fixture
def folder() -> Generator[Path]:
    """Not below pytest's own, which every new session of the same user closes to others, PostgreSQL's user included."""
    with tempfile.TemporaryDirectory(prefix="gristmill-readme-") as made:
        yield Path(made)


def test_the_commands_print_what_the_readme_shows(folder: Path, cache_dir: Path) -> None:
    env = environment(folder / "data", cache_dir)
    commands = shown_commands()
    assert [arguments[0] for arguments, _ in commands] == ["add", "search", "status"]
    for arguments, printed in commands:
        run = run_command(env, *arguments)
        assert run.returncode == 0, run.stderr
        assert lines(run.stdout) == lines(printed), arguments


def test_the_two_commands_are_there_to_the_letter() -> None:
    commands = [line for block in blocks(read("README.md")) for line in block.text.splitlines()]
    assert "pip install uv && uv run gristmill serve" in commands
    assert "pip install uv && uv run pytest" in commands
