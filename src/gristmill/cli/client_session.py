"""Connects commands to a Gristmill: the server at `url`, else the one that runs on the data dir, else one in this process.

All are used through the HTTP API, over a socket or directly in the process, so that commands work the same way and
report the same errors.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from gristmill.cli import serve_lock
from gristmill.cli.imports import pause_garbage_collector
from gristmill.client import AsyncClient, Refused
from gristmill.settings import Settings

__all__ = ["ClientSession", "Refused", "connect"]


@dataclass(frozen=True)
class ClientSession:
    """A client of a Gristmill; `is_remote` says whether it is a running server, `has_our_files` whether it reads the files
    of this machine."""

    client: AsyncClient
    is_remote: bool
    new_client: Callable[[], AsyncClient]  # creates another client of the same Gristmill
    has_our_files: bool = True

    async def call(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        """The answer's JSON, or `Refused` with what the problem document says."""
        return await self.client.call(method, path, **options)


@asynccontextmanager
async def connect(settings: Settings, *, work: bool) -> AsyncGenerator[ClientSession]:
    """Open a session; with `work` and without a server, this process runs the jobs."""
    url = settings.url or serve_lock.find_server_url(settings.data_dir)
    if url is not None:
        key = None if settings.api_key is None else settings.api_key.get_secret_value()
        async with AsyncClient(url, key) as client:
            yield ClientSession(
                client,
                is_remote=True,
                new_client=lambda: AsyncClient(url, key),
                has_our_files=settings.url is None,
            )
        return
    with pause_garbage_collector():
        from gristmill.cli.open_gristmill import open_gristmill  # not needed with a running server

    # No key needed: this process opens the database itself and listens on no port.
    local_settings = settings.model_copy(update={"host": "127.0.0.1", "require_key": False})
    async with open_gristmill(local_settings, work=work) as mill:
        transport = httpx.ASGITransport(app=mill.api, raise_app_exceptions=False)
        async with AsyncClient("http://localhost", transport=transport) as client:
            yield ClientSession(client, False, lambda: AsyncClient("http://localhost", transport=transport))
