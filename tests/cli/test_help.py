"""`--help` is written for people: names of values instead of types of Python."""

import shlex
from typing import Any

import pytest

from tests.command_line import command_tree, invoke


def command_words(words: tuple[str, ...], group: Any) -> list[tuple[str, ...]]:
    """A command and its subcommands, as the words that start them."""
    subcommands: dict[str, Any] = getattr(group, "commands", {})
    return [
        words,
        *(leaf for name, command in subcommands.items() for leaf in command_words((*words, name), command)),
    ]


ROOT = command_tree()
COMMANDS = command_words((), ROOT)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_shows_names_of_values_and_no_types(words: tuple[str, ...]) -> None:
    result = invoke([*words, "--help"])
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: {' '.join(('gristmill', *words))} [OPTIONS]")
    for type_name in ("<", "[[", "bool", "list[", "INTEGER", "{", "╭"):
        assert type_name not in result.stdout


def test_help_names_arguments_defaults_and_ranges() -> None:
    add = invoke(["add", "--help"]).stdout
    assert add.startswith("Usage: gristmill add [OPTIONS] BASE [PATH_OR_URL]...\n")
    search = invoke(["search", "--help"]).stdout
    assert "--limit NUMBER      Maximum number of hits. [1 to 100, default: 10]" in search


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_has_an_example_that_the_command_takes(words: tuple[str, ...]) -> None:
    shown = invoke([*words, "--help"], {"COLUMNS": "200"}).stdout
    _, _, examples = shown.partition("\n  Example")
    lines = [line.strip() for line in examples.splitlines()[1:] if line.strip()]
    assert lines, shown
    for line in lines:
        arguments = shlex.split(line.partition(" > ")[0])
        arguments = arguments[arguments.index("gristmill") + 1 :]
        assert tuple(arguments[: len(words)]) == words
        command = ROOT
        while hasattr(command, "commands") and arguments and arguments[0] in command.commands:
            command, arguments = command.commands[arguments[0]], arguments[1:]
        command.make_context("gristmill", arguments).close()


def test_a_missing_argument_is_named_as_in_the_help() -> None:
    missing = invoke(["search", "notes"])
    assert (missing.exit_code, "Missing argument 'QUERY'." in missing.stderr) == (2, True)


def numeric_options() -> list[tuple[tuple[str, ...], str, Any]]:
    """Every option with a range: the words of its command, its name, and the option."""
    options: list[tuple[tuple[str, ...], str, Any]] = []
    for words in COMMANDS:
        command = ROOT
        for word in words:
            command = command.commands[word]
        options += [
            (words, parameter.opts[0], parameter)
            for parameter in command.params
            if getattr(parameter, "max", None) is not None
        ]
    return options


def test_the_commands_have_options_with_a_range() -> None:
    assert {name for _, name, _ in numeric_options()} >= {"--limit", "--port", "--days", "--dimensions"}


@pytest.mark.parametrize("value", ["1.5", "9" * 30])
def test_a_fraction_and_a_huge_number_are_refused(value: str) -> None:
    refused = invoke(["search", f"--limit={value}", "a", "b"])
    assert refused.exit_code == 2
    assert "Invalid value for '--limit': must be a whole number, 1 to 100." in refused.stderr


def test_a_word_that_is_not_among_the_choices_is_refused_with_the_choices() -> None:
    refused = invoke(["add", "base", "https://example.org/", "--render=sometimes"])
    assert refused.exit_code == 2
    (line,) = [line for line in refused.stderr.splitlines() if "--render" in line and "Invalid" in line]
    assert "always" in line
    assert line.endswith(".")
    assert not line.endswith("..")


def test_an_amount_below_its_limit_is_refused() -> None:
    for amount in (["--", "-1"], ["x"]):
        refused = invoke(["limit", "set", "budget", "money", *amount])
        assert refused.exit_code == 2
        assert "must be a number, at least 0." in refused.stderr


@pytest.mark.parametrize("value", ["below", "above", "x"])
@pytest.mark.parametrize(
    ("words", "name", "option"), numeric_options(), ids=lambda part: part if isinstance(part, str) else ""
)
def test_a_number_out_of_range_is_refused_with_the_allowed_range(
    words: tuple[str, ...], name: str, option: Any, value: str
) -> None:
    """In plain words: what was wrong, and what is allowed."""
    value = {"below": str(option.min - 1), "above": str(option.max + 1)}.get(value, value)
    noun = "number" if name == "--min-score" else "whole number"
    refused = invoke([*words, f"{name}={value}", "a", "b"])
    assert refused.exit_code == 2
    allowed = f"{option.min} to {option.max}"
    assert f"Invalid value for '{name}': must be a {noun}, {allowed}." in refused.stderr
