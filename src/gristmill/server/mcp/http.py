"""`/mcp`: the tools over streamable HTTP.

A request without a caller gets 401. The tools send requests to the REST API in this process, with the credentials of the MCP
request (and the person that it is made on behalf of), so that the API makes every access decision. No session is kept between requests.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from contextvars import ContextVar

import httpx
from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from gristmill import clock
from gristmill.client import Client
from gristmill.server.api import caller as callers
from gristmill.server.api.context import ON_BEHALF, missing_key_error
from gristmill.server.api.problems import problem_for
from gristmill.server.mcp.tools import create

_FORWARDED_HEADERS = ("authorization", "cookie", "origin", ON_BEHALF.lower())
_LOCAL_CLIENT = ("127.0.0.1", 0)
_request_headers: ContextVar[dict[str, str]] = ContextVar("headers")
_request_client: ContextVar[tuple[str, int]] = ContextVar("client", default=_LOCAL_CLIENT)


@asynccontextmanager
async def mount(api: FastAPI) -> AsyncGenerator[None]:
    """Serve `/mcp` from `api` within this context."""

    def new_client() -> Client:
        transport = httpx.ASGITransport(app=api, raise_app_exceptions=False, client=_request_client.get())
        return Client("http://localhost", headers=_request_headers.get(), transport=transport, retries=1)

    server = create(new_client)
    server.streamable_http_app()  # creates the session manager
    manager = server.session_manager
    ready, stop = asyncio.Event(), asyncio.Event()

    class Endpoint:
        """Serves `/mcp`."""

        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            if callers.current_caller(scope) is None:
                await problem_for(missing_key_error(), scope)(scope, receive, send)
                return
            headers = Headers(scope=scope)
            _request_headers.set({name: headers[name] for name in _FORWARDED_HEADERS if name in headers})
            _request_client.set(scope.get("client") or _LOCAL_CLIENT)  # for the audit log
            await manager.handle_request(scope, receive, send)

    async def run_session_manager() -> None:
        # In its own task: anyio requires that the task that enters a cancel scope also leaves it.
        async with manager.run():
            ready.set()
            await stop.wait()

    api.router.routes.append(Route("/mcp", Endpoint()))
    task = asyncio.create_task(run_session_manager(), name="mcp")
    await ready.wait()
    try:
        yield
    finally:
        stop.set()
        await clock.cancel_tasks([task])
