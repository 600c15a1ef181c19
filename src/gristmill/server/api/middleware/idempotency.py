"""`Idempotency-Key`: a change that is sent again is not executed again; its response is repeated.

    the key is …                          response
    new                                   the request is executed, its response stored for a day
    known, with a stored response         that response, with Idempotency-Replayed: true
    known, the request is running         409 idempotency_in_progress
    known, executed, response lost        409 idempotency_answer_lost: the process was killed between commit and response
    known, for another request            422 idempotency_mismatch

The transaction that makes the change also records that it is done (`identity/idempotency.py`), so that a killed process never
leads to a second execution. A request that was rejected before it changed anything (401, 403, 404, 409, 412, 429, 5xx) is
forgotten and may be sent again.
"""

import asyncio
import base64
import contextlib
import hashlib
import json
from collections.abc import MutableMapping
from typing import Any
from uuid import UUID

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gristmill import clock, faults
from gristmill.db import Database, DatabaseUnavailable, Tx, run_before_commit
from gristmill.errors import Conflict, Invalid
from gristmill.identity import idempotency
from gristmill.identity.idempotency import EarlierRequest, RequestKey
from gristmill.server.api.caller import Caller
from gristmill.vault import Vault

HEADER = "Idempotency-Key"
_MAX_KEY_LENGTH = 255
_STORED_STATUSES = frozenset({200, 201, 202, 204, 422, 413})
_MAX_STORED_BYTES = 4 << 20  # a larger response is not stored


class IdempotencyHandler:
    """Executes a request once per key, and replays its response."""

    def __init__(self, app: ASGIApp, db: Database, vault: Vault) -> None:
        self._app, self._db, self._vault = app, db, vault

    async def __call__(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        """Execute the request, or replay its response."""
        headers = Headers(scope=scope)
        request_key = RequestKey(caller.org, caller.identifier, _validate_key(headers[HEADER]))
        try:
            body, receive = await _buffer_body(headers, receive)
        except ClientDisconnect:
            return  # The key stays free for the whole request; there is no one to respond to.
        fingerprint = _fingerprint(scope, headers, body)
        async with self._db.transaction() as tx:
            claim = await idempotency.claim(tx, request_key, fingerprint)
        if isinstance(claim, EarlierRequest):
            replay = self._replay(claim, request_key, fingerprint)
            await replay(scope, receive, send)
            return
        response = _CapturedResponse(send)
        mark_done = _MarkDone(request_key, claim)
        renewal = asyncio.create_task(self._renew(request_key, claim), name="idempotency claim")
        try:
            with run_before_commit(mark_done):
                await self._app(scope, receive, response)
        finally:
            mark_done.is_over = True
            await clock.cancel_tasks([renewal])
            async with self._db.connection() as tx:
                if response.is_storable:
                    encrypted = self._vault.seal(response.serialised, request_key.vault_context)
                    await idempotency.save_response(tx, request_key, claim, response.status, encrypted)
                else:
                    await idempotency.release(tx, request_key, claim)

    async def _renew(self, request_key: RequestKey, token: UUID) -> None:
        """Keep the claim while the request runs. If this process is killed, another may carry the request out soon."""
        while True:
            await clock.pause(idempotency.RENEW_INTERVAL)
            with contextlib.suppress(DatabaseUnavailable):
                async with self._db.connection() as tx:
                    await idempotency.renew(tx, request_key, token)

    def _replay(self, stored: EarlierRequest, request_key: RequestKey, fingerprint: bytes) -> Response:
        if stored.fingerprint != fingerprint:
            raise Invalid(
                f"This {HEADER} was used for a different request. Use a new key for each request.",
                code="idempotency_mismatch",
            )
        if stored.state == "running":
            raise Conflict(
                "The same request is still running. Send it again in a moment to get its response.",
                code="idempotency_in_progress",
            )
        if stored.state == "done" or stored.status is None or stored.answer is None:
            raise Conflict(
                "This request was executed, but its response was lost. Check the result before you send a new request.",
                code="idempotency_answer_lost",
            )
        payload = json.loads(self._vault.open(stored.answer, request_key.vault_context))
        response = Response(base64.b64decode(payload["body"]), stored.status)
        response.init_headers({**payload["headers"], "idempotency-replayed": "true"})
        return response


class _MarkDone:
    """Runs before each commit of the request: records in the same transaction that the request is done."""

    def __init__(self, request_key: RequestKey, token: UUID) -> None:
        self._request_key, self._token = request_key, token
        self.is_over = False  # commits of background tasks that outlive the request must not count

    async def __call__(self, tx: Tx) -> None:
        if not self.is_over:
            await idempotency.mark_done(tx, self._request_key, self._token)


class _CapturedResponse:
    """A `send` that keeps a copy of the response."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self._is_complete = False

    @property
    def serialised(self) -> str:
        """Headers and body, in the stored form."""
        return json.dumps({"headers": self.headers, "body": base64.b64encode(self.body).decode()})

    @property
    def is_storable(self) -> bool:
        return self._is_complete and self.status in _STORED_STATUSES and len(self.body) <= _MAX_STORED_BYTES

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            await faults.point("once.before_answer")
            self.status = message["status"]
            self.headers = {
                name.decode("latin-1"): value.decode("latin-1") for name, value in message.get("headers", ())
            }
        elif message["type"] == "http.response.body":
            if len(self.body) <= _MAX_STORED_BYTES:
                self.body += message.get("body", b"")
            self._is_complete = not message.get("more_body", False)
        await self._send(message)


def _validate_key(key: str) -> str:
    if not key or len(key) > _MAX_KEY_LENGTH or not all("!" <= character <= "~" for character in key):
        raise Invalid(
            f"The {HEADER} is invalid. Use 1 to {_MAX_KEY_LENGTH} printable ASCII characters without spaces, "
            "such as a UUID.",
            code="bad_idempotency_key",
        )
    return key


async def _buffer_body(headers: Headers, receive: Receive) -> tuple[bytes, Receive]:
    """The body, and a `receive` that delivers it again. An upload is too large to buffer, so its length is used instead.
    Raises ClientDisconnect if the client leaves before the end of the body."""
    if headers.get("content-type", "").startswith("multipart/"):
        return headers.get("content-length", "").encode(), receive
    messages: list[MutableMapping[str, Any]] = []
    has_more = True
    while has_more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        messages.append(message)
        has_more = message.get("more_body", False)
    body = b"".join(message.get("body", b"") for message in messages)
    remaining = iter(messages)

    async def replay_body() -> Message:
        return next(remaining, None) or await receive()

    return body, replay_body


def _fingerprint(scope: Scope, headers: Headers, body: bytes) -> bytes:
    digest = hashlib.sha256()
    media_type = headers.get("content-type", "").partition(";")[0]
    for part in (scope["method"], scope["path"], scope["query_string"].decode("latin-1"), media_type):
        digest.update(part.encode() + b"\0")
    digest.update(body)
    return digest.digest()
