"""A hook for schemathesis: a fresh `Idempotency-Key` for each request, as clients send them.

With the few keys that it generates itself, most requests would only repeat the response of another.
"""

from typing import Any, cast
from uuid import uuid4

import schemathesis

_hook = cast(Any, schemathesis).hook  # it has no types


@_hook
def map_headers(_context: Any, headers: dict[str, Any] | None) -> dict[str, Any] | None:
    """Give each request its own key."""
    if headers and "Idempotency-Key" in headers:
        headers["Idempotency-Key"] = str(uuid4())
    return headers
