"""The REST application, put together."""

from collections.abc import Callable

from fastapi import Depends, FastAPI
from fastapi.telemetry import TelemetryConfig
from starlette.types import ASGIApp

from gristmill import __version__
from gristmill.doors.api import (
    assets,
    bases,
    connectors,
    content,
    events,
    files,
    health,
    item,
    items,
    jobs,
    keys,
    machine,
    metrics,
    problems,
    queue,
    schema,
    search,
    tree,
    webhooks,
)
from gristmill.doors.api.authorise import authorise
from gristmill.doors.api.caller import is_loopback
from gristmill.doors.api.context import Context
from gristmill.doors.api.entrance import Entrance
from gristmill.doors.api.gate import Gate

# They are tried in turn: what is asked for most often comes first.
_DOORS = (
    item.router,
    items.router,
    tree.router,
    search.router,
    bases.router,
    files.router,
    content.router,
    assets.router,
    jobs.router,
    events.router,
    webhooks.router,
    connectors.router,
    connectors.runs,
    connectors.kinds,
    keys.router,
    queue.router,
    machine.router,
)
_UNTOLD: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False, "operation_spans": False}


def create(context: Context, pages: Callable[[ASGIApp], ASGIApp] | None = None) -> FastAPI:
    """The application that serves `context`; `pages` answer browsers before anybody is asked for a key."""
    app = _bare(context)
    for door in _DOORS:
        app.include_router(door, prefix="/api")
    app.include_router(health.router)
    app.include_router(health.probes)
    app.include_router(metrics.router)
    app.add_api_route("/", _welcome, include_in_schema=False)
    return _guarded(app, context, pages)


def create_probes(context: Context) -> FastAPI:
    """What a worker answers: whether it lives and is ready, and what it counts. The same rules hold."""
    app = _bare(context)
    app.include_router(health.probes)
    app.include_router(metrics.router)
    return _guarded(app, context, None)


def _bare(context: Context) -> FastAPI:
    # The interactive pages of the framework load scripts from elsewhere: the schema is served, they are not.
    app = FastAPI(
        title="Gristmill",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        dependencies=[Depends(authorise)],
        telemetry=_UNTOLD,  # traces are ours: gristmill/traces.py
    )
    app.state.context = context
    schema.install(app)
    problems.register(app)
    return app


def _guarded(app: FastAPI, context: Context, pages: Callable[[ASGIApp], ASGIApp] | None) -> FastAPI:
    app.add_middleware(
        Entrance, db=context.db, settings=context.settings, vault=context.vault, meters=context.meters
    )
    if pages is not None:
        app.add_middleware(pages)
    # Beyond loopback nobody is trusted for where they are, and a host name proves nothing.
    names = context.settings.allowed_hosts or (None if not is_loopback(context.settings.host) else [])
    app.add_middleware(
        Gate,
        hosts=None if names is None else ["localhost", context.settings.host, *names],
        max_body=context.settings.max_request_mb * 2**20,
        max_upload=context.settings.max_upload_mb * 2**20,
    )
    return app


async def _welcome() -> dict[str, str]:
    return {"name": "Gristmill", "version": __version__, "api": "/api", "schema": "/openapi.json"}
