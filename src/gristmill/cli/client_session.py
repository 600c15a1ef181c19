"""Connects commands to a Gristmill: the server that runs on the data dir, else one in this process.

Both are used through the HTTP API, over a socket or directly in the process, so that commands work the same way and
report the same errors.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from gristmill.cli import serve_lock
from gristmill.cli.imports import pause_garbage_collector
from gristmill.client import Client, Refused
from gristmill.settings import Settings

__all__ = ["ClientSession", "Refused", "connect"]


@dataclass(frozen=True)
class ClientSession:
    """A client of a Gristmill; `is_remote` says whether it is a running server."""

    client: Client
    is_remote: bool
    new_client: Callable[[], Client]  # creates another client of the same Gristmill

    async def call(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        """The answer's JSON, or `Refused` with what the problem document says."""
        return await self.client.call(method, path, **options)


@asynccontextmanager
async def connect(settings: Settings, *, work: bool) -> AsyncGenerator[ClientSession]:
    """Open a session; with `work` and without a server, this process runs the jobs."""
    url = serve_lock.find_server_url(settings.data_dir)
    if url is not None:
        key = None if settings.api_key is None else settings.api_key.get_secret_value()
        async with Client(url, key) as client:
            yield ClientSession(client, is_remote=True, new_client=lambda: Client(url, key))
        return
    with pause_garbage_collector():
        from gristmill.cli.open_gristmill import open_gristmill  # not needed with a running server

    # No key needed: this process opens the database itself and listens on no port.
    local_settings = settings.model_copy(update={"host": "127.0.0.1", "require_key": False})
    async with open_gristmill(local_settings, work=work) as mill:
        transport = httpx.ASGITransport(app=mill.api, raise_app_exceptions=False)
        async with Client("http://localhost", transport=transport) as client:
            yield ClientSession(client, False, lambda: Client("http://localhost", transport=transport))
