"""Secrets that a tool replaces when they are used: one worker at a time renews them, across all processes.

A refresh token can be good for one use: the response has the next one. Some tools revoke a whole sign-in when an old one is used
again. So a run, a permission sync and a check of one connector must not renew at the same time. Whoever renews has a lease: a row with a
time limit, no lock, and no transaction while the tool answers.

    begin     one transaction: the lease. Then the secret is read as it is stored now. Another worker's lease is waited for
    store     one transaction under the lock of the connector's row: the new secret replaces the one that was used. It is committed
              before the access token that came with it is used
    end       the lease is given back

    killed before the request, or while the tool answers    others wait until the lease has expired, a minute at most,
                                                            and use the stored secret
    killed between the response and the commit              the new secret is lost. The stored one works if the tool accepts it once
                                                            more (Microsoft does, Google never replaces it); else the person signs in again
    killed after the commit                                 the next worker reads the new one
    cancelled, or the server stops, meanwhile               the renewal is finished first (access_tokens.py)
    the database is away when the response comes            the commit is tried for half a minute
    paused beyond the lease                                 another worker may use the same secret. Whoever stores last finds another
                                                            one stored than it has used, and leaves it
    a person signs in, or enters credentials, meanwhile     theirs stay
    the sealing key is replaced meanwhile                   nothing is lost: secrets are compared, not their sealed forms
"""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg

from gristmill import clock, faults, secret_references
from gristmill.connectors.json_values import as_dict
from gristmill.connectors.model import ConnectorId
from gristmill.connectors.sign_in import SecretKeeper, SecretRenewal
from gristmill.connectors.store import queries
from gristmill.db import Database, DatabaseUnavailable, without_commit_hook
from gristmill.errors import SourceGone, Transient
from gristmill.vault import Vault

LEASE = timedelta(seconds=60)  # a request for 20 seconds at most, and half a minute to store its response
_POLL = timedelta(milliseconds=200)
_STORE_TRIES = 10
_STORE_PAUSE = timedelta(seconds=3)


def credentials_purpose(connector_id: ConnectorId) -> str:
    """What a connector's credentials are encrypted for: they can't be decrypted as anything else."""
    return f"connector:{connector_id}"


class StoredSecrets(SecretKeeper):
    """The credentials of a connector in the database."""

    def __init__(self, db: Database, vault: Vault, connector_id: ConnectorId) -> None:
        self._db, self._vault, self._id = db, vault, connector_id

    @asynccontextmanager
    async def renew(self, field: str) -> AsyncGenerator[SecretRenewal]:
        """Hold the lease on a secret until the end of the block."""
        lease = uuid4()
        await self._begin(lease)
        try:
            async with self._db.connection() as tx:
                stored = self._open(await queries.values(tx, "credentials", id=self._id)).get(field)
            resolved = as_dict(json.loads(await secret_references.resolve_json(json.dumps({field: stored}))))
            yield _StoredRenewal(self, field, stored, str(resolved[field] or ""))
        finally:
            with without_commit_hook():
                async with self._db.transaction() as tx:
                    await queries.run(tx, "end_renewal", connector=self._id, lease=lease)

    async def replace(self, field: str, used: str | None, secret: str) -> None:
        """Store a new secret in place of the one that was used, unless that one is no longer stored. The new one exists nowhere
        else, so this is tried again while the database is away."""
        for left in reversed(range(_STORE_TRIES)):
            try:
                await self._replace(field, used, secret)
            except (
                DatabaseUnavailable,
                psycopg.Error,
            ):  # the latter: the sealing key was replaced at this moment
                if not left:
                    raise
                await clock.pause(_STORE_PAUSE)
            else:
                return

    async def _begin(self, lease: UUID) -> None:
        tries = int(LEASE / _POLL) + 5
        for _ in range(tries):
            with without_commit_hook():
                async with self._db.transaction() as tx:
                    leases = await queries.values(
                        tx, "begin_renewal", connector=self._id, lease=lease, duration=LEASE
                    )
                    is_deleted = not leases and not await queries.values(tx, "credentials", id=self._id)
            if leases:
                return
            if is_deleted:
                raise _deletion_error()
            await faults.point("renewal.waiting")
            await clock.pause(_POLL)
        raise Transient(
            "Another worker has been renewing this connector's token for more than a minute. Try again in a minute.",
            code="connector_unavailable",
        )

    async def _replace(self, field: str, used: str | None, secret: str) -> None:
        with without_commit_hook():
            async with self._db.transaction() as tx:
                credentials = self._open(await queries.values(tx, "lock_credentials", id=self._id))
                if credentials.get(field) != used:
                    return
                # What is stored may be references to secrets: the other fields stay as they are.
                renewed = json.dumps({**credentials, field: secret})
                sealed = self._vault.seal(renewed, credentials_purpose(self._id))
                await queries.run(tx, "replace_sealed_credentials", id=self._id, sealed=sealed)
                await faults.point("renewal.before_commit")
        await faults.point("renewal.stored")

    def _open(self, rows: list[bytes]) -> dict[str, Any]:
        if not rows:
            raise _deletion_error()
        return as_dict(json.loads(self._vault.open(rows[0], credentials_purpose(self._id))))


class _StoredRenewal(SecretRenewal):
    """A renewal under way; `stored` is the secret in its stored form, which may be a reference."""

    def __init__(self, keeper: StoredSecrets, field: str, stored: str | None, secret: str) -> None:
        super().__init__(secret)
        self._keeper, self._field, self._stored = keeper, field, stored

    async def store(self, secret: str) -> None:
        """Keep the secret that replaces the one that was used."""
        await faults.point("renewal.answered")
        await self._keeper.replace(self._field, self._stored, secret)


def _deletion_error() -> SourceGone:
    return SourceGone("The connector was deleted.")
