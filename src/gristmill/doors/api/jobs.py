"""`/api/jobs`: what is queued, runs, is dead or was done; retry and cancel."""

from datetime import datetime
from typing import Annotated, Literal, Self
from uuid import UUID

from fastapi import APIRouter, Query

from gristmill import jobs
from gristmill.doors.api.context import Asking, InContext, PathJob
from gristmill.doors.api.wire import JsonObject, Limit, Page, Wire
from gristmill.errors import NotFound
from gristmill.jobs import JobId
from gristmill.operations.cancel import cancel
from gristmill.operations.retry import retry

router = APIRouter(prefix="/jobs", tags=["jobs"])

State = Literal["queued", "delayed", "running", "dead", "done", "cancelled"]
BANDS = {0: "interactive", 1: "normal", 2: "bulk"}


class JobOut(Wire):
    """A job as it is shown; `errors` has one entry per failed attempt, oldest first."""

    id: UUID
    kind: str
    state: State
    lane: str
    band: str
    subject: UUID | None
    attempt: int
    max_attempts: int
    errors: list[JsonObject]
    result: JsonObject | None
    created_at: datetime
    started_at: datetime | None
    run_at: datetime | None
    finished_at: datetime | None

    @classmethod
    def of(cls, job: jobs.Shown) -> Self:
        """Show `job`."""
        return cls.model_validate({**vars(job), "band": BANDS[job.band]})


@router.get("")
async def list_jobs(
    context: InContext,
    caller: Asking,
    state: State | None = None,
    kind: str | None = None,
    base_id: Annotated[UUID | None, Query(alias="baseId")] = None,
    item_id: Annotated[UUID | None, Query(alias="itemId")] = None,
    limit: Limit = 100,
    cursor: UUID | None = None,
) -> Page[JobOut]:
    """Jobs, newest first; the dead ones are the dead letters."""
    async with context.db.connection() as tx:
        found = await jobs.find_jobs(
            tx,
            limit=limit,
            before=JobId(cursor) if cursor else None,
            state=state,
            kind=kind,
            lane=str(base_id) if base_id else None,
            subject=item_id,
            org=caller.org,
        )
    return Page(
        items=[JobOut.of(job) for job in found],
        next_cursor=str(found[-1].id) if len(found) == limit else None,
    )


@router.get("/{job_id}")
async def get_job(job_id: PathJob, context: InContext) -> JobOut:
    """One job."""
    async with context.db.connection() as tx:
        found = await jobs.find_job(tx, job_id)
    if found is None:
        raise NotFound(f"There is no job {job_id}.", code="job_not_found")
    return JobOut.of(found)


@router.post("/{job_id}/retry", status_code=202)
async def retry_job(job_id: PathJob, context: InContext) -> JobOut:
    """Give a dead job all its attempts back."""
    return JobOut.of(await retry(context.db, job_id))


@router.post("/{job_id}/cancel", status_code=202)
async def cancel_job(job_id: PathJob, context: InContext) -> JobOut:
    """Cancel a job: one that waits is gone at once, one that runs stops at its next edge."""
    return JobOut.of(await cancel(context.db, job_id))
