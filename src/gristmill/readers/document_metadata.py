"""What a document says of itself: title, authors, dates, language, keywords. Pure.

A reader reports it with `Sink.describe`, before the first text, because the title is indexed with every chunk:

    sink.describe(DocumentMetadata(title=…, authors=split_names(…), created=iso_date(…), language=…, keywords=…))

The metadata of zip packages (Office, OpenDocument, EPUB) is reported by `package.check`, that of binary Office by
`binary_office.check`. A reader may report in several calls: the first value of each field counts. Whatever a library returns can be passed on: texts are
cleaned and bounded here, dates in any usual format become ISO 8601, and a language becomes its code of two or three letters.
A field without a usable value is left out. A language that no document declares is detected from its text when it is indexed.

The result is stored with the content, and becomes the item's `document` in the transaction that makes its version live. It is
separate from the item's `metadata`, which people and connectors set.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from typing import Any

_MAX_TITLE, _MAX_SUBJECT, _MAX_NAME, _MAX_KEYWORD = 500, 2_000, 200, 100  # characters
_MAX_NAMES, _MAX_KEYWORDS = 50, 100
_YEARS = range(1000, 2200)
_ZERO_TIMES = frozenset(
    datetime(year, 1, 1) for year in (1601, 1904, 1970, 1980)
)  # of programs that know no time
_INVISIBLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufffe\uffff\ud800-\udfff]+"
)
_LANGUAGE = re.compile(r"([A-Za-z]{2,3})(?:[-_][A-Za-z0-9-_]*)?(?:[.@].*)?")
# 2024, 2024-03, 2024-03-01, 2024-03-01T12:30, with seconds, fractions and a zone; EXIF has colons in the date.
_ISO_DATE = re.compile(
    r"(\d{4})(?:[-:/.](\d{1,2})(?:[-:/.](\d{1,2})(?:[T ]+(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,]\d+)?)?\s*(Z|[+-]\d{2}:?\d{2}|[+-]\d{2})?)?)?)?"
)
_PDF_DATE = re.compile(
    r"(?:D:)?(\d{4})(\d{2})?(\d{2})?(?:(\d{2})(\d{2})?(\d{2})?)?(?:(Z|[+-])(\d{2})?'?(\d{2})?'?)?"
)
_PROGRAM = re.compile(r"^(?:Microsoft (?:Office )?(?:Word|Excel|PowerPoint)|Slide \d+|Untitled) - ")
_NO_TITLES = frozenset(
    ("untitled", "untitled document", "powerpoint presentation", "slide 1", "title", "document", "null")
)
_SEPARATORS = re.compile(r"\s*[;,、，；\n]\s*")
_NAME_SEPARATORS = re.compile(r"\s*[;\n；、]\s*")


@dataclass(frozen=True)
class DocumentMetadata:
    """What a document says of itself; everything is optional. `authors` of a mail are its senders."""

    title: str | None = None
    authors: Sequence[str] = ()
    recipients: Sequence[str] = ()
    created: str | date | None = None
    modified: str | date | None = None
    language: str | None = None
    keywords: Sequence[str] = ()
    subject: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The fields that have a usable value, as they are stored."""
        fields = {
            "title": _clean_title(self.title),
            "authors": _clean_list(self.authors, _MAX_NAME, _MAX_NAMES),
            "recipients": _clean_list(self.recipients, _MAX_NAME, _MAX_NAMES),
            "created": iso_date(self.created),
            "modified": iso_date(self.modified),
            "language": language_code(self.language),
            "keywords": _clean_list(self.keywords, _MAX_KEYWORD, _MAX_KEYWORDS),
            "subject": clean_line(self.subject, _MAX_SUBJECT),
        }
        return {name: value for name, value in fields.items() if value}


def _clean_title(title: str | None) -> str:
    """A title without what programs put there by themselves."""
    cleaned = _PROGRAM.sub("", clean_line(title, _MAX_TITLE))
    return "" if cleaned.lower() in _NO_TITLES else cleaned


def clean_line(text: str | None, limit: int = _MAX_TITLE) -> str:
    """`text` on one line, without invisible characters, at most `limit` long."""
    return " ".join(_INVISIBLE.sub(" ", str(text or "")[: 4 * limit]).split())[:limit].rstrip()


def split_names(text: str | None) -> list[str]:
    """The names in a list that is separated by semicolons; a comma may be part of a name ("Lovelace, Ada")."""
    return list(filter(None, _NAME_SEPARATORS.split((text or "")[:20_000].strip())))


def split_keywords(text: str | None) -> list[str]:
    """The keywords in a list that is separated by commas or semicolons."""
    return list(filter(None, _SEPARATORS.split((text or "")[:20_000].strip())))


def language_code(text: str | None) -> str:
    """The code of a language without its region (`zh-TW` is `zh`), in small letters; empty if `text` is none."""
    match = _LANGUAGE.fullmatch((text or "").strip()[:100])
    return match[1].lower() if match and match[1].lower() not in ("und", "mul", "zxx", "mis") else ""


def iso_date(value: str | date | None) -> str:
    """A date as ISO 8601, as precise as it is given (`2024`, `2024-03-01`), a time with a zone in UTC (`2024-03-01T11:30:00Z`):
    such dates are in the order of their texts. Takes ISO 8601 itself, the formats of mail, PDF and EXIF, and date objects;
    empty for what is no date."""
    if isinstance(value, datetime):
        return _format_time(value)
    if isinstance(value, date):
        return value.isoformat() if value.year in _YEARS else ""
    text = (value or "").strip()[:100]
    try:
        if match := _ISO_DATE.fullmatch(text):
            return _from_iso(match)
        if match := _PDF_DATE.fullmatch(text):
            return _from_pdf(match)
        return _format_time(parsedate_to_datetime(text)) if text else ""
    except (ValueError, OverflowError, TypeError, IndexError):
        return ""


def _from_iso(match: re.Match[str]) -> str:
    year, month, day, hour, minute, second, zone = match.groups()
    if hour is None:
        parts = [int(part) for part in (year, month, day) if part is not None]
        checked = date(*[*parts, 1, 1][:3])
        return checked.isoformat()[: (4, 7, 10)[len(parts) - 1]] if checked.year in _YEARS else ""
    moment = datetime(int(year), int(month), int(day), int(hour), int(minute), int(second or 0))
    return _format_time(moment.replace(tzinfo=_zone(zone)))


def _from_pdf(match: re.Match[str]) -> str:
    year, month, day, hour, minute, second, sign, zone_hours, zone_minutes = match.groups()
    if hour is None:
        return iso_date("-".join(part for part in (year, month, day) if part is not None))
    zone = sign if sign in (None, "Z") else f"{sign}{zone_hours or '00'}{zone_minutes or '00'}"
    moment = datetime(int(year), int(month), int(day), int(hour), int(minute or 0), int(second or 0))
    return _format_time(moment.replace(tzinfo=_zone(zone)))


def _zone(text: str | None) -> timezone | None:
    if text is None:
        return None
    if text == "Z":
        return UTC
    digits = text[1:].replace(":", "").ljust(4, "0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-offset if text[0] == "-" else offset)


def _format_time(moment: datetime) -> str:
    if moment.year not in _YEARS or moment.replace(tzinfo=None) in _ZERO_TIMES:
        return ""
    if moment.tzinfo is None:
        return moment.replace(microsecond=0).isoformat()
    return moment.astimezone(UTC).replace(microsecond=0, tzinfo=None).isoformat() + "Z"


def _clean_list(values: Iterable[str], limit: int, count: int) -> list[str]:
    """The distinct values, cleaned, in order."""
    cleaned: dict[str, None] = {}
    for value in values:
        if line := clean_line(value, limit):
            cleaned[line] = None
        if len(cleaned) == count:
            break
    return list(cleaned)
