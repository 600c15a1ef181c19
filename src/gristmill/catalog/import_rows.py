"""A base that is being imported: hidden until everything is there, and removed by a waiting job if that never happens.

    () ── insert_hidden_base ──▶ deleting ── reveal_base ──▶ ready
                                    └── its removal becomes due ──▶ gone

It has the status of a base that is being deleted, so that nothing lists, searches or reads it, and so that whatever ends the import
leaves a base that a job removes. Its name is taken when it is revealed.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from gristmill.catalog.base import Base, BaseId
from gristmill.catalog.item import ItemId
from gristmill.catalog.store import queries
from gristmill.db import Tx
from gristmill.identity.organisation import OrgId


@dataclass(frozen=True)
class NewHiddenBase:
    """The settings of a base to import."""

    org: OrgId
    name: str
    embedder: str
    embedder_identity: str
    dimensions: int
    chunking: dict[str, Any]
    file_processor: str | None
    on_restart: str
    settings: dict[str, Any]
    acl: Sequence[str]
    description: str
    metadata: dict[str, Any]
    expire_days: int | None


async def insert_hidden_base(tx: Tx, new: NewHiddenBase) -> Base:
    """Insert a base that nothing shows. The caller enqueues its removal in the same transaction."""
    values: dict[str, Any] = {**vars(new), "acl": list(new.acl)}
    for name in ("chunking", "settings", "metadata"):
        values[name] = Jsonb(values[name])
    return await queries.one(tx, Base, "insert_hidden_base", **values)


async def insert_imported_items(tx: Tx, base_id: BaseId, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert items with the ids and states that they shall have, parents before their children."""
    await queries.run(tx, "insert_imported_items", base=base_id, rows=json.dumps(list(rows)))


async def insert_imported_exclusions(
    tx: Tx, base_id: BaseId, exclusions: Sequence[tuple[ItemId, str, str, str]]
) -> None:
    """Insert exclusions: the container, and type, key and title of what is left out."""
    roots, types, keys, titles = zip(*exclusions, strict=True)
    await queries.run(
        tx,
        "insert_imported_exclusions",
        base=base_id,
        roots=list[UUID](roots),
        types=list(types),
        keys=list(keys),
        titles=list(titles),
    )


async def reveal_base(tx: Tx, base_id: BaseId, name: str) -> Base | None:
    """deleting → ready, under this name, which no other base may have; None when the base is gone."""
    return await queries.maybe(tx, Base, "reveal_base", id=base_id, name=name)
