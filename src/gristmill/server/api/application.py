"""The REST application, put together."""

from collections.abc import Callable

from fastapi import Depends, FastAPI
from fastapi.telemetry import TelemetryConfig
from starlette.types import ASGIApp

from gristmill import __version__
from gristmill.server.api import openapi, problems
from gristmill.server.api.authorise import authorise
from gristmill.server.api.caller import is_loopback
from gristmill.server.api.context import ApiContext
from gristmill.server.api.middleware.host_guard import HostGuard
from gristmill.server.api.middleware.request_context import RequestContextMiddleware
from gristmill.server.api.routes import (
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
    queue,
    search,
    tree,
    webhooks,
)

# They are tried in turn: what is asked for most often comes first.
_ROUTERS = (
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
_NO_FRAMEWORK_TELEMETRY: TelemetryConfig = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
}


def create(context: ApiContext, pages: Callable[[ASGIApp], ASGIApp] | None = None) -> FastAPI:
    """The application that serves `context`; `pages` answer browsers before anybody is asked for a key."""
    app = _new_application(context)
    for router in _ROUTERS:
        app.include_router(router, prefix="/api")
    app.include_router(health.router)
    app.include_router(health.probes)
    app.include_router(metrics.router)
    app.add_api_route("/", _welcome, include_in_schema=False)
    return _add_middleware(app, context, pages)


def create_probes(context: ApiContext) -> FastAPI:
    """What a worker answers: whether it lives and is ready, and what it counts. The same rules hold."""
    app = _new_application(context)
    app.include_router(health.probes)
    app.include_router(metrics.router)
    return _add_middleware(app, context, None)


def _new_application(context: ApiContext) -> FastAPI:
    # The interactive pages of the framework load scripts from elsewhere: the schema is served, they are not.
    app = FastAPI(
        title="Gristmill",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        dependencies=[Depends(authorise)],
        telemetry=_NO_FRAMEWORK_TELEMETRY,  # traces are ours: gristmill/traces.py
    )
    app.state.context = context
    openapi.install(app)
    problems.register(app)
    return app


def _add_middleware(app: FastAPI, context: ApiContext, pages: Callable[[ASGIApp], ASGIApp] | None) -> FastAPI:
    app.add_middleware(
        RequestContextMiddleware,
        db=context.db,
        settings=context.settings,
        vault=context.vault,
        metrics=context.metrics,
    )
    if pages is not None:
        app.add_middleware(pages)
    # Beyond loopback nobody is trusted for where they are, and a host name proves nothing.
    allowed_hosts = context.settings.allowed_hosts or (None if not is_loopback(context.settings.host) else [])
    app.add_middleware(
        HostGuard,
        hosts=None if allowed_hosts is None else ["localhost", context.settings.host, *allowed_hosts],
        max_body=context.settings.max_request_mb * 2**20,
        max_upload=context.settings.max_upload_mb * 2**20,
    )
    return app


async def _welcome() -> dict[str, str]:
    return {"name": "Gristmill", "version": __version__, "api": "/api", "schema": "/openapi.json"}
