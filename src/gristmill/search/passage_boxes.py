"""Where passages stand on their pages: for the hits that are returned and the chunks that are shown, not for candidates.

Only paged documents whose reader noted places have any: PDF pages, and images that OCR has read. The query checks again what the
viewer can see.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol
from uuid import UUID

from gristmill.catalog import Viewer
from gristmill.db import Database, Tx
from gristmill.readers.text_boxes import PageBox, boxes_between
from gristmill.search.model import Hit
from gristmill.search.store import queries

_MAX_BOXES = 500  # of one passage: a chunk has some dozen lines


class PassageRange(Protocol):
    """Characters of a version of an item's content."""

    @property
    def item_id(self) -> UUID:
        """The item."""
        ...

    @property
    def version(self) -> int:
        """Its version."""
        ...

    @property
    def start(self) -> int:
        """The first character."""
        ...

    @property
    def end(self) -> int:
        """The character after the last one."""
        ...

    @property
    def page(self) -> int | None:
        """The page that it begins on, if the content has pages."""
        ...


@dataclass(frozen=True)
class _PartBoxes:
    place: int
    part_start: int
    page: int
    boxes: bytes


async def passage_boxes(tx: Tx, viewer: Viewer, passages: Sequence[PassageRange]) -> list[list[PageBox]]:
    """The rectangles of each passage, in its order."""
    boxes: list[list[PageBox]] = [[] for _ in passages]
    paged = [place for place, passage in enumerate(passages) if passage.page is not None]
    if not paged:
        return boxes
    rows = await queries.many(
        tx,
        _PartBoxes,
        "passage_boxes",
        items=[passages[place].item_id for place in paged],
        versions=[passages[place].version for place in paged],
        starts=[passages[place].start for place in paged],
        ends=[passages[place].end for place in paged],
        principals=viewer.principals,
    )
    for row in rows:
        place = paged[row.place - 1]
        passage = passages[place]
        start, end = passage.start - row.part_start, passage.end - row.part_start
        part_boxes = boxes_between(row.boxes, row.page, start, end)[: _MAX_BOXES - len(boxes[place])]
        boxes[place] += [
            replace(box, start=row.part_start + box.start, end=row.part_start + box.end) for box in part_boxes
        ]
    return boxes


async def add_boxes(db: Database, viewer: Viewer, hits: Sequence[Hit]) -> list[Hit]:
    """The hits, with their rectangles. Without hits on pages no query is made."""
    if all(hit.page is None for hit in hits):
        return list(hits)
    async with db.connection() as tx:
        boxes = await passage_boxes(tx, viewer, hits)
    return [replace(hit, boxes=rectangles) for hit, rectangles in zip(hits, boxes, strict=True)]
