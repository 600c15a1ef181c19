"""Records that bases are searched, so that those which expire after a while without use expire later."""

from collections.abc import Sequence
from time import monotonic

from gristmill import catalog
from gristmill.catalog import Base, BaseId
from gristmill.db import Database

_INTERVAL = 60.0  # seconds: the table is as exact as this, and a search costs no statement in between
_MAX_REMEMBERED = 10_000


class ActivityRecorder:
    """Records the use of a base at most once a minute."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._recorded_at: dict[BaseId, float] = {}

    async def record(self, bases: Sequence[Base]) -> None:
        """Note that bases are used now."""
        now = monotonic()
        due = [base.id for base in bases if now - self._recorded_at.get(base.id, -_INTERVAL) >= _INTERVAL]
        if not due:
            return
        if len(self._recorded_at) > _MAX_REMEMBERED:
            self._recorded_at.clear()
        self._recorded_at.update(dict.fromkeys(due, now))
        async with self._db.connection() as tx:
            await catalog.touch_bases(tx, due)
