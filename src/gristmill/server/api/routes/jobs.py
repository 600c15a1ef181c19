"""`/api/jobs`: what is queued, runs, is dead or was done; retry and cancel."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal, Self
from uuid import UUID

from fastapi import APIRouter, Body, Query

from gristmill import catalog, jobs
from gristmill.catalog import BaseId, ItemId
from gristmill.db import Tx
from gristmill.errors import NotFound
from gristmill.jobs import JobId
from gristmill.operations.cancel import cancel
from gristmill.operations.retry import retry, retry_all
from gristmill.server.api.context import CurrentCaller, CurrentContext, PathJob
from gristmill.server.api.schemas.common import ApiModel, JsonObject, Limit, Page, RequestModel

router = APIRouter(prefix="/jobs", tags=["jobs"])

State = Literal["queued", "delayed", "running", "dead", "done", "cancelled"]
PRIORITY_NAMES = {0: "interactive", 1: "normal", 2: "bulk"}


class JobOut(ApiModel):
    """A job as it is shown; `title` is that of its item, `errors` has one entry per failed attempt, oldest first."""

    id: UUID
    kind: str
    state: State
    lane: str
    band: str
    subject: UUID | None
    title: str | None
    attempt: int
    max_attempts: int
    errors: list[JsonObject]
    result: JsonObject | None
    created_at: datetime
    started_at: datetime | None
    run_at: datetime | None
    finished_at: datetime | None

    @classmethod
    def of(cls, job: jobs.JobRecord, title: str | None = None) -> Self:
        """Show `job`."""
        return cls.model_validate({**vars(job), "band": PRIORITY_NAMES[job.priority], "title": title})


class RetryAll(RequestModel):
    """Which dead jobs: those of a base, or all."""

    base_id: UUID | None = None


class Retried(ApiModel):
    """How many jobs were queued again."""

    retried: int


@router.get("")
async def list_jobs(
    context: CurrentContext,
    caller: CurrentCaller,
    state: State | None = None,
    kind: str | None = None,
    base_id: Annotated[UUID | None, Query(alias="baseId")] = None,
    item_id: Annotated[UUID | None, Query(alias="itemId")] = None,
    limit: Limit = 100,
    cursor: UUID | None = None,
) -> Page[JobOut]:
    """Jobs, newest first; the dead ones are the dead letters."""
    async with context.db.connection() as tx:
        page_jobs = await jobs.find_jobs(
            tx,
            limit=limit,
            before=JobId(cursor) if cursor else None,
            state=state,
            kind=kind,
            lane=str(base_id) if base_id else None,
            subject=item_id,
            org=caller.org,
        )
        titles = await _titles(tx, page_jobs)
    return Page(
        items=[JobOut.of(job, titles.get(job.subject)) for job in page_jobs],
        next_cursor=str(page_jobs[-1].id) if len(page_jobs) == limit else None,
    )


@router.get("/{job_id}")
async def get_job(job_id: PathJob, context: CurrentContext) -> JobOut:
    """One job."""
    async with context.db.connection() as tx:
        job = await jobs.find_job(tx, job_id)
        if job is None:
            raise NotFound(f"There is no job {job_id}.", code="job_not_found")
        titles = await _titles(tx, [job])
    return JobOut.of(job, titles.get(job.subject))


@router.post("/retry", status_code=202)
async def retry_jobs(
    context: CurrentContext, caller: CurrentCaller, body: Annotated[RetryAll, Body(default_factory=RetryAll)]
) -> Retried:
    """Give all dead jobs whose work is still wanted their attempts back."""
    base_id = None if body.base_id is None else BaseId(body.base_id)
    return Retried(retried=await retry_all(context.db, caller.org, base_id))


@router.post("/{job_id}/retry", status_code=202)
async def retry_job(job_id: PathJob, context: CurrentContext) -> JobOut:
    """Give a dead job all its attempts back."""
    return JobOut.of(await retry(context.db, job_id))


@router.post("/{job_id}/cancel", status_code=202)
async def cancel_job(job_id: PathJob, context: CurrentContext) -> JobOut:
    """Cancel a job: one that waits is gone at once, one that runs stops at its next edge."""
    return JobOut.of(await cancel(context.db, job_id))


async def _titles(tx: Tx, shown_jobs: Sequence[jobs.JobRecord]) -> dict[UUID | None, str]:
    """The titles of the items that jobs are about, as far as they are there."""
    subjects = {ItemId(job.subject) for job in shown_jobs if job.subject is not None}
    return {item.id: item.title for item in await catalog.find_items(tx, list(subjects))} if subjects else {}
