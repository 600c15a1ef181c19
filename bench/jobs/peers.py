"""The peers, behind the same interface as our engine. Only this module imports them, and only on demand.

They are an optional dependency group and untyped here: what is imported is `Any`.

    procrastinate   batch_defer_async; its worker with `concurrency` jobs at once; lanes are its queues
    PgQueuer        enqueue of lists; its QueueManager with its largest useful batch, on uvloop as its own command
                    does; lanes are entrypoints; once over psycopg, once over asyncpg
    DBOS            its SQL function enqueue_workflow over an array (its Python calls take one at a time); lanes are
                    its queues, polled every 10 ms because they have no notification (its default is a second)
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

from bench.jobs.engine import GristmillEngine, JobEngine, Producer, RunJob

LANES = ("a", "b")


def _import(name: str) -> Any:
    return cast(Any, importlib.import_module(name))


class ProcrastinateEngine:
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

    def _task(self, app: Any, run: RunJob | None = None) -> Any:
        async def handle(lane: str, number: int) -> None:
            if run is not None:
                await run(lane, number)

        return app.task(name="numbered")(handle)

    async def install(self, url: str) -> None:
        """Its schema."""
        app = self._app(url)
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    @asynccontextmanager
    async def producer(self, url: str) -> AsyncGenerator[Producer]:
        """Its client."""
        app = self._app(url)
        task = self._task(app)

        class Deferrer:
            async def enqueue_one(self, lane: str, number: int) -> None:
                await task.configure(queue=lane).defer_async(lane=lane, number=number)

            async def enqueue_many(self, lane: str, first: int, count: int) -> None:
                payloads = ({"lane": lane, "number": number} for number in range(first, first + count))
                await task.configure(queue=lane).batch_defer_async(*payloads)

        async with app.open_async():
            yield Deferrer()

    @asynccontextmanager
    async def worker(self, url: str, run: RunJob, concurrency: int) -> AsyncGenerator[None]:
        """Its worker; finished jobs are kept, as by default, and as ours keeps a history."""
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


class PgQueuerEngine:
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
    async def producer(self, url: str) -> AsyncGenerator[Producer]:
        """Its enqueue, with values or with lists of them."""
        async with self._queries(url) as queries:

            class Enqueuer:
                async def enqueue_one(self, lane: str, number: int) -> None:
                    await queries.enqueue(lane, str(number).encode())

                async def enqueue_many(self, lane: str, first: int, count: int) -> None:
                    payloads = [str(number).encode() for number in range(first, first + count)]
                    await queries.enqueue([lane] * count, payloads, [0] * count)

            yield Enqueuer()

    @asynccontextmanager
    async def worker(self, url: str, run: RunJob, concurrency: int) -> AsyncGenerator[None]:
        """Its queue manager; a batch is half of the concurrency, the most that it allows."""
        async with self._queries(url) as queries:
            manager = _import("pgqueuer.qm").QueueManager(queries)

            async def handle(job: Any) -> None:
                await run(str(job.entrypoint), int(job.payload))

            for lane in LANES:
                manager.entrypoint(lane)(handle)
            batch = max(1, concurrency // 2)
            worker = asyncio.create_task(manager.run(batch_size=batch, max_concurrent_tasks=2 * batch))
            try:
                yield
            finally:
                manager.shutdown.set()
                await asyncio.gather(worker, return_exceptions=True)


class PgQueuerAsyncpgEngine(PgQueuerEngine):
    """The same over asyncpg, the driver it suggests: another kind of connection, so it is shown separately."""

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


class DbosEngine:
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

    def _launch(self, url: str, run: RunJob | None, concurrency: int) -> Any:
        DBOS = _import("dbos").DBOS  # noqa: N806
        DBOS(
            config={
                "name": "bench",
                "system_database_url": self._url(url),
                "log_level": "ERROR",
                "application_version": "bench",
            }
        )

        async def handle(lane: str, number: int) -> None:
            if run is not None:
                await run(lane, number)

        DBOS.workflow(name="numbered")(handle)
        DBOS.launch()
        for lane in LANES:
            DBOS.register_queue(lane, worker_concurrency=concurrency, polling_interval_sec=0.01)
        return DBOS

    async def install(self, url: str) -> None:
        """Its schema and its queues."""
        dbos = await asyncio.to_thread(self._launch, url, None, 1)
        await asyncio.to_thread(dbos.destroy)

    @asynccontextmanager
    async def producer(self, url: str) -> AsyncGenerator[Producer]:
        """Its client."""
        client = await asyncio.to_thread(
            lambda: _import("dbos").DBOSClient(system_database_url=self._url(url), application_name="bench")
        )

        def options(lane: str) -> dict[str, str]:
            return {"queue_name": lane, "workflow_name": "numbered"}

        class DbosProducer:
            async def enqueue_one(self, lane: str, number: int) -> None:
                await asyncio.to_thread(client.enqueue, options(lane), lane, number)

            async def enqueue_many(self, lane: str, first: int, count: int) -> None:
                async with await psycopg.AsyncConnection.connect(url) as connection:
                    await connection.execute(
                        "select dbos.enqueue_workflow('numbered', %(lane)s,"
                        " array[to_json(%(lane)s::text), to_json(number)])"
                        " from unnest(%(numbers)s::int[]) number",
                        {"lane": lane, "numbers": list(range(first, first + count))},
                    )

        try:
            yield DbosProducer()
        finally:
            await asyncio.to_thread(client.destroy)

    @asynccontextmanager
    async def worker(self, url: str, run: RunJob, concurrency: int) -> AsyncGenerator[None]:
        """Its queue threads."""
        dbos = await asyncio.to_thread(self._launch, url, run, concurrency)
        try:
            yield
        finally:
            await asyncio.to_thread(dbos.destroy)


PEERS: tuple[JobEngine, ...] = (
    PgQueuerEngine(),
    PgQueuerAsyncpgEngine(),
    ProcrastinateEngine(),
    DbosEngine(),
)


def engine_by_name(name: str) -> JobEngine:
    """The engine with this name."""
    return next(engine for engine in (GristmillEngine(), *PEERS) if engine.name == name)


def version(name: str) -> str:
    """The installed version of an engine's package."""
    return importlib.metadata.version(name.split("-")[0])


def is_installed(name: str) -> bool:
    """Whether an engine can be measured here."""
    module = name.replace("pgqueuer-asyncpg", "asyncpg")
    return importlib.util.find_spec(module) is not None
