"""The REST application, put together."""

from collections.abc import Callable

from fastapi import Depends, FastAPI
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


def create(context: Context, pages: Callable[[ASGIApp], ASGIApp] | None = None) -> FastAPI:
    """The application that serves `context`; `pages` answer browsers before anybody is asked for a key."""
    # The interactive pages of the framework load scripts from elsewhere: the schema is served, they are not.
    app = FastAPI(
        title="Gristmill",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        dependencies=[Depends(authorise)],
    )
    app.state.context = context
    schema.install(app)
    problems.register(app)
    for door in (
        bases,
        items,
        tree,
        files,
        item,
        content,
        assets,
        search,
        jobs,
        events,
        webhooks,
        connectors,
        keys,
        queue,
        machine,
    ):
        app.include_router(door.router, prefix="/api")
    app.include_router(connectors.runs, prefix="/api")
    app.include_router(connectors.kinds, prefix="/api")
    app.include_router(health.router)
    app.include_router(metrics.router)
    app.add_api_route("/", _welcome, include_in_schema=False)
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
