"""`/api/jobs`: list jobs of any state, retry or dismiss dead ones, cancel the others."""

from typing import Annotated
from uuid import UUID

from fastapi import Body, Query

from gristmill import jobs
from gristmill.catalog import BaseId
from gristmill.errors import NotFound
from gristmill.jobs import JobId
from gristmill.operations.cancel import cancel
from gristmill.operations.dismiss import dismiss
from gristmill.operations.retry import retry, retry_all
from gristmill.server.api.context import CurrentCaller, CurrentContext, PathJob
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.routes.items import item_titles
from gristmill.server.api.schemas.common import Limit, Page, page_of
from gristmill.server.api.schemas.jobs import JobOut, Retried, RetryAll, State

router = ApiRouter("/api/jobs", tag="jobs")


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
    """List jobs, newest first. `state=dead` lists the dead letters."""
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
        titles = await item_titles(tx, (job.subject for job in page_jobs))
    return page_of(page_jobs, limit, lambda job: JobOut.of(job, job.subject and titles.get(job.subject)))


@router.get("/{job_id}")
async def get_job(job_id: PathJob, context: CurrentContext) -> JobOut:
    """Get a job."""
    async with context.db.connection() as tx:
        job = await jobs.find_job(tx, job_id)
        if job is None:
            raise NotFound(f"There is no job {job_id}.", code="job_not_found")
        titles = await item_titles(tx, [job.subject])
    return JobOut.of(job, job.subject and titles.get(job.subject))


@router.post("/retry", status_code=202)
async def retry_jobs(
    context: CurrentContext, caller: CurrentCaller, body: Annotated[RetryAll, Body(default_factory=RetryAll)]
) -> Retried:
    """Queue all dead jobs again whose work is still needed, each with all its attempts."""
    base_id = None if body.base_id is None else BaseId(body.base_id)
    return Retried(retried=await retry_all(context.db, caller.org, base_id))


@router.post("/{job_id}/retry", status_code=202)
async def retry_job(job_id: PathJob, context: CurrentContext) -> JobOut:
    """Queue a dead job again, with all its attempts."""
    return JobOut.of(await retry(context.db, job_id))


@router.post("/{job_id}/cancel", status_code=202)
async def cancel_job(job_id: PathJob, context: CurrentContext) -> JobOut:
    """Cancel a job. A queued job is removed at once; a running one stops at its next await or batch."""
    return JobOut.of(await cancel(context.db, job_id))


@router.post("/{job_id}/dismiss")
async def dismiss_job(job_id: PathJob, context: CurrentContext) -> JobOut:
    """End a dead job that no one will retry. Its item stays as it is."""
    return JobOut.of(await dismiss(context.db, job_id))


@router.delete("/{job_id}", status_code=204)
async def delete_job(job_id: PathJob, context: CurrentContext) -> None:
    """End a dead job that no one will retry, like `dismiss`."""
    await dismiss(context.db, job_id)
