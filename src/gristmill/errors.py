"""Everything that can go wrong, by who is told.

    GristmillError
    ├── RequestError    told to the caller, never retried
    │   ├── Invalid         the request itself is wrong
    │   ├── Unauthorised    who asks is not known
    │   ├── Forbidden       not for these eyes
    │   ├── NotFound        no such thing
    │   ├── Conflict        right request, wrong moment
    │   ├── Changed         not what the caller has seen any more
    │   ├── TooLarge        more than one request may carry
    │   └── LimitReached    too much at once; says when to come back
    ├── WorkError       an attempt at a job ended badly
    │   ├── Transient       may go well later (`retry_after` says when)
    │   ├── Permanent       never will
    │   │   ├── Unreadable      the source is there and cannot be read
    │   │   ├── Unsupported     no reader for this kind of document
    │   │   ├── NoText          it was read, and held no text
    │   │   └── Gone            the source is no longer there
    │   └── LeaseLost       the job is somebody else's now: write nothing
    └── SetupError      Gristmill cannot start; says what to change

A `code` is stable, unique and snake_case: callers compare it, people read `message`. Neither ever holds
a secret. Adapters translate at their edge (`raise … from`), so that anything else which escapes is a bug.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta


class GristmillError(Exception):
    """The root: a message for people and a code for programs."""

    code = "internal"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code


@dataclass(frozen=True)
class FieldError:
    """One field of a request that can't be taken, and why."""

    field: str
    message: str


class RequestError(GristmillError):
    """The caller asked for something that can't be done."""

    code = "request_refused"

    def __init__(self, message: str, *, code: str | None = None, fields: Sequence[FieldError] = ()) -> None:
        super().__init__(message, code=code)
        self.fields = tuple(fields)


class Invalid(RequestError):
    """The request is malformed or holds values that can't be taken."""

    code = "invalid_request"


class NotAuthenticated(RequestError):
    """Nobody knows who asks."""

    code = "unauthorised"


class Forbidden(RequestError):
    """The caller may not do or see this."""

    code = "forbidden"


class NotFound(RequestError):
    """What the request names does not exist, or no longer does."""

    code = "not_found"


class Conflict(RequestError):
    """The request is sound, but not in the present state of things."""

    code = "conflict"


class PreconditionFailed(RequestError):
    """What the caller wants to change is no longer as the caller has seen it."""

    code = "changed_meanwhile"


class TooLarge(RequestError):
    """The request carries more than one request may."""

    code = "too_large"


class LimitReached(RequestError):
    """Too much at once; `retry_after` says when asking again makes sense."""

    code = "limit_reached"

    def __init__(self, message: str, *, retry_after: timedelta, code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.retry_after = retry_after


class WorkError(GristmillError):
    """An attempt at a job ended badly."""

    code = "work_failed"


class Transient(WorkError):
    """The attempt may go well later; `retry_after` wins over the engine's own backoff."""

    code = "temporarily_unavailable"

    def __init__(
        self, message: str, *, code: str | None = None, retry_after: timedelta | None = None
    ) -> None:
        super().__init__(message, code=code)
        self.retry_after = retry_after


class Permanent(WorkError):
    """No further attempt can go well."""

    code = "cannot_be_done"


class Unreadable(Permanent):
    """The source is there, but it can't be read."""

    code = "unreadable"


class Unsupported(Permanent):
    """No reader takes this kind of document."""

    code = "unsupported_type"


class NoText(Permanent):
    """The source was read and gave no text, though it is not empty."""

    code = "no_text"


class SourceGone(Permanent):
    """The source is no longer where it was."""

    code = "source_gone"


class LeaseLost(WorkError):
    """The job's lease ran out and somebody else owns it: whoever sees this writes nothing."""

    code = "lease_lost"


class SetupError(GristmillError):
    """Gristmill cannot start as it is set up; the message says what to change."""

    code = "setup"
