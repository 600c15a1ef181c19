"""Ids as OpenAI's clients know them: `vs_…` is a base, `file-…` a file or an item, `vsfb_…` a batch of files.

What follows the prefix is the UUID in hexadecimal. A UUID as our own API writes it is understood too.
"""

from uuid import UUID

from gristmill.catalog import BaseId, Item
from gristmill.errors import NotFound
from gristmill.files import BatchId, FileId
from gristmill.operations.files import no_such_file

STORE, FILE, BATCH = "vs_", "file-", "vsfb_"


def store_id(base_id: UUID) -> str:
    """A base as the id of a vector store."""
    return STORE + base_id.hex


def file_id(stored_file_id: UUID) -> str:
    """A file as its id."""
    return FILE + stored_file_id.hex


def item_file_id(item: Item) -> str:
    """The id of the file that an item was made from, or that it is."""
    return file_id(item.file_id or item.id)


def batch_id(file_batch_id: UUID) -> str:
    """A batch as its id."""
    return BATCH + file_batch_id.hex


def parse_store_id(text: str) -> BaseId:
    """The base of a vector store."""
    parsed = _parse(text, STORE)
    if parsed is None:
        raise NotFound(f"There is no vector store {text!r}.", code="base_not_found")
    return BaseId(parsed)


def parse_file_id(text: str) -> FileId:
    """A file."""
    parsed = _parse(text, FILE)
    if parsed is None:
        raise NotFound(f"There is no file {text!r}.", code="no_such_file")
    return FileId(parsed)


def parse_batch_id(text: str) -> BatchId:
    """A batch of files."""
    parsed = _parse(text, BATCH)
    if parsed is None:
        raise NotFound(f"There is no file batch {text!r}.", code="no_such_batch")
    return BatchId(parsed)


def _parse(text: str, prefix: str) -> UUID | None:
    try:
        return UUID(text.removeprefix(prefix))
    except ValueError:
        return None


__all__ = [
    "batch_id",
    "file_id",
    "item_file_id",
    "no_such_file",
    "parse_batch_id",
    "parse_file_id",
    "parse_store_id",
    "store_id",
]
