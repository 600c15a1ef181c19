"""`/healthz`, `/readyz` and `/api/health`: liveness, readiness, the invariants and the reconciler."""

from fastapi.responses import JSONResponse

from gristmill import __version__, jobs
from gristmill.integrity import invariants as invariant_checks
from gristmill.integrity import reconcile, storage
from gristmill.server.api.context import CurrentCaller, CurrentContext
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.schemas.health import (
    Invariants,
    ReadyCheck,
    ReadyOut,
    ReconcilerJobOut,
    ReconcilerPassOut,
    StorageOut,
    ViolationOut,
)
from gristmill.work import Reconcile

_LISTED_BASES = 500

router = ApiRouter(tag="health")
probes = ApiRouter(tag="health")  # worker processes serve these too, on their own port


@probes.get("/healthz")
async def healthz() -> dict[str, str]:
    """Report that the process is alive."""
    return {"status": "ok", "version": __version__}


@probes.get("/readyz", response_model=ReadyOut, responses={503: {"model": ReadyOut}})
async def readyz(context: CurrentContext) -> JSONResponse:
    """Report whether the process can work: 503 with the reasons when a required dependency is missing."""
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
    """Check the invariants of the organisation's data against the database."""
    async with context.db.connection() as tx:
        violations = await invariant_checks.find_violations(tx, caller.org)
    return Invariants(violations=[ViolationOut.model_validate(vars(violation)) for violation in violations])


@router.get("/api/storage")
async def show_storage(context: CurrentContext, caller: CurrentCaller) -> StorageOut:
    """Show how much room the installation and its bases take."""
    async with context.db.connection() as tx:
        totals = await storage.storage_totals(tx)
        bases = await storage.storage_of_bases(tx, caller.org, _LISTED_BASES)
    return StorageOut.model_validate(
        {**vars(totals), "version": __version__, "bases": [vars(base) for base in bases]}
    )


@router.get("/api/health/reconciler")
async def last_pass(context: CurrentContext) -> ReconcilerPassOut:
    """Show what the reconciler repaired in its last pass."""
    async with context.db.connection() as tx:
        passes = await jobs.find_jobs(tx, limit=1, kind=Reconcile.kind, state="done")
    if not passes:
        return ReconcilerPassOut(job_id=None, finished_at=None, thorough=None, damage={}, unused={})
    result = passes[0].result or {}
    return ReconcilerPassOut(
        job_id=passes[0].id,
        finished_at=passes[0].finished_at,
        thorough=result.get("thorough"),
        damage={name: result.get(name, 0) for name in reconcile.DAMAGE},
        unused={name: result.get(name, 0) for name in reconcile.UNUSED},
    )


@router.post("/api/health/reconciler", status_code=202)
async def make_pass(context: CurrentContext) -> ReconcilerJobOut:
    """Queue a thorough pass of the reconciler."""
    return ReconcilerJobOut(job_id=await reconcile.enqueue_thorough_pass(context.db))
