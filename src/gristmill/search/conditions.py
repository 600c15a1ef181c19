"""Conditions on the metadata of items, as PostgreSQL evaluates them: one jsonpath predicate.

    eq, gt, gte, lt, lte     the item has the key, and its value compares so with the given one
    in                       the item has the key, and its value is one of the given ones
    contains, starts_with,   the item has the key, its value is text, and the text has the given one in that place
    ends_with
    ne, nin, not_contains,   the opposite: also true for items without the key
    is_empty

A missing key has no value: it equals nothing, is neither less nor greater than anything, and is different from everything.
Values of different types are different; text is compared by code point, which orders ISO dates by time. A list has every value
in it: `eq` holds if one of its entries is equal, `ne` if none is.

A key like `document.title` is one of the fields that the document says of itself (`readers/document_metadata.py`), or that people
have set instead below the key `document`. All of them are texts, so a number is compared as text: `document.created` ≥ 2024.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

Operator = Literal[
    "eq",
    "ne",
    "gt",
    "gte",
    "lt",
    "lte",
    "in",
    "nin",
    "contains",
    "not_contains",
    "starts_with",
    "ends_with",
    "is_empty",
    "not_empty",
]
Scalar = str | int | float | bool
DOCUMENT = "document"  # the key below which the fields of the document are
DOCUMENT_FIELDS = (
    "title",
    "authors",
    "recipients",
    "created",
    "modified",
    "language",
    "keywords",
    "subject",
    "duration",
)
_SIGNS = {"eq": "==", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_NEVER, _ALWAYS = "(1 == 0)", "(1 == 1)"
_NOT_EMPTY = '@.type() != "null" && !(@.type() == "string" && @ == "")'
_SPECIAL_IN_PATTERNS = re.compile(r"[^\w\s]")


@dataclass(frozen=True)
class Comparison:
    """One key of the metadata compared with a value; with several for `in` and `nin`, without one for `is_empty`."""

    key: str
    operator: Operator
    value: Scalar | tuple[Scalar, ...] = ()


@dataclass(frozen=True)
class ConditionGroup:
    """Conditions of which all or some must hold."""

    operator: Literal["and", "or"]
    conditions: tuple["Comparison | ConditionGroup", ...]


Condition = Comparison | ConditionGroup


def to_jsonpath(condition: Condition) -> str:
    """The predicate for the operator `@@`."""
    if isinstance(condition, ConditionGroup):
        parts = [to_jsonpath(part) for part in condition.conditions]
        if not parts:
            return _ALWAYS if condition.operator == "and" else _NEVER
        return "(" + (" && " if condition.operator == "and" else " || ").join(parts) + ")"
    field = _document_field(condition.key)
    key, operator = f"$.{_literal(condition.key)}", condition.operator
    if field is not None:
        key, condition = (
            f"$.{_literal(DOCUMENT)}.{_literal(field)}",
            replace(condition, value=_as_text(condition.value)),
        )
    if operator == "is_empty":
        return f"!exists({key} ? ({_NOT_EMPTY}))"
    if operator == "not_empty":
        return f"exists({key} ? ({_NOT_EMPTY}))"
    if operator in ("ne", "nin", "not_contains"):
        return f"!exists({key} ? ({_test(_OPPOSITES[operator], condition.value)}))"
    return f"exists({key} ? ({_test(operator, condition.value)}))"


def _document_field(key: str) -> str | None:
    """The field of the document that a key names, if any."""
    name, _, field = key.partition(".")
    return field if name == DOCUMENT and field in DOCUMENT_FIELDS else None


def _as_text(value: Scalar | tuple[Scalar, ...]) -> Scalar | tuple[Scalar, ...]:
    if isinstance(value, tuple):
        return tuple(map(str, value))
    return str(value)


_OPPOSITES: dict[Operator, Operator] = {"ne": "eq", "nin": "in", "not_contains": "contains"}


def _test(operator: Operator, value: Scalar | tuple[Scalar, ...]) -> str:
    values: Sequence[Scalar] = value if isinstance(value, tuple) else (value,)
    if operator == "in":
        return " || ".join(f"@ == {_literal(entry)}" for entry in values) or _NEVER
    (single,) = values
    if operator == "starts_with":
        return f"@ starts with {_literal(str(single))}"
    if operator == "contains":
        return f'@ like_regex {_literal(str(single))} flag "q"' if single != "" else '@ starts with ""'
    if operator == "ends_with":
        pattern = _SPECIAL_IN_PATTERNS.sub(lambda match: "\\" + match[0], str(single)) + "$"
        return f"@ like_regex {_literal(pattern)}"
    return f"@ {_SIGNS[operator]} {_literal(single)}"


def _literal(value: Scalar) -> str:
    """A value as jsonpath writes it: as JSON does."""
    return json.dumps(value, ensure_ascii=False)
