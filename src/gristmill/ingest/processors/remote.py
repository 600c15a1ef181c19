"""Speaking with a processor over HTTP: time-outs, size limits, and what an answer means.

    429, 503, 408, 425, 5xx; no connection       Transient; Retry-After is passed on
    401, 403                                     Permanent processor_unauthorized
    any other 4xx                                Permanent processor_refused, with the server's own words
    no answer to what begins a conversion        Permanent conversion_uncertain: it may have begun, and beginning again
                                                 may cost again
    200 with something else than was promised    Permanent processor_bad_answer

The key travels in one header and nowhere else: what a server says is cleaned of it.
"""

import json
from typing import Any

import httpx

from gristmill import net
from gristmill.errors import Permanent, Transient
from gristmill.ingest.processors.processor import ProcessorConfig

_EXCERPT = 300
_SMALL_RESPONSE = 4 * 1024 * 1024


class ProcessorClient:
    """A processor's address, and requests to it."""

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
        """GET, which may be repeated."""
        return await self._request(
            "GET", self.config.url.rstrip("/") + path, max_bytes=max_bytes, begins=False
        )

    async def post(self, path: str, *, begins: bool, **options: Any) -> bytes:
        """POST; what `begins` a conversion may not be repeated blindly."""
        return await self._request(
            "POST", self.config.url.rstrip("/") + path, max_bytes=_SMALL_RESPONSE, begins=begins, **options
        )

    async def put(self, url: str, body: Any) -> None:
        """Upload to an address that the service gave, which is not its own: the key stays here."""
        await self._request("PUT", url, max_bytes=_SMALL_RESPONSE, begins=True, with_key=False, content=body)

    async def download(self, url: str) -> bytes:
        """The file at an address that the service gave."""
        return await self._request("GET", url, max_bytes=self.max_result_bytes, begins=False, with_key=False)

    @property
    def max_result_bytes(self) -> int:
        """The most bytes that a result may have."""
        return self.config.max_result_mb * 1024 * 1024

    def json(self, body: bytes) -> dict[str, Any]:
        """The JSON object in an answer."""
        try:
            response = json.loads(body)
        except ValueError:
            response = None
        if not isinstance(response, dict):
            raise self.bad_response("is not a JSON object")
        return response  # pyright: ignore[reportUnknownVariableType]  -- JSON's objects have strings for keys

    def bad_response(self, problem: str) -> Permanent:
        """An answer that is not what the service promises."""
        return Permanent(f"The answer of {self._name} {problem}.", code="processor_bad_answer")

    async def _request(
        self, method: str, url: str, *, max_bytes: int, begins: bool, with_key: bool = True, **options: Any
    ) -> bytes:
        if self._client is None:
            self._client = net.client(allow_private=True, timeout=self.config.timeout)
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
                message = (
                    f"{self._name} gave no answer ({type(error).__name__}); it may have begun all the same."
                )
                raise Permanent(
                    f"{message} Re-index the item to begin again.", code="conversion_uncertain"
                ) from error
            raise Transient(f"{self._name} gave no answer.", code="processor_unreachable") from error

    def _raise_for_status(self, response: httpx.Response, body: bytes) -> None:
        status = response.status_code
        excerpt = " ".join(body[:4_000].decode(errors="replace").split())
        if self.config.api_key:
            excerpt = excerpt.replace(self.config.api_key, "…")
        message = f"{self._name} answered {status}: {excerpt[:_EXCERPT]}"
        if status in (408, 425, 429) or status >= 500:
            wait = net.retry_after(response.headers)
            raise Transient(message, code="processor_unavailable", retry_after=wait)
        if status in (401, 403):
            raise Permanent(f"{message} Check its key.", code="processor_unauthorized")
        raise Permanent(message, code="processor_refused")
