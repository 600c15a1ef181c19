"""Hooks for schemathesis: a fresh `Idempotency-Key` for each request, hostile text in some, and `ast.parse` for one thread at
a time.

schemathesis reuses the few keys that it generates, so most requests would only get the stored response of another one.

It rarely generates control characters. Every eighth set of query parameters, and every eighth body, gets one in each of its
texts. Which ones is decided by their content, so that a failure can be repeated.

CPython 3.11 counts the recursion depth of `ast.parse` in a variable that all threads share (python/cpython#106905). When two
workers parse at once (Hypothesis parses the source of strategies), one fails with "SystemError: AST constructor recursion
depth mismatch". The lock makes that impossible.
"""

import ast
import threading
import zlib
from collections.abc import Callable
from typing import Any, cast
from uuid import uuid4

import schemathesis

_HOSTILE = ("\0", "\x1b[2J", "\u202e", "\n", "\x7f")
_hook = cast(Any, schemathesis).hook  # schemathesis exports it without types


@_hook
def map_headers(_context: Any, headers: dict[str, Any] | None) -> dict[str, Any] | None:
    """Give each request its own key."""
    if headers and "Idempotency-Key" in headers:
        headers["Idempotency-Key"] = str(uuid4())
    return headers


@_hook
def map_query(_context: Any, query: dict[str, Any] | None) -> dict[str, Any] | None:
    """Put control characters into some query parameters."""
    return _with_hostile_text(query) if _is_chosen(query) else query


@_hook
def map_body(_context: Any, body: Any) -> Any:
    """Put control characters into some bodies."""
    return _with_hostile_text(body) if _is_chosen(body) else body


def _is_chosen(value: Any) -> bool:
    return zlib.crc32(repr(value).encode("utf-8", "replace")) % 8 == 0


def _with_hostile_text(value: Any) -> Any:
    match value:
        case str():
            return value + _HOSTILE[len(value) % len(_HOSTILE)]
        case dict():
            items = cast("dict[Any, Any]", value).items()
            return {key: _with_hostile_text(element) for key, element in items}
        case list():
            return [_with_hostile_text(element) for element in cast("list[Any]", value)]
        case _:
            return value


def serialised(parse: Callable[..., Any]) -> Callable[..., Any]:
    """`parse`, for one thread at a time."""
    lock = threading.RLock()

    def parse_alone(*arguments: Any, **options: Any) -> Any:
        with lock:
            return parse(*arguments, **options)

    return parse_alone


ast.parse = serialised(ast.parse)
