"""Hooks for schemathesis: a fresh `Idempotency-Key` for each request, and `ast.parse` for one thread at a time.

schemathesis reuses the few keys that it generates, so most requests would only get the stored response of another one.

CPython 3.11 counts the recursion depth of `ast.parse` in a variable that all threads share (python/cpython#106905). When two
workers parse at once (Hypothesis parses the source of strategies), one fails with "SystemError: AST constructor recursion
depth mismatch". The lock makes that impossible.
"""

import ast
import threading
from collections.abc import Callable
from typing import Any, cast
from uuid import uuid4

import schemathesis

_hook = cast(Any, schemathesis).hook  # schemathesis exports it without types


@_hook
def map_headers(_context: Any, headers: dict[str, Any] | None) -> dict[str, Any] | None:
    """Give each request its own key."""
    if headers and "Idempotency-Key" in headers:
        headers["Idempotency-Key"] = str(uuid4())
    return headers


def serialised(parse: Callable[..., Any]) -> Callable[..., Any]:
    """`parse`, for one thread at a time."""
    lock = threading.RLock()

    def parse_alone(*arguments: Any, **options: Any) -> Any:
        with lock:
            return parse(*arguments, **options)

    return parse_alone


ast.parse = serialised(ast.parse)
