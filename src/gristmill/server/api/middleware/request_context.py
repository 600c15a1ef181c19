"""Identify the caller, limit its rate, and record changes in the audit log.

    every request            caller → rate limit → authorise → routes
    a possible change        caller → rate limit → audit entry → authorise → routes → status of the entry
       with Idempotency-Key                                               └─ idempotency.py

So a request that is refused costs nothing but its headers. While the database is unavailable, a request with a key gets 503.
"""

import logging
import time
from uuid import UUID

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gristmill import faults
from gristmill.db import Database, DatabaseUnavailable
from gristmill.errors import GristmillError
from gristmill.identity import audit
from gristmill.server.api import caller as callers
from gristmill.server.api.access_rules import may_change, route_path
from gristmill.server.api.authorise import Authoriser, authorised_route
from gristmill.server.api.caller import Caller, CallerCache
from gristmill.server.api.direct_reads import plan_read
from gristmill.server.api.middleware.idempotency import IdempotencyHandler
from gristmill.server.api.problems import problem_for
from gristmill.server.api.rate_limits import KEY_RATE_MESSAGE, RateLimiter
from gristmill.settings import Settings
from gristmill.telemetry import traces
from gristmill.telemetry.server_metrics import ServerMetrics
from gristmill.usage import caller_name
from gristmill.vault import Vault

log = logging.getLogger("gristmill.access")

_EXPORT_PATHS = ("/api/audit", "/api/usage")
_DATA_PATHS = ("/api/", "/v1/", "/dify/")
_UNRECORDED_PATHS = (
    "/api/session",
    "/api/events/stream",
    "/api/capabilities",
)  # of every page that is opened


class RequestContextMiddleware:
    """Middleware that attaches the caller to each request, and measures, limits and audits it."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        db: Database,
        settings: Settings,
        vault: Vault,
        metrics: ServerMetrics,
        authorise: Authoriser,
    ) -> None:
        self._app, self._db, self._settings, self._metrics = app, db, settings, metrics
        self._authorise = authorise
        self._rate_limiter = RateLimiter(
            settings.key_requests_per_minute, message=KEY_RATE_MESSAGE, code="rate_limited"
        )
        self._idempotency = IdempotencyHandler(app, db, vault)
        self._caller_cache = CallerCache()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its caller, or answer it with a problem document."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if not traces.is_enabled():
            await self._serve(scope, receive, send)
            return
        method, headers = scope["method"], Headers(scope=scope)
        attributes = {"http.request.method": method}
        with traces.span(method, attributes, headers=headers, kind="server") as annotate:
            status = await self._serve(scope, receive, send)
            route = _route_name(scope)
            annotate({"name": f"{method} {route}", "http.route": route, "http.response.status_code": status})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> int:
        response = _RecordedResponse(send)
        caller: Caller | None = None
        try:
            is_change = may_change(scope["method"], scope["path"])
            caller = await callers.identify(
                self._db, self._settings, scope, self._caller_cache if plan_read(scope) else None
            )
            if caller is not None and not caller.is_local_user:
                self._rate_limiter.take(caller.identifier)
            scope.setdefault("state", {})["caller"] = caller
            caller_name.set(None if caller is None else caller.owner)
            if caller is None or not is_change:
                await self._authorise(caller, scope)
                await self._app(scope, receive, response)
                if caller is not None and self._must_record_read(scope):
                    await self._record_read(caller, scope, response)
            else:
                await self._serve_change(caller, scope, receive, response)
        except (GristmillError, HTTPException) as error:
            if response.status is not None:
                raise
            await problem_for(error, scope)(scope, receive, response)
        finally:
            self._metrics.record_request(
                scope["method"], response.status or 500, response.seconds_to_response
            )
            if self._settings.access_log:
                _log_request(scope, caller, response)
        return response.status or 500

    def _must_record_read(self, scope: Scope) -> bool:
        """Exports are recorded always, other reads of data if the settings say so."""
        path: str = scope["path"]
        if path in _EXPORT_PATHS:
            return b"format=" in scope["query_string"]
        return self._settings.audit_reads and path.startswith(_DATA_PATHS) and path not in _UNRECORDED_PATHS

    async def _record_read(self, caller: Caller, scope: Scope, response: "_RecordedResponse") -> None:
        """Write a read into the audit log; if the database is unavailable just now, only the log has it."""
        client = scope.get("client")
        try:
            async with self._db.transaction() as tx:
                await audit.record(
                    tx,
                    caller.org,
                    actor=caller.actor,
                    key_id=caller.key_id,
                    role=caller.role,
                    method=scope["method"],
                    path=scope["path"][:2000],
                    client=None if client is None else str(client[0]),
                    status=response.status or 500,
                )
        except DatabaseUnavailable:
            log.warning("a read is not in the audit log: the database is unavailable")

    async def _serve_change(
        self, caller: Caller, scope: Scope, receive: Receive, response: "_RecordedResponse"
    ) -> None:
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
            await self._authorise(caller, scope)
            if "idempotency-key" in Headers(scope=scope):
                await self._idempotency(caller, scope, receive, response)
            else:
                await self._app(scope, receive, response)
        except (GristmillError, HTTPException) as error:
            if response.status is not None:
                raise
            await problem_for(error, scope)(scope, receive, response)
        finally:
            self._caller_cache.clear()
            await self._end_audit_entry(entry, response)

    async def _end_audit_entry(self, entry: UUID, response: "_RecordedResponse") -> None:
        """Log the status. If the database is unavailable just now, the response stands, and the entry has no status, as after a
        kill: whether the change was made is unknown from it."""
        try:
            async with self._db.connection() as tx:
                await faults.point("audit.ending")
                await audit.end(tx, entry, response.status or 500, response.elapsed_ms)
        except DatabaseUnavailable:
            log.warning(
                "an audit entry has no status: the database is unavailable",
                extra={"entry": str(entry), "status": response.status},
            )


def _route_name(scope: Scope) -> str:
    """The path template of the route that served the request, for traces."""
    authorised = authorised_route(scope)
    return route_path(scope) or (authorised.template if authorised is not None else "unknown")


class _RecordedResponse:
    """A `send` that records the status and the time of the response."""

    def __init__(self, send: Send) -> None:
        self._send, self._started_at = send, time.monotonic()
        self.status: int | None = None
        self._responded_at: float | None = None

    @property
    def seconds_to_response(self) -> float:
        """Seconds until the response started, or until now."""
        return (self._responded_at or time.monotonic()) - self._started_at

    @property
    def elapsed_ms(self) -> int:
        return round(1000 * (time.monotonic() - self._started_at))

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self._responded_at = time.monotonic()
        await self._send(message)


def _log_request(scope: Scope, caller: Caller | None, response: _RecordedResponse) -> None:
    log.info(
        "request",
        extra={
            "method": scope["method"],
            "path": scope["path"],
            "status": response.status,
            "took_ms": response.elapsed_ms,
            "actor": "anonymous" if caller is None else caller.actor,
        },
    )
