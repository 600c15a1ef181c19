"""The work of `gristmill embedder …`, through the API. A key is never an argument: other users of the machine could read it
in the list of processes, and it would stay in the shell's history."""

import getpass
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rich.table import Table
from rich.text import Text

from gristmill.cli.client_session import ClientSession, Refused
from gristmill.cli.output import new_table

_DETAILS = {
    "origin": "origin",
    "model": "model",
    "url": "address",
    "dimensions": "dimensions",
    "maxTokens": "longest text, in tokens",
    "chunkTokens": "longest chunk, in tokens",
    "languages": "languages",
    "pricePerMillionTokens": "price of a million tokens",
    "batchSize": "texts in a request",
    "sendDimensions": "sends dimensions",
    "queryPrefix": "before queries",
    "documentPrefix": "before documents",
    "timeoutSeconds": "timeout, in seconds",
    "requestsPerMinute": "requests per minute",
    "tokensPerMinute": "tokens per minute",
    "concurrency": "requests at the same time",
    "createdAt": "stored at",
    "updatedAt": "changed at",
}


def read_key(source: str) -> str:
    """The key from `-`, a prompt or standard input; from `@FILE`; or from `env:NAME`."""
    if source == "-":
        key = getpass.getpass("API key: ") if sys.stdin.isatty() else sys.stdin.readline()
    elif source.startswith("@"):
        try:
            key = Path(source[1:]).expanduser().read_text(encoding="utf-8")
        except OSError as error:
            raise Refused(f"{source[1:]} can't be read: {error.strerror}", code="no_secret_file") from error
    elif source.startswith("env:"):
        name = source.removeprefix("env:")
        if name not in os.environ:
            raise Refused(f"There is no variable {name} in the environment.", code="no_secret_variable")
        key = os.environ[name]
    else:  # without repeating it: it may be the key itself
        raise Refused(
            "A key must not be on the command line, where others can read it. Pass --key - to be asked for it,"
            " --key @FILE, or --key env:NAME.",
            code="key_on_command_line",
        )
    if not key.strip():
        raise Refused("The key is empty. Pass no --key if the endpoint needs none.", code="bad_option")
    return key.strip()


def body_of(**options: Any) -> dict[str, Any]:
    """The fields of a request, of the options that were given. 0 as a limit means none."""
    return {
        name: None if value == 0 and name in ("requestsPerMinute", "tokensPerMinute") else value
        for name, value in options.items()
        if value is not None and value != []
    }


def in_path(name: str) -> str:
    """A name as a segment of a path."""
    return quote(name, safe="")


async def list_embedders(session: ClientSession) -> list[dict[str, Any]]:
    """All embedders, by name."""
    return [embedder async for embedder in session.client.pages("/embedders")]


def embedder_table(embedders: Sequence[Mapping[str, Any]]) -> Table:
    """A table of embedders; the default one has a star."""
    numbers = ("dimensions", "tokens", "price")
    table = new_table(
        "embedder", "origin", "model", "dimensions", "tokens", "price", "languages", right=numbers
    )
    for embedder in embedders:
        star = " *" if embedder["isDefault"] else ""
        table.add_row(
            Text(embedder["name"] + star),
            embedder["origin"],
            Text(embedder["model"] or ""),
            str(embedder["dimensions"]),
            str(embedder["maxTokens"]),
            _format(embedder["pricePerMillionTokens"]),
            _format_languages(embedder["languages"]),
        )
    table.caption = "* default of new bases"
    table.caption_justify = "left"
    return table


def detail_table(embedder: Mapping[str, Any]) -> Table:
    """Everything that is known of an embedder."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_row("name", Text(embedder["name"]))
    for field, label in _DETAILS.items():
        value = embedder[field]
        if value not in (None, ""):
            table.add_row(label, Text(_format_languages(value) if field == "languages" else _format(value)))
    table.add_row("key", "stored" if embedder["hasKey"] else "none")
    return table


def _format(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _format_languages(languages: Sequence[str] | None) -> str:
    if languages is None:
        return ""
    return ", ".join(languages) if len(languages) <= 3 else f"{len(languages)} languages"
