"""The front matter of markdown and other texts: what stands between two lines of `---` (YAML) or `+++` (TOML) at the top. Pure.

Of YAML only what front matter uses is understood: `key: value`, `key: [a, b]`, and lists of `- entry` below a key; deeper
mappings are skipped. The front matter stays part of the text. A text without one, or with an unknown one, has no metadata.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, cast

from gristmill.readers.document_metadata import DocumentMetadata, split_keywords, split_names

_MAX_CHARACTERS = 20_000
_BLOCK = re.compile(r"\ufeff?(---|\+\+\+)[ \t]*\r?\n(.*?)\r?\n(?:\1|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.S)
_ENTRY = re.compile(r"([A-Za-z_][\w .-]{0,60}?)\s*:(?:\s+(.*))?")
_LIST_ENTRY = re.compile(r"\s*-\s+(.*)")
_COMMENT = re.compile(r"\s+#.*")

_KEYS = {
    "title": ("title",),
    "authors": ("author", "authors", "by", "creator"),
    "created": ("date", "created", "created_at", "published", "publishdate", "pubdate", "created-at"),
    "modified": ("modified", "updated", "lastmod", "last_modified", "updated_at", "last-modified"),
    "language": ("language", "lang", "locale"),
    "keywords": ("keywords", "tags", "categories", "topics"),
    "subject": ("description", "summary", "subject", "abstract", "excerpt"),
}


def has_front_matter(text: str) -> bool:
    """Whether `text` begins as one with front matter does."""
    return text.startswith(("---", "+++", "\ufeff"))


def front_matter(text: str) -> DocumentMetadata:
    """What the front matter of `text` says."""
    if not has_front_matter(text):
        return DocumentMetadata()
    block = _BLOCK.match(text[:_MAX_CHARACTERS])
    if block is None:
        return DocumentMetadata()
    return from_fields(_parse_toml(block[2]) if block[1] == "+++" else _parse_yaml(block[2]))


def front_matter_length(text: str) -> int:
    """How many characters of `text` are its front matter; 0 if it has none that says something."""
    block = _BLOCK.match(text[:_MAX_CHARACTERS]) if has_front_matter(text) else None
    if block is None or not block[2].split("\n", 1)[0].strip():  # between two rules there can be text, too
        return 0
    return block.end() if _parse_toml(block[2]) or _parse_yaml(block[2]) else 0


def from_fields(entries: Mapping[str, Any]) -> DocumentMetadata:
    """The metadata in entries with the usual names, in any case."""
    by_name = {name.lower(): value for name, value in entries.items()}
    fields = {
        field: next((by_name[name] for name in names if by_name.get(name)), None)
        for field, names in _KEYS.items()
    }
    keywords = [entry for name in _KEYS["keywords"] for entry in _texts(by_name.get(name), split_keywords)]
    return DocumentMetadata(
        title=_text(fields["title"]),
        authors=_texts(fields["authors"], split_names),
        created=_date(fields["created"]),
        modified=_date(fields["modified"]),
        language=_text(fields["language"]),
        keywords=keywords,
        subject=_text(fields["subject"]),
    )


def _parse_toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _parse_yaml(text: str) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    key = ""
    for line in text.splitlines():
        if (match := _ENTRY.fullmatch(line.rstrip())) is not None:
            key = match[1]
            entries[key] = _yaml_value(match[2] or "")
        elif key and (entry := _LIST_ENTRY.fullmatch(line.rstrip())) is not None:
            entries[key] = [*_as_list(entries[key]), _scalar(entry[1])]
        elif key and line[:1] in (" ", "\t") and isinstance(entries[key], str) and ": " not in line:
            # A text goes on in the next line.
            entries[key] = f"{entries[key].lstrip('|>-+')} {_scalar(line)}".strip()
    return entries


def _yaml_value(text: str) -> Any:
    text = text.strip()
    if text.startswith("[") and (end := text.rfind("]")) > 0:
        return [entry for part in text[1:end].split(",") if (entry := _scalar(part))]
    return _scalar(text)


def _scalar(text: str) -> str:
    text = text.strip()
    for quote in ('"', "'"):
        if text.startswith(quote) and (end := text.find(quote, 1)) > 0:
            return text[1:end]
    return "" if text.startswith("#") else _COMMENT.sub("", text)


def _as_list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [value] if value else []


def _text(value: Any) -> str | None:
    if isinstance(value, list):
        value = next(iter(cast("list[Any]", value)), None)
    return str(value) if isinstance(value, str | int | float) else None


def _texts(value: Any, split: Any) -> list[str]:
    if isinstance(value, str):
        return split(value)
    entries = cast("Sequence[Any]", value) if isinstance(value, list) else ()
    names = (
        cast("Mapping[str, Any]", entry).get("name") if isinstance(entry, Mapping) else entry
        for entry in entries
    )
    # "- name: Ada" in a list of YAML
    return [re.sub(r"^name:\s*", "", str(name)) for name in names if isinstance(name, str | int)]


def _date(value: Any) -> str | date | None:
    return value if isinstance(value, date) else _text(value)
