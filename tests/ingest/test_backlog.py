"""A base with a long queue does not delay the others."""

import httpx

from gristmill import app
from gristmill.jobs import QueueLimits
from gristmill.operations import add, bases
from tests.api_calls import add_items as add_item
from tests.api_calls import make_base, search
from tests.operations.manual_worker import note_to_add
from tests.wait_until import wait_until

NOTES = 10_000


async def waiting(mill: app.Gristmill) -> int:
    async with mill.db.connection() as tx:
        row = await (
            await tx.execute("select count(*)::int from job where kind = 'index_document'")
        ).fetchone()
    assert row is not None
    return row[0]


async def test_a_note_is_searchable_at_once_while_another_base_has_ten_thousand_queued(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    """S4-02, S4-18, promise 6."""
    large = await bases.create(mill.db, "large", mill.embedders.default, {})
    entries = [note_to_add(f"n{n}", f"rye {n}") for n in range(NOTES)]
    await add.add(mill.db, large.id, entries, QueueLimits(lane=2 * NOTES, total=2 * NOTES))
    small = await make_base(http, "small")
    await add_item(http, small, {"type": "note", "title": "oats", "content": "Oats for the horses."})

    async def is_found() -> bool:
        return [hit["text"] for hit in await search(http, small, "oats")] == ["Oats for the horses."]

    await wait_until(is_found, every=0.05)
    assert await waiting(mill) > NOTES // 2, "the note waited for the other base's queue"
