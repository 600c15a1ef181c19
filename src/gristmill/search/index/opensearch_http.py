"""HTTP to the nodes of an OpenSearch cluster: time-outs, another node where one can't be reached, and errors in our words."""

import itertools
import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import httpx

from gristmill import net
from gristmill.errors import Permanent
from gristmill.search.index.engine import IndexUnavailable

Body = Mapping[str, Any] | Sequence[Mapping[str, Any]] | str | None

_TIMEOUT = timedelta(seconds=30)
_CONNECT_SECONDS = 5.0  # then the next node is tried
_UNAVAILABLE = frozenset({408, 429, 500, 502, 503, 504})


class Connection:
    """HTTP to the nodes, in turn. A node that can't be reached is skipped: everything sent here can be repeated."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._urls = urls
        self._turn = itertools.count()
        self._client = net.client(allow_private=True, timeout=_TIMEOUT)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def send(
        self,
        method: str,
        path: str,
        body: Body = None,
        *,
        parameters: Mapping[str, str] | None = None,
        accept: Sequence[int] = (),
        timeout: timedelta = _TIMEOUT,
    ) -> tuple[int, dict[str, Any]]:
        """The status and the answer, below 300 or in `accept`. A list is sent as one line of JSON each; so is a string, which is encoded already."""
        content, media_type = _encode(body)
        first = next(self._turn)
        reason = "there is no address"
        for attempt in range(len(self._urls)):
            url = self._urls[(first + attempt) % len(self._urls)]
            try:
                response = await self._client.request(
                    method,
                    f"{url}{path}",
                    content=content,
                    params=parameters,
                    headers={"Content-Type": media_type},
                    timeout=httpx.Timeout(timeout.total_seconds(), connect=_CONNECT_SECONDS),
                )
            except httpx.TimeoutException:
                raise IndexUnavailable("The search engine did not answer in time.") from None
            except httpx.TransportError as error:
                reason = type(error).__name__
                continue
            return self._check(response, accept)
        raise IndexUnavailable(f"No node of the search engine can be reached ({reason}).")

    @staticmethod
    def _check(response: httpx.Response, accept: Sequence[int]) -> tuple[int, dict[str, Any]]:
        if response.status_code in _UNAVAILABLE and response.status_code not in accept:
            wait = net.retry_after(response.headers)
            raise IndexUnavailable(f"The search engine answered {response.status_code}.", retry_after=wait)
        try:
            answer: dict[str, Any] = response.json()
        except ValueError:
            raise IndexUnavailable("The search engine's answer can't be read.") from None
        if response.status_code >= 300 and response.status_code not in accept:
            raise Permanent(
                f"The search engine refused a request ({response.status_code}): {_reason(answer)}",
                code="index_request_refused",
            )
        return response.status_code, answer


def _encode(body: Body) -> tuple[str | None, str]:
    """The body and its media type."""
    if body is None or isinstance(body, Mapping):
        return None if body is None else json.dumps(body), "application/json"
    return body if isinstance(body, str) else encode_lines(body), "application/x-ndjson"


def encode_lines(lines: Sequence[Mapping[str, Any]]) -> str:
    """One line of JSON each. Blocks for long lists: run it in a thread."""
    return "".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in lines)


def _reason(answer: Mapping[str, Any]) -> str:
    error: Any = answer.get("error")
    return str(error.get("type", "unknown") if isinstance(error, dict) else error)[:200]  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
