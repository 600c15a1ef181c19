"""edit a note: give it another text, as a new version. The old one answers until the new one is indexed.

Only paragraphs that changed are embedded again. An edit while an earlier one is being indexed is a further version: the earlier one
is never published.
"""

from uuid import uuid4

from gristmill import catalog, faults
from gristmill.catalog import Base, Item, NewItem
from gristmill.db import Tx
from gristmill.errors import Conflict
from gristmill.jobs import Priority
from gristmill.operations import guards
from gristmill.operations.next_job import enqueue_next_jobs, record_filed_events


async def edit_note(tx: Tx, base: Base, item: Item, content: str) -> None:
    """Give a note of a base that the caller has locked another text."""
    if item.type != "note":
        raise Conflict(
            f"Only the text of notes can be edited, and this is a {item.type}. Change it at its source, and reindex it.",
            code="not_a_note",
        )
    guards.refuse_failed_base(base)
    await guards.refuse_expired_base(tx, base)
    if content == await catalog.note_text(tx, item.id):
        return
    new = NewItem(
        "note",
        item.title,
        item.title,
        source=item.source,
        body=content,
        size_bytes=len(content.encode()),
        chunking=item.chunking,
    )
    edited = await catalog.replace_item(tx, item.id, new, uuid4())
    if edited is None:
        return
    await faults.point("edit_note.replaced")
    await enqueue_next_jobs(tx, base, [edited], Priority.INTERACTIVE)
    await catalog.derive_statuses_above(tx, [edited.id])
    await record_filed_events(tx, [edited])
