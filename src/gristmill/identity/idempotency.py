"""Requests that are done once, however often they are sent: those with an `Idempotency-Key`.

    () ── claim ──▶ running ── done, in the transaction that does it ──▶ done ── answer ──▶ answered
                      │                                                    │
                      └── nothing was done: forget ──▶ ()                  └── killed here: it was done, nobody
                                                                               knows with what answer

A process that is killed while `running` has committed nothing: after `PATIENCE` the same request may claim it again. If the
first one was only slow, its transaction finds another's token, and is rolled back. So it is never done twice. One that
was `done` is taken for `running` for ten seconds more, in which whoever did it writes its answer.
"""

from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID, uuid4

from gristmill.db import Tx
from gristmill.errors import Conflict
from gristmill.identity.organisation import OrgId
from gristmill.identity.store import queries


@dataclass(frozen=True)
class RequestKey:
    """A request by what it is known by."""

    org: OrgId
    caller: str
    key: str

    @property
    def parameters(self) -> dict[str, Any]:
        """As statements take it."""
        return {"org": self.org, "caller": self.caller, "key": self.key}


@dataclass(frozen=True)
class EarlierRequest:
    """What is known of a request that came before."""

    fingerprint: bytes
    state: Literal["running", "done", "answered"]
    status: int | None
    answer: bytes | None


async def claim(tx: Tx, request_key: RequestKey, fingerprint: bytes) -> UUID | EarlierRequest:
    """A token to do it with, or what is known of the one that came before."""
    token = uuid4()
    await queries.run(tx, "sweep_once")
    while True:
        if await queries.values(
            tx, "claim_once", **request_key.parameters, token=token, fingerprint=fingerprint
        ):
            return token
        earlier = await queries.maybe(tx, EarlierRequest, "once", **request_key.parameters)
        if earlier is not None:  # else it was given up at this moment
            return earlier


async def mark_done(tx: Tx, request_key: RequestKey, token: UUID) -> None:
    """running → done, in the transaction that does it; `Conflict` rolls it back when another took over."""
    if not await queries.values(tx, "done_once", **request_key.parameters, token=token):
        raise Conflict(
            "The same request was sent again meanwhile, and is done by that one.",
            code="idempotency_taken_over",
        )


async def save_response(
    tx: Tx, request_key: RequestKey, token: UUID, status: int, sealed_response: bytes
) -> None:
    """→ answered: from now on the answer, which the caller has sealed, is given again."""
    await queries.run(
        tx, "answer_once", **request_key.parameters, token=token, status=status, answer=sealed_response
    )


async def release(tx: Tx, request_key: RequestKey, token: UUID) -> None:
    """running → (): nothing was done, and it may be tried again. What was done is not forgotten."""
    await queries.run(tx, "forget_once", **request_key.parameters, token=token)
