"""A client of Chromium's DevTools protocol over a pair of pipes: requests with answers, and events.

Messages are JSON, each ended by a NUL. No port is opened, so that no one else on the machine can drive the browser. When the browser
ends, every request that waits raises BrowserGone, and so does every later one; whoever waits for events gets the event `GONE`.
"""

import asyncio
import itertools
import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from gristmill import clock

MAX_MESSAGE = 128 << 20  # bytes; the largest one is a page as text

GONE = "gone"  # our own event: the browser has ended

EventHandler = Callable[[str, Mapping[str, Any]], None]


class BrowserGone(Exception):
    """The browser has ended, or was killed."""


class DevToolsError(Exception):
    """The browser refuses a request."""


class DevToolsPipe:
    """The connection to one browser. `on_event` is called for each event, with its name and parameters."""

    def __init__(self, on_event: EventHandler) -> None:
        self._on_event = on_event
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._writer: asyncio.WriteTransport | None = None
        self._reading: asyncio.Task[None] | None = None
        self._transport: asyncio.BaseTransport | None = None

    async def open(self, read_fd: int, write_fd: int) -> None:
        """Speak over these descriptors, which belong to the connection from now on."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=MAX_MESSAGE)
        self._transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_fd, "rb", buffering=0)
        )
        self._writer, _ = await loop.connect_write_pipe(
            asyncio.BaseProtocol, os.fdopen(write_fd, "wb", buffering=0)
        )
        self._reading = asyncio.create_task(self._read(reader), name="devtools")

    async def close(self) -> None:
        """Close the connection; whoever waits for an answer gets BrowserGone."""
        for transport in (self._transport, self._writer):
            if transport is not None:
                transport.close()
        if self._reading is not None:
            await clock.cancel_tasks([self._reading])

    async def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Send a request and wait for its answer."""
        if self._writer is None or self._writer.is_closing() or self._reading is None or self._reading.done():
            raise BrowserGone
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        self._writer.write(json.dumps(message).encode() + b"\0")
        try:
            return await answer
        finally:
            self._waiting.pop(number, None)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                self._dispatch(json.loads((await reader.readuntil(b"\0"))[:-1]))
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError, ValueError):
            return  # it has ended, or sends what no browser sends
        finally:
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(BrowserGone())
                    answer.exception()  # marked as retrieved: the caller may be cancelled by now
            self._on_event(GONE, {})

    def _dispatch(self, message: Mapping[str, Any]) -> None:
        answer = self._waiting.get(message.get("id", 0))
        if "method" in message:
            self._on_event(message["method"], message.get("params", {}))
        elif answer is not None and not answer.done():
            if "error" in message:
                answer.set_exception(DevToolsError(str(message["error"].get("message", ""))))
                answer.exception()
            else:
                answer.set_result(message.get("result", {}))
