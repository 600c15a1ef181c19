"""Idempotency: a request with an `Idempotency-Key` is carried out once, however often it is sent.

    () ── claim ──▶ running ── mark_done, in the request's own transaction ──▶ done ── save_response ──▶ answered
                      │                                                         │
                      └── nothing was committed: release ──▶ ()                 └── killed here: it is done, but its
                                                                                    response is lost

The process renews a claim every `RENEW_INTERVAL` while the request runs. A process that is killed then has committed nothing, and
`CLAIM_EXPIRY` later the same request may claim the key again. If the first process was only frozen, its transaction finds another
token and is rolled back. So a request is never carried out twice.
For ten seconds a `done` request still counts as `running`, so that its process can save the response.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal
from uuid import UUID, uuid4

from gristmill.db import Tx
from gristmill.errors import Conflict
from gristmill.identity.organisation import OrgId
from gristmill.identity.store import queries
from gristmill.vault import ResealedRows, Vault

RENEW_INTERVAL = timedelta(seconds=4)
CLAIM_EXPIRY = timedelta(seconds=15)


@dataclass(frozen=True)
class RequestKey:
    """What identifies a request."""

    org: OrgId
    caller: str
    key: str

    @property
    def vault_context(self) -> str:
        """What the response is encrypted for."""
        return f"{self.org}:{self.caller}:{self.key}"

    @property
    def parameters(self) -> dict[str, Any]:
        """The fields as parameters of statements."""
        return {"org": self.org, "caller": self.caller, "key": self.key}


@dataclass(frozen=True)
class EarlierRequest:
    """An earlier request with the same key."""

    fingerprint: bytes
    state: Literal["running", "done", "answered"]
    status: int | None
    answer: bytes | None


async def claim(tx: Tx, request_key: RequestKey, fingerprint: bytes) -> UUID | EarlierRequest:
    """A token for carrying out the request, or the earlier request with the same key."""
    token = uuid4()
    await queries.run(tx, "sweep_requests")
    while True:
        if await queries.values(
            tx,
            "claim_request",
            **request_key.parameters,
            token=token,
            fingerprint=fingerprint,
            expiry=CLAIM_EXPIRY,
        ):
            return token
        earlier = await queries.maybe(tx, EarlierRequest, "find_request", **request_key.parameters)
        if earlier is not None:  # else it was released at this moment
            return earlier


async def renew(tx: Tx, request_key: RequestKey, token: UUID) -> None:
    """The request is still running: no other process may claim its key."""
    await queries.run(tx, "renew_request", **request_key.parameters, token=token)


async def mark_done(tx: Tx, request_key: RequestKey, token: UUID) -> None:
    """running → done, in the request's own transaction; `Conflict` rolls that back when another process took over."""
    if not await queries.values(tx, "mark_request_done", **request_key.parameters, token=token):
        raise Conflict(
            "The same request was sent again and is being processed there. Wait for its response.",
            code="idempotency_taken_over",
        )


async def save_response(
    tx: Tx, request_key: RequestKey, token: UUID, status: int, sealed_response: bytes
) -> None:
    """done → answered: repeats of the request get this response, which the caller has encrypted."""
    await queries.run(
        tx, "save_response", **request_key.parameters, token=token, status=status, answer=sealed_response
    )


async def release(tx: Tx, request_key: RequestKey, token: UUID) -> None:
    """running → (): nothing was committed, so the request may be sent again. A done request stays."""
    await queries.run(tx, "release_request", **request_key.parameters, token=token)


@dataclass(frozen=True)
class _SealedResponse:
    org: OrgId
    caller: str
    key: str
    sealed: bytes


async def reseal_responses(tx: Tx, vault: Vault, after: RequestKey | None, limit: int) -> ResealedRows:
    """Seal the next responses by the vault's current key that another one sealed."""
    rows = await queries.many(
        tx,
        _SealedResponse,
        "old_sealed_answers",
        prefix=vault.prefix,
        after_org=after and after.org,
        after_caller=after and after.caller,
        after_key=after and after.key,
        limit=limit,
    )
    unreadable = 0
    request_key = None
    for row in rows:
        request_key = RequestKey(row.org, row.caller, row.key)
        sealed = vault.reseal(row.sealed, request_key.vault_context)
        if sealed is None:
            unreadable += 1
        else:
            await queries.run(tx, "replace_sealed_answer", **request_key.parameters, sealed=sealed)
    return ResealedRows(request_key, len(rows), unreadable)
