"""`/api/audit`: who changed, exported and read what, and who signed in."""

import csv
import io
import json
from collections.abc import AsyncGenerator
from typing import Annotated, Literal
from uuid import UUID

from fastapi import Query
from fastapi.responses import StreamingResponse

from gristmill.db import Database
from gristmill.identity import OrgId, audit
from gristmill.server.api.context import CurrentCaller, CurrentContext
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.schemas.common import Limit, Page, Timestamp, page_of
from gristmill.server.api.schemas.keys import AuditOut

router = ApiRouter("/api", tag="keys")

_BATCH = 1000
_COLUMNS = ("at", "action", "actor", "role", "method", "path", "status", "tookMs", "client", "keyId", "id")


@router.get(
    "/audit",
    response_model=Page[AuditOut],
    responses={200: {"content": {"text/csv": {}, "application/jsonl": {}}}},
)
async def list_audit(
    context: CurrentContext,
    caller: CurrentCaller,
    actor: Annotated[str | None, Query(max_length=200)] = None,
    path: Annotated[str | None, Query(max_length=500)] = None,
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"] | None = None,
    action: audit.AuditAction | None = None,
    failed: bool = False,
    since: Timestamp | None = None,
    until: Timestamp | None = None,
    output: Annotated[Literal["json", "csv", "jsonl"], Query(alias="format")] = "json",
    limit: Limit = 100,
    cursor: UUID | None = None,
) -> Page[AuditOut] | StreamingResponse:
    """List what was changed, exported and, with the setting `audit_reads`, read in the organisation, newest first; with `failed`, what
    was refused or failed. `format` csv or jsonl downloads everything that matches."""
    chosen = audit.AuditFilter(actor, path, method, failed, since, until, action)
    if output != "json":
        media_type = "text/csv; charset=utf-8" if output == "csv" else "application/jsonl"
        headers = {"Content-Disposition": f'attachment; filename="gristmill-audit.{output}"'}
        lines = _export(context.db, caller.org, chosen, as_csv=output == "csv")
        return StreamingResponse(lines, media_type=media_type, headers=headers)
    async with context.db.connection() as tx:
        entries = await audit.find_all(tx, caller.org, limit=limit, before=cursor, chosen=chosen)
    return page_of(entries, limit, lambda entry: AuditOut.model_validate(vars(entry)))


async def _export(
    db: Database, org: OrgId, chosen: audit.AuditFilter, *, as_csv: bool
) -> AsyncGenerator[str]:
    """The entries as lines, batch by batch: no transaction is open while the client reads."""
    if as_csv:
        yield ",".join(_COLUMNS) + "\r\n"
    before: UUID | None = None
    while True:
        async with db.connection() as tx:
            entries = await audit.find_all(tx, org, limit=_BATCH, before=before, chosen=chosen)
        shown = [
            AuditOut.model_validate(vars(entry)).model_dump(mode="json", by_alias=True) for entry in entries
        ]
        if as_csv:
            table = io.StringIO()
            csv.writer(table).writerows([_cell(row[name]) for name in _COLUMNS] for row in shown)
            yield table.getvalue()
        else:
            yield "".join(f"{json.dumps(row)}\n" for row in shown)
        if len(entries) < _BATCH:
            return
        before = entries[-1].id


def _cell(value: object) -> str:
    """A cell of CSV. One that a spreadsheet would take for a formula gets a quote in front."""
    text = "" if value is None else str(value)
    return f"'{text}" if text[:1] in "=+-@\t\r" and text else text
