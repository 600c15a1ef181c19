"""Readers: any local file to canonical markdown, with its pages, embedded documents, images and a report.

    async with ReaderPool() as pool:
        async with aclosing(read(pool, path, name=…, media_type=None, scratch=…, limits=ReadLimits())) as results:
            async for result in results: ...        Part* Embedded* Asset* in order, then one Report

What is opened by native code is opened in a child process that can be killed (`pool.py`, `confine.py`); a document that
crashes it, hangs it or fills it costs itself alone. Content is kept by the hash of (input, `reader_identity()`).
"""

from gristmill.readers.pool import ReaderPool
from gristmill.readers.results import (
    Asset,
    AttachedFile,
    ReadLimits,
    ReadReport,
    ReadResult,
    TextPart,
)
from gristmill.readers.supervisor import read_file

# Raised whenever the same bytes would give other content.
READER_VERSION = "2"


def reader_identity(limits: ReadLimits) -> str:
    """What names the maker of a content: with other limits, other things are left out of it."""
    return f"readers/{READER_VERSION}" + (f"+ocr{limits.ocr_pages}" if limits.ocr else "")


__all__ = [
    "READER_VERSION",
    "Asset",
    "AttachedFile",
    "ReadLimits",
    "ReadReport",
    "ReadResult",
    "ReaderPool",
    "TextPart",
    "read_file",
    "reader_identity",
]
