"""A client of server-sent events, like a browser: it keeps the last id, and can reconnect with it."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.wait_until import LIMIT


@dataclass
class Frame:
    """One message: its type, its position if it has one, and its data."""

    type: str
    id: str | None
    data: dict[str, Any]


@dataclass
class Stream:
    """An open stream."""

    response: httpx.Response
    last_id: str | None = None
    retry: str | None = None
    heartbeats: int = 0
    lines: AsyncIterator[str] = field(init=False)

    def __post_init__(self) -> None:
        self.lines = self.response.aiter_lines()

    async def frames(self) -> AsyncGenerator[Frame]:
        """Frames with data, as they come; ends with the stream."""
        fields: dict[str, str] = {}
        async for line in self.lines:
            if line == "":
                self.last_id = fields.get("id", self.last_id)
                self.retry = fields.get("retry", self.retry)
                if "data" in fields:
                    yield Frame(fields.get("event", "message"), fields.get("id"), json.loads(fields["data"]))
                fields = {}
            elif line.startswith(":"):
                self.heartbeats += 1
            else:
                name, _, value = line.partition(": ")
                fields[name] = value

    async def take(self, number: int) -> list[Frame]:
        """The next `number` frames; fails when only heartbeats come."""
        frames: list[Frame] = []
        async with asyncio.timeout(4 * LIMIT):
            async for frame in self.frames():
                frames.append(frame)
                if len(frames) == number:
                    break
        return frames

    async def read_start(self) -> str:
        """The position where the stream begins, from its first frame, which has no data."""
        while self.last_id is None:
            line = await anext(self.lines)
            name, _, value = line.partition(": ")
            if name == "id":
                self.last_id = value
            elif name == "retry":
                self.retry = value
        return self.last_id


@asynccontextmanager
async def stream(
    url: str, *, last_id: str | None = None, key: str | None = None, **query: str
) -> AsyncGenerator[Stream]:
    """Open a stream; `last_id` is the last id of an earlier one."""
    headers = {} if last_id is None else {"Last-Event-ID": last_id}
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    async with (
        httpx.AsyncClient(timeout=httpx.Timeout(30), trust_env=False) as http,
        http.stream("GET", f"{url}/api/events/stream", params=query, headers=headers) as response,
    ):
        assert response.status_code == 200, await response.aread()
        yield Stream(response)
