"""The REST application: routers, middleware, error handlers and the OpenAPI schema, assembled."""

from collections.abc import Callable, Sequence

from fastapi import Depends, FastAPI
from fastapi.telemetry import TelemetryConfig
from starlette.types import ASGIApp

from gristmill import __version__
from gristmill.server.api import openapi, problems
from gristmill.server.api.authorise import Authoriser, require_authorisation
from gristmill.server.api.caller import is_loopback
from gristmill.server.api.context import ApiContext
from gristmill.server.api.direct_reads import DirectReads
from gristmill.server.api.middleware.host_guard import BodyLimits, HostGuard
from gristmill.server.api.middleware.request_context import RequestContextMiddleware
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.routes import (
    ask,
    assets,
    audit,
    bases,
    capabilities,
    connector_push,
    connector_sign_in,
    connectors,
    content,
    embedder_swaps,
    embedders,
    estimates,
    events,
    files,
    freshness,
    health,
    items,
    jobs,
    keys,
    metrics,
    open_id,
    own_keys,
    pages,
    portable_bases,
    queue,
    rendered,
    retention,
    sample_base,
    saved_searches,
    search,
    sessions,
    shares,
    tending,
    tree,
    usage,
    users,
    webhooks,
)

# Routers are matched in this order: the most frequent requests come first.
_ROUTERS = (
    items.router,
    tree.router,
    tending.router,
    search.router,
    ask.router,
    bases.router,
    embedder_swaps.router,
    estimates.router,
    files.router,
    freshness.router,
    content.router,
    pages.router,
    rendered.router,
    assets.router,
    jobs.router,
    events.router,
    webhooks.router,
    connectors.router,
    connector_sign_in.router,
    connector_sign_in.callback,
    connectors.runs,
    connector_push.router,
    connectors.kinds,
    keys.router,
    audit.router,
    sessions.router,
    own_keys.router,
    open_id.router,
    users.router,
    shares.router,
    users.group_router,
    queue.router,
    queue.workers,
    embedders.router,
    saved_searches.router,
    usage.router,
    capabilities.router,
    portable_bases.router,
    retention.router,
    sample_base.router,
)
_NO_FRAMEWORK_TELEMETRY: TelemetryConfig = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
}


def create(
    context: ApiContext,
    pages: Callable[[ASGIApp], ASGIApp] | None = None,
    *,
    more_routers: Sequence[ApiRouter] = (),
    outermost: Callable[[ASGIApp], ASGIApp] | None = None,
) -> FastAPI:
    """The application of a server process. `pages` is middleware that serves the web UI, which needs no key; `outermost` sees
    every response as it leaves."""
    app = _new_application(context)
    _add_routes(app, *_ROUTERS, *more_routers, health.router, health.probes, metrics.router)
    app.add_api_route("/", _welcome, include_in_schema=False)
    app.add_middleware(DirectReads, context=context)  # the innermost: whoever comes here may read
    _add_middleware(app, context, pages)
    if outermost is not None:
        app.add_middleware(outermost)
    return app


def create_probes(context: ApiContext) -> FastAPI:
    """The application of a worker process: liveness, readiness and metrics, under the same access rules."""
    app = _new_application(context)
    _add_routes(app, health.probes, metrics.router)
    return _add_middleware(app, context, None)


def _add_routes(app: FastAPI, *routers: ApiRouter) -> None:
    for router in routers:
        app.router.routes.extend(router.routes)


def _new_application(context: ApiContext) -> FastAPI:
    # FastAPI's interactive docs load scripts from another host, so only the schema itself is served.
    app = FastAPI(
        title="Gristmill",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # a redirect would show anyone which paths exist
        dependencies=[Depends(require_authorisation)],
        telemetry=_NO_FRAMEWORK_TELEMETRY,  # Gristmill has its own traces: telemetry/traces.py
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
        authorise=Authoriser(context.db),
    )
    if pages is not None:
        app.add_middleware(pages)
    # Beyond loopback every request needs a key, so any host name is accepted unless the settings restrict it.
    allowed_hosts = context.settings.allowed_hosts or (None if not is_loopback(context.settings.host) else [])
    app.add_middleware(
        HostGuard,
        hosts=None if allowed_hosts is None else ["localhost", context.settings.host, *allowed_hosts],
        limits=BodyLimits(
            json_bytes=context.settings.max_request_mb * 2**20,
            upload_bytes=context.settings.max_upload_mb * 2**20,
        ),
    )
    return app


async def _welcome() -> dict[str, str]:
    return {"name": "Gristmill", "version": __version__, "api": "/api", "schema": "/openapi.json"}
