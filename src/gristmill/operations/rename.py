"""rename: give an item another title.

    a note                          its title is also what identifies it, and must be free among its siblings
    a document of a connector       refused: the next run would write the tool's title again
    everything else                 its path, address or file name still identifies it: a file that is uploaded again replaces it

Keyword search indexes titles with every chunk, so one job indexes the item's chunks again; nothing is read or embedded. Until it is
done, searches find the item by the words of its old title, and show the new one.
"""

from gristmill import catalog, faults, jobs
from gristmill.catalog import Base, Item
from gristmill.db import Tx
from gristmill.errors import Conflict
from gristmill.jobs import NewJob, Priority
from gristmill.work import IndexTitle


async def rename(tx: Tx, base: Base, item: Item, title: str) -> None:
    """Rename an item of a base that the caller has locked."""
    if title == item.title:
        return
    if item.type == "record":
        raise Conflict(
            "The title comes from the tool that this document is synchronised from. Change it there.",
            code="title_from_source",
        )
    key = title if item.type == "note" else None
    if key is not None:
        await refuse_taken_title(tx, base, item, key)
    await catalog.set_title(tx, item.id, title, key)
    await faults.point("rename.before_enqueue")
    if not item.is_container:
        await enqueue_indexing(tx, base, item)


async def enqueue_indexing(tx: Tx, base: Base, item: Item) -> None:
    """Queue the indexing of an item's title."""
    await jobs.enqueue(tx, NewJob(IndexTitle(item.id), lane=base.lane, priority=Priority.INTERACTIVE))


async def refuse_taken_title(tx: Tx, base: Base, item: Item, key: str) -> None:
    """Raise if another item in the same place has this key."""
    if await catalog.find_taken_title(tx, base.id, item.parent_id, [(item, key)]) is not None:
        raise Conflict(
            f"There is a {item.type} named {key!r} here already. Choose another title.", code="title_taken"
        )
