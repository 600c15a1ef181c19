"""Contents: the canonical text of documents, known by its hash and stored in parts.

A content is complete once all its parts are stored; until then a reader can resume where an earlier attempt stopped. The
caller holds the shared locks of all bases concerned, and has checked the leases of all jobs.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gristmill.contents.store import queries
from gristmill.db import Tx


@dataclass(frozen=True)
class NewContentPart:
    """A part of a content, by its offset in characters, and where it stands on its page (`readers/text_boxes.py`)."""

    content: bytes
    start: int
    text: str
    page: int | None
    boxes: bytes = b""


@dataclass(frozen=True)
class ContentPart:
    """A stored part of a content, by its offset in characters."""

    start: int
    text: str
    page: int | None
    boxes: bytes | None = None


@dataclass(frozen=True)
class _ContentRow:
    hash: bytes
    characters: int | None


async def ensure_contents(tx: Tx, digests: Sequence[bytes]) -> set[bytes]:
    """Create contents that do not exist, and lock all of them against collection; those that are complete."""
    if not digests:
        return set()
    rows = await queries.many(tx, _ContentRow, "ensure_contents", hashes=sorted(set(digests)))
    return {row.hash for row in rows if row.characters is not None}


async def insert_content_parts(tx: Tx, parts: Sequence[NewContentPart]) -> None:
    """Store parts of contents; parts that exist stay as they are."""
    if parts:
        await queries.run(
            tx,
            "insert_content_parts",
            hashes=[part.content for part in parts],
            starts=[part.start for part in parts],
            texts=[part.text for part in parts],
            pages=[part.page for part in parts],
            boxes=[part.boxes or None for part in parts],
        )


@dataclass(frozen=True)
class CompleteContent:
    """A content whose parts are all stored: what its reader warned of, and what the document says of itself."""

    warnings: Sequence[str]
    document: dict[str, Any]


async def mark_contents_complete(
    tx: Tx,
    contents: Mapping[bytes, tuple[int, Sequence[str]]],
    documents: Mapping[bytes, Mapping[str, Any]] | None = None,
) -> None:
    """Note that all parts of these contents are stored: the number of characters, the warnings about each, and what the
    documents say of themselves."""
    if contents:
        rows = [
            {
                "hash": digest.hex(),
                "characters": characters,
                "warnings": list(warnings),
                "document": dict((documents or {}).get(digest, {})),
            }
            for digest, (characters, warnings) in contents.items()
        ]
        await queries.run(tx, "mark_contents_complete", contents=json.dumps(rows))


async def find_complete_content(tx: Tx, digest: bytes) -> CompleteContent | None:
    """A content; None unless it is complete."""
    return await queries.maybe(tx, CompleteContent, "find_complete_content", hash=digest)


@dataclass(frozen=True)
class ResumePoint:
    """A page that may be stored only in part, and its offset; everything before it is stored."""

    page: int
    start: int


async def resume_point(tx: Tx, digest: bytes) -> ResumePoint | None:
    """Where the reading of a paged content can resume; None when it has to start over."""
    return await queries.maybe(tx, ResumePoint, "resume_point", hash=digest)


async def content_parts(tx: Tx, digest: bytes, after: int) -> list[ContentPart]:
    """Some parts of a content, from an offset where one begins."""
    return await queries.many(tx, ContentPart, "content_parts", hash=digest, after=after)
