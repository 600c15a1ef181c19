"""`/api/workers` and `/api/embedders`: who works, and what makes vectors."""

import time
from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter
from pydantic import StringConstraints

from gristmill import jobs
from gristmill.errors import GristmillError
from gristmill.server.api.context import CurrentContext
from gristmill.server.api.schemas.common import ApiModel, ErrorBody, Page, RequestModel

router = APIRouter(tags=["machine"])

_SAMPLE = "The miller sharpens the stones every spring."


class WorkerOut(ApiModel):
    """A worker process. It is `alive` until its lease is out; then its jobs are others'."""

    id: UUID
    host: str
    pid: int
    started_at: datetime
    beat_at: datetime
    alive: bool
    running: int
    slots: int


class EmbedderOut(ApiModel):
    """An embedder that bases can be made with."""

    name: str
    dimensions: int
    max_tokens: int
    english_only: bool
    is_default: bool


class TryIn(RequestModel):
    """Which embedder to try."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=200)]


class TriedOut(ApiModel):
    """What an embedder made of a sentence."""

    ok: bool
    took_ms: float
    dimensions: int | None
    error: ErrorBody | None


@router.get("/workers")
async def list_workers(context: CurrentContext) -> Page[WorkerOut]:
    """Every worker on this database, in the order they came."""
    async with context.db.connection() as tx:
        workers = await jobs.find_workers(tx)
    items = [
        WorkerOut.model_validate(
            {
                "host": "",
                "pid": 0,
                **worker.info,
                **vars(worker),
                "beat_at": worker.heartbeat_at,
                "slots": context.settings.worker_slots,
            }
        )
        for worker in workers
    ]
    return Page(items=items, next_cursor=None)


@router.get("/embedders")
async def list_embedders(context: CurrentContext) -> Page[EmbedderOut]:
    """The embedders of this server, by name."""
    embedders = context.embedders
    items = [
        EmbedderOut(
            name=name,
            dimensions=embedder.dimensions,
            max_tokens=embedder.max_tokens,
            english_only=embedder.english_only,
            is_default=embedder is embedders.default,
        )
        for name, embedder in ((name, embedders.get(name)) for name in embedders.names())
    ]
    return Page(items=items, next_cursor=None)


@router.post("/embedders/test")
async def test_embedder(body: TryIn, context: CurrentContext) -> TriedOut:
    """Have an embedder make one vector, now and once."""
    embedder = context.embedders.get(body.name)
    started = time.perf_counter()
    error: ErrorBody | None = None
    dimensions: int | None = None
    try:
        dimensions = int((await embedder.embed_query(_SAMPLE)).shape[-1])
    except GristmillError as caught:
        error = ErrorBody.of(caught)
    took_ms = round(1000 * (time.perf_counter() - started), 2)
    return TriedOut(ok=error is None, took_ms=took_ms, dimensions=dimensions, error=error)
