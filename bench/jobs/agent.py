"""A process with one engine, controlled by lines of JSON: one command in, one response out.

    open                            connect the engine's client
    add     lane, first, count      add jobs                            began, ended, cpu
    work    concurrency, seconds,   start the worker; a job sleeps
            expect                  for `seconds` (0: it does nothing)
    drain                           wait until `expect` jobs ran and    began, ended, client, server
                                    none is left in the database
    ran                             how many jobs ran                   count
    marks                           what ran when                       marks: lane, number, began, ended
    (end of input)                  stop

Times are from the monotonic clock, which all processes of a machine share. A drain is timed from the start of its
first job, so that the start-up of an engine does not count, until the database has no waiting or running job; the last
check costs every engine the same query.
"""

import asyncio
import importlib
import json
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, cast

import psycopg

from bench.jobs.engine import Producer
from bench.jobs.peers import engine_by_name
from bench.jobs.server import server_cpu


def client_cpu() -> float:
    """Processor seconds of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Agent:
    """Keeps the engine's client and worker open until the end of its input."""

    def __init__(self, engine: str, url: str, postmaster: int) -> None:
        self._engine, self._url, self._postmaster = engine_by_name(engine), url, postmaster
        self._stack = AsyncExitStack()
        self._producer: Producer | None = None
        self._seconds, self._expect = 0.0, 0
        self._marks: list[tuple[str, int, float, float]] = []
        self._loop = asyncio.get_running_loop()
        self._all_ran = asyncio.Event()
        self._first: tuple[float, float, float] | None = None
        self._commands: dict[str, Callable[..., Awaitable[dict[str, Any]]]] = {
            "open": self._open,
            "add": self._add,
            "work": self._work,
            "drain": self._wait_until_drained,
            "ran": self._count_ran,
            "marks": self._list_marks,
        }

    async def serve(self) -> None:
        """Respond to commands until the input ends."""
        async with self._stack:
            while line := await asyncio.to_thread(sys.stdin.readline):
                command = cast(dict[str, Any], json.loads(line))
                response = await self._commands[command.pop("do")](**command)
                print(json.dumps(response), flush=True)

    async def _open(self) -> dict[str, Any]:
        self._producer = await self._stack.enter_async_context(self._engine.producer(self._url))
        return {}

    async def _add(self, lane: str, first: int, count: int) -> dict[str, Any]:
        assert self._producer is not None
        cpu, began = client_cpu(), time.monotonic()
        if count == 1:
            await self._producer.enqueue_one(lane, first)
        else:
            await self._producer.enqueue_many(lane, first, count)
        return {"began": began, "ended": time.monotonic(), "cpu": client_cpu() - cpu}

    async def _work(self, concurrency: int, seconds: float, expect: int) -> dict[str, Any]:
        self._seconds, self._expect = seconds, expect
        await self._stack.enter_async_context(self._engine.worker(self._url, self._run, concurrency))
        return {}

    async def _run(self, lane: str, number: int) -> None:
        began = time.monotonic()
        if self._first is None:
            self._first = (began, client_cpu(), server_cpu(self._postmaster))
        if self._seconds:
            await asyncio.sleep(self._seconds)
        self._marks.append((lane, number, began, time.monotonic()))
        if len(self._marks) == self._expect:
            self._loop.call_soon_threadsafe(self._all_ran.set)  # an engine may run jobs in its own thread

    async def _wait_until_drained(self) -> dict[str, Any]:
        await self._all_ran.wait()
        async with await psycopg.AsyncConnection.connect(self._url, autocommit=True) as connection:
            while True:
                row = await (await connection.execute(self._engine.unfinished)).fetchone()
                assert row is not None
                if row[0] == 0:
                    break
                await asyncio.sleep(0.005)
        assert self._first is not None
        began, client, server = self._first
        return {
            "began": began,
            "ended": time.monotonic(),
            "client": client_cpu() - client,
            "server": server_cpu(self._postmaster) - server,
        }

    async def _count_ran(self) -> dict[str, Any]:
        return {"count": len(self._marks)}

    async def _list_marks(self) -> dict[str, Any]:
        return {"marks": self._marks}


async def main() -> None:
    """`agent.py ENGINE URL POSTMASTER`."""
    engine, url, postmaster = sys.argv[1:]
    await Agent(engine, url, int(postmaster)).serve()


if __name__ == "__main__":
    if engine_by_name(sys.argv[1]).uvloop:
        cast(Any, importlib.import_module("uvloop")).run(main())
    else:
        asyncio.run(main())
