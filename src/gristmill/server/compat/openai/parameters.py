"""Ids in paths, and the query parameters of lists."""

from collections.abc import Callable
from typing import Annotated, Literal
from uuid import UUID

from fastapi import Depends, Query

from gristmill.catalog import BaseId
from gristmill.errors import Invalid, NotFound
from gristmill.files import BatchId, FileId, Place
from gristmill.server.api import store_ids

Order = Literal["asc", "desc"]


async def _path_store(store_id: str) -> BaseId:
    return store_ids.parse_store_id(store_id)


async def _path_file(file_id: str) -> FileId:
    return store_ids.parse_file_id(file_id)


async def _path_store_file(store_file_id: str) -> FileId:
    return store_ids.parse_file_id(store_file_id)


async def _path_batch(batch_id: str) -> BatchId:
    return store_ids.parse_batch_id(batch_id)


def _cursor_id(text: str | None, parse: Callable[[str], UUID], name: str) -> UUID | None:
    """The object that a page begins after or ends before; it may be gone. Raises Invalid if it is not an id."""
    if not text:
        return None
    try:
        return parse(text)
    except NotFound as error:
        raise Invalid(f"{name} is not an id of this list. {error.message}") from None


def place_of(
    limit: int, order: Order, after: str | None, before: str | None, parse: Callable[[str], UUID]
) -> Place:
    """The part of a list that is asked for."""
    return Place(limit, order, _cursor_id(after, parse, "after"), _cursor_id(before, parse, "before"))


PathStore = Annotated[BaseId, Depends(_path_store)]
PathFile = Annotated[FileId, Depends(_path_file)]
PathStoreFile = Annotated[FileId, Depends(_path_store_file)]
PathBatch = Annotated[BatchId, Depends(_path_batch)]
PageLimit = Annotated[int, Query(ge=1, le=100)]
Cursor = Annotated[str | None, Query(max_length=100)]
