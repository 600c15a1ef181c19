"""Readers: any local file to canonical markdown, with its pages, attachments, images and a report.

    async with ReaderPool() as pool:
        async with aclosing(read_file(pool, path, name=…, media_type=None, scratch=…, limits=ReadLimits())) as results:
            async for result in results: ...        TextPart, AttachedFile, Asset … in order, then one ReadReport

Native code opens documents in a child process that can be killed (`pool.py`, `sandbox.py`), so that a document that
crashes, hangs or fills it harms no other. Content is kept by the hash of (input, `reader_identity()`).

The child process imports this package too: `ReaderPool` (`pool.py`) and `read_file` (`supervisor.py`), which need
asyncio, are not imported here, because it would start slower.
"""

from gristmill.readers.results import (
    Asset,
    AttachedFile,
    DocumentFields,
    ReadLimits,
    ReadReport,
    ReadResult,
    TextPart,
    reader_identity,
)

__all__ = [
    "Asset",
    "AttachedFile",
    "DocumentFields",
    "ReadLimits",
    "ReadReport",
    "ReadResult",
    "TextPart",
    "reader_identity",
]
