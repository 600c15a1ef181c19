"""Searches that callers store under a name, in the caller's transaction. Only their owner sees them, admins included.

A stored search grants nothing: it is run as a new request, which sees what its caller may see then. An owner has at most
`MAX_SAVED`; requests at the same moment may exceed that by a few.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NewType
from uuid import UUID

import psycopg
from psycopg.types.json import Jsonb

from gristmill.db import Tx
from gristmill.errors import Conflict
from gristmill.identity import OrgId
from gristmill.search.store import queries

SavedSearchId = NewType("SavedSearchId", UUID)
MAX_SAVED = 200


@dataclass(frozen=True)
class SearchOwner:
    """The owner of saved searches. With `key_id`, they are deleted with that key."""

    org: OrgId
    name: str
    key_id: UUID | None = None


@dataclass(frozen=True)
class SavedSearch:
    """A search under a name; `request` is the body of a request to search."""

    id: SavedSearchId
    name: str
    request: dict[str, Any]
    created_at: datetime
    updated_at: datetime


async def save_search(tx: Tx, owner: SearchOwner, name: str, request: Mapping[str, Any]) -> SavedSearch:
    """Store a search; its name must be free."""
    (count,) = await queries.values(tx, "count_saved_searches", org=owner.org, owner=owner.name)
    if count >= MAX_SAVED:
        raise Conflict(
            f"You have {count} saved searches, which is the most there can be. Delete one you no longer need.",
            code="too_many_saved_searches",
        )
    saved = await queries.maybe(
        tx,
        SavedSearch,
        "insert_saved_search",
        org=owner.org,
        owner=owner.name,
        key=owner.key_id,
        name=name,
        request=Jsonb(dict(request)),
    )
    if saved is None:
        raise _name_taken(name)
    return saved


async def list_saved_searches(
    tx: Tx, owner: SearchOwner, *, limit: int, after: SavedSearchId | None = None
) -> list[SavedSearch]:
    """The searches of an owner, by name."""
    return await queries.many(
        tx, SavedSearch, "list_saved_searches", org=owner.org, owner=owner.name, limit=limit, after=after
    )


async def find_saved_search(
    tx: Tx, owner: SearchOwner, search_id: SavedSearchId, *, lock: bool = False
) -> SavedSearch | None:
    """A search of this owner; with `lock`, locked until the transaction ends."""
    statement = "lock_saved_search" if lock else "find_saved_search"
    return await queries.maybe(tx, SavedSearch, statement, org=owner.org, owner=owner.name, id=search_id)


async def update_saved_search(
    tx: Tx, owner: SearchOwner, search_id: SavedSearchId, name: str, request: Mapping[str, Any]
) -> SavedSearch:
    """Change a search that the caller has locked; its new name must be free."""
    try:
        updated = await queries.maybe(
            tx,
            SavedSearch,
            "update_saved_search",
            org=owner.org,
            owner=owner.name,
            id=search_id,
            name=name,
            request=Jsonb(dict(request)),
        )
    except psycopg.errors.UniqueViolation:  # another transaction took the name at the same moment
        raise _name_taken(name) from None
    if updated is None:
        raise _name_taken(name)
    return updated


async def delete_saved_search(tx: Tx, owner: SearchOwner, search_id: SavedSearchId) -> bool:
    """Delete a search; False if the owner has none of this id."""
    return bool(
        await queries.values(tx, "delete_saved_search", org=owner.org, owner=owner.name, id=search_id)
    )


def _name_taken(name: str) -> Conflict:
    return Conflict(
        f"You have a saved search named {name!r} already. Choose another name, or change that one.",
        code="saved_search_name_taken",
    )
