"""Whether the server lives, is ready, and keeps its promises."""

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from gristmill import __version__
from gristmill.db import Unavailable
from gristmill.doors.api.context import InContext
from gristmill.doors.api.wire import Wire
from gristmill.operations import health

router = APIRouter(tags=["health"])


class Violation(Wire):
    """A promise that is broken for one thing."""

    promise: str
    subject: str
    detail: str
    advice: str


class Invariants(Wire):
    """What is broken: nothing, in a healthy system."""

    violations: list[Violation]


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """The process lives."""
    return {"status": "ok", "version": __version__}


@router.get("/readyz")
async def readyz(context: InContext) -> JSONResponse:
    """The server can take requests; else 503, with the reason."""
    try:
        async with context.db.connection() as tx:
            await tx.execute("select 1")
    except Unavailable as error:
        return JSONResponse({"status": "unavailable", "reasons": [error.message]}, 503)
    return JSONResponse({"status": "ready", "reasons": []})


@router.get("/api/health/invariants")
async def invariants(context: InContext) -> Invariants:
    """Check the promises against the database."""
    async with context.db.connection() as tx:
        found = await health.violations(tx)
    return Invariants(violations=[Violation.model_validate(vars(violation)) for violation in found])
