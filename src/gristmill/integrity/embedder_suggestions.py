"""Suggests an embedder for bases whose texts are in languages that their own does not know, by an event: part of a pass of the
reconciler, which looks at bases that became ready lately.

What was suggested is noted in the transaction of the event, so that it is suggested once, however often passes look and wherever one is
killed. A base that has changed its embedder can get another suggestion later.
"""

from datetime import timedelta

from gristmill import catalog, events
from gristmill.catalog import BaseId
from gristmill.db import Database
from gristmill.embedding import Embedders
from gristmill.events import BaseEmbedderSuggested
from gristmill.integrity import store
from gristmill.operations.suggest_embedder import suggest_embedder

_MAX_BASES = 1000
_PASS_WINDOW, _THOROUGH_WINDOW = timedelta(minutes=20), timedelta(hours=3)  # some passes may fail


async def record_suggestions(db: Database, embedders: Embedders, *, thorough: bool) -> int:
    """Record what is to be suggested for bases that became ready lately; how many events."""
    within = _THOROUGH_WINDOW if thorough else _PASS_WINDOW
    async with db.connection() as tx:
        bases = await store.find_recently_ingested_bases(tx, within, _MAX_BASES)
    recorded = 0
    for base_id in bases:
        recorded += await _record_suggestion(db, embedders, base_id)
    return recorded


async def _record_suggestion(db: Database, embedders: Embedders, base_id: BaseId) -> int:
    async with db.connection() as tx:
        base = await catalog.find_base(tx, base_id)
        name = None if base is None else await suggest_embedder(tx, base, embedders)
    if base is None or name == base.suggested_embedder:
        return 0
    async with db.transaction() as tx:
        current = await catalog.lock_base(tx, base_id)
        if current is None or (current.embedder, current.suggested_embedder) != (
            base.embedder,
            base.suggested_embedder,
        ):
            return 0  # it has changed meanwhile: the next pass looks again
        await catalog.set_suggested_embedder(tx, base_id, name)
        if name is None:
            return 0
        await events.record(tx, BaseEmbedderSuggested(base_id, name, base.embedder))
        return 1
