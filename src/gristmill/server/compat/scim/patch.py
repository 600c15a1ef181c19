"""The operations of a SCIM PATCH, reduced to attributes and values. Pure.

Providers write the same change differently:

    {"op": "replace", "value": {"active": false}}                               Okta: no path
    {"op": "Replace", "path": "active", "value": "False"}                       Entra ID: capital letters, booleans as text
    {"op": "Replace", "path": "emails[type eq \\"work\\"].value", "value": …}     a filter in the path
    {"op": "Add", "value": {"name.givenName": "Ann"}}                           dotted names as keys
    {"op": "remove", "path": "members[value eq \\"…\\"]"}                         Okta's way to remove a member
    {"op": "Remove", "path": "members", "value": [{"value": …}]}                Entra ID's way

Attributes that Gristmill does not have are ignored, as the standard allows.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from gristmill.errors import Invalid

Operation = Literal["add", "replace", "remove"]
_SCHEMA_PREFIX = re.compile(r"^urn:[\w:.-]+:(?:User|Group):", re.IGNORECASE)
_MEMBER = re.compile(r'members\[\s*value\s+eq\s+"([^"]+)"\s*\]', re.IGNORECASE)
_EMAIL = re.compile(r"emails(?:\[[^\]]*\])?\.value", re.IGNORECASE)
_MAX_OPERATIONS = 1_000


@dataclass(frozen=True)
class Change:
    """One change: what is done to which attribute. Names of attributes are in lower case."""

    operation: Operation
    attribute: str
    value: Any


def parse_operations(body: Mapping[str, Any]) -> list[Change]:
    """The changes of a PATCH, in order. Raises `Invalid` for one that can't be read."""
    operations = body.get("Operations")
    if not isinstance(operations, list) or len(cast(list[Any], operations)) > _MAX_OPERATIONS:
        raise _bad("Operations must be a list.")
    changes: list[Change] = []
    for entry in cast(list[Any], operations):
        if not isinstance(entry, dict):
            raise _bad("Each of the Operations must be an object.")
        changes += _changes_of(cast(dict[str, Any], entry))
    return changes


def _changes_of(entry: dict[str, Any]) -> Iterator[Change]:
    word = str(entry.get("op", "")).lower()
    if word not in ("add", "replace", "remove"):
        raise _bad(f"{word[:50]!r} is not an operation. Use add, replace or remove.")
    operation: Operation = word
    path, value = entry.get("path"), entry.get("value")
    if path is None:
        if not isinstance(value, dict):
            raise _bad("An operation without a path needs an object as its value.")
        for name, part in cast(dict[str, Any], value).items():
            yield from _expand(operation, name, part)
    elif not isinstance(path, str):
        raise _bad("The path of an operation must be text.")
    else:
        yield from _expand(operation, path, value)


def _expand(operation: Operation, path: str, value: Any) -> Iterator[Change]:
    name = _SCHEMA_PREFIX.sub("", path)
    if member := _MEMBER.fullmatch(name):
        yield Change(operation, "members", [{"value": member[1]}])
    elif _EMAIL.fullmatch(name):
        yield Change(operation, "emails", [{"value": value, "primary": True}])
    elif name.lower() == "name" and isinstance(value, dict):
        for part, text in cast(dict[str, Any], value).items():
            yield Change(operation, f"name.{part.lower()}", text)
    else:
        yield Change(operation, name.lower(), value)


def to_bool(value: Any) -> bool:
    """A boolean, also as the text that Entra ID sends."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise _bad("active must be true or false.")


def _bad(message: str) -> Invalid:
    return Invalid(message, code="bad_scim_request")
