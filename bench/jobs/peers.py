"""The peers, behind the same door as ours. The only module that imports them, and only when they are asked for.

They are an optional dependency group and untyped here: what is imported is `Any`.

    procrastinate   batch_defer_async; its worker with `concurrency` jobs at once; lanes are its queues
    PgQueuer        enqueue of lists; its QueueManager with its largest useful batch, on uvloop as its own command
                    does; lanes are entrypoints; once over psycopg, once over asyncpg
    DBOS            its SQL function enqueue_workflow over an array (its Python calls take one at a time); lanes are
                    its queues, polled every 10 ms because they know no notification (its default is a second)
"""

import asyncio
import importlib
import importlib.metadata
import importlib.util
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, LiteralString, cast
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict

from bench.jobs.engine import Engine, Feed, Gristmill, Run

LANES = ("a", "b")


def _import(name: str) -> Any:
    return cast(Any, importlib.import_module(name))


class Procrastinate:
    """https://procrastinate.readthedocs.io, MIT."""

    name = "procrastinate"
    package = "procrastinate"
    concurrency = 10
    uvloop = False
    unfinished: LiteralString = (
        "select count(*)::int from procrastinate_jobs where status in ('todo', 'doing')"
    )

    def _app(self, url: str) -> Any:
        procrastinate = _import("procrastinate")
        return procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url, max_size=10))

    def _task(self, app: Any, run: Run | None = None) -> Any:
        async def numbered(lane: str, number: int) -> None:
            if run is not None:
                await run(lane, number)

        return app.task(name="numbered")(numbered)

    async def install(self, url: str) -> None:
        """Its schema."""
        app = self._app(url)
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    @asynccontextmanager
    async def feed(self, url: str) -> AsyncGenerator[Feed]:
        """Its deferrer."""
        app = self._app(url)
        task = self._task(app)

        class Deferrer:
            async def one(self, lane: str, number: int) -> None:
                await task.configure(queue=lane).defer_async(lane=lane, number=number)

            async def bulk(self, lane: str, first: int, count: int) -> None:
                each = ({"lane": lane, "number": number} for number in range(first, first + count))
                await task.configure(queue=lane).batch_defer_async(*each)

        async with app.open_async():
            yield Deferrer()

    @asynccontextmanager
    async def work(self, url: str, run: Run, concurrency: int) -> AsyncGenerator[None]:
        """Its worker; finished jobs are kept, as by default and as ours keeps a history."""
        app = self._app(url)
        self._task(app, run)
        logging.getLogger("procrastinate").setLevel(logging.ERROR)
        async with app.open_async():
            worker = asyncio.create_task(
                app.run_worker_async(concurrency=concurrency, install_signal_handlers=False)
            )
            try:
                yield
            finally:
                worker.cancel()
                await asyncio.gather(worker, return_exceptions=True)


class PgQueuer:
    """https://pgqueuer.readthedocs.io, MIT."""

    name = "pgqueuer"
    package = "pgqueuer"
    concurrency = 2000
    uvloop = True
    unfinished: LiteralString = "select count(*)::int from pgqueuer"

    @asynccontextmanager
    async def _queries(self, url: str) -> AsyncGenerator[Any]:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            yield _import("pgqueuer.queries").Queries.from_psycopg_connection(connection)

    async def install(self, url: str) -> None:
        """Its schema."""
        async with self._queries(url) as queries:
            await queries.install()

    @asynccontextmanager
    async def feed(self, url: str) -> AsyncGenerator[Feed]:
        """Its enqueue, with values or with lists of them."""
        async with self._queries(url) as queries:

            class Enqueuer:
                async def one(self, lane: str, number: int) -> None:
                    await queries.enqueue(lane, str(number).encode())

                async def bulk(self, lane: str, first: int, count: int) -> None:
                    payloads = [str(number).encode() for number in range(first, first + count)]
                    await queries.enqueue([lane] * count, payloads, [0] * count)

            yield Enqueuer()

    @asynccontextmanager
    async def work(self, url: str, run: Run, concurrency: int) -> AsyncGenerator[None]:
        """Its queue manager; a batch is half of what may run at once, which is the most it allows."""
        async with self._queries(url) as queries:
            manager = _import("pgqueuer.qm").QueueManager(queries)

            async def numbered(job: Any) -> None:
                await run(str(job.entrypoint), int(job.payload))

            for lane in LANES:
                manager.entrypoint(lane)(numbered)
            batch = max(1, concurrency // 2)
            worker = asyncio.create_task(manager.run(batch_size=batch, max_concurrent_tasks=2 * batch))
            try:
                yield
            finally:
                manager.shutdown.set()
                await asyncio.gather(worker, return_exceptions=True)


class PgQueuerAsyncpg(PgQueuer):
    """The same over asyncpg, the driver it suggests: not the same kind of connection, so shown apart."""

    name = "pgqueuer-asyncpg"
    concurrency = 500

    @asynccontextmanager
    async def _queries(self, url: str) -> AsyncGenerator[Any]:
        parts = conninfo_to_dict(url)
        connection = await _import("asyncpg").connect(
            host=parts["host"], port=parts["port"], user=parts["user"], database=parts["dbname"]
        )
        try:
            yield _import("pgqueuer.queries").Queries.from_asyncpg_connection(connection)
        finally:
            await connection.close()


class Dbos:
    """https://docs.dbos.dev, MIT."""

    name = "dbos"
    package = "dbos"
    concurrency = 100
    uvloop = False
    unfinished: LiteralString = (
        "select count(*)::int from dbos.workflow_status where status in ('ENQUEUED', 'PENDING')"
    )

    def _url(self, url: str) -> str:
        parts = conninfo_to_dict(url)
        host = quote(str(parts["host"]), safe="")
        return f"postgresql+psycopg://{parts['user']}@/{parts['dbname']}?host={host}&port={parts['port']}"

    def _launch(self, url: str, run: Run | None, concurrency: int) -> Any:
        DBOS = _import("dbos").DBOS  # noqa: N806
        DBOS(
            config={
                "name": "bench",
                "system_database_url": self._url(url),
                "log_level": "ERROR",
                "application_version": "bench",
            }
        )

        async def numbered(lane: str, number: int) -> None:
            if run is not None:
                await run(lane, number)

        DBOS.workflow(name="numbered")(numbered)
        DBOS.launch()
        for lane in LANES:
            DBOS.register_queue(lane, worker_concurrency=concurrency, polling_interval_sec=0.01)
        return DBOS

    async def install(self, url: str) -> None:
        """Its schema and its queues."""
        launched = await asyncio.to_thread(self._launch, url, None, 1)
        await asyncio.to_thread(launched.destroy)

    @asynccontextmanager
    async def feed(self, url: str) -> AsyncGenerator[Feed]:
        """Its client."""
        client = await asyncio.to_thread(
            lambda: _import("dbos").DBOSClient(system_database_url=self._url(url), application_name="bench")
        )

        def options(lane: str) -> dict[str, str]:
            return {"queue_name": lane, "workflow_name": "numbered"}

        class Client:
            async def one(self, lane: str, number: int) -> None:
                await asyncio.to_thread(client.enqueue, options(lane), lane, number)

            async def bulk(self, lane: str, first: int, count: int) -> None:
                async with await psycopg.AsyncConnection.connect(url) as connection:
                    await connection.execute(
                        "select dbos.enqueue_workflow('numbered', %(lane)s,"
                        " array[to_json(%(lane)s::text), to_json(number)])"
                        " from unnest(%(numbers)s::int[]) number",
                        {"lane": lane, "numbers": list(range(first, first + count))},
                    )

        try:
            yield Client()
        finally:
            await asyncio.to_thread(client.destroy)

    @asynccontextmanager
    async def work(self, url: str, run: Run, concurrency: int) -> AsyncGenerator[None]:
        """Its queue threads."""
        launched = await asyncio.to_thread(self._launch, url, run, concurrency)
        try:
            yield
        finally:
            await asyncio.to_thread(launched.destroy)


PEERS: tuple[Engine, ...] = (PgQueuer(), PgQueuerAsyncpg(), Procrastinate(), Dbos())


def by_name(name: str) -> Engine:
    """The engine of this name."""
    return next(engine for engine in (Gristmill(), *PEERS) if engine.name == name)


def version(name: str) -> str:
    """The installed version of the package an engine comes in."""
    return importlib.metadata.version(name.split("-")[0])


def installed(name: str) -> bool:
    """Whether an engine can be measured here."""
    needed = name.replace("pgqueuer-asyncpg", "asyncpg")
    return importlib.util.find_spec(needed) is not None
