"""A load of reads, in a process of its own: `python -m bench.doors_load < told.json`, which prints what it saw as JSON.

Requests come when they come (a Poisson process), whether the ones before were answered or not, and the time of each runs from
when it was due: a server that stands still makes all of them late, and none is left out.
"""

import asyncio
import json
import random
import sys
import time
from collections.abc import Sequence
from typing import Any

PAGE, WARM_UP, PATIENCE = 20, 3.0, 30


class Line:
    """A connection that is kept open; one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @property
    def is_over(self) -> bool:
        """Whether the server has closed it."""
        return self._reader.at_eof()

    async def ask(self, request: bytes) -> int:
        """The status of the answer, once all of it was read."""
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        await self._reader.readexactly(length)
        return int(head[9:12])


class Load:
    """Requests that come when they come."""

    def __init__(self, host: str, port: int, requests: Sequence[bytes]) -> None:
        self._place, self._requests = (host, port), requests
        self._free: list[Line] = []
        self.took: list[float] = []
        self.late: list[float] = []  # how late we were ourselves: the load's own share of the times
        self.statuses: dict[int, int] = {}

    async def run(self, rate: float, seconds: float) -> None:
        """Send `rate` requests a second for so long after the warm-up, which is not counted."""
        chance = random.Random(7)
        begun = time.perf_counter()
        due, tasks = 0.0, set[asyncio.Task[None]]()
        while due < WARM_UP + seconds:
            due += chance.expovariate(rate)
            if (wait := begun + due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            request = chance.choice(self._requests)
            one = asyncio.create_task(self._send(request, begun + due, counted=due >= WARM_UP))
            tasks.add(one)
            one.add_done_callback(tasks.discard)
        await asyncio.gather(*tasks)

    async def _send(self, request: bytes, due: float, *, counted: bool) -> None:
        status, sent = 0, time.perf_counter()
        try:
            line = await self._line()
            status = await asyncio.wait_for(line.ask(request), PATIENCE)
            self._free.append(line)
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            pass  # told as status 0
        if counted:
            self.took.append(time.perf_counter() - due)
            self.late.append(sent - due)
            self.statuses[status] = self.statuses.get(status, 0) + 1

    async def _line(self) -> Line:
        """The connection that was used last, or a new one; the server closes those that were idle for long."""
        while self._free:
            line = self._free.pop()
            if not line.is_over:
                return line
        return Line(*await asyncio.open_connection(*self._place))


def requests_of(told: dict[str, Any]) -> list[bytes]:
    """One item four times of five, else a page of twenty."""

    def request(path: str) -> bytes:
        return (
            f"GET {path} HTTP/1.1\r\nHost: {told['host']}:{told['port']}\r\n"
            f"Authorization: Bearer {told['key']}\r\n\r\n"
        ).encode()

    ids = told["ids"]
    pages = f"/api/knowledge-bases/{told['base']}/items?limit={PAGE}&cursor="
    return [request(f"/api/knowledge-items/{item}") for item in ids] + [
        request(pages + item) for item in ids[: len(ids) // 4]
    ]


async def main() -> None:
    """Be the load."""
    told = json.load(sys.stdin)
    load = Load(told["host"], told["port"], requests_of(told))
    await load.run(told["rate"], told["seconds"])
    print(json.dumps({"took": load.took, "late": load.late, "statuses": load.statuses}))


if __name__ == "__main__":
    asyncio.run(main())
