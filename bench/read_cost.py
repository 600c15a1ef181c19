"""What a read costs the server, by part: `python -m bench.read_cost [--requests 1000] [--rounds 5] [--profile FILE]`.

A server process without a worker answers requests for one item and for a page of twenty, one after another over HTTP on loopback,
with a reader's key. The cost is the CPU time of that process (without PostgreSQL's), so a busy machine changes it little. Each
round measures all parts; the median of the rounds is printed.

    http           the protocol of uvicorn and ours, around an application that returns the same bytes at once
    middleware     host guard, pages, request context (key, rate limit, access rule, metrics), around that application
    query          the statement, on a connection of the pool, and its rows as items
    serialisation  items to the response's bytes
    framework      the rest of a whole request: routing, dependencies, response

`--profile` writes a profile of whole requests for `pstats`; under the profiler they cost twice as much.
"""

import argparse
import asyncio
import cProfile
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import uvicorn
import uvloop
from starlette.types import ASGIApp, Receive, Scope, Send

from bench.free_embedder import FreeEmbedder
from bench.reads_load import PAGE
from gristmill import app, catalog, identity, niceness
from gristmill.catalog import BaseId, ItemFilter, ItemId, Viewer
from gristmill.cli.serve import Server
from gristmill.client import AsyncClient
from gristmill.identity import LOCAL_ORG, NewApiKey
from gristmill.operations import guards
from gristmill.server import api, ui
from gristmill.server.api.direct_reads import DirectReads
from gristmill.server.api.schemas.common import Page, page_of
from gristmill.server.api.schemas.items import ItemOut
from gristmill.server.http_protocol import BoundedHttpProtocol
from gristmill.settings import load
from tests.serve_api import serve_api

NOTES = 200
SHAPES = ("item", "page")
LAYERS = ("http", "middleware", "whole")
_VIEWER = Viewer(frozenset({"org:*"}), LOCAL_ORG)


# ── the server process ───────────────────────────────────────────────────────────────────────────────────


@dataclass
class FixedApplication:
    """Returns the same bytes for a page and for an item as the routes would."""

    bodies: dict[str, bytes]

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Respond at once."""
        body = self.bodies["page" if scope["query_string"] else "item"]
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


async def fill(folder: Path) -> tuple[str, list[str], str]:
    """Create a base with notes and a reader's key: the base, the notes, the secret."""
    settings = load(data_dir=folder, embedder="free", key_requests_per_minute=10**7, access_log=False)
    embedders = {"free": FreeEmbedder()}
    async with (
        app.gristmill(settings, work=True, extra_embedders=embedders) as mill,
        serve_api(mill) as url,
        AsyncClient(url) as client,
    ):
        base = (await client.create_base("read", acl=["org:*"]))["id"]
        notes = [
            {"type": "note", "content": f"Note {n}: the wheel turned {n} times.", "metadata": {"number": n}}
            for n in range(NOTES)
        ]
        ids = [item["id"] for item in (await client.add(base, notes))["created"]]
        await client.wait(base, ids)
        async with mill.db.transaction() as tx:
            _, secret = await identity.insert_key(tx, LOCAL_ORG, NewApiKey("load", "reader"))
    return base, ids, secret


@asynccontextmanager
async def listen(application: ASGIApp) -> AsyncGenerator[int]:
    """Serve an application the way `gristmill serve` does; its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(
            application,
            http=BoundedHttpProtocol,
            ws="none",
            log_config=None,
            lifespan="off",
            access_log=False,
        )
        server = Server(config)
        task = asyncio.create_task(server.serve(sockets=[listener]))
        await server.ready.wait()
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            await task


def middleware_around(application: FixedApplication, context: api.ApiContext) -> ASGIApp:
    """Our middleware, with `application` in place of the routes."""
    wrapped = api.create(context, ui.UiMiddleware)
    wrapped.user_middleware = [entry for entry in wrapped.user_middleware if entry.cls is not DirectReads]
    wrapped.router = application  # pyright: ignore[reportAttributeAccessIssue]
    return wrapped


class InProcess:
    """The parts of a read that can be called without HTTP."""

    def __init__(self, mill: app.Gristmill, base: str, ids: list[str]) -> None:
        self._db, self._base = mill.db, BaseId(UUID(base))
        self._ids = [ItemId(UUID(item_id)) for item_id in ids]

    async def query_item(self) -> Any:
        """The statement for one item."""
        return await guards.require_item(self._db.reads, self._ids[0], _VIEWER)

    async def query_page(self) -> Any:
        """The statement for a page."""
        return await catalog.list_items(
            self._db.reads, self._base, ItemFilter(), limit=PAGE, after=self._ids[0], viewer=_VIEWER
        )

    async def measure(self, name: str, shape: str, count: int) -> float:
        """CPU seconds of `count` calls."""
        query = self.query_item if shape == "item" else self.query_page
        rows = await query()

        async def serialise() -> None:
            shown = (
                ItemOut.of(rows)
                if shape == "item"
                else Page[ItemOut](items=[ItemOut.of(item) for item in rows], next_cursor=None)
            )
            shown.__pydantic_serializer__.to_json(shown, by_alias=True)

        call: Callable[[], Awaitable[Any]] = query if name == "query" else serialise
        began = time.process_time()
        for _ in range(count):
            await call()
        return time.process_time() - began


async def serve(folder: Path) -> None:
    """Serve all layers, each on its port; commands come as lines of JSON, and so do their results."""
    base, ids, secret = await fill(folder)
    settings = load(
        data_dir=folder,
        embedder="free",
        key_requests_per_minute=10**7,
        access_log=False,
    )
    async with AsyncExitStack() as stack:
        mill = await stack.enter_async_context(
            app.gristmill(settings, work=False, extra_embedders={"free": FreeEmbedder()})
        )
        parts = InProcess(mill, base, ids)
        item, page = ItemOut.of(await parts.query_item()), page_of(await parts.query_page(), PAGE, ItemOut.of)
        fixed = FixedApplication(
            {
                shape: shown.model_dump_json(by_alias=True).encode()
                for shape, shown in (("item", item), ("page", page))
            }
        )
        ports = {
            "http": await stack.enter_async_context(listen(fixed)),
            "middleware": await stack.enter_async_context(listen(middleware_around(fixed, mill.context))),
            "whole": await stack.enter_async_context(listen(mill.api)),
        }
        niceness.favour_event_loop()
        _print({"ports": ports, "base": base, "ids": ids, "secret": secret})
        profiler = cProfile.Profile(time.thread_time)
        while line := await asyncio.to_thread(sys.stdin.readline):
            match json.loads(line):
                case {"do": "cpu"}:
                    _print(time.process_time())
                case {"do": "profile"}:
                    profiler.enable()
                    _print(None)
                case {"do": "write_profile", "path": path}:
                    profiler.disable()
                    profiler.dump_stats(path)
                    _print(None)
                case {"do": name, "shape": shape, "count": count}:
                    _print(await parts.measure(name, shape, count))
                case _:
                    raise ValueError(line)


def _print(result: object) -> None:
    print(json.dumps(result), flush=True)


# ── the process that asks ────────────────────────────────────────────────────────────────────────────────


class ServerProcess:
    """The server process, and connections to its layers."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.read_cost", "--serve", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started = self._read()
        self._ports = started["ports"]
        self._paths = {
            "item": f"/api/knowledge-items/{started['ids'][0]}",
            "page": f"/api/knowledge-bases/{started['base']}/items?limit={PAGE}&cursor={started['ids'][0]}",
        }
        self._secret = started["secret"]

    def _read(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def command(self, **fields: Any) -> Any:
        """The result of a command."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(fields) + "\n")
        self._process.stdin.flush()
        return self._read()

    def send(self, layer: str, shape: str, count: int) -> float:
        """Send requests one after another; the CPU seconds that they cost the server."""
        request = (
            f"GET {self._paths[shape]} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {self._secret}\r\n"
            "Accept: */*\r\nUser-Agent: bench\r\n\r\n"
        ).encode()
        with socket.create_connection(("127.0.0.1", self._ports[layer])) as connection:
            began = self.command(do="cpu")
            for _ in range(count):
                connection.sendall(request)
                _read_response(connection)
            return self.command(do="cpu") - began

    def close(self) -> None:
        """End the server process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


def _read_response(connection: socket.socket) -> None:
    data = connection.recv(1 << 20)
    assert data.startswith(b"HTTP/1.1 200"), data
    head, _, body = data.partition(b"\r\n\r\n")  # the head is sent in one piece
    missing = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]) - len(body)
    while missing > 0:
        part = connection.recv(1 << 20)
        assert part, "the connection was closed"
        missing -= len(part)


def measure(server: ServerProcess, shape: str, requests: int, rounds: int) -> dict[str, float]:
    """Milliseconds of CPU per request, by part."""
    costs: dict[str, list[float]] = {part: [] for part in (*LAYERS, "query", "serialisation")}
    for layer in LAYERS:
        server.send(layer, shape, 100)  # warm up: statements are prepared
    for _ in range(rounds):
        for layer in LAYERS:
            costs[layer].append(server.send(layer, shape, requests))
        for part in ("query", "serialisation"):
            costs[part].append(server.command(do=part, shape=shape, count=requests))
    cost = {part: 1000 * statistics.median(values) / requests for part, values in costs.items()}
    middleware = cost["middleware"] - cost["http"]
    rest = cost["whole"] - cost["middleware"] - cost["query"] - cost["serialisation"]
    return {
        "http": cost["http"],
        "middleware": middleware,
        "framework": rest,
        "query": cost["query"],
        "serialisation": cost["serialisation"],
        "a whole request": cost["whole"],
    }


def main() -> None:
    """Parse the arguments, and measure."""
    parser = argparse.ArgumentParser(prog="bench.read_cost", description=__doc__)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--profile", type=Path)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(options.serve))
        return
    with tempfile.TemporaryDirectory(prefix="gristmill-bench-", ignore_cleanup_errors=True) as folder:
        server = ServerProcess(Path(folder))
        try:
            costs = {shape: measure(server, shape, options.requests, options.rounds) for shape in SHAPES}
            print(f"{'CPU of the server, ms':24}{'one item':>10}{f'page of {PAGE}':>12}")
            for part in costs["item"]:
                print(f"{part:24}{costs['item'][part]:10.3f}{costs['page'][part]:12.3f}")
            if options.profile is not None:
                server.command(do="profile")
                server.send("whole", "item", options.requests)
                server.command(do="write_profile", path=str(options.profile.absolute()))
        finally:
            server.close()


if __name__ == "__main__":
    main()
