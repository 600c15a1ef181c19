"""docs/reference/commands.md has a section for every command, with all that it takes and nothing else."""

import re
from typing import Any, cast

import typer.main

from gristmill.cli.commands import cli
from tests.docs.pages import headings, read, sections

PAGE = "docs/reference/commands.md"


def commands() -> dict[str, list[str]]:
    """What each command takes, as it is typed."""
    return commands_below("gristmill", cast(Any, typer.main.get_command(cli)))


def commands_below(name: str, command: Any) -> dict[str, list[str]]:
    """A command, and those that it is the first word of."""
    commands_found = {name: accepted_options(command)}
    for word, part in getattr(command, "commands", {}).items():
        commands_found |= commands_below(f"{name} {word}", part)
    return commands_found


def accepted_options(command: Any) -> list[str]:
    return sorted(
        name
        for parameter in command.params
        for name in (
            [parameter.name.upper()] if parameter.param_type_name == "argument" else [*parameter.opts]
        )
    )


def test_every_command_is_documented_with_its_options_and_arguments() -> None:
    descriptions = sections(read(PAGE))
    for command, names in commands().items():
        section = descriptions[f"`{command}`"]
        options = set(re.findall(r"^\| `(--[\w-]+|[A-Z_]+)", section, re.MULTILINE))
        assert sorted(options) == names, command


def test_every_documented_command_exists() -> None:
    titles = [title.strip("`") for title in headings(read(PAGE)) if title.startswith("`gristmill")]
    assert sorted(titles) == sorted(commands())


def test_every_command_that_a_page_shows_exists() -> None:
    command_names = set(commands())
    for page in (
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        PAGE,
        "docs/reference/api.md",
        "docs/reference/settings.md",
    ):
        for name in re.findall(r"`(?:uv run )?(gristmill [a-z]+(?: [a-z]+)?)", read(page)):
            assert name in command_names or name.rpartition(" ")[0] in command_names, f"{page}: {name}"
