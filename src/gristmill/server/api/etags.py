"""`ETag` and `If-Match`: change a resource only if nothing changed it since the caller read it.

The tag is the time of the last change. It is compared in the transaction that makes the change, so that of two callers with
the same tag the second gets 412. Without `If-Match` the last change wins.
"""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import Header, Response

from gristmill.errors import PreconditionFailed

IfMatch = Annotated[
    str | None,
    Header(
        max_length=200, description="The `ETag` of the version to change; 412 when it is no longer current."
    ),
]


def etag(updated_at: datetime) -> str:
    """The tag of a resource that last changed at `updated_at`."""
    return f'"{int(updated_at.astimezone(UTC).timestamp() * 1_000_000):x}"'


def set_etag(response: Response, updated_at: datetime) -> None:
    """Send the tag with the response."""
    response.headers["ETag"] = etag(updated_at)


def check_if_match(if_match: str | None, updated_at: datetime) -> None:
    """Raise `PreconditionFailed` when the resource changed since the caller read it."""
    if if_match is None or if_match.strip() == "*":
        return
    if etag(updated_at) not in [tag.strip() for tag in if_match.split(",")]:
        raise PreconditionFailed(
            "It changed since you read it. Read it again, and send your change with the new ETag."
        )
