"""Refresh tokens that work once: whoever renews one, everyone ends with a valid token, and none is used twice."""

import asyncio
import json
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from gristmill import app, faults
from gristmill.connectors import admin
from gristmill.connectors.model import ConnectorRow, NewConnector
from gristmill.connectors.registry import ConnectorRegistry, credentials_purpose
from gristmill.connectors.transport import CredentialsRejected
from gristmill.db import Database
from tests.connectors.fakes.drives import FakeGraph
from tests.connectors.fakes.tool import SECRET, serve_fake
from tests.connectors.harness import NEVER, vault_of
from tests.gristmill_process import environment, run_serve
from tests.sources.site import SiteRequest, SiteResponse
from tests.wait_until import reached


class StrictAuthority:
    """Replaces a refresh token each time it is used, and revokes all of them when one is used twice."""

    def __init__(self, tool: FakeGraph) -> None:
        self.tool, self.number, self.requests = tool, 1, 0
        self.is_revoked = False
        assert tool.site is not None
        tool.site.fallback = self.answer

    @property
    def valid_token(self) -> str:
        """The one that works now."""
        return f"refresh-{self.number}"

    def answer(self, request: SiteRequest) -> SiteResponse:
        """Issue a token; else answer as Graph."""
        if not request.path.endswith("/oauth2/v2.0/token"):
            return self.tool.answer(request)
        with self.tool.lock:
            self.requests += 1
            form = dict(httpx.QueryParams(request.body.decode()))
            if form["refresh_token"] != self.valid_token or self.is_revoked:
                self.is_revoked = True
                return self.tool.respond({"error": "invalid_grant"}, 400)
            self.number += 1
            token = {"access_token": SECRET, "expires_in": 3600, "refresh_token": self.valid_token}
            return self.tool.respond(token)

    def credentials(self) -> dict[str, str]:
        """A client that someone has signed in with."""
        return {"clientId": "app", "clientSecret": "s3cret", "refreshToken": "refresh-1"}


@pytest.fixture
def authority() -> Generator[StrictAuthority]:
    """The tool."""
    with serve_fake(FakeGraph()) as tool:
        yield StrictAuthority(tool)


@pytest.fixture
async def connector(mill: app.Gristmill, authority: StrictAuthority) -> ConnectorRow:
    """A connector that reads on behalf of a person."""
    new = NewConnector("c", "sharepoint", authority.tool.config(), authority.credentials(), NEVER, NEVER)
    return await admin.create(mill.db, vault_of(mill), mill.connectors, new)


@pytest.fixture
async def other_worker(mill: app.Gristmill, database_url: str) -> AsyncGenerator[ConnectorRegistry]:
    """The connectors of another process: it shares the database, and no memory."""
    db = Database(database_url)
    await db.open()
    yield ConnectorRegistry(vault_of(mill), mill.connectors.limits, db)
    await db.close()


async def stored_token(mill: app.Gristmill, connector: ConnectorRow) -> str:
    """The refresh token that is stored."""
    async with mill.db.connection() as tx:
        row = await admin.require_connector(tx, connector.id)
    return json.loads(vault_of(mill).open(row.credentials, credentials_purpose(row.id)))["refresh_token"]


async def test_two_workers_renew_one_after_the_other(
    mill: app.Gristmill, connector: ConnectorRow, authority: StrictAuthority, other_worker: ConnectorRegistry
) -> None:
    """Both were opened with the token of before; the second one waits, and uses the token that the first one stored."""
    with (
        faults.watch("renewal.answered", hold=True) as answered,
        faults.watch("renewal.waiting") as waiting,
    ):
        first = asyncio.ensure_future(mill.connectors.check(connector))
        await reached(answered)
        second = asyncio.ensure_future(other_worker.check(connector))
        await reached(waiting)
        assert (authority.requests, await stored_token(mill, connector)) == (1, "refresh-1")
        answered.hold.set()
        assert await asyncio.gather(first, second) == ["acme.example (2 drives)"] * 2
    assert (authority.requests, authority.is_revoked) == (2, False)
    assert await stored_token(mill, connector) == authority.valid_token


async def test_many_renewals_at_once_use_every_token_once(
    mill: app.Gristmill, connector: ConnectorRow, authority: StrictAuthority, other_worker: ConnectorRegistry
) -> None:
    registries = [mill.connectors, other_worker] * 4
    await asyncio.gather(*(registry.check(connector) for registry in registries))
    assert (authority.requests, authority.is_revoked) == (8, False)
    assert await stored_token(mill, connector) == authority.valid_token


async def test_a_cancelled_renewal_is_finished_first(
    mill: app.Gristmill, connector: ConnectorRow, authority: StrictAuthority
) -> None:
    """Its response can't be had again."""
    with faults.watch("renewal.answered", hold=True) as answered:
        task = asyncio.ensure_future(mill.connectors.check(connector))
        await reached(answered)
        task.cancel()
        answered.hold.set()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await stored_token(mill, connector) == authority.valid_token == "refresh-2"


async def test_a_worker_that_was_paused_beyond_its_lease_overwrites_nothing(
    mill: app.Gristmill, connector: ConnectorRow, authority: StrictAuthority, other_worker: ConnectorRegistry
) -> None:
    """Meanwhile a person has signed in again: their token stays. A sealing key that was replaced meanwhile is no reason to lose one."""
    vault = vault_of(mill)
    with faults.watch("renewal.answered", hold=True) as answered:
        paused = asyncio.ensure_future(mill.connectors.check(connector))
        await reached(answered)
        await expire_lease(mill)
        async with mill.db.transaction() as tx:  # the same credentials, sealed again
            sealed = vault.reseal(connector.credentials, credentials_purpose(connector.id))
            await tx.execute("update connector set credentials = %s", [sealed])
        answered.hold.set()
        await paused
    assert await stored_token(mill, connector) == "refresh-2"
    with faults.watch("renewal.answered", hold=True) as answered:
        paused = asyncio.ensure_future(other_worker.check(connector))
        await reached(answered)
        changes = json.loads(vault.open(connector.credentials, credentials_purpose(connector.id)))
        new = vault.seal(
            json.dumps({**changes, "refresh_token": "signed-in"}), credentials_purpose(connector.id)
        )
        async with mill.db.transaction() as tx:
            await tx.execute("update connector set credentials = %s", [new])
        answered.hold.set()
        await paused
    assert await stored_token(mill, connector) == "signed-in"


async def test_a_refused_token_counts_only_if_it_is_the_stored_one(
    mill: app.Gristmill, connector: ConnectorRow, authority: StrictAuthority, other_worker: ConnectorRegistry
) -> None:
    """A worker whose lease has expired stores its token late: the one that was refused meanwhile reads again."""
    with (
        faults.watch("renewal.answered", hold=True) as answered,
        faults.watch("renewal.refused", hold=True) as refused,
    ):
        slow = asyncio.ensure_future(mill.connectors.check(connector))
        await reached(answered)
        await expire_lease(mill)
        quick = asyncio.ensure_future(other_worker.check(connector))
        await reached(refused)
        authority.is_revoked = False  # a tool that only refuses
        answered.hold.set()
        await slow
        refused.hold.set()
        await quick
    assert await stored_token(mill, connector) == authority.valid_token
    authority.is_revoked = True
    with pytest.raises(CredentialsRejected):
        await mill.connectors.check(connector)


async def expire_lease(mill: app.Gristmill) -> None:
    """Let the time of every renewal under way be over."""
    async with mill.db.transaction() as tx:
        await tx.execute("update connector_renewal set expires_at = clock_now()")


@pytest.mark.crash
async def test_a_token_that_was_stored_survives_a_kill(
    database_url: str,
    tmp_path: Path,
    cache_dir: Path,
    quick_embedder: dict[str, str],
    authority: StrictAuthority,
) -> None:
    """kill -9 right after the commit, long before the connector would be closed."""
    log = tmp_path / "log"
    env = environment(tmp_path / "data", cache_dir, database_url=database_url, **quick_embedder)
    body: dict[str, Any] = {
        "name": "c",
        "type": "sharepoint",
        "config": authority.tool.config(),
        "credentials": authority.credentials(),
        "schedule": NEVER,
        "aclSchedule": NEVER,
    }
    with (
        run_serve({**env, "GRISTMILL_FAULTS": "renewal.stored=kill"}, log=log) as server,
        server.client() as client,
    ):
        connector = client.post("/api/connectors", json=body).json()["id"]
        with pytest.raises(httpx.HTTPError):
            client.post(f"/api/connectors/{connector}/check")
    assert authority.valid_token == "refresh-2"
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("update connector_renewal set expires_at = clock_now()")
    with run_serve(env, log=log) as server, server.client() as client:
        assert client.post(f"/api/connectors/{connector}/check").json()["ok"]
    assert not authority.is_revoked
