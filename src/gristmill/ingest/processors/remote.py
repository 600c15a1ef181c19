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
_SMALL = 4 * 1024 * 1024


class Remote:
    """A processor's address, and requests to it."""

    def __init__(self, what: str, config: ProcessorConfig, headers: dict[str, str]) -> None:
        self.config = config
        self._what, self._headers = what, headers
        self._client: httpx.AsyncClient | None = None

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def ask(self, path: str, *, most: int = _SMALL) -> bytes:
        """GET, which may be repeated."""
        return await self._request("GET", self.config.url.rstrip("/") + path, most=most, begins=False)

    async def post(self, path: str, *, begins: bool, **given: Any) -> bytes:
        """POST; what `begins` a conversion may not be repeated blindly."""
        return await self._request(
            "POST", self.config.url.rstrip("/") + path, most=_SMALL, begins=begins, **given
        )

    async def put(self, url: str, body: Any) -> None:
        """Upload to an address that the service gave, which is not its own: the key stays here."""
        await self._request("PUT", url, most=_SMALL, begins=True, own=False, content=body)

    async def download(self, url: str) -> bytes:
        """The file at an address that the service gave."""
        return await self._request("GET", url, most=self.most_result, begins=False, own=False)

    @property
    def most_result(self) -> int:
        """The most bytes that a result may have."""
        return self.config.most_result_mb * 1024 * 1024

    def json(self, body: bytes) -> dict[str, Any]:
        """The JSON object in an answer."""
        try:
            answer = json.loads(body)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise self.bad_answer("is not a JSON object")
        return answer  # pyright: ignore[reportUnknownVariableType]  -- JSON's objects have strings for keys

    def bad_answer(self, what: str) -> Permanent:
        """An answer that is not what the service promises."""
        return Permanent(f"The answer of {self._what} {what}.", code="processor_bad_answer")

    async def _request(
        self, method: str, url: str, *, most: int, begins: bool, own: bool = True, **given: Any
    ) -> bytes:
        if self._client is None:
            self._client = net.client(private=True, timeout=self.config.timeout)
        limit = self.config.upload_timeout if begins else self.config.timeout
        given["headers"] = {**(self._headers if own else {}), **given.get("headers", {})}
        given["timeout"] = httpx.Timeout(limit.total_seconds(), connect=10)
        try:
            async with self._client.stream(method, url, **given) as answer:
                body = await net.read_limited(answer, most)
                if not answer.is_success:
                    self._refuse(answer, body)
                return body
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise Transient(f"{self._what} can't be reached.", code="processor_unreachable") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            if begins:
                told = (
                    f"{self._what} gave no answer ({type(error).__name__}); it may have begun all the same."
                )
                raise Permanent(
                    f"{told} Re-index the item to begin again.", code="conversion_uncertain"
                ) from error
            raise Transient(f"{self._what} gave no answer.", code="processor_unreachable") from error

    def _refuse(self, answer: httpx.Response, body: bytes) -> None:
        status = answer.status_code
        said = " ".join(body[:4_000].decode(errors="replace").split())
        if self.config.api_key:
            said = said.replace(self.config.api_key, "…")
        told = f"{self._what} answered {status}: {said[:_EXCERPT]}"
        if status in (408, 425, 429) or status >= 500:
            wait = net.retry_after(answer.headers)
            raise Transient(told, code="processor_unavailable", retry_after=wait)
        if status in (401, 403):
            raise Permanent(f"{told} Check its key.", code="processor_unauthorized")
        raise Permanent(told, code="processor_refused")
