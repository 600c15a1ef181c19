"""Values of an archive as this installation has them: settings, statuses, ids, hashes. Pure functions; `Invalid` for what an export
does not write."""

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pydantic import TypeAdapter, ValidationError

from gristmill.catalog import AssetReuse, EmptyDocuments, QuestionKeeping, RenderChoice
from gristmill.portable import ArchivedBase, Row, damage_error
from gristmill.validation import is_blank, is_printable

CONTAINERS = ("directory", "sitemap", "site", "connector")
_MAX_NAME = 200
# The settings of a base that its archive may set, and what they must be; all others are left out.
_SETTINGS: Mapping[str, TypeAdapter[Any]] = {
    "ignore": TypeAdapter(list[str]),
    "includeHidden": TypeAdapter(bool),
    "synonyms": TypeAdapter(list[list[str]]),
    "minScore": TypeAdapter(float),
    "questions": TypeAdapter(QuestionKeeping),
    "assetReuse": TypeAdapter(AssetReuse),
    "emptyDocuments": TypeAdapter(EmptyDocuments),
    "render": TypeAdapter(RenderChoice),
}


def clean_settings(archived: ArchivedBase, max_tokens: int) -> dict[str, Any]:
    """The settings of an archive's base that make sense here."""
    if is_blank(archived.name) or len(archived.name) > _MAX_NAME or not is_printable(archived.name):
        raise damage_error("its base has no name, or a malformed one")
    chunking = {
        name: value for name, value in archived.chunking.items() if name in ("maxTokens", "overlapTokens")
    }
    if chunking.get("maxTokens", 0) > max_tokens:
        chunking["maxTokens"] = max_tokens
    return {
        "chunking": chunking,
        "file_processor": None,  # the name of a service that another installation has
        "on_restart": archived.on_restart if archived.on_restart in ("resume", "park") else "resume",
        "settings": _valid_settings(archived.settings),
        "description": archived.description,
        "metadata": archived.metadata,
        "expire_days": archived.expire_days,
    }


def _valid_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return {
            name: _SETTINGS[name].validate_python(value)
            for name, value in settings.items()
            if name in _SETTINGS
        }
    except ValidationError as error:
        raise damage_error("its base has malformed settings") from error


@dataclass(frozen=True)
class ItemState:
    """Where an item is in the tree, and how it is; `version` is the live one of a document."""

    parent: str | None
    is_container: bool
    status: str
    error_code: str | None
    version: int | None


def item_state(row: Row) -> ItemState:
    """The state of an item here: completed or failed, because nothing of an imported base is being worked on."""
    is_container = row["type"] in CONTAINERS
    version = None if is_container else row["live_version"]
    if version is not None or row["status"] == "completed" or (is_container and row["status"] != "failed"):
        status = "completed"
    else:
        status = "failed"
    return ItemState(row["parent"], is_container, status, row["error_code"], version)


def derive_statuses(states: Mapping[str, ItemState]) -> dict[str, str]:
    """The status of every item; those of containers follow from their children, which come after them."""
    children: dict[str, set[str]] = {}
    statuses: dict[str, str] = {}
    for old_id, state in reversed(list(states.items())):
        status = state.status
        if state.is_container and (status != "failed" or state.error_code == "all_failed"):
            status = "failed" if children.get(old_id) == {"failed"} else "completed"
        statuses[old_id] = status
        if state.parent is not None:
            children.setdefault(state.parent, set()).add(status)
    return statuses


def first_id() -> int:
    """The first of a series of ids that are ordered by time, as the database makes them."""
    return (
        (time.time_ns() // 1_000_000 << 80)
        | 7 << 76
        | secrets.randbits(12) << 64
        | 2 << 62
        | secrets.randbits(61)
    )


def parse_hash(text: str | None) -> bytes:
    """A SHA-256 in hex."""
    try:
        digest = bytes.fromhex(text or "")
    except ValueError:
        digest = b""
    if len(digest) != 32:
        raise damage_error("it has a malformed hash")
    return digest


def parse_uuid(text: str) -> UUID:
    """An id."""
    try:
        return UUID(text)
    except ValueError:
        raise damage_error("it has a malformed id") from None
