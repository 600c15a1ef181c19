"""The HTTP client of the processors: timeouts, size limits, and how responses map to errors.

    408, 425, 429, 5xx; no connection              Transient, with the server's Retry-After
    401, 403                                       Permanent processor_unauthorized
    any other 4xx                                  Permanent processor_refused, with the server's message
    no response to a request that starts a         Permanent conversion_uncertain: it may have started, and starting it
    conversion                                     again may cost again
    200 with an unexpected body                    Permanent processor_bad_answer

The API key is sent in one header only, and is removed from the messages that a server returns.
"""

import json
from typing import Any

import httpx

from gristmill import net, secret_references
from gristmill.errors import Permanent, Transient
from gristmill.ingest.processors.processor import ProcessorConfig

_EXCERPT = 300
_SMALL_RESPONSE = 4 * 1024 * 1024


class ProcessorClient:
    """Sends requests to one processor."""

    def __init__(self, name: str, config: ProcessorConfig, headers: dict[str, str]) -> None:
        self.config = config
        self._name, self._headers = name, headers
        self._client: httpx.AsyncClient | None = None

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def get(self, path: str, *, max_bytes: int = _SMALL_RESPONSE) -> bytes:
        """Send a GET, which may be repeated."""
        return await self._request(
            "GET", self.config.url.rstrip("/") + path, max_bytes=max_bytes, begins=False
        )

    async def post(self, path: str, *, begins: bool, **options: Any) -> bytes:
        """Send a POST. One that `begins` a conversion must not be repeated blindly."""
        return await self._request(
            "POST", self.config.url.rstrip("/") + path, max_bytes=_SMALL_RESPONSE, begins=begins, **options
        )

    async def put(self, url: str, body: Any) -> None:
        """Upload to a URL that the service returned. It belongs to another host, so the API key is not sent."""
        await self._request("PUT", url, max_bytes=_SMALL_RESPONSE, begins=True, with_key=False, content=body)

    async def download(self, url: str) -> bytes:
        """Download from a URL that the service returned, without the API key."""
        return await self._request("GET", url, max_bytes=self.max_result_bytes, begins=False, with_key=False)

    @property
    def max_result_bytes(self) -> int:
        """The largest result that is accepted, in bytes."""
        return self.config.max_result_mb * 1024 * 1024

    def json(self, body: bytes) -> dict[str, Any]:
        """The JSON object in a response body."""
        try:
            response = json.loads(body)
        except ValueError:
            response = None
        if not isinstance(response, dict):
            raise self.bad_response("is not a JSON object")
        return response  # pyright: ignore[reportUnknownVariableType]  -- JSON's objects have strings for keys

    def bad_response(self, problem: str) -> Permanent:
        """The error for a response that doesn't follow the service's API."""
        return Permanent(f"The response of {self._name} {problem}.", code="processor_bad_answer")

    async def _request(
        self, method: str, url: str, *, max_bytes: int, begins: bool, with_key: bool = True, **options: Any
    ) -> bytes:
        if self._client is None:
            self._client = net.client(allow_private=True, timeout=self.config.timeout, with_references=True)
        limit = self.config.upload_timeout if begins else self.config.timeout
        options["headers"] = {**(self._headers if with_key else {}), **options.get("headers", {})}
        options["timeout"] = httpx.Timeout(limit.total_seconds(), connect=10)
        try:
            async with self._client.stream(method, url, **options) as response:
                body = await net.read_limited(response, max_bytes)
                if not response.is_success:
                    self._raise_for_status(response, body)
                return body
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise Transient(f"{self._name} can't be reached.", code="processor_unreachable") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            if begins:
                raise Permanent(
                    f"{self._name} did not answer ({type(error).__name__}), but may have started the conversion. "
                    "Re-index the item to start it again.",
                    code="conversion_uncertain",
                ) from error
            raise Transient(f"{self._name} did not answer.", code="processor_unreachable") from error

    def _raise_for_status(self, response: httpx.Response, body: bytes) -> None:
        status = response.status_code
        excerpt = " ".join(body[:4_000].decode(errors="replace").split())
        if self.config.api_key:
            excerpt = excerpt.replace(self.config.api_key, "…")
        excerpt = secret_references.redact(excerpt)
        message = f"{self._name} answered {status}: {excerpt[:_EXCERPT]}"
        if status in (408, 425, 429) or status >= 500:
            wait = net.retry_after(response.headers)
            raise Transient(message, code="processor_unavailable", retry_after=wait)
        if status in (401, 403):
            raise Permanent(f"{message} Check its API key.", code="processor_unauthorized")
        raise Permanent(message, code="processor_refused")
