"""`ETag` and `If-Match`: change a thing only if it is still as the caller has seen it.

The tag is the instant of a thing's last change. Who changes compares it in the transaction that changes, so that of two that
have seen the same, one is told 412. Without `If-Match` the last one wins.
"""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import Header, Response

from gristmill.errors import PreconditionFailed

IfMatch = Annotated[
    str | None,
    Header(
        max_length=200, description="The `ETag` that was seen; refused with 412 when it is no longer that."
    ),
]


def etag(updated_at: datetime) -> str:
    """The tag of a thing that last changed then."""
    return f'"{int(updated_at.astimezone(UTC).timestamp() * 1_000_000):x}"'


def set_etag(response: Response, updated_at: datetime) -> None:
    """Tell the tag with the answer."""
    response.headers["ETag"] = etag(updated_at)


def check_if_match(if_match: str | None, updated_at: datetime) -> None:
    """Refuse to change what was changed since the caller has seen it."""
    if if_match is None or if_match.strip() == "*":
        return
    if etag(updated_at) not in [tag.strip() for tag in if_match.split(",")]:
        raise PreconditionFailed("It was changed meanwhile. Read it again, and decide anew.")
