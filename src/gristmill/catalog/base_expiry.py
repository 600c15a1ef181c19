"""When a base expires: so many days after its last use, if it has such a limit.

    () ── set_base_expiry ──▶ expires_at ── a search, a change of its items ──▶ a later expires_at
                                  │ it is reached
                                  ▼
                               expired: not searched, takes no items; a new expiry makes it usable again
                                  │ a day later
                                  ▼
                               deleted, by the reconciler

That a base has expired follows from the database's clock, so there is no state to be moved on.
"""

from collections.abc import Sequence
from datetime import timedelta

from gristmill.catalog.base import BaseId
from gristmill.catalog.store import queries
from gristmill.db import Tx


async def set_base_expiry(tx: Tx, base_id: BaseId, days: int | None) -> None:
    """Let a base expire so many days after its last use, counted from now; None: never."""
    await queries.run(tx, "set_base_expiry", id=base_id, days=days)


async def touch_bases(tx: Tx, base_ids: Sequence[BaseId]) -> None:
    """Note that bases are used, so that they expire later."""
    await queries.run(tx, "touch_bases", ids=list(base_ids))


async def find_expired_ids(tx: Tx, base_ids: Sequence[BaseId]) -> set[BaseId]:
    """Those of the bases that have expired."""
    return set(await queries.values(tx, "find_expired_ids", ids=list(base_ids)))


async def find_expired_bases(tx: Tx, grace: timedelta, limit: int) -> list[BaseId]:
    """Bases that expired longer ago than `grace`."""
    return await queries.values(tx, "find_expired_bases", grace=grace, limit=limit)
