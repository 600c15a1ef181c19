"""HTTP for connectors: one client per tool, which respects rate limits, translates errors and keeps secrets out of messages.

    2xx                                    returned
    401                                    CredentialsRejected  connector_unauthorized: the run ends
    429, 403 with rate limit headers       a short limit is waited out here, a long one is RateLimited: the run waits
    403                                    Unreadable           connector_forbidden
    404 410                                SourceGone           source_gone
    408 425 5xx, no connection, time-out   three more tries, then Transient
    any other                              Unreadable           connector_refused
    a private address                      Permanent            private_address, raised by `net`
    longer than the limit, not JSON        Unreadable

The end of a limit comes from `Retry-After` (seconds or a date), `x-ratelimit-reset` or `ratelimit-reset` (an epoch, an
instant, or seconds). GitHub's secondary limits name no end: then we wait a minute. Instants are compared with the server's
own `Date`. Only this layer waits for limits; its callers never do. No message contains a query, a header or a body: a URL
may carry a key, and a response may repeat it.
"""

import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import httpx
from pydantic import TypeAdapter, ValidationError

from gristmill import clock, net
from gristmill.errors import Permanent, SourceGone, Transient, Unreadable
from gristmill.sources.fetch import display_url

_MAX_TRIES = 4  # the first, and three more (S2-37)
_FIRST_DELAY, _MAX_DELAY = 1.0, 10.0  # seconds between them
_MAX_RESPONSE_BYTES = 64 << 20
_MAX_PAGES = 20_000  # of a list that is paged by number
# GitHub asks for at least a minute after a secondary limit that says nothing more.
_DEFAULT_WAIT = timedelta(minutes=1)
# A limit that ends now may end a moment later by the server's clock.
_MARGIN = timedelta(seconds=1)
_CHUNK = 64 * 1024

FORBIDDEN = "connector_forbidden"  # the code of a 403 that is no rate limit

Params = Mapping[str, str | int | bool | None]
Model = TypeVar("Model")


class RateLimited(Transient):
    """The tool asks us to come back after `retry_after`, too long to wait for within a request."""

    code = "connector_rate_limited"

    def __init__(self, message: str, *, retry_after: timedelta) -> None:
        super().__init__(message, retry_after=retry_after)
        self.wait = retry_after


class CredentialsRejected(Permanent):
    """The tool refuses the credentials: no further request can succeed."""

    code = "connector_unauthorized"


class RequestRefused(Unreadable):
    """The tool refuses a request by a status that has no error of its own."""

    code = "connector_refused"

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class ApiResponse:
    """A response: its JSON, and the headers that say where the next page is."""

    data: Any
    headers: httpx.Headers
    url: httpx.URL  # after redirects

    def link(self, rel: str) -> str | None:
        """The address that the `Link` header names as `rel`."""
        for part in self.headers.get("link", "").split(","):
            address, _, rest = part.partition(";")
            if f'rel="{rel}"' in rest.replace(" ", ""):
                return address.strip().removeprefix("<").removesuffix(">")
        return None

    @property
    def has_next_page(self) -> bool:
        """Whether there is another page: by its link, because totals are not always returned."""
        return self.link("next") is not None or bool(self.headers.get("x-next-page"))

    @property
    def server_time(self) -> datetime:
        """The tool's own time, from the `Date` header."""
        return _server_time(self.headers)


@dataclass(frozen=True)
class ChangedResponse:
    """What a server has now, the validators that show later whether it changed, and its address after redirects."""

    data: bytes
    validators: dict[str, str]
    url: str


class Transport:
    """Requests to one tool. `headers` go with each and appear in no message; `max_wait` is the longest rate limit that a
    request waits for."""

    def __init__(
        self,
        base_url: str,
        *,
        headers: Mapping[str, str],
        allow_private: bool,
        max_wait: timedelta,
        first_delay: float = _FIRST_DELAY,
    ) -> None:
        self._base_url, self._headers = base_url.rstrip("/"), dict(headers)
        self._max_wait, self._first_delay = max_wait, first_delay
        self._client = net.client(allow_private=allow_private)

    async def close(self) -> None:
        """Close its connections."""
        await self._client.aclose()

    def set_header(self, header: str, value: str) -> None:
        """Send another value from now on, such as a renewed token."""
        self._headers[header] = value

    def header_value(self, header: str) -> str:
        """The value that is currently sent."""
        return self._headers.get(header, "")

    async def get(self, path: str, params: Params | None = None, **headers: str) -> ApiResponse:
        """The JSON at `path`, which is below the base URL, or a complete URL of the same origin."""
        return await self._request_json("GET", path, params, None, headers)

    async def post(
        self, path: str, body: object, params: Params | None = None, **headers: str
    ) -> ApiResponse:
        """The JSON response to a posted body. Only for requests that change nothing: they may be sent again."""
        return await self._request_json("POST", path, params, body, headers)

    async def text(self, path: str, params: Params | None = None, *, accept: str, limit: int) -> str:
        """The text at `path`, at most `limit` bytes; bytes that aren't UTF-8 are replaced."""
        response, data = await self._request_bytes("GET", path, params, None, {"Accept": accept}, limit)
        del response
        return data.decode("utf-8", "replace")

    async def raw(
        self,
        method: str,
        path: str,
        params: Params | None = None,
        body: bytes | None = None,
        *,
        limit: int,
        **headers: str,
    ) -> bytes:
        """The bytes of the response, at most `limit`. Only for requests that change nothing."""
        _, data = await self._request_bytes(method, path, params, body, headers, limit)
        return data

    async def get_if_changed(
        self, path: str, validators: Mapping[str, str], params: Params | None = None, *, limit: int
    ) -> ChangedResponse | None:
        """The bytes at `path`; None if the server says that they have not changed since it returned these validators."""
        conditions = {"etag": "If-None-Match", "modified": "If-Modified-Since"}
        headers = {header: validators[name] for name, header in conditions.items() if name in validators}
        response, data = await self._request_bytes("GET", path, params, None, headers, limit)
        if response.status_code == 304:
            return None
        fields = {"etag": response.headers.get("etag"), "modified": response.headers.get("last-modified")}
        validators = {name: value for name, value in fields.items() if value}
        return ChangedResponse(data, validators, str(response.url))

    async def stream(self, path: str, params: Params | None = None, **headers: str) -> AsyncIterator[bytes]:
        """The bytes at `path`, as they arrive. The status is checked first; an interruption is Transient."""
        request = self._build_request("GET", path, params, None, headers)
        try:
            response = await self._client.send(request, stream=True)
        except httpx.HTTPError as error:
            raise _unreachable_error(request, error) from None
        try:
            if not response.is_success:
                # Google's rate limits differ from a refusal in the body alone.
                raise self._refusal(response, await net.read_limited(response, _MAX_RESPONSE_BYTES))
            async for piece in response.aiter_bytes(_CHUNK):
                yield piece
        except httpx.HTTPError as error:
            raise _unreachable_error(request, error) from None
        finally:
            await response.aclose()

    async def _request_json(
        self, method: str, path: str, params: Params | None, body: object, headers: Mapping[str, str]
    ) -> ApiResponse:
        response, data = await self._request_bytes(method, path, params, body, headers, _MAX_RESPONSE_BYTES)
        if not data:
            return ApiResponse(None, response.headers, response.url)
        try:
            return ApiResponse(json.loads(data), response.headers, response.url)
        except ValueError:
            raise Unreadable(
                f"{_url_without_query(response.request)} did not return JSON.", code="connector_refused"
            ) from None

    async def _request_bytes(
        self,
        method: str,
        path: str,
        params: Params | None,
        body: object,
        headers: Mapping[str, str],
        limit: int,
    ) -> tuple[httpx.Response, bytes]:
        tries = 0
        while True:
            tries += 1
            request = self._build_request(method, path, params, body, headers)
            try:
                response, data = await self._send(request, limit)
            except httpx.HTTPError as error:
                failure: Transient = _unreachable_error(request, error)
            else:
                if response.is_success or response.status_code == 304:
                    return response, data
                refusal = self._refusal(response, data)
                if isinstance(refusal, RateLimited) and refusal.wait <= self._max_wait and tries < _MAX_TRIES:
                    await clock.pause(refusal.wait)
                    continue
                if not isinstance(refusal, Transient) or isinstance(refusal, RateLimited):
                    raise refusal
                failure = refusal
            if tries >= _MAX_TRIES:
                raise failure
            await clock.pause(timedelta(seconds=self._backoff(tries)))

    async def _send(self, request: httpx.Request, limit: int) -> tuple[httpx.Response, bytes]:
        response = await self._client.send(request, stream=True)
        try:
            return response, await net.read_limited(response, limit)
        except Permanent as error:
            raise Unreadable(f"{_url_without_query(request)}: {error.message}", code=error.code) from None
        finally:
            await response.aclose()

    def _backoff(self, tries: int) -> float:
        return min(_MAX_DELAY, self._first_delay * 2 ** (tries - 1)) * (0.5 + random.random() / 2)  # noqa: S311

    def _build_request(
        self, method: str, path: str, params: Params | None, body: object, headers: Mapping[str, str]
    ) -> httpx.Request:
        url = httpx.URL(path if "://" in path else self._base_url + path)
        own_headers = {name.replace("_", "-"): value for name, value in headers.items()}
        # Credentials are never sent to another origin.
        credential_headers = self._headers if _origin(url) == _origin(httpx.URL(self._base_url)) else {}
        if not all(value.isascii() and value.isprintable() for value in credential_headers.values()):
            raise CredentialsRejected(
                "The credentials contain characters that no token has. Enter them again."
            )
        query = {name: _query_value(value) for name, value in (params or {}).items() if value is not None}
        return self._client.build_request(
            method,
            url,
            params=query or None,
            content=body if isinstance(body, bytes) else None,
            json=None if isinstance(body, bytes) else body,
            headers={**credential_headers, **own_headers},
        )

    def _refusal(self, response: httpx.Response, body: bytes = b"") -> Permanent | Transient:
        status, where = response.status_code, _url_without_query(response.request)
        if (wait := rate_limit_wait(response, body)) is not None:
            message = f"{where} is rate limited; it asks us to come back in {wait.total_seconds():.0f} seconds (status {status})."
            return RateLimited(message, retry_after=wait)
        match status:
            case 401:
                message = f"{where} rejects the credentials (status 401). Enter new ones, then sync again."
                return CredentialsRejected(message)
            case 404 | 410:
                return SourceGone(
                    f"{where} does not exist, or these credentials can't see it (status {status})."
                )
            case 403:
                message = f"These credentials can't read {where} (status 403)."
                return Unreadable(message, code=FORBIDDEN)
            case _ if status in (408, 425) or status >= 500:
                return Transient(f"{where} returned status {status}.", code="connector_unavailable")
            case _:
                return RequestRefused(f"{where} returned status {status}.", status)


def rate_limit_wait(response: httpx.Response, body: bytes = b"") -> timedelta | None:
    """How long the rate limit lasts that this response reports; None when it reports none."""
    headers, status = response.headers, response.status_code
    if status == 400 and b'"RATELIMITED"' in body:  # Linear's way to say so
        return _DEFAULT_WAIT
    if status not in (403, 429, 503):
        return None
    if (wait := net.retry_after(headers)) is not None:
        return wait + _MARGIN if status != 403 or wait else wait
    if status == 503:
        return None
    exhausted = headers.get("x-ratelimit-remaining", headers.get("ratelimit-remaining")) == "0"
    if (exhausted or status == 429) and (reset := _reset_wait(headers)) is not None:
        return reset + _MARGIN
    # GitHub's and Google's ways to say so with status 403.
    secondary = any(
        sign in body.lower()
        for sign in (b"secondary rate limit", b"abuse detection", b"ratelimitexceeded", b"dailylimitexceeded")
    )
    return _DEFAULT_WAIT if status == 429 or exhausted or secondary else None


def rate_limited(headers: httpx.Headers, where: str) -> RateLimited:
    """The error of a rate limit that a response reports in its body."""
    wait = net.retry_after(headers) or _reset_wait(headers) or _DEFAULT_WAIT
    message = f"{where} is rate limited; it asks us to come back in {wait.total_seconds():.0f} seconds."
    return RateLimited(message, retry_after=wait + _MARGIN)


def _reset_wait(headers: httpx.Headers) -> timedelta | None:
    value = headers.get("x-ratelimit-reset", headers.get("ratelimit-reset", "")).strip()
    if not value:
        return None
    now = _server_time(headers)
    try:
        if not value.isdecimal():
            wait = datetime.fromisoformat(value.replace("Z", "+00:00")) - now
        elif int(value) < 10_000_000:  # too small for an epoch: seconds from now
            wait = timedelta(seconds=int(value))
        else:
            wait = datetime.fromtimestamp(int(value), UTC) - now
    except (ValueError, TypeError, OverflowError, OSError):
        return None
    return min(max(wait, timedelta(0)), timedelta(days=1))


async def iter_pages(
    get: Callable[[str, Params], Awaitable[ApiResponse]], path: str, params: Params, page_size: int
) -> AsyncIterator[ApiResponse]:
    """The pages of a list that is paged by number; Unreadable if the tool repeats one, or has no last one."""
    previous: ApiResponse | None = None
    for page in range(1, _MAX_PAGES + 1):
        response = await get(path, {**params, "per_page": page_size, "page": page})
        if previous is not None and response.data and response.data == previous.data:
            break
        yield response
        if not response.has_next_page:
            return
        previous = response
    raise Unreadable(f"A list of the tool does not end: {path}.", code="connector_refused")


def parse(model: type[Model], data: object, tool: str) -> Model:
    """Part of a response as `model`; Unreadable when `tool` did not return what its API describes."""
    try:
        return TypeAdapter(model).validate_python(data)
    except ValidationError as error:
        fields = ", ".join(str(problem["loc"]) for problem in error.errors()[:3])
        raise Unreadable(
            f"{tool} returned something unexpected in {fields}.", code="connector_refused"
        ) from None


def _server_time(headers: httpx.Headers) -> datetime:
    try:
        time = parsedate_to_datetime(headers["Date"])
        return time if time.tzinfo else time.replace(tzinfo=UTC)
    except (KeyError, ValueError, TypeError):
        return datetime.now(UTC)


def _query_value(value: str | int | bool | None) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _url_without_query(request: httpx.Request) -> str:
    return display_url(str(request.url))


def _unreachable_error(request: httpx.Request, error: httpx.HTTPError) -> Transient:
    reason = "did not respond in time" if isinstance(error, httpx.TimeoutException) else "can't be reached"
    return Transient(
        f"{_url_without_query(request)} {reason} ({type(error).__name__}).", code="connector_unavailable"
    )
