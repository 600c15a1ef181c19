"""The read load of `bench.reads`, in a separate process: `python -m bench.reads_load < config.json` prints its result as JSON.

Requests arrive at random (a Poisson process), whether or not earlier ones have finished, and each is timed from when it was
due: a server that stalls makes all of them late, and none is left out.
"""

import asyncio
import json
import random
import sys
import time
from collections.abc import Sequence
from typing import Any

PAGE, WARM_UP, REQUEST_TIMEOUT = 20, 3.0, 30


class KeptConnection:
    """A persistent connection; one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @property
    def is_closed(self) -> bool:
        """Whether the server has closed it."""
        return self._reader.at_eof()

    async def send(self, request: bytes) -> int:
        """Send a request, read the whole response, and return its status."""
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        await self._reader.readexactly(length)
        return int(head[9:12])


class Load:
    """Requests at random times, and their latencies."""

    def __init__(self, host: str, port: int, requests: Sequence[bytes]) -> None:
        self._address, self._requests = (host, port), requests
        self._idle: list[KeptConnection] = []
        self.latencies: list[float] = []
        self.send_delays: list[float] = []  # how late the load itself sent each request
        self.statuses: dict[int, int] = {}

    async def run(self, rate: float, seconds: float) -> None:
        """Send `rate` requests a second for `seconds` after the warm-up, which is not counted."""
        rng = random.Random(7)
        started = time.perf_counter()
        due, tasks = 0.0, set[asyncio.Task[None]]()
        while due < WARM_UP + seconds:
            due += rng.expovariate(rate)
            if (wait := started + due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            request = rng.choice(self._requests)
            task = asyncio.create_task(self._send(request, started + due, counted=due >= WARM_UP))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.gather(*tasks)

    async def _send(self, request: bytes, due: float, *, counted: bool) -> None:
        status, sent = 0, time.perf_counter()
        try:
            connection = await self._connection()
            status = await asyncio.wait_for(connection.send(request), REQUEST_TIMEOUT)
            self._idle.append(connection)
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            pass  # counted as status 0
        if counted:
            self.latencies.append(time.perf_counter() - due)
            self.send_delays.append(sent - due)
            self.statuses[status] = self.statuses.get(status, 0) + 1

    async def _connection(self) -> KeptConnection:
        """The connection that was used last, or a new one: the server closes idle ones."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed:
                return connection
        return KeptConnection(*await asyncio.open_connection(*self._address))


def build_requests(config: dict[str, Any]) -> list[bytes]:
    """Four of five requests are for one item, one is for a page of twenty."""

    def request(path: str) -> bytes:
        return (
            f"GET {path} HTTP/1.1\r\nHost: {config['host']}:{config['port']}\r\n"
            f"Authorization: Bearer {config['key']}\r\n\r\n"
        ).encode()

    ids = config["ids"]
    pages = f"/api/knowledge-bases/{config['base']}/items?limit={PAGE}&cursor="
    return [request(f"/api/knowledge-items/{item}") for item in ids] + [
        request(pages + item) for item in ids[: len(ids) // 4]
    ]


async def main() -> None:
    """Run the load."""
    config = json.load(sys.stdin)
    load = Load(config["host"], config["port"], build_requests(config))
    await load.run(config["rate"], config["seconds"])
    print(
        json.dumps(
            {
                "took": load.latencies,
                "late": load.send_delays,
                "statuses": load.statuses,
                "cpu": time.process_time(),
            }
        )
    )


if __name__ == "__main__":
    asyncio.run(main())
