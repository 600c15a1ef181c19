"""The entrance: who asks is found, how often it asks is counted, and what it may change is written down.

    every request            caller → rate → the routes
    one that may change      caller → rate → a row of the log → the routes → its status
       with Idempotency-Key                                  └─ once.py

Nobody is refused here for what they ask for: `authorise.py` does that, once the route is known. When the database does not
answer, a request with a key is answered 503.
"""

import logging
import time
from collections import OrderedDict
from datetime import timedelta

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gristmill import traces
from gristmill.db import Database
from gristmill.doors.api import caller as callers
from gristmill.doors.api.caller import Caller, Known
from gristmill.doors.api.meters import Meters
from gristmill.doors.api.once import Once
from gristmill.doors.api.problems import told
from gristmill.doors.api.rules import may_change, route_of
from gristmill.errors import GristmillError, LimitReached
from gristmill.keys import audit
from gristmill.settings import Settings
from gristmill.vault import Vault

log = logging.getLogger("gristmill.access")

_MOST_KNOWN = 10_000  # keys whose rate is counted; the one that asked longest ago is forgotten
_MINUTE = 60.0


class Rates:
    """How often each key asks: a bucket that fills by the minute, and holds ten seconds' worth."""

    def __init__(self, per_minute: int) -> None:
        self._rate = per_minute / _MINUTE
        self._most = max(1.0, per_minute / 6)
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str) -> None:
        """Count a request; `LimitReached` when there were too many."""
        now = time.monotonic()
        left, at = self._left.pop(name, (self._most, now))
        left = min(self._most, left + (now - at) * self._rate)
        self._left[name] = (left - 1 if left >= 1 else left, now)
        if len(self._left) > _MOST_KNOWN:
            self._left.popitem(last=False)
        if left < 1:
            raise LimitReached(
                "This key asks too often. Wait, or have `key_requests_per_minute` raised.",
                retry_after=timedelta(seconds=(1 - left) / self._rate),
                code="rate_limited",
            )


class Entrance:
    """Finds out who asks, and remembers it with the request."""

    def __init__(
        self, app: ASGIApp, *, db: Database, settings: Settings, vault: Vault, meters: Meters
    ) -> None:
        self._app, self._db, self._settings, self._meters = app, db, settings, meters
        self._rates = Rates(settings.key_requests_per_minute)
        self._once = Once(app, db, vault)
        self._known = Known()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its caller, or answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if not traces.on():
            await self._serve(scope, receive, send)
            return
        method, headers = scope["method"], Headers(scope=scope)
        facts = {"http.request.method": method}
        with traces.span(method, facts, headers=headers, kind="server") as tell:
            status = await self._serve(scope, receive, send)
            route = route_of(scope) or "unknown"
            tell({"name": f"{method} {route}", "http.route": route, "http.response.status_code": status})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> int:
        watched = _Watched(send)
        caller: Caller | None = None
        try:
            changes = may_change(scope["method"], scope["path"])
            caller = await callers.find(self._db, self._settings, scope, None if changes else self._known)
            if caller is not None and caller.key is not None:
                self._rates.take(caller.name)
            scope.setdefault("state", {})["caller"] = caller
            if caller is None or not changes:
                await self._app(scope, receive, watched)
            else:
                await self._change(caller, scope, receive, watched)
        except GristmillError as error:
            if watched.status is not None:
                raise
            await told(error)(scope, receive, watched)
        finally:
            self._meters.request(scope["method"], watched.status or 500, watched.took)
            if self._settings.access_log:
                _write(scope, caller, watched)
        return watched.status or 500

    async def _change(self, caller: Caller, scope: Scope, receive: Receive, watched: "_Watched") -> None:
        client = scope.get("client")
        async with self._db.connection() as tx:
            entry = await audit.begin(
                tx,
                caller.org,
                actor=caller.actor,
                key_id=caller.key_id,
                role=caller.role,
                method=scope["method"],
                path=scope["path"][:2000],
                client=None if client is None else str(client[0]),
                retention=self._settings.audit_retention,
            )
        try:
            if "idempotency-key" in Headers(scope=scope):
                await self._once(caller, scope, receive, watched)
            else:
                await self._app(scope, receive, watched)
        except GristmillError as error:
            if watched.status is not None:
                raise
            await told(error)(scope, receive, watched)
        finally:
            self._known.forget()
            async with self._db.connection() as tx:
                await audit.end(tx, entry, watched.status or 500, watched.took_ms)


class _Watched:
    """A `send` that remembers what was answered, and when it began."""

    def __init__(self, send: Send) -> None:
        self._send, self._began = send, time.monotonic()
        self.status: int | None = None
        self._answered: float | None = None

    @property
    def took(self) -> float:
        """Seconds until the answer began, or until now."""
        return (self._answered or time.monotonic()) - self._began

    @property
    def took_ms(self) -> int:
        return round(1000 * (time.monotonic() - self._began))

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self._answered = time.monotonic()
        await self._send(message)


def _write(scope: Scope, caller: Caller | None, watched: _Watched) -> None:
    log.info(
        "request",
        extra={
            "method": scope["method"],
            "path": scope["path"],
            "status": watched.status,
            "took_ms": watched.took_ms,
            "actor": "nobody" if caller is None else caller.actor,
        },
    )
