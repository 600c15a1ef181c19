"""What all request and response models share: camelCase JSON, UTC timestamps, text that PostgreSQL can store."""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from typing import Annotated, Any, Generic, Self, TypeVar, cast
from uuid import UUID

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    StringConstraints,
    model_validator,
)
from pydantic.alias_generators import to_camel

from gristmill.errors import GristmillError, Invalid
from gristmill.readers.text_boxes import PageBox
from gristmill.sources import IgnoreRules
from gristmill.validation import is_blank, is_printable

_SURROGATE = re.compile("[\ud800-\udfff]")
_MAX_DEPTH = 100  # of lists and objects in each other; the parser of JSON columns reads 200

Row = TypeVar("Row")
Element = TypeVar("Element")


class ApiModel(BaseModel):
    """Base of every response."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class BoxOut(ApiModel):
    """A rectangle on a page, in shares of its width and height: from (`x0`, `y0`), its upper left, to (`x1`, `y1`). It shows
    characters `start` to `end` of the content."""

    page: int
    start: int
    end: int
    x0: float
    y0: float
    x1: float
    y1: float

    @classmethod
    def of(cls, box: PageBox) -> Self:
        """Show `box`."""
        return cls(
            page=box.page,
            start=box.start,
            end=box.end,
            x0=box.left,
            y0=box.top,
            x1=box.right,
            y1=box.bottom,
        )


class RequestModel(ApiModel):
    """Base of every request body. An unknown field is rejected: it is probably a typo. So is text that PostgreSQL can't
    store, wherever it is: NUL characters and halves of surrogate pairs."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", str_max_length=50_000_000
    )

    @model_validator(mode="after")
    def _require_storable_text(self) -> Self:
        for name, value in self.__dict__.items():
            require_storable(value, to_camel(name))
        return self


def require_storable(value: object, place: str, depth: int = 0) -> None:
    """Raise ValueError if a text in this value can't be stored, or if it is nested so deeply that it could not be read again. Nested
    models have checked themselves."""
    if depth > _MAX_DEPTH:
        raise ValueError(f"must not be nested deeper than {_MAX_DEPTH} levels, as in {place}")
    if isinstance(value, SecretStr):
        require_storable(value.get_secret_value(), place)
    elif isinstance(value, str):
        if "\0" in value or not (value.isascii() or _SURROGATE.search(value) is None):
            raise ValueError(f"must not contain NUL characters or unpaired surrogates, as in {place}")
    elif isinstance(value, dict):
        for key, element in cast("dict[object, object]", value).items():
            require_storable(key, place)
            require_storable(element, place, depth + 1)
    elif isinstance(value, list | tuple):
        for element in cast("list[object]", value):
            require_storable(element, place, depth + 1)


def _storable_object(value: dict[str, Any]) -> dict[str, Any]:
    require_storable(value, "this field")
    return value


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("must not contain NUL characters")
    return text


def _rfc3339_text(value: object) -> object:
    # pydantic also accepts a number of seconds since 1970, which a query parameter writes as text
    if not (isinstance(value, datetime) or (isinstance(value, str) and _starts_with_day(value))):
        raise ValueError("must be an RFC 3339 timestamp, such as 2030-01-31T12:00:00Z")
    return value


def _day_text(value: object) -> object:
    if not (isinstance(value, date) or (isinstance(value, str) and _starts_with_day(value))):
        raise ValueError("must be a day, such as 2030-01-31")
    return value


def _starts_with_day(text: str) -> bool:
    return re.match(r"\d{4}-\d\d-\d\d", text) is not None


def _in_utc(value: datetime) -> datetime:
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError("must be a time between the years 1 and 9999 in UTC") from None


def _one_line(text: str) -> str:
    if not is_printable(text):
        raise ValueError("must not contain control characters")
    if is_blank(text):
        raise ValueError("must not be empty")
    return text


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty")
    return text


def _valid_pattern(text: str) -> str:
    if text.startswith("#"):
        # In a .gitignore file this is a comment. In a request it is surely meant as a name.
        raise ValueError("must not begin with #; write \\# to match a name that does")
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
# Short, so that a row shows several.
Tag = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=60), AfterValidator(_one_line)
]
NonBlankText = Annotated[str, AfterValidator(_without_nul), AfterValidator(_not_blank)]
PathText = Annotated[str, StringConstraints(min_length=1, max_length=4096), AfterValidator(_without_nul)]
Pattern = Annotated[
    str, AfterValidator(_one_line), AfterValidator(_not_blank), AfterValidator(_valid_pattern)
]
# Bounded because every entry of a folder is matched against every pattern.
Patterns = Annotated[list[Pattern], Field(max_length=200)]
Acl = Annotated[list[Annotated[str, StringConstraints(max_length=310)]], Field(max_length=1000)]
# Pydantic would read a number as seconds; the schema promises RFC 3339 text only.
Day = Annotated[date, BeforeValidator(_day_text)]
Timestamp = Annotated[AwareDatetime, BeforeValidator(_rfc3339_text), AfterValidator(_in_utc)]
Limit = Annotated[int, Field(ge=1, le=500)]


class Page(ApiModel, Generic[Element]):
    """One page of a list; `nextCursor` is null on the last page."""

    items: list[Element]
    next_cursor: str | None


def _row_id(row: Any) -> object:
    return row.id


def page_of(
    rows: Sequence[Row],
    limit: int,
    show: Callable[[Row], Element],
    *,
    cursor: Callable[[Row], object] = _row_id,
) -> Page[Element]:
    """Show `rows` as one page. A full page may have a successor, so it ends with the cursor of its last row."""
    next_cursor = str(cursor(rows[-1])) if len(rows) == limit else None
    return Page(items=[show(row) for row in rows], next_cursor=next_cursor)


class ErrorBody(ApiModel):
    """An error as part of a response."""

    code: str
    message: str

    @classmethod
    def of(cls, error: GristmillError) -> Self:
        """Show `error`."""
        return cls(code=error.code, message=error.message)

    @classmethod
    def from_columns(cls, code: str | None, message: str | None) -> Self | None:
        """Show an error that is stored as two columns; None when there is none."""
        return None if code is None else cls(code=code, message=message or "")


class StoredModel(ApiModel):
    """What every stored resource has."""

    id: UUID
    created_at: datetime
    updated_at: datetime


JsonObject = dict[str, Any]
# Metadata of an upload, which is not part of a `RequestModel`.
StorableJson = Annotated[JsonObject, AfterValidator(_storable_object)]
