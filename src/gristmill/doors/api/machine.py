"""`/api/workers` and `/api/embedders`: who works, and what makes vectors."""

import time
from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter
from pydantic import StringConstraints

from gristmill import jobs
from gristmill.doors.api.context import InContext
from gristmill.doors.api.wire import Asked, ErrorBody, Page, Wire
from gristmill.errors import GristmillError

router = APIRouter(tags=["machine"])

_SAMPLE = "The miller sharpens the stones every spring."


class WorkerOut(Wire):
    """A worker process. It is `alive` until its lease is out; then its jobs are others'."""

    id: UUID
    host: str
    pid: int
    started_at: datetime
    beat_at: datetime
    alive: bool
    running: int
    slots: int


class EmbedderOut(Wire):
    """An embedder that bases can be made with."""

    name: str
    dimensions: int
    max_tokens: int
    english_only: bool
    is_default: bool


class TryIn(Asked):
    """Which embedder to try."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=200)]


class TriedOut(Wire):
    """What an embedder made of a sentence."""

    ok: bool
    took_ms: float
    dimensions: int | None
    error: ErrorBody | None


@router.get("/workers")
async def list_workers(context: InContext) -> Page[WorkerOut]:
    """Every worker on this database, in the order they came."""
    async with context.db.connection() as tx:
        found = await jobs.find_workers(tx)
    shown = [
        WorkerOut.model_validate(
            {"host": "", "pid": 0, **worker.info, **vars(worker), "slots": context.settings.worker_slots}
        )
        for worker in found
    ]
    return Page(items=shown, next_cursor=None)


@router.get("/embedders")
async def list_embedders(context: InContext) -> Page[EmbedderOut]:
    """The embedders of this server, by name."""
    known = context.embedders
    shown = [
        EmbedderOut(
            name=name,
            dimensions=one.dimensions,
            max_tokens=one.max_tokens,
            english_only=one.english_only,
            is_default=one is known.default,
        )
        for name, one in ((name, known.get(name)) for name in known.names())
    ]
    return Page(items=shown, next_cursor=None)


@router.post("/embedders/test")
async def test_embedder(asked: TryIn, context: InContext) -> TriedOut:
    """Have an embedder make one vector, now and once."""
    embedder = context.embedders.get(asked.name)
    began = time.perf_counter()
    error: ErrorBody | None = None
    dimensions: int | None = None
    try:
        dimensions = int((await embedder.embed_query(_SAMPLE)).shape[-1])
    except GristmillError as failed:
        error = ErrorBody.of(failed)
    took = round(1000 * (time.perf_counter() - began), 2)
    return TriedOut(ok=error is None, took_ms=took, dimensions=dimensions, error=error)
