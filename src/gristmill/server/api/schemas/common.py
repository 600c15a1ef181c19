"""What goes over the wire: camelCase JSON, aware UTC times, text that PostgreSQL can hold."""

from datetime import datetime
from typing import Annotated, Any, Generic, Self, TypeVar
from uuid import UUID

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
)
from pydantic.alias_generators import to_camel

from gristmill.errors import GristmillError, Invalid
from gristmill.sources import IgnoreRules

Entry = TypeVar("Entry")


class ApiModel(BaseModel):
    """Base of every answer."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class RequestModel(ApiModel):
    """Base of every request body: a field that we don't know is a mistake, and told as one."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", str_max_length=50_000_000
    )


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("must not contain NUL characters")
    return text


def _rfc3339_text(value: object) -> object:
    if not isinstance(value, str | datetime):
        raise ValueError("must be a time in RFC 3339")
    return value


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must not contain control characters")
    return text


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty")
    return text


def _valid_pattern(text: str) -> str:
    if text.startswith("#"):
        # In a file it would be a comment. Here somebody wants a name left out, and it would not be.
        raise ValueError("begins with #; write \\# for a name that does")
    try:
        IgnoreRules((text,))
    except Invalid as error:
        raise ValueError(error.message) from None
    return text


Name = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200), AfterValidator(_one_line)
]
Title = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500), AfterValidator(_one_line)
]
NonBlankText = Annotated[str, AfterValidator(_without_nul), AfterValidator(_not_blank)]
PathText = Annotated[str, StringConstraints(min_length=1, max_length=4096), AfterValidator(_without_nul)]
Pattern = Annotated[
    str, AfterValidator(_one_line), AfterValidator(_not_blank), AfterValidator(_valid_pattern)
]
# Each entry of a folder is held against every one of them.
Patterns = Annotated[list[Pattern], Field(max_length=200)]
Acl = Annotated[list[Annotated[str, StringConstraints(max_length=310)]], Field(max_length=1000)]
# A number would be taken for seconds, which the schema does not tell.
Timestamp = Annotated[AwareDatetime, BeforeValidator(_rfc3339_text)]
Limit = Annotated[int, Field(ge=1, le=500)]


class Page(ApiModel, Generic[Entry]):
    """One page of a list; `nextCursor` is null at the end."""

    items: list[Entry]
    next_cursor: str | None


class ErrorBody(ApiModel):
    """An error as part of an answer."""

    code: str
    message: str

    @classmethod
    def of(cls, error: GristmillError) -> Self:
        """Show `error`."""
        return cls(code=error.code, message=error.message)


class StoredModel(ApiModel):
    """What every stored thing shows."""

    id: UUID
    created_at: datetime
    updated_at: datetime


JsonObject = dict[str, Any]
