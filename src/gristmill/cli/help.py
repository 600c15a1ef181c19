"""The look of `--help`: plain text with the names that the reference uses, BASE, PATH, NUMBER, and no types of Python. A value
that an option doesn't take is refused in the same words, with the allowed range."""

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from gristmill.validation import field_errors

_WIDTH = 110


class HelpfulCommand(TyperCommand):
    """A command with plain help."""

    def __init__(self, name: str | None, **options: Any) -> None:
        super().__init__(name, **options)
        for parameter in self.params:
            if parameter.metavar is None:
                parameter.metavar = (parameter.name or "").upper()

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
    """A `Typer` whose commands have plain help."""

    def __init__(self, *, help: str, name: str | None = None) -> None:  # noqa: A002
        super().__init__(
            name=name,
            help=help,
            cls=HelpfulGroup,
            no_args_is_help=True,
            rich_markup_mode=None,
            pretty_exceptions_enable=False,
            context_settings={"max_content_width": _WIDTH},
        )

    def command(self, name: str | None = None, **options: Any) -> Callable[[Any], Any]:
        """Add a command."""
        return super().command(name, cls=HelpfulCommand, **options)


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
    message = field_errors(errors()[:1])[0].message
    if allowed := _allowed_range(error.param):
        message = f"must be a whole number, {allowed}"
    return f"{message}."


def _first_sentence(text: str) -> str:
    paragraph = " ".join(text.split())
    return f"{paragraph.split('. ')[0].removesuffix('.')}."
