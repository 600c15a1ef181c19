"""Reads JSON of tools that may lack fields, or have them in another form."""

from datetime import UTC, datetime
from typing import Any, cast

from gristmill.errors import Unreadable


def parse_time(text: object) -> datetime | None:
    """A timestamp with an offset or Z; None when it is none."""
    try:
        return datetime.fromisoformat(str(text).replace("Z", "+00:00")).astimezone(UTC)
    except ValueError:
        return None


def as_dict(value: object) -> dict[str, Any]:
    """A JSON object, or an empty one: missing fields are not errors."""
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """A JSON array, or an empty one."""
    return cast(list[Any], value) if isinstance(value, list) else []


def require_list(value: object, key: str) -> list[Any]:
    """The JSON array that an object has under a key; Unreadable when it has none: an error with status 200 is no empty list."""
    entries = as_dict(value).get(key)
    if not isinstance(entries, list):
        raise Unreadable(f"The tool returned a response without {key}.", code="connector_refused")
    return cast(list[Any], entries)


def require_dict(value: object) -> dict[str, Any]:
    """A JSON object; Unreadable when it is something else."""
    if not isinstance(value, dict):
        raise Unreadable("The tool returned something unexpected.", code="connector_refused")
    return cast(dict[str, Any], value)
