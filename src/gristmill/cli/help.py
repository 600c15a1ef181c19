"""The look of `--help`: plain text with the names that the reference uses, BASE, PATH, NUMBER, and no types of Python. A value
that an option doesn't take is refused in the same words, with the allowed range.

Every command that uses the API also takes `--url` and `--key`, for a server elsewhere.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from gristmill.cli.common import add_server_choice
from gristmill.validation import field_errors

_WIDTH = 110

ServerUrl = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="ADDRESS",
        help="Server to use; by default GRISTMILL_URL, or the one on the data dir.",
    ),
]
ServerKey = Annotated[
    str | None,
    typer.Option("--key", metavar="KEY", help="API key, or @FILE to read it; by default GRISTMILL_API_KEY."),
]


class HelpfulCommand(TyperCommand):
    """A command with plain help."""

    def __init__(self, name: str | None, **options: Any) -> None:
        super().__init__(name, **options)
        _name_values(self.params)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments and options; a value that can't be used is refused in plain words."""
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            error.message = _plain_message(error)
            raise

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """`[OPTIONS] BASE [PATH_OR_URL]...`"""
        return _usage_pieces(self, ctx)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and options."""
        _write_parameters(self, ctx, formatter)


class HelpfulGroup(TyperGroup):
    """A command with subcommands and plain help."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        _name_values(self.params)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """`[OPTIONS] COMMAND [ARGS]...`"""
        return [*_usage_pieces(self, ctx), self.subcommand_metavar]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options and the commands, each with the first sentence of its description."""
        _write_parameters(self, ctx, formatter)
        rows = [(name, _first_sentence(command.help or "")) for name, command in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class CommandLine(typer.Typer):
    """A `Typer` whose commands have plain help with examples."""

    def __init__(
        self,
        *,
        help: str,  # noqa: A002
        name: str | None = None,
        examples: Sequence[str] = (),
        no_args_is_help: bool = True,
    ) -> None:
        super().__init__(
            name=name,
            help=help,
            epilog=_example_text(examples),
            cls=HelpfulGroup,
            no_args_is_help=no_args_is_help,
            rich_markup_mode=None,
            pretty_exceptions_enable=False,
            context_settings={"max_content_width": _WIDTH},
        )

    def command(
        self, name: str | None = None, *, examples: Sequence[str] = (), local: bool = False, **options: Any
    ) -> Callable[[Any], Any]:
        """Add a command. It takes `--url` and `--key`, unless it is `local`: about this machine alone."""
        if examples:
            options["epilog"] = _example_text(examples)
        register = super().command(name, cls=HelpfulCommand, **options)
        return register if local else lambda function: register(with_server_options(function))


def with_server_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with the options `--url` and `--key`. A command with options of these names takes ours before its
    name only."""
    signature = inspect.signature(function)
    if {"url", "key"} & set(signature.parameters):
        return function

    @functools.wraps(function)
    def run(*, server_url: str | None = None, server_key: str | None = None, **options: Any) -> Any:
        add_server_choice(server_url, server_key)
        return function(**options)

    added = {"server_url": ServerUrl, "server_key": ServerKey}
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in added.items()
    ]
    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), *parameters])  # pyright: ignore[reportAttributeAccessIssue]
    run.__annotations__ = {**get_type_hints(function, include_extras=True), **added}
    return run


def _example_text(examples: Sequence[str]) -> str | None:
    """The end of `--help`. The first line keeps the lines from being wrapped."""
    if not examples:
        return None
    title = "Example:" if len(examples) == 1 else "Examples:"
    return "\n".join(("\b", title, *(f"  {example}" for example in examples)))


def _name_values(parameters: Sequence[Any]) -> None:
    """A parameter without a name for its value has its own name."""
    for parameter in parameters:
        if parameter.metavar is None:
            parameter.metavar = (parameter.name or "").upper()


def _usage_pieces(command: Any, ctx: Any) -> list[str]:
    arguments = [
        _argument_name(parameter) for parameter in command.get_params(ctx) if _is_argument(parameter)
    ]
    return ["[OPTIONS]", *arguments]


def _write_parameters(command: Any, ctx: Any, formatter: Any) -> None:
    parameters = command.get_params(ctx)
    arguments = [
        (_argument_name(parameter), parameter.help or "")
        for parameter in parameters
        if _is_argument(parameter)
    ]
    options = [
        (_option_name(parameter), _option_help(parameter))
        for parameter in parameters
        if not _is_argument(parameter)
    ]
    for title, rows in (("Arguments", arguments), ("Options", options)):
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)


def _is_argument(parameter: Any) -> bool:
    return parameter.param_type_name == "argument"


def _argument_name(parameter: Any) -> str:
    name = parameter.metavar
    many = "..." if parameter.nargs != 1 else ""
    return f"{name}{many}" if parameter.required else f"[{name}]{many}"


def _option_name(parameter: Any) -> str:
    names = " / ".join([", ".join(parameter.opts), *parameter.secondary_opts])
    if parameter.is_flag:
        return names
    return f"{names} {parameter.metavar}"


def _option_help(parameter: Any) -> str:
    notes: list[str] = []
    if parameter.required:
        notes.append("required")
    if allowed := _allowed_range(parameter):
        notes.append(allowed)
    if (
        parameter.default not in (None, False, "")
        and not callable(parameter.default)
        and not parameter.is_flag
    ):
        notes.append(f"default: {parameter.default}")
    return f"{parameter.help or ''} [{', '.join(notes)}]" if notes else parameter.help or ""


def _allowed_range(parameter: Any) -> str:
    low, high = getattr(parameter, "min", None), getattr(parameter, "max", None)
    if low is None:
        return ""
    return f"{low} to {high}" if high is not None else f"at least {low}"


def _plain_message(error: typer.BadParameter) -> str:
    errors: Callable[[], Any] | None = getattr(error.__cause__, "errors", None)
    if errors is None:
        return error.message
    first = errors()[0]
    message = field_errors([first])[0].message
    if allowed := _allowed_range(error.param):
        is_fraction = any(isinstance(limit, float) for limit in first.get("ctx", {}).values())
        noun = "number" if is_fraction or first["type"].startswith("float") else "whole number"
        message = f"must be a {noun}, {allowed}"
    return f"{message.removesuffix('.')}."


def _first_sentence(text: str) -> str:
    paragraph = " ".join(text.split())
    return f"{paragraph.split('. ')[0].removesuffix('.')}."
