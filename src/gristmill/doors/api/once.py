"""`Idempotency-Key`: a change that is sent again is not done again; its answer is.

    the key is …                          then
    new                                   it is done, and its answer kept for a day
    known, and answered                   that answer, with Idempotency-Replayed: true
    known, and under way                  409 idempotency_in_progress
    known, done, its answer lost          409 idempotency_answer_lost: the process was killed between the two
    known, for another request            422 idempotency_mismatch

That it is done is written in the transaction that does it (`keys/once.py`), so that a kill can't lead to a second time. A
request that was refused before anything was done (401, 403, 404, 409, 412, 429, 5xx) is forgotten, and may be sent again.
"""

import base64
import hashlib
import json
from collections.abc import MutableMapping
from typing import Any
from uuid import UUID

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gristmill import faults
from gristmill.db import Database, Tx, sealed
from gristmill.doors.api.caller import Caller
from gristmill.errors import Conflict, Invalid
from gristmill.keys import once
from gristmill.keys.once import Asked, Kept
from gristmill.vault import Vault

HEADER = "Idempotency-Key"
_LONGEST = 255
_KEPT_STATUSES = frozenset({200, 201, 202, 204, 422, 413})
_MOST_KEPT = 4 << 20  # bytes of an answer; a larger one is not kept


class Once:
    """Does a request once."""

    def __init__(self, app: ASGIApp, db: Database, vault: Vault) -> None:
        self._app, self._db, self._vault = app, db, vault

    async def __call__(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve it, or give the answer again."""
        headers = Headers(scope=scope)
        asked = Asked(caller.org, caller.name, _checked(headers[HEADER]))
        body, receive = await _taken(headers, receive)
        async with self._db.transaction() as tx:
            claimed = await once.claim(tx, asked, _fingerprint(scope, headers, body))
        if isinstance(claimed, Kept):
            again = self._again(claimed, asked, _fingerprint(scope, headers, body))
            await again(scope, receive, send)
            return
        answer = _Answer(send)
        deed = _Deed(asked, claimed)
        try:
            with sealed(deed):
                await self._app(scope, receive, answer)
        finally:
            deed.over = True
            async with self._db.connection() as tx:
                if answer.is_kept:
                    sealed_answer = self._vault.seal(answer.text, _about(asked))
                    await once.answer(tx, asked, claimed, answer.status, sealed_answer)
                else:
                    await once.forget(tx, asked, claimed)

    def _again(self, kept: Kept, asked: Asked, fingerprint: bytes) -> Response:
        if kept.fingerprint != fingerprint:
            raise Invalid(
                f"This {HEADER} was sent with another request. Take a new one for each.",
                code="idempotency_mismatch",
            )
        if kept.state == "running":
            raise Conflict(
                "The same request is under way. Ask again in a moment.", code="idempotency_in_progress"
            )
        if kept.state == "done" or kept.status is None or kept.answer is None:
            raise Conflict(
                "This request was done, but its answer was lost. Look at what is there before you send another.",
                code="idempotency_answer_lost",
            )
        told = json.loads(self._vault.open(kept.answer, _about(asked)))
        answer = Response(base64.b64decode(told["body"]), kept.status)
        answer.init_headers({**told["headers"], "idempotency-replayed": "true"})
        return answer


class _Deed:
    """The last statement of the transactions that do it."""

    def __init__(self, asked: Asked, token: UUID) -> None:
        self._asked, self._token = asked, token
        self.over = False  # a task that the request left behind has nothing to do with it

    async def __call__(self, tx: Tx) -> None:
        if not self.over:
            await once.done(tx, self._asked, self._token)


class _Answer:
    """A `send` that keeps a copy."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self._ended = False

    @property
    def text(self) -> str:
        """All but the status, as it is kept."""
        return json.dumps({"headers": self.headers, "body": base64.b64encode(self.body).decode()})

    @property
    def is_kept(self) -> bool:
        return self._ended and self.status in _KEPT_STATUSES and len(self.body) <= _MOST_KEPT

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            await faults.point("once.before_answer")
            self.status = message["status"]
            self.headers = {
                name.decode("latin-1"): value.decode("latin-1") for name, value in message.get("headers", ())
            }
        elif message["type"] == "http.response.body":
            if len(self.body) <= _MOST_KEPT:
                self.body += message.get("body", b"")
            self._ended = not message.get("more_body", False)
        await self._send(message)


def _checked(key: str) -> str:
    if not key or len(key) > _LONGEST or not all("!" <= character <= "~" for character in key):
        raise Invalid(
            f"{HEADER} takes 1 to {_LONGEST} plain characters, such as a UUID.", code="bad_idempotency_key"
        )
    return key


async def _taken(headers: Headers, receive: Receive) -> tuple[bytes, Receive]:
    """The body, and a way to read it again. An upload is not held in memory: its length has to do."""
    if headers.get("content-type", "").startswith("multipart/"):
        return headers.get("content-length", "").encode(), receive
    messages: list[MutableMapping[str, Any]] = []
    more = True
    while more:
        message = await receive()
        messages.append(message)
        more = message["type"] == "http.request" and message.get("more_body", False)
    body = b"".join(message.get("body", b"") for message in messages)
    left = iter(messages)

    async def again() -> Message:
        return next(left, None) or await receive()

    return body, again


def _fingerprint(scope: Scope, headers: Headers, body: bytes) -> bytes:
    hashed = hashlib.sha256()
    kind = headers.get("content-type", "").partition(";")[0]
    for part in (scope["method"], scope["path"], scope["query_string"].decode("latin-1"), kind):
        hashed.update(part.encode() + b"\0")
    hashed.update(body)
    return hashed.digest()


def _about(asked: Asked) -> str:
    return f"{asked.org}:{asked.caller}:{asked.key}"
