"""`--help` is written for people: names of values instead of types of Python."""

from typing import Any, cast

import pytest
import typer.main
from typer.testing import CliRunner

from gristmill.cli.commands import cli


def command_words(words: tuple[str, ...], group: Any) -> list[tuple[str, ...]]:
    """A command and its subcommands, as the words that start them."""
    subcommands: dict[str, Any] = getattr(group, "commands", {})
    return [
        words,
        *(leaf for name, command in subcommands.items() for leaf in command_words((*words, name), command)),
    ]


COMMANDS = command_words((), cast(Any, typer.main.get_command(cli)))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_shows_names_of_values_and_no_types(words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(cli, [*words, "--help"], prog_name="gristmill")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: {' '.join(('gristmill', *words))} [OPTIONS]")
    for type_name in ("<", "[[", "bool", "list[", "INTEGER", "{", "╭"):
        assert type_name not in result.stdout


def test_help_names_arguments_defaults_and_ranges() -> None:
    add = CliRunner().invoke(cli, ["add", "--help"], prog_name="gristmill").stdout
    assert add.startswith("Usage: gristmill add [OPTIONS] BASE [PATH_OR_URL]...\n")
    search = CliRunner().invoke(cli, ["search", "--help"]).stdout
    assert "--limit NUMBER   Maximum number of hits. [1 to 100, default: 10]" in search


def test_a_missing_argument_is_named_as_in_the_help() -> None:
    missing = CliRunner().invoke(cli, ["search", "notes"])
    assert (missing.exit_code, "Missing argument 'QUERY'." in missing.stderr) == (2, True)
