"""`/mcp` and `/mcp/{base}`: the tools over streamable HTTP, for all bases or for one.

A request without a caller gets 401. The tools send requests to the REST API in this process, with the credentials of the MCP
request (and the person that it is made on behalf of), so that the API makes every access decision. No session is kept between requests.
"""

import asyncio
import importlib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from contextvars import Context, ContextVar
from typing import TYPE_CHECKING

import httpx
from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from gristmill import clock
from gristmill.client import AsyncClient
from gristmill.server.api import caller as callers
from gristmill.server.api.context import ON_BEHALF, missing_key_error
from gristmill.server.api.problems import problem_for

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

_FORWARDED_HEADERS = ("authorization", "cookie", "origin", ON_BEHALF.lower())
_LOCAL_CLIENT = ("127.0.0.1", 0)
_request_headers: ContextVar[dict[str, str]] = ContextVar("headers")
_request_client: ContextVar[tuple[str, int]] = ContextVar("client", default=_LOCAL_CLIENT)
_request_base: ContextVar[str] = ContextVar("base")


@asynccontextmanager
async def mount(api: FastAPI) -> AsyncGenerator[None]:
    """Serve `/mcp` and `/mcp/{base}` from `api` within this context."""
    all_bases, one_base = _Endpoint(api), _Endpoint(api, current_base=_request_base.get)
    api.router.routes.append(Route("/mcp", all_bases))
    api.router.routes.append(Route("/mcp/{base:path}", one_base))
    try:
        yield
    finally:
        await all_bases.stop()
        await one_base.stop()


class _Endpoint:
    """Serves one of both. The first request loads the protocol's library, which would take a fifth of a server's start."""

    def __init__(self, api: FastAPI, current_base: Callable[[], str] | None = None) -> None:
        self._api, self._current_base = api, current_base
        self._manager: StreamableHTTPSessionManager | None = None
        self._starting = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if callers.current_caller(scope) is None:
            await problem_for(missing_key_error(), scope)(scope, receive, send)
            return
        headers = Headers(scope=scope)
        _request_headers.set({name: headers[name] for name in _FORWARDED_HEADERS if name in headers})
        _request_client.set(scope.get("client") or _LOCAL_CLIENT)  # for the audit log
        _request_base.set(scope["path_params"].get("base", ""))
        async with self._starting:
            manager = self._manager or await self._start()
        await manager.handle_request(scope, receive, send)

    async def stop(self) -> None:
        """End the session manager."""
        if self._task is not None:
            await clock.cancel_tasks([self._task])

    async def _start(self) -> "StreamableHTTPSessionManager":
        await self.stop()  # what a request that was cancelled here left
        module = await asyncio.to_thread(importlib.import_module, "gristmill.server.mcp.agent_server")
        server = module.create(self._new_client, self._current_base)
        server.streamable_http_app()  # creates the session manager
        manager, ready = server.session_manager, asyncio.Event()

        async def run() -> None:
            # In its own task: anyio requires that the task that enters a cancel scope also leaves it.
            async with manager.run():
                ready.set()
                await asyncio.Event().wait()

        self._task = asyncio.create_task(run(), name="mcp", context=Context())
        await ready.wait()
        self._manager = manager
        return manager

    def _new_client(self) -> AsyncClient:
        transport = httpx.ASGITransport(
            app=self._api, raise_app_exceptions=False, client=_request_client.get()
        )
        return AsyncClient("http://localhost", headers=_request_headers.get(), transport=transport, retries=1)
