"""Documents inside a document become its children: attachments, objects, entries of an archive.

    found       its reader lays each down in a file; the bytes go into the blob store, the name and their hash are kept
                with the content
    filed       when all of it is read, before it is published: one fenced transaction, in the base's turn

    the document's new content …      the child
    has it, as nothing was filed      is filed, with its job
    has it still                      is wanted anew with the bytes of now; equal ones end without being embedded again
    has it no more                    is deleted
    is the one that was filed         stays as it is; one that failed is wanted anew, one that was deleted stays away

At most `DEPTH` documents inside each other and `MOST` below the outermost are filed; the others are counted in the warning
`embedded_left_out`. Killed before the commit: nothing was filed. Killed after: the next attempt finds that it is done.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from pathlib import PurePosixPath

from gristmill import catalog, events, faults, jobs
from gristmill.catalog import Base, Child, EmbeddedDocument, Item, NewItem
from gristmill.db import Database, Tx
from gristmill.errors import Transient
from gristmill.events import EmbeddedDocumentsExtracted
from gristmill.ingest.document import Document
from gristmill.jobs import Band, Outcome, QueueLimits, Snooze
from gristmill.operations.delete import hide
from gristmill.operations.schedule import announce_filed, has_room, schedule

DEPTH = 3
MOST = 10_000
_FEW = 10  # children of a document that somebody waits for, who is then waited for too
_PAUSE = timedelta(seconds=30)


class Filing:
    """Files what documents hold."""

    def __init__(self, db: Database, limits: QueueLimits | None = None) -> None:
        self._db, self._limits = db, limits

    async def file(self, document: Document) -> Outcome | None:
        """File the documents that were found inside; an outcome when that has to wait."""
        found, item = document.embedded, document.item
        if not found and not item.holds:
            return None
        released: list[bytes] = []
        async with self._db.transaction() as tx:
            base = await catalog.take_turn(tx, document.base.id)
            await jobs.fence(tx, document.job)
            if base is None or not await catalog.is_wanted(tx, item.id, document.version):
                return None
            children = await catalog.children_of(tx, item.id)
            if await catalog.is_filed(tx, item.id, document.version, document.digest):
                _tell(document, len(found) - len(children))
                return None
            if not await has_room(tx, base, self._limits):
                return Snooze(_PAUSE)
            if item.filed_content == document.digest:
                wanted = await self._again(tx, document, children)
            else:
                wanted = await self._file(tx, base, document, children, released)
            await schedule(tx, base, wanted, _band(document, wanted))
            await catalog.set_filed(tx, item.id, document.version, document.digest)
            await catalog.doom_blobs(tx, released)
            await faults.point("embedded.before_commit")
        await faults.point("embedded.filed")
        return None

    async def _again(self, tx: Tx, document: Document, children: Sequence[Child]) -> list[Item]:
        """The document is as it was: only what failed is wanted anew."""
        by_name = _named(document.embedded)
        failed = [
            (child.id, by_name[child.source_key])
            for child in children
            if child.status == "failed" and child.source_key in by_name
        ]
        retried = {item_id for item_id, _ in failed}
        await catalog.stay_filed(
            tx, [child.id for child in children if child.id not in retried], document.version
        )
        return await catalog.refile(tx, failed, document.version)

    async def _file(
        self, tx: Tx, base: Base, document: Document, children: Sequence[Child], released: list[bytes]
    ) -> list[Item]:
        """What the document holds now is filed, what it holds no more is deleted."""
        item, version = document.item, document.version
        taken = await _taken(tx, document)
        _tell(document, len(document.embedded) - len(taken))
        if not await catalog.hold_blobs(tx, [one.blob for one in taken.values()]):
            raise Transient("What it holds was stored too long ago, and is stored again.", code="upload_lost")
        known = {child.source_key: child for child in children}
        stale = [child.id for child in children if child.source_key not in taken]
        if stale:
            await hide(tx, base, stale)
        again = [(known[key].id, one) for key, one in taken.items() if key in known]
        released += [
            child.blob
            for key, child in known.items()
            if key in taken and child.blob is not None and child.blob != taken[key].blob
        ]
        wanted = await catalog.refile(tx, again, version)
        fresh = [_child(key, one, item.depth + 1) for key, one in taken.items() if key not in known]
        if fresh:
            filed = await catalog.insert_items(tx, base.id, item.id, fresh, listed_version=version)
            await announce_filed(tx, filed)
            wanted += filed
        if taken:
            await events.record(tx, EmbeddedDocumentsExtracted(base.id, item.id, version, len(taken)))
        return wanted


async def _taken(tx: Tx, document: Document) -> dict[str, EmbeddedDocument]:
    """Those of the embedded documents that are filed, by their keys."""
    if document.item.depth >= DEPTH:
        return {}
    elsewhere = await catalog.embedded_elsewhere(tx, document.item.id)
    named = _named(document.embedded)
    return dict(list(named.items())[: max(0, MOST - elsewhere)])


def _named(found: Sequence[EmbeddedDocument]) -> dict[str, EmbeddedDocument]:
    """Embedded documents by keys of their own: a second one of the same name has a number behind it."""
    times = Counter[str]()
    named: dict[str, EmbeddedDocument] = {}
    for one in found:
        key = one.name
        while key in named:
            times[one.name] += 1
            key = f"{one.name} ({times[one.name] + 1})"
        named[key] = one
    return named


def _child(key: str, one: EmbeddedDocument, depth: int) -> NewItem:
    name = PurePosixPath(key).name or key
    source = {"name": PurePosixPath(one.name).name or one.name, "within": one.name, "depth": depth}
    return NewItem("file", name[:500], key, source=source, blob=one.blob, size_bytes=one.size)


def _tell(document: Document, left_out: int) -> None:
    if left_out > 0:
        document.warnings = [*document.warnings, f"embedded_left_out:{left_out}"]


def _band(document: Document, wanted: Sequence[Item]) -> Band:
    return Band.INTERACTIVE if document.urgent and len(wanted) <= _FEW else Band.NORMAL
