"""Connections to PostgreSQL, and the transactions on them.

Every transaction is READ COMMITTED and short: nothing here waits for network, disk or a model while one is open. A
process that freezes inside one is cut off by the server after a while, so that no one waits for its locks forever. A
connection that died while idle (server restarted, backend terminated) is detected and replaced before it is used. One
that dies in use surfaces as `DatabaseUnavailable`, and nothing was committed unless the COMMIT itself was under way.

`run_before_commit` lets the middleware of a request add a last statement to its transactions, which commits or rolls back
with them; `without_commit_hook` exempts transactions that are not the request's own. What a transaction announces to other
processes is sent after it (`announcer.py`).
"""

import logging
import select
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from contextvars import ContextVar
from datetime import timedelta
from typing import Any

import psycopg
import pydantic_core
from psycopg.pq import TransactionStatus
from psycopg.types.json import set_json_loads
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from gristmill.db import list_dumper
from gristmill.db.announcer import Announcer
from gristmill.db.outage import DatabaseUnavailable, first_line
from gristmill.db.queries import Tx
from gristmill.db.reads import Reads

log = logging.getLogger(__name__)

# What a statement may raise when the server stops, crashes or restarts meanwhile; `_translate_error` looks closer.
_CONNECTION_ERRORS = (psycopg.DatabaseError, psycopg.InterfaceError, PoolTimeout)

# A row of items has three JSON columns: the standard library's parser takes a tenth of the time that a page of them costs.
set_json_loads(pydantic_core.from_json)
list_dumper.register()

_RETIRED_KEY = "GM001"  # raised by refuse_retired_key
_KEYWORDS: Any = {"autocommit": True, "application_name": "gristmill"}
# Far above what a healthy system needs. Statements have no limit: those of compactions and deletions grow with a base.
_LOCK_TIMEOUT = timedelta(minutes=1)
_IDLE_TRANSACTION_TIMEOUT = timedelta(minutes=2)
_BEGIN_SNAPSHOT = (
    b"begin isolation level repeatable read read only; set local plan_cache_mode = force_custom_plan"
)
# Without waiting for the disk: a notification that a crash of the server loses was of no use to its listeners, who are gone too.
_NOTIFY = "select set_config('synchronous_commit', 'off', true), pg_notify(channel, '') from unnest(%s::text[]) channel"
_IN_TRANSACTION = (TransactionStatus.INTRANS, TransactionStatus.INERROR)
CommitHook = Callable[[Tx], Awaitable[None]]
_commit_hook: ContextVar[CommitHook | None] = ContextVar("commit_hook", default=None)


@contextmanager
def run_before_commit(hook: CommitHook | None) -> Generator[None]:
    """Run `hook` last in every transaction that begins in this block."""
    token = _commit_hook.set(hook)
    try:
        yield
    finally:
        _commit_hook.reset(token)


def without_commit_hook() -> AbstractContextManager[None]:
    """Run no hook in the transactions of this block."""
    return run_before_commit(None)


class _WarmestFirst(deque[Tx]):
    """Idle connections: the one that was returned last is taken first, because its server process has the plans of our
    statements and functions cached. psycopg's own order, the longest idle first, makes all of them plan everything."""

    def popleft(self) -> Tx:
        """The connection that was returned last."""
        return self.pop()


class Database:
    """A pool of connections to one database."""

    def __init__(self, url: str, *, size: int = 10, patience: timedelta = timedelta(seconds=10)) -> None:
        self.url = url
        self._patience = patience.total_seconds()
        self._pool = AsyncConnectionPool(
            url,
            min_size=1,
            max_size=size,
            open=False,
            timeout=self._patience,
            reconnect_timeout=self._patience,
            kwargs=_KEYWORDS,
            configure=_set_timeouts,
            name="gristmill",
        )
        self._pool._pool = _WarmestFirst()  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
        self.reads = Reads(self._connect_for_reads, self.connection, patience)
        self._announcer = Announcer(self._notify)

    async def open(self) -> None:
        """Open the first connection; `DatabaseUnavailable` when the server does not answer in time."""
        try:
            await self._pool.open(wait=True, timeout=self._patience)
        except PoolTimeout as error:
            raise DatabaseUnavailable("The database does not answer.") from error

    async def close(self) -> None:
        """Close all connections; transactions under way are rolled back by the server."""
        await self.reads.close()
        await self._announcer.close()
        await self._pool.close(timeout=5)

    @asynccontextmanager
    async def transaction(self, *, large: bool = False) -> AsyncGenerator[Tx]:
        """One transaction: committed at the end of the block, rolled back when it raises."""
        async with self.connection(large=large) as connection, connection.transaction():
            yield connection
            if (hook := _commit_hook.get()) is not None:
                await hook(connection)

    @asynccontextmanager
    async def snapshot(self) -> AsyncGenerator[Tx]:
        """A transaction that only reads, all statements from one snapshot, each planned for its actual parameters: one plan for
        all callers and filters would be a bad one. A single message begins it, which matters where a request needs several."""
        async with self.connection() as connection:
            await connection.execute(_BEGIN_SNAPSHOT, prepare=False)
            try:
                yield connection
            finally:
                if connection.info.transaction_status in _IN_TRANSACTION:
                    await connection.execute(b"rollback", prepare=False)

    @asynccontextmanager
    async def connection(self, *, large: bool = False) -> AsyncGenerator[Tx]:
        """A connection on which every statement is its own transaction. With `large`, for rows of some megabytes, it is
        opened for the caller only: a connection keeps as much memory as its largest message took."""
        try:
            async with self._open_connection(large=large) as connection:
                try:
                    yield connection
                finally:
                    self._announcer.take_from(connection)
        except _CONNECTION_ERRORS as error:
            if (unavailable := _translate_error(error)) is None:
                raise
            raise unavailable from error

    @asynccontextmanager
    async def _open_connection(self, *, large: bool) -> AsyncGenerator[Tx]:
        if large:
            async with await self._connect() as connection:
                yield connection
            return
        async with self._pool.connection() as connection:
            if not _is_closed(connection):
                yield connection
                return
            await connection.close()
        async with self._live_connection() as connection:
            yield connection

    async def _notify(self, channels: Sequence[str]) -> None:
        async with self.connection() as connection:
            await connection.execute(_NOTIFY, [list(channels)])

    async def _connect(self) -> Tx:
        connection = await psycopg.AsyncConnection.connect(self.url, **_KEYWORDS)
        try:
            await _set_timeouts(connection)
        except BaseException:
            await connection.close()
            raise
        return connection

    async def _connect_for_reads(self) -> Tx:
        """A connection that plans a statement once. Planning for the values of the parameters, as PostgreSQL prefers where a
        condition may be left out, takes several times as long as these statements run."""
        connection = await self._connect()
        try:
            await connection.execute("select set_config('plan_cache_mode', 'force_generic_plan', false)")
        except BaseException:
            await connection.close()
            raise
        return connection

    @asynccontextmanager
    async def _live_connection(self) -> AsyncGenerator[Tx]:
        """A connection that works: a restarted server leaves every idle one dead, and each is tried at most once."""
        async with AsyncExitStack() as stack:
            connection = await stack.enter_async_context(self._pool.connection())
            for _ in range(self._pool.max_size):
                if not _is_closed(connection):
                    break
                await connection.close()
                await stack.aclose()
                connection = await stack.enter_async_context(self._pool.connection())
            yield connection


async def _set_timeouts(connection: Tx) -> None:
    # By a statement, because poolers refuse settings in the start-up message.
    values = [
        f"{limit // timedelta(milliseconds=1)}ms" for limit in (_LOCK_TIMEOUT, _IDLE_TRANSACTION_TIMEOUT)
    ]
    await connection.execute(
        "select set_config('lock_timeout', %s, false), set_config('idle_in_transaction_session_timeout', %s, false)",
        values,
    )


def _is_closed(connection: Tx) -> bool:
    """Whether an idle connection has something to read: the server's last message, or the end of the stream."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _translate_error(error: Exception) -> DatabaseUnavailable | None:
    """The error for a database that is away, full or busy; None for a mistake in a statement, which is raised as it is.

    psycopg raises the error of a broken connection as `OperationalError` or, if libpq has put it into a result, which
    then has no SQLSTATE, as plain `DatabaseError`.
    """
    if isinstance(error, psycopg.Error) and error.sqlstate == _RETIRED_KEY:
        return DatabaseUnavailable(
            "The sealing key was replaced at this moment. Try again; if that does not help, restart this process with the new key.",
            code="sealing_key_replaced",
        )
    is_lost = (type(error) is psycopg.DatabaseError and error.sqlstate is None) or isinstance(
        error, psycopg.errors.IdleInTransactionSessionTimeout
    )
    if not is_lost and not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | PoolTimeout):
        return None
    if isinstance(error, psycopg.errors.DiskFull):
        return DatabaseUnavailable(
            "The database's disk is full. Free some space, and work continues.", code="disk_full"
        )
    if isinstance(error, psycopg.errors.DeadlockDetected | psycopg.errors.LockNotAvailable):
        return DatabaseUnavailable(
            "The database was busy with the rows that this would change. Try again.", code="database_busy"
        )
    return DatabaseUnavailable(f"The connection to the database was lost: {first_line(error)}")
