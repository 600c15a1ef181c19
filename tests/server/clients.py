"""Organisations, keys and HTTP clients with these keys."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx

from gristmill import app, identity
from gristmill.db import Database
from gristmill.identity import ApiKey, NewApiKey, OrgId, Role


async def new_organisation(db: Database, name: str) -> OrgId:
    async with db.transaction() as tx:
        return (await identity.ensure_organisation(tx, name)).id


async def new_key(
    db: Database, org: OrgId, role: Role, email: str | None = None, teams: tuple[str, ...] = ()
) -> tuple[ApiKey, str]:
    async with db.transaction() as tx:
        return await identity.insert_key(tx, org, NewApiKey(f"{role}'s", role, email, teams))


@asynccontextmanager
async def client_with_key(mill: app.Gristmill, secret: str | None) -> AsyncGenerator[httpx.AsyncClient]:
    """A local client with a key, or a remote client without one."""
    transport = httpx.ASGITransport(
        app=mill.api,
        raise_app_exceptions=False,
        client=("203.0.113.7", 1) if secret is None else ("127.0.0.1", 1),
    )
    headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
        yield client
