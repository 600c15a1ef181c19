"""The command's way to a Gristmill: the server on the data dir when one runs, else one opened here.

Both are spoken to by HTTP: over the socket, or straight into the application in this process. So every
command has one way of working, and is refused in the same words.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from gristmill.cli import serve_lock
from gristmill.client import Client, Refused
from gristmill.settings import Settings

__all__ = ["ClientSession", "Refused", "connect"]


@dataclass(frozen=True)
class ClientSession:
    """An open way; `remote` tells whether a server runs the jobs."""

    client: Client
    is_remote: bool
    new_client: Callable[[], Client]  # one more client of the same

    async def call(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        """The answer's JSON, or `Refused` with what the problem document says."""
        return await self.client.call(method, path, **options)


@asynccontextmanager
async def connect(settings: Settings, *, work: bool) -> AsyncGenerator[ClientSession]:
    """A session; with `work`, jobs are run here when no server does."""
    url = serve_lock.find_server_url(settings.data_dir)
    if url is not None:
        key = None if settings.api_key is None else settings.api_key.get_secret_value()
        async with Client(url, key) as client:
            yield ClientSession(client, is_remote=True, new_client=lambda: Client(url, key))
        return
    from gristmill import app  # the whole of Gristmill: not for a command that only speaks to a server

    # Who opens the database itself needs no key: nothing is bound, and nobody else can come in.
    local_settings = settings.model_copy(update={"host": "127.0.0.1", "require_key": False})
    async with app.gristmill(local_settings, work=work) as mill:
        transport = httpx.ASGITransport(app=mill.api, raise_app_exceptions=False)
        async with Client("http://localhost", transport=transport) as client:
            yield ClientSession(client, False, lambda: Client("http://localhost", transport=transport))
