"""The bytes of an item's original as a file on this machine, to draw pages from.

    an uploaded file, or a fetched web page      its blob: from the store's folder, or a copy of it
    a file on the server's disk                  the file itself, if it has not changed since the live version was read

A copy is removed after use. Only what was read is shown: a file that is newer, has another size or is gone is refused with a code.
"""

import asyncio
import os
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gristmill.catalog import Item
from gristmill.contents import LiveContent
from gristmill.errors import Conflict, Permanent, Transient
from gristmill.operations.source_factory import SourceFactory
from gristmill.sources import FileSource

_CLOCK_SLACK = timedelta(seconds=2)  # between the clock of a file system and the database's


@asynccontextmanager
async def local_original(
    sources: SourceFactory, item: Item, live: LiveContent, blob: str | None
) -> AsyncGenerator[Path]:
    """The path of the original's bytes; `blob` is their name in the store, if they are there."""
    if blob is not None:
        if (path := sources.blobs.local_path(blob)) is not None:
            yield path
            return
        handle, name = await asyncio.to_thread(
            tempfile.mkstemp, dir=sources.scratch, prefix="gristmill-page-"
        )
        try:
            with os.fdopen(handle, "wb") as file:
                async for part in sources.blobs.read(blob):
                    await asyncio.to_thread(file.write, part)
            yield Path(name)
        finally:
            await asyncio.to_thread(os.unlink, name)
        return
    source = sources.for_item(item)
    assert isinstance(source, FileSource)
    await asyncio.to_thread(_require_unchanged, source, item, live)
    try:
        original = await source.read()
    except (Permanent, Transient) as error:
        raise _missing_file_error(item) from error
    if original.path is not None and not original.temporary:
        yield original.path
        return
    path = original.path or Path(await asyncio.to_thread(_write_copy, sources.scratch, original.data))
    try:
        yield path
    finally:
        await asyncio.to_thread(path.unlink, missing_ok=True)


def _require_unchanged(source: FileSource, item: Item, live: LiveContent) -> None:
    try:
        with source.open() as file:
            status = os.fstat(file.fileno())
    except (Permanent, Transient) as error:
        raise _missing_file_error(item) from error
    modified = datetime.fromtimestamp(status.st_mtime, UTC)
    if modified > live.created_at + _CLOCK_SLACK or item.size_bytes not in (None, status.st_size):
        raise Conflict(
            "The file has changed since it was indexed, so its pages are not those that were read. Reindex it.",
            code="original_changed",
        )


def _missing_file_error(item: Item) -> Conflict:
    return Conflict(
        f"The file {item.source.get('path', item.title)} can no longer be read. Its text is still here.",
        code="original_gone",
    )


def _write_copy(folder: Path, data: bytes) -> str:
    handle, name = tempfile.mkstemp(dir=folder, prefix="gristmill-page-")
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    return name
