"""What a transaction writes for documents that come in several batches."""

from typing import Any, cast

import httpx
import numpy as np

from gristmill import app, faults
from gristmill.ingest.document import Document, ReadWindow
from gristmill.ingest.embed import EmbeddedChunks
from gristmill.ingest.write import plan_writes
from gristmill.search import Chunk
from tests.acceptance.test_api import add_items, make_base
from tests.wait_until import wait_until


def document(pieces: int) -> Document:
    nothing = cast(Any, None)
    made = Document(nothing, nothing, nothing, 1, nothing, nothing, "recipe")
    made.add_window(ReadWindow([], [cast(Any, Numbered(n)) for n in range(pieces)], 1.0, last=True))
    return made


class Numbered:
    def __init__(self, index: int) -> None:
        self.index = index


def chunk(index: int) -> Chunk:
    return Chunk(index, "text", 0, 4, (), np.ones(4, np.float32))


async def test_two_batches_of_a_document_in_one_transaction_end_it_together() -> None:
    """Else neither would, and the document would be at work for ever."""
    split = document(3)
    first, last = EmbeddedChunks(split, [chunk(0), chunk(1)]), EmbeddedChunks(split, [chunk(2)])
    assert [one.is_last for one in plan_writes([first, last])] == [False, True]
    assert [one.is_last for one in plan_writes([last, first])] == [False, True]


async def test_a_document_ends_once_and_not_before_all_of_it_is_written() -> None:
    split, other = document(3), document(1)
    assert [
        one.is_last
        for one in plan_writes([EmbeddedChunks(split, [chunk(0)]), EmbeddedChunks(other, [chunk(0)])])
    ] == [
        False,
        True,
    ]
    split.written |= {0, 1}
    ends = plan_writes(
        [EmbeddedChunks(split, [chunk(1)]), EmbeddedChunks(split, [chunk(2)]), EmbeddedChunks(split, [])]
    )
    assert [one.is_last for one in ends] == [False, True, False]


async def test_what_is_read_while_a_batch_is_written_is_kept_too(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    """Its last window comes between the look at its parts and the commit: they are for the next batch to write."""
    text = "\n\n".join(
        f"Stone {n} of the mill turns slowly over the grain of the year." for n in range(4_600)
    )
    base = await make_base(http)
    with (
        faults.watch("index.window", hold=True) as window,
        faults.watch("write.begun", hold=True) as begun,
        faults.watch("index.read") as read,
    ):
        await add_items(http, base, {"type": "note", "content": text})
        await begun.passed.wait()
        window.hold.set()
        await read.passed.wait()
        begun.hold.set()

        async def completed() -> Any:
            (item,) = (await http.get(f"/api/knowledge-bases/{base}/items")).json()["items"]
            return item if item["status"] == "completed" else None

        item = await wait_until(completed)
    assert (await http.get(f"/api/knowledge-items/{item['id']}/content")).text == text
    async with mill.db.connection() as tx:
        parts = await (await tx.execute("select sum(length(text)) from content_part")).fetchone()
    assert parts == (len(text),)
