"""A receiver of webhooks: in the test's process, with responses that the test chooses, or in one that can be killed.

python -m tests.events.receiver PORT FILE      writes each event to FILE before it responds
"""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.wait_until import wait_until


@dataclass(frozen=True)
class Request:
    """A request that was received."""

    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.body)


@dataclass
class Receiver:
    """Records requests and responds with what `answer` returns: a status, a whole response, or None for no response."""

    answer: Callable[[Request], int | bytes | None] = lambda _: 200
    requests: list[Request] = field(default_factory=list[Request])
    url: str = ""

    @property
    def types(self) -> list[str]:
        return [request.json["type"] for request in self.requests]

    async def wait_for_requests(self, count: int) -> None:
        """Wait until at least so many requests have arrived."""

        async def have_arrived() -> bool:
            return len(self.requests) >= count

        await wait_until(have_arrived)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (line := await reader.readline()).startswith(b"POST "):
                assert line
                headers: dict[str, str] = {}
                while (line := await reader.readline()) not in (b"\r\n", b""):
                    name, _, value = line.decode().partition(":")
                    headers[name.lower()] = value.strip()
                request = Request(headers, await reader.readexactly(int(headers["content-length"])))
                self.requests.append(request)
                answer = self.answer(request)
                if answer is None:
                    await reader.read()  # until the sender gives up
                    return
                if isinstance(answer, int):
                    answer = f"HTTP/1.1 {answer} So\r\nContent-Length: 0\r\n\r\n".encode()
                writer.write(answer)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def receiving(
    answer: Callable[[Request], int | bytes | None] = lambda _: 200,
) -> AsyncGenerator[Receiver]:
    """A receiver on a free local port."""
    receiver = Receiver(answer)
    server = await asyncio.start_server(receiver.handle, "127.0.0.1", 0)
    receiver.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
    try:
        yield receiver
    finally:
        server.close()


async def main(port: int, path: Path) -> None:
    """Receive until killed."""
    with path.open("ab", buffering=0) as file:

        def keep(request: Request) -> int:
            file.write(request.body + b"\n")
            return 200

        server = await asyncio.start_server(Receiver(keep).handle, "127.0.0.1", port)
        print("receiving", flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2])))
