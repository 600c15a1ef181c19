"""The error classes.

    GristmillError
    ├── RequestError    returned to the caller, never retried
    │   ├── Invalid             the request is malformed
    │   ├── NotAuthenticated    the caller is unknown
    │   ├── Forbidden           the caller lacks permission
    │   ├── NotFound            the object does not exist
    │   ├── Conflict            not possible in the current state
    │   ├── PreconditionFailed  the object has changed since the caller read it
    │   ├── TooLarge            the request exceeds a size limit
    │   └── LimitReached        too many requests; `retry_after` says when to retry
    ├── WorkError       an attempt at a job failed
    │   ├── Transient           a retry may succeed (`retry_after` says when)
    │   ├── Permanent           a retry can't succeed
    │   │   ├── Unreadable          the source exists but can't be read
    │   │   │   └── PathNotAllowed      this part of the disk may not be read
    │   │   ├── Unsupported         no reader for this type of document
    │   │   ├── NoText              the document contains no text
    │   │   └── SourceGone          the source no longer exists
    │   └── LeaseLost           another worker owns the job now: write nothing
    └── SetupError      Gristmill can't start; the message says what to change

A `code` is stable, unique and snake_case: programs compare it, people read `message`. Neither contains secrets. Adapters
translate foreign exceptions (`raise … from`), so that any other exception that escapes is a bug.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta


class GristmillError(Exception):
    """The base class: a message for people and a code for programs."""

    code = "internal"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code


@dataclass(frozen=True)
class FieldError:
    """An invalid field of a request, and the reason."""

    field: str
    message: str


class RequestError(GristmillError):
    """The request can't be carried out."""

    code = "request_refused"

    def __init__(self, message: str, *, code: str | None = None, fields: Sequence[FieldError] = ()) -> None:
        super().__init__(message, code=code)
        self.fields = tuple(fields)


class Invalid(RequestError):
    """The request is malformed or contains invalid values."""

    code = "invalid_request"


class NotAuthenticated(RequestError):
    """The request has no valid credentials."""

    code = "unauthorised"


class Forbidden(RequestError):
    """The caller has no permission for this."""

    code = "forbidden"


class NotFound(RequestError):
    """The object that the request names does not exist, or no longer does."""

    code = "not_found"


class Conflict(RequestError):
    """The request is valid, but not possible in the current state."""

    code = "conflict"


class PreconditionFailed(RequestError):
    """The object has changed since the caller read it."""

    code = "changed_meanwhile"


class TooLarge(RequestError):
    """The request exceeds a size limit."""

    code = "too_large"


class LimitReached(RequestError):
    """A rate or queue limit is reached; `retry_after` says when to retry."""

    code = "limit_reached"

    def __init__(self, message: str, *, retry_after: timedelta, code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.retry_after = retry_after


class WorkError(GristmillError):
    """An attempt at a job failed."""

    code = "work_failed"


class Transient(WorkError):
    """A retry may succeed; `retry_after` takes precedence over the job engine's backoff, or with `is_crowded` is the shortest wait:
    a server that says "in a second" to hundreds of jobs would see all of them again in a second, and use up their attempts within
    ten. `max_attempts` is for what seldom goes away by itself: after so many attempts the job ends, however many more it may have."""

    code = "temporarily_unavailable"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        retry_after: timedelta | None = None,
        max_attempts: int | None = None,
        is_crowded: bool = False,
    ) -> None:
        super().__init__(message, code=code)
        self.retry_after, self.is_crowded = retry_after, is_crowded
        self.max_attempts = max_attempts


class Permanent(WorkError):
    """A retry can't succeed."""

    code = "cannot_be_done"


class Unreadable(Permanent):
    """The source exists but can't be read."""

    code = "unreadable"


class PathNotAllowed(Unreadable):
    """The path is in a part of the server's disk that may not be read."""

    code = "path_not_allowed"


class Unsupported(Permanent):
    """There is no reader for this type of document."""

    code = "unsupported_type"


class NoText(Permanent):
    """The document is not empty, but no text could be extracted."""

    code = "no_text"


class SourceGone(Permanent):
    """The source no longer exists."""

    code = "source_gone"


class LeaseLost(WorkError):
    """The job's lease has expired and another worker owns the job: the current attempt must write nothing."""

    code = "lease_lost"


class SetupError(GristmillError):
    """Gristmill can't start with this configuration; the message says what to change."""

    code = "setup"
