"""Whether the server lives, is ready, and keeps its promises."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from gristmill import __version__, jobs
from gristmill.operations import invariants as health
from gristmill.operations import reconcile
from gristmill.server.api.context import CurrentCaller, CurrentContext
from gristmill.server.api.schemas.common import ApiModel
from gristmill.work import Reconcile

router = APIRouter(tags=["health"])
probes = APIRouter(tags=["health"])  # what a worker answers too, on a port of its own


class Violation(ApiModel):
    """A promise that is broken for one thing."""

    promise: str
    subject: str
    detail: str
    advice: str


class Invariants(ApiModel):
    """What is broken: nothing, in a healthy system."""

    violations: list[Violation]


class ReadyCheck(ApiModel):
    """One thing that the process leans on; without what is `required` it answers nothing."""

    name: Literal["database", "schema", "workers", "embedder", "disk"]
    ok: bool
    why: str | None
    required: bool


class ReadyOut(ApiModel):
    """Whether the process can do its work; `degraded` is ready, with something that waits."""

    status: Literal["ready", "degraded", "unavailable"]
    reasons: list[str]
    checks: list[ReadyCheck]


class PassOut(ApiModel):
    """What the reconciler put right in its last pass; all null or empty before the first."""

    job_id: UUID | None
    finished_at: datetime | None
    thorough: bool | None
    damage: dict[str, int]
    unused: dict[str, int]


class AskedOut(ApiModel):
    """The job that makes the pass."""

    job_id: UUID


@probes.get("/healthz")
async def healthz() -> dict[str, str]:
    """The process lives."""
    return {"status": "ok", "version": __version__}


@probes.get("/readyz", response_model=ReadyOut, responses={503: {"model": ReadyOut}})
async def readyz(context: CurrentContext) -> JSONResponse:
    """Whether the process can do its work: 503 when something that it can't do without is missing, with the reasons."""
    checks = await context.readiness.run_checks()
    failing = [check for check in checks if not check.ok]
    is_unavailable = any(check.required for check in failing)
    body = ReadyOut(
        status="unavailable" if is_unavailable else "degraded" if failing else "ready",
        reasons=[f"{check.name}: {check.why}" for check in failing],
        checks=[ReadyCheck.model_validate(vars(check)) for check in checks],
    )
    return JSONResponse(body.model_dump(by_alias=True), 503 if is_unavailable else 200)


@router.get("/api/health/invariants")
async def invariants(context: CurrentContext, caller: CurrentCaller) -> Invariants:
    """Check the promises against the database, for what is the organisation's."""
    async with context.db.connection() as tx:
        violations = await health.find_violations(tx, caller.org)
    return Invariants(violations=[Violation.model_validate(vars(violation)) for violation in violations])


@router.get("/api/health/reconciler")
async def last_pass(context: CurrentContext) -> PassOut:
    """What the reconciler found in its last pass."""
    async with context.db.connection() as tx:
        passes = await jobs.find_jobs(tx, limit=1, kind=Reconcile.kind, state="done")
    if not passes:
        return PassOut(job_id=None, finished_at=None, thorough=None, damage={}, unused={})
    result = passes[0].result or {}
    return PassOut(
        job_id=passes[0].id,
        finished_at=passes[0].finished_at,
        thorough=result.get("thorough"),
        damage={name: result.get(name, 0) for name in reconcile.DAMAGE},
        unused={name: result.get(name, 0) for name in reconcile.UNUSED},
    )


@router.post("/api/health/reconciler", status_code=202)
async def make_pass(context: CurrentContext) -> AskedOut:
    """Ask for a thorough pass now."""
    return AskedOut(job_id=await reconcile.enqueue_thorough_pass(context.db))
