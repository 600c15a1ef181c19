"""The REST application, put together."""

from fastapi import Depends, FastAPI

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
    problems,
    search,
    webhooks,
)
from gristmill.doors.api.context import Context, reads_only
from gristmill.doors.api.gate import Gate


def create(context: Context) -> FastAPI:
    """The application that serves `context`."""
    # The interactive pages of the framework load scripts from elsewhere: the schema is served, they are not.
    app = FastAPI(
        title="Gristmill",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        dependencies=[Depends(reads_only)],
    )
    app.state.context = context
    problems.register(app)
    for door in (bases, items, files, item, content, assets, search, jobs, events, webhooks, connectors):
        app.include_router(door.router, prefix="/api")
    app.include_router(connectors.runs, prefix="/api")
    app.include_router(health.router)
    app.add_api_route("/", _welcome, include_in_schema=False)
    app.add_middleware(
        Gate,
        hosts=["localhost", context.settings.host],
        max_body=context.settings.max_request_mb * 2**20,
        max_upload=context.settings.max_upload_mb * 2**20,
    )
    return app


async def _welcome() -> dict[str, str]:
    return {"name": "Gristmill", "version": __version__, "api": "/api", "schema": "/openapi.json"}
