"""Invalid input in plain words: where it is, what is wrong and what is expected, never in the words of the validator.

where       the JSON path of the field: `items[3].url`, `settings.chunking.size`
what        "must be a whole number", "is missing", or the words of our own validators
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from gristmill.errors import FieldError

_MAX_SENTENCES = 3
_PLACES = frozenset({"body", "query", "path", "header", "cookie"})

_MESSAGES: Mapping[str, str] = {
    "missing": "is missing",
    "extra_forbidden": "is not a known field; remove it, or correct its spelling",
    "string_type": "must be text",
    "string_sub_type": "must be text",
    "string_unicode": "must be valid Unicode text",
    "string_too_long": "must have at most {max_length:,} characters",
    "string_pattern_mismatch": "doesn't have the expected form",
    "too_long": "must have at most {max_length:,} entries",
    "too_short": "must have at least {min_length:,} entries",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "must be a smaller whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "multiple_of": "must be a multiple of {multiple_of}",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "union_tag_invalid": "must be one of {expected_tags}",
    "union_tag_not_found": "is missing",
    "none_required": "must be null",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "set_type": "must be a list",
    "dict_type": "must be an object",
    "mapping_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "dataclass_type": "must be an object",
    "json_type": "must be JSON",
    "json_invalid": "must be valid JSON",
    "uuid_type": "must be an id, such as 01a1de95-5507-701c-8741-d8b6405b3611",
    "uuid_parsing": "must be an id, such as 01a1de95-5507-701c-8741-d8b6405b3611",
    "bytes_invalid_encoding": "must be valid UTF-8",
    "is_instance_of": "must be a file, sent as multipart/form-data",
}
_UNKNOWN = object()
_STEP = re.compile(r"[.\[]")
_DEFAULT_MESSAGE = "has a value that can't be used here"


# Words of Persian and many Indian languages, and many emoji, are written with these. They show nothing by themselves.
_JOINERS = dict.fromkeys(map(ord, "\u200c\u200d"))


def is_printable(text: str) -> bool:
    """Whether a text has no control characters; joiners between letters are none."""
    return text.translate(_JOINERS).isprintable()


def is_blank(text: str) -> bool:
    """Whether a text shows nothing."""
    return not text.translate(_JOINERS).strip()


class InvalidValue(ValueError):
    """Raised by our own validators: a message in plain words, and a code where a single entry is refused by itself."""

    def __init__(self, message: str, *, code: str = "invalid_request") -> None:
        super().__init__(message)
        self.code = code


def field_errors(
    errors: Sequence[Mapping[str, Any]], value: object = _UNKNOWN, *, within: str = ""
) -> list[FieldError]:
    """The errors of a validator in plain words. `value` is what was validated: the parts of a location that are not in
    it, such as the name of a variant, are left out. `within` is the JSON path of `value`. Of a field that can have several types, only
    the errors of the one that was sent are reported."""
    paths = [_json_path(error, value, within) for error in errors]
    mismatches: dict[str, list[str]] = {}  # by path: the types that were expected
    matched = {
        outer for path in paths for outer in _outer_paths(path)
    }  # a value of an expected type was sent
    for path, error in zip(paths, errors, strict=True):
        if _is_type_mismatch(error):
            mismatches.setdefault(path, []).append(_message(error))
        else:
            matched.add(path)
    reported: dict[tuple[str, str], None] = {}
    for path, error in zip(paths, errors, strict=True):
        if not _is_type_mismatch(error):
            reported[path, _message(error)] = None
        elif path not in matched:
            reported[path, _type_message(mismatches[path])] = None
    return [FieldError(path, message) for path, message in reported]


def _is_type_mismatch(error: Mapping[str, Any]) -> bool:
    return error["type"].endswith("_type") and error["type"] in _MESSAGES


def _outer_paths(path: str) -> list[str]:
    """`filters[0].key` → `filters`, `filters[0]`."""
    return [path[: match.start()] for match in _STEP.finditer(path)]


def _type_message(messages: Sequence[str]) -> str:
    """`must be text`, `must be a list` → `must be text or a list`."""
    first, *rest = dict.fromkeys(messages)
    return " or ".join([first, *(message.removeprefix("must be ") for message in rest)])


def sentences(errors: Sequence[FieldError]) -> str:
    """The first errors as sentences, and how many more there are."""
    shown = [_sentence(error) for error in errors[:_MAX_SENTENCES]]
    if len(errors) > _MAX_SENTENCES:
        shown.append(f"There are {len(errors) - _MAX_SENTENCES} more errors.")
    return " ".join(shown)


def error_code(errors: Sequence[Mapping[str, Any]]) -> str:
    """The code of the first error, for an entry that is refused by itself."""
    cause = errors[0].get("ctx", {}).get("error")
    return cause.code if isinstance(cause, InvalidValue) else "invalid_request"


def _sentence(error: FieldError) -> str:
    message = error.message if error.message.endswith((".", "!", "?")) else f"{error.message}."
    if message[:1].isupper() or not message[:1].isalpha():
        return f"{error.field}: {message}" if error.field else message
    return f"{error.field or 'The request'} {message}"


def _message(error: Mapping[str, Any]) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind in ("value_error", "assertion_error"):
        return str(context["error"]) if "error" in context else error["msg"].partition(", ")[2]
    if kind == "too_long" and isinstance(
        error.get("input"), str
    ):  # a text that was checked in another way before
        kind = "string_too_long"
    if kind == "string_too_short":
        least = context["min_length"]
        return "must not be empty" if least == 1 else f"must have at least {least:,} characters"
    if kind.startswith(("datetime", "date_", "timezone")):
        return "must be an RFC 3339 timestamp, such as 2030-01-31T12:00:00Z"
    if kind.startswith("time_delta"):
        return "must be a number of seconds"
    if kind.startswith("url"):
        return "must be a URL, such as https://example.org/page"
    return _MESSAGES.get(kind, _DEFAULT_MESSAGE).format_map(_Context(context))


class _Context(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return f"the expected {key}"


def _json_path(error: Mapping[str, Any], value: Any, within: str) -> str:
    location: list[str | int] = list(error["loc"])
    if location and location[0] in _PLACES and location.pop(0) != "body":
        value = _UNKNOWN  # a parameter
    if value is _UNKNOWN:
        return ".".join([*([within] if within else []), *(str(part) for part in location)])
    path = within
    for place, part in enumerate(location):
        is_last = place == len(location) - 1
        if isinstance(part, int):
            path += f"[{part}]"
            value = cast("list[Any]", value)[part] if isinstance(value, list) else None
        elif isinstance(value, Mapping) and part in value:
            path += f".{part}" if path else part
            value = cast("Mapping[str, Any]", value)[part]
        elif is_last and error["type"] == "missing":
            path += f".{part}" if path else part
    if error["type"] in ("union_tag_invalid", "union_tag_not_found"):
        name = str(error.get("ctx", {}).get("discriminator", "")).strip("'")
        path += f".{name}" if path else name
    return path
