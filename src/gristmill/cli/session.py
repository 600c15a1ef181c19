"""The command's way to a Gristmill: the server on the data dir when one runs, else one opened here.

Both are spoken to by HTTP: over the socket, or straight into the application in this process. So every
command has one way of working, and is refused in the same words.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from gristmill.cli import presence
from gristmill.errors import GristmillError
from gristmill.settings import Settings

_TIMEOUT = httpx.Timeout(120, connect=5)


class Refused(GristmillError):
    """The server refused, in its own words."""

    code = "refused"


@dataclass(frozen=True)
class Session:
    """An open way; `remote` tells whether a server runs the jobs."""

    http: httpx.AsyncClient
    remote: bool

    async def call(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        """The answer's JSON, or `Refused` with what the problem document says."""
        try:
            response = await self.http.request(method, f"/api{path}", **options)
        except httpx.HTTPError as error:
            raise Refused(
                f"The server does not answer: {error or type(error).__name__}", code="no_answer"
            ) from error
        try:
            body: dict[str, Any] = response.json()
            if response.is_success:
                return body
            told, code = body["detail"], body["code"]
        except (ValueError, KeyError, TypeError):
            raise Refused(
                f"What answers at {self.http.base_url} is not Gristmill ({response.status_code}).",
                code="no_answer",
            ) from None
        raise Refused(told, code=code)


@asynccontextmanager
async def connect(settings: Settings, *, work: bool) -> AsyncGenerator[Session]:
    """A session; with `work`, jobs are run here when no server does."""
    url = presence.find(settings.data_dir)
    if url is not None:
        key = settings.api_key
        headers = {} if key is None else {"Authorization": f"Bearer {key.get_secret_value()}"}
        async with httpx.AsyncClient(
            base_url=url, timeout=_TIMEOUT, trust_env=False, headers=headers
        ) as http:
            yield Session(http, remote=True)
        return
    from gristmill import app  # the whole of Gristmill: not for a command that only speaks to a server

    # Who opens the database itself needs no key: nothing is bound, and nobody else can come in.
    here = settings.model_copy(update={"host": "127.0.0.1", "require_key": False})
    async with app.running(here, work=work) as mill:
        transport = httpx.ASGITransport(app=mill.api, raise_app_exceptions=False)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://localhost", timeout=_TIMEOUT
        ) as http:
            yield Session(http, remote=False)
