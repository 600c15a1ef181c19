"""Errors as the clients of each API expect them, whoever answers: the host guard, the request context or a route.

    /v1      {"error": {"message", "type", "param", "code"}}
             422 → 400, and 409 → 400 unless sending the request again can help: clients of OpenAI retry every 409
    /dify    {"error_code", "error_msg"}
    /scim    {"schemas", "status", "scimType", "detail"}; 422 → 400

The `code` stays our own, so that the error reference holds for both. Below `/v1/vector_stores`, a knowledge base is called a vector
store in messages. Everything else passes through.
"""

import json
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_PROBLEM = b"application/problem+json"
_STORES = "/v1/vector_stores/"
_PASSING_CONFLICTS = frozenset({"idempotency_in_progress"})
_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}
_UNPROCESSABLE = 422
_SCIM_TYPES = {
    "bad_scim_filter": "invalidFilter",
    "bad_scim_request": "invalidValue",
    "bad_acl_entry": "invalidValue",
}
_DIFY_CODES = {401: 1002, 403: 1002, 404: 2001}  # no such key, no such knowledge; else the status


class ErrorShapes:
    """Middleware that rewrites problem documents below `/v1`, `/dify` and `/scim`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; rewrite its response if it is a problem document."""
        path = scope.get("path", "")
        if scope["type"] != "http" or not path.startswith(("/v1/", "/dify/", "/scim/")):
            await self._app(scope, receive, send)
            return
        await self._app(scope, receive, _Rewriter(send, path))


class _Rewriter:
    """A `send` that holds a problem document back until it is complete."""

    def __init__(self, send: Send, path: str) -> None:
        self._send, self._path, self._api = send, path, path.split("/")[1]
        self._start: Message | None = None
        self._body = bytearray()

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if dict(message.get("headers", ())).get(b"content-type", b"").startswith(_PROBLEM):
                self._start = message
                return
        elif self._start is not None and message["type"] == "http.response.body":
            self._body += message.get("body", b"")
            if not message.get("more_body", False):
                await self._send_error(self._start)
            return
        await self._send(message)

    async def _send_error(self, start: Message) -> None:
        problem = json.loads(self._body)
        status: int = problem["status"]
        media_type = b"application/json"
        if self._api == "dify":
            content = _dify_error(problem)
        elif self._api == "scim":
            status = 400 if status == _UNPROCESSABLE else status
            content, media_type = _scim_error(problem, status), b"application/scim+json"
        else:
            status = _openai_status(problem)
            content = _openai_error(problem, status, self._path)
        body = json.dumps(content).encode()
        headers = [
            (name, value)
            for name, value in start["headers"]
            if name not in (b"content-length", b"content-type")
        ]
        headers += [(b"content-type", media_type), (b"content-length", b"%d" % len(body))]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})


def _openai_status(problem: dict[str, Any]) -> int:
    status: int = problem["status"]
    if status == 409 and problem["code"] in _PASSING_CONFLICTS:
        return status
    return 400 if status in (409, 412, 422) else status


def _openai_error(problem: dict[str, Any], status: int, path: str) -> dict[str, Any]:
    kind = _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    fields: list[dict[str, str]] = problem["errors"]
    return {
        "error": {
            "message": _openai_message(problem, path),
            "type": kind,
            "param": (fields[0]["field"] or None) if fields else None,
            "code": problem["code"],
        }
    }


def _openai_message(problem: dict[str, Any], path: str) -> str:
    """The message, with a vector store where our own API has a knowledge base."""
    message: str = problem["detail"]
    if not path.startswith(_STORES):
        return message
    if problem["code"] == "base_not_found":
        return f"There is no vector store {path.removeprefix(_STORES).split('/')[0]!r}."
    return message.replace("knowledge base", "vector store")


def _dify_error(problem: dict[str, Any]) -> dict[str, Any]:
    status: int = problem["status"]
    return {"error_code": _DIFY_CODES.get(status, status), "error_msg": problem["detail"]}


def _scim_error(problem: dict[str, Any], status: int) -> dict[str, Any]:
    kind = "uniqueness" if status == 409 else _SCIM_TYPES.get(problem["code"])
    return {
        "schemas": ["urn:ietf:params:scim:api:messages:2.0:Error"],
        "status": str(status),
        **({} if kind is None else {"scimType": kind}),
        "detail": problem["detail"],
        "code": problem["code"],
    }
