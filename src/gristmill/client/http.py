"""Requests to a Gristmill server with retries, idempotency keys and errors as `Refused`."""

import asyncio
import json
import random
import ssl
from collections.abc import AsyncGenerator, Mapping
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import httpx

from gristmill.client.models import Json, Refused

_TIMEOUT = httpx.Timeout(120, connect=5)
_RETRIED_STATUSES = frozenset({429, 502, 503, 504})
_MAX_WAIT_SECONDS = 30.0


def _tls_context(url: str) -> ssl.SSLContext:
    """Trusts the usual authorities, or those that SSL_CERT_FILE or SSL_CERT_DIR name. Loading them takes 40 ms. A client of an http
    address needs none; it would trust no https server at all."""
    return (
        httpx.create_ssl_context(trust_env=True)
        if url.startswith("https")
        else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    )


class HttpClient:
    """A connection pool to one server; use it as an async context manager."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:7373",
        key: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        retries: int = 4,
    ) -> None:
        if key is not None and not (key.isascii() and key.isprintable() and " " not in key):
            raise Refused(
                "The API key has characters that no key has. Copy it again: it is gm_, letters, digits and dashes.",
                code="bad_key",
            )
        request_headers = dict(headers or {}) | ({} if key is None else {"Authorization": f"Bearer {key}"})
        try:
            self.http = httpx.AsyncClient(
                base_url=url,
                headers=request_headers,
                timeout=_TIMEOUT,
                transport=transport,
                trust_env=False,
                verify=_tls_context(url),
            )
        except httpx.InvalidURL as error:
            raise Refused(
                f"{url} is not the address of a server. Write it as https://kb.example.org.", code="no_answer"
            ) from error
        self._retries = retries

    async def __aenter__(self) -> Self:
        """Return the client itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connections."""
        await self.http.aclose()

    async def call(self, method: str, path: str, **options: Any) -> Json:
        """Send a request to a path below `/api` and return the JSON of the response; `{}` for an empty body."""
        return _parse_json(await self.send(method, path, **options))

    async def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request to a path below `/api` and return the successful response. Lost requests are retried; the
        `Idempotency-Key` keeps a change from being executed twice."""
        headers = dict(options.pop("headers", {}))
        if method not in ("GET", "HEAD"):
            headers.setdefault("Idempotency-Key", str(uuid4()))
        for attempt in range(self._retries + 1):
            try:
                response = await self.http.request(method, f"/api{path}", headers=headers, **options)
            except httpx.TransportError as error:
                if attempt == self._retries:
                    raise self._unreachable(error) from error
                await asyncio.sleep(_backoff(attempt))
                continue
            should_retry = (
                response.status_code in _RETRIED_STATUSES
                or _conflict_code(response) == "idempotency_in_progress"
            )
            if not should_retry or attempt == self._retries:
                return _check_response(response)
            await asyncio.sleep(_retry_after(response) or _backoff(attempt))
        raise AssertionError("unreachable")

    async def events(self, path: str, body: Json) -> AsyncGenerator[tuple[str, Json]]:
        """Post to a path below `/api` and yield the server-sent events of the response, each with its name and data. Not
        retried: the caller has seen a part of it."""
        name = ""
        try:
            async with self.http.stream("POST", f"/api{path}", json=body) as response:
                if not response.is_success:
                    await response.aread()
                _check_response(response)
                async for line in response.aiter_lines():
                    if line.startswith("event:"):
                        name = line.removeprefix("event:").strip()
                    elif line.startswith("data:"):
                        yield name, json.loads(line.removeprefix("data:"))
        except httpx.TransportError as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: httpx.TransportError) -> Refused:
        return Refused(
            f"The server at {self.http.base_url} can't be reached "
            f"({error or type(error).__name__}). Check the address, and that the server runs.",
            code="no_answer",
        )

    async def pages(self, path: str, **params: Any) -> AsyncGenerator[Json]:
        """Yield every entry of a list, fetched page by page."""
        cursor: str | None = None
        while True:
            page = await self.call(
                "GET", path, params={**params, "limit": 500, **({"cursor": cursor} if cursor else {})}
            )
            for entry in page["items"]:
                yield entry
            cursor = page["nextCursor"]
            if cursor is None:
                return


def _check_response(response: httpx.Response) -> httpx.Response:
    if response.is_success:
        return response
    try:
        body = response.json()
        detail, code = body["detail"], body["code"]
    except (ValueError, KeyError, TypeError):
        raise _not_gristmill(response) from None
    raise Refused(detail, code=code, status=response.status_code)


def _parse_json(response: httpx.Response) -> Json:
    if not response.content:
        return {}
    try:
        return response.json()
    except ValueError:
        raise _not_gristmill(response) from None


def _not_gristmill(response: httpx.Response) -> Refused:
    address = response.request.url.copy_with(path="/", query=None)
    return Refused(
        f"The server at {address} is not Gristmill: its response ({response.status_code}) can't be read. "
        "Check the address.",
        code="no_answer",
        status=response.status_code,
    )


def _conflict_code(response: httpx.Response) -> str | None:
    if response.status_code != HTTPStatus.CONFLICT:
        return None
    try:
        return response.json().get("code")
    except (ValueError, AttributeError):
        return None


def _backoff(attempt: int) -> float:
    return random.uniform(0, 0.2 * 2**attempt)  # noqa: S311


def _retry_after(response: httpx.Response) -> float | None:
    text = response.headers.get("retry-after", "")
    return min(_MAX_WAIT_SECONDS, float(text)) if text.isdigit() else None
