"""Commands run in the test's process."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, cast

import typer.main
from click.testing import CliRunner, Result

from gristmill.cli.commands import cli


@cache
def command_tree() -> Any:
    """All commands. Made once: that takes longer than most of them."""
    return cast(Any, typer.main.get_command(cli))


def invoke(words: Sequence[str], env: Mapping[str, str | None] | None = None) -> Result:
    """Run a command."""
    return CliRunner().invoke(command_tree(), words, env=env, prog_name="gristmill")
