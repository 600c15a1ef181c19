"""How long bases keep things, legal holds, the versions that are kept, and `/api/deletions`, the report for the auditor."""

import csv
import io
from collections.abc import AsyncIterator, Sequence
from typing import Annotated
from uuid import UUID

from fastapi import Query
from fastapi.responses import StreamingResponse

from gristmill import contents
from gristmill.catalog import BaseId, ItemId, deletion_report, holds
from gristmill.catalog.deletion_report import DeletionRecord
from gristmill.contents import ContentPart
from gristmill.db import Database
from gristmill.errors import NotFound
from gristmill.identity import OrgId
from gristmill.operations import guards, retention
from gristmill.server.api.context import CurrentCaller, CurrentContext, PathBase, PathItem
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.schemas.common import Limit, Page, Timestamp, page_of
from gristmill.server.api.schemas.retention import (
    DeletionOut,
    HoldOut,
    KeptVersionOut,
    NewHold,
    RetentionIn,
    RetentionOut,
    item_of_hold,
)

router = ApiRouter("/api", tag="retention")

_CSV_BATCH = 1000
_FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")


@router.get("/knowledge-bases/{base_id}/retention")
async def show_retention(base_id: PathBase, context: CurrentContext) -> RetentionOut:
    """Show how long a base keeps documents, earlier versions and events."""
    rule = await retention.show_rule(context.db, base_id)
    async with context.db.connection() as tx:
        return RetentionOut.of(rule, has_hold=await holds.has_hold(tx, base_id))


@router.put("/knowledge-bases/{base_id}/retention")
async def change_retention(base_id: PathBase, body: RetentionIn, context: CurrentContext) -> RetentionOut:
    """Set how long a base keeps documents, earlier versions and events. What is due is deleted within the next hour."""
    rule = await retention.change_rule(context.db, body.to_rule(base_id))
    async with context.db.connection() as tx:
        return RetentionOut.of(rule, has_hold=await holds.has_hold(tx, base_id))


@router.get("/knowledge-bases/{base_id}/legal-holds")
async def list_holds(
    base_id: PathBase,
    context: CurrentContext,
    caller: CurrentCaller,
    lifted: bool = False,
    limit: Limit = 100,
    cursor: UUID | None = None,
) -> Page[HoldOut]:
    """List the legal holds of a base, the newest first; with `lifted`, those that were lifted too."""
    async with context.db.connection() as tx:
        rows = await holds.list_holds(
            tx, caller.org, base_id=base_id, with_lifted=lifted, limit=limit, before=cursor
        )
    return page_of(rows, limit, HoldOut.of)


@router.post("/knowledge-bases/{base_id}/legal-holds", status_code=201)
async def place_hold(
    base_id: PathBase, body: NewHold, context: CurrentContext, caller: CurrentCaller
) -> HoldOut:
    """Place a legal hold on a base or an item: until it is lifted, nothing that it covers is deleted."""
    return HoldOut.of(
        await retention.place_hold(context.db, base_id, item_of_hold(body), body.reason, caller.actor)
    )


@router.delete("/knowledge-bases/{base_id}/legal-holds/{hold_id}")
async def lift_hold(
    base_id: PathBase, hold_id: UUID, context: CurrentContext, caller: CurrentCaller
) -> HoldOut:
    """Lift a legal hold. It stays in the list of lifted ones."""
    return HoldOut.of(await retention.lift_hold(context.db, caller.org, base_id, hold_id, caller.actor))


@router.get("/knowledge-items/{item_id}/versions")
async def list_kept_versions(
    item_id: PathItem,
    context: CurrentContext,
    limit: Limit = 100,
    cursor: Annotated[int | None, Query(ge=0, le=2**31 - 1)] = None,
) -> Page[KeptVersionOut]:
    """List the versions of an item that newer ones replaced and that are kept, the newest first."""
    async with context.db.connection() as tx:
        item = await guards.require_item(tx, item_id)
        rows = await contents.find_kept_versions(tx, item.id, limit, before=cursor)
    return page_of(rows, limit, KeptVersionOut.of, cursor=lambda row: row.version)


@router.get("/knowledge-items/{item_id}/versions/{version}/content", response_class=StreamingResponse)
async def read_kept_version(item_id: PathItem, version: int, context: CurrentContext) -> StreamingResponse:
    """Read the text of a kept version, as Markdown."""
    async with context.db.connection() as tx:
        await guards.require_item(tx, item_id)
        first = await contents.version_parts(tx, item_id, version)
    if not first:
        raise NotFound(
            f"Version {version} of this item is not kept. `GET …/versions` lists those that are.",
            code="version_not_found",
        )
    parts = _stream_parts(context.db, item_id, version, first)
    return StreamingResponse(parts, media_type="text/markdown; charset=utf-8")


async def _stream_parts(
    db: Database, item_id: ItemId, version: int, parts: Sequence[ContentPart]
) -> AsyncIterator[str]:
    while parts:
        for part in parts:
            yield part.text
        async with db.connection() as tx:
            parts = await contents.version_parts(tx, item_id, version, after=parts[-1].start + 1)


# ── the deletion report ──────────────────────────────────────────────────────────────────────────────────


@router.get("/deletions")
async def list_deletions(
    context: CurrentContext,
    caller: CurrentCaller,
    base_id: Annotated[UUID | None, Query(alias="baseId")] = None,
    since: Timestamp | None = None,
    until: Timestamp | None = None,
    limit: Limit = 100,
    cursor: UUID | None = None,
) -> Page[DeletionOut]:
    """List what was deleted, when, at whose request and why, the oldest first: with hashes, without contents."""
    async with context.db.connection() as tx:
        rows = await deletion_report.list_deletions(
            tx,
            caller.org,
            base_id=None if base_id is None else BaseId(base_id),
            since=since,
            until=until,
            after=cursor,
            limit=limit,
        )
    return page_of(rows, limit, DeletionOut.of)


@router.get("/deletions.csv", response_class=StreamingResponse)
async def export_deletions(
    context: CurrentContext,
    caller: CurrentCaller,
    base_id: Annotated[UUID | None, Query(alias="baseId")] = None,
    since: Timestamp | None = None,
    until: Timestamp | None = None,
) -> StreamingResponse:
    """Export the deletion report as CSV, with a column for each field."""

    async def lines() -> AsyncIterator[str]:
        yield _csv_line(list(DeletionOut.model_fields))
        after: UUID | None = None
        while True:
            async with context.db.connection() as tx:
                rows = await deletion_report.list_deletions(
                    tx,
                    OrgId(caller.org),
                    base_id=None if base_id is None else BaseId(base_id),
                    since=since,
                    until=until,
                    after=after,
                    limit=_CSV_BATCH,
                )
            yield "".join(_csv_line(_cells(row)) for row in rows)
            if len(rows) < _CSV_BATCH:
                return
            after = rows[-1].id

    headers = {"Content-Disposition": 'attachment; filename="deletions.csv"'}
    return StreamingResponse(lines(), media_type="text/csv; charset=utf-8", headers=headers)


def _cells(record: DeletionRecord) -> list[str]:
    values = DeletionOut.of(record).model_dump(mode="json").values()
    return ["" if value is None else _without_formula(str(value)) for value in values]


def _without_formula(text: str) -> str:
    """A title that begins like a formula must not become one in a spreadsheet."""
    return f"'{text}" if text.startswith(_FORMULA_SIGNS) else text


def _csv_line(cells: Sequence[str]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer).writerow(cells)
    return buffer.getvalue()
