"""Connections to PostgreSQL, and the transactions on them.

Every transaction is READ COMMITTED and short: nothing here waits for network, disk or a model while one
is open. A connection that died while idle (server restarted, backend terminated) is noticed and replaced
before it is used; one that dies in use surfaces as `Unavailable`, and nothing was committed unless the
COMMIT itself was under way.

`sealed` lets whoever serves a request add a last statement to its transactions, which commits with them or rolls them
back; `aside` leaves it out of those that are not what was asked for.
"""

import logging
import select
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from contextvars import ContextVar
from datetime import timedelta
from typing import Any

import psycopg
import pydantic_core
from psycopg.types.json import set_json_loads
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from gristmill.db.queries import Tx
from gristmill.errors import Transient

log = logging.getLogger(__name__)

# A stop, a crash or a restart of the server, as seen from a statement under way.
_CONNECTION_ERRORS = (psycopg.OperationalError, psycopg.InterfaceError, PoolTimeout)


# Three of these a row of items: the standard library's reader takes a tenth of what a page of them costs.
set_json_loads(pydantic_core.from_json)

_KEYWORDS: Any = {"autocommit": True, "application_name": "gristmill"}
CommitHook = Callable[[Tx], Awaitable[None]]
_commit_hook: ContextVar[CommitHook | None] = ContextVar("seal", default=None)


@contextmanager
def run_before_commit(hook: CommitHook | None) -> Generator[None]:
    """Run `seal` last in every transaction that begins in this block."""
    token = _commit_hook.set(hook)
    try:
        yield
    finally:
        _commit_hook.reset(token)


def without_commit_hook() -> AbstractContextManager[None]:
    """Transactions of this block are not what was asked for: they are not sealed."""
    return run_before_commit(None)


class DatabaseUnavailable(Transient):
    """The database does not answer at the moment."""

    code = "database_unavailable"


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
            name="gristmill",
        )

    async def open(self) -> None:
        """Make the first connections; `Unavailable` when the server does not answer in time."""
        try:
            await self._pool.open(wait=True, timeout=self._patience)
        except PoolTimeout as error:
            raise DatabaseUnavailable("The database does not answer.") from error

    async def close(self) -> None:
        """Close all connections; transactions under way are rolled back by the server."""
        await self._pool.close(timeout=5)

    @asynccontextmanager
    async def transaction(self, *, large: bool = False) -> AsyncGenerator[Tx]:
        """One transaction: committed at the end of the block, rolled back when it raises."""
        async with self.connection(large=large) as connection, connection.transaction():
            yield connection
            if (hook := _commit_hook.get()) is not None:
                await hook(connection)

    @asynccontextmanager
    async def connection(self, *, large: bool = False) -> AsyncGenerator[Tx]:
        """A connection on which every statement is its own transaction. One for `large` rows, of some megabytes, is
        made for them alone: a connection holds on to as much memory as its largest message took."""
        try:
            if large:
                async with await psycopg.AsyncConnection.connect(self.url, **_KEYWORDS) as connection:
                    yield connection
                return
            async with self._pool.connection() as connection:
                if not _is_closed(connection):
                    yield connection
                    return
                await connection.close()
            async with self._live_connection() as connection:
                yield connection
        except _CONNECTION_ERRORS as error:
            raise _translate_error(error) from error

    @asynccontextmanager
    async def _live_connection(self) -> AsyncGenerator[Tx]:
        """A connection that lives: a restarted server leaves every idle one dead, and each is met at most once."""
        async with AsyncExitStack() as stack:
            connection = await stack.enter_async_context(self._pool.connection())
            for _ in range(self._pool.max_size):
                if not _is_closed(connection):
                    break
                await connection.close()
                await stack.aclose()
                connection = await stack.enter_async_context(self._pool.connection())
            yield connection


def _is_closed(connection: Tx) -> bool:
    """Whether something came in on an idle connection: the server's goodbye, or the end of the line."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _translate_error(error: Exception) -> DatabaseUnavailable:
    if isinstance(error, psycopg.errors.DiskFull):
        return DatabaseUnavailable(
            "The database's disk is full: free some space, and work goes on.", code="disk_full"
        )
    if isinstance(error, psycopg.errors.DeadlockDetected | psycopg.errors.LockNotAvailable):
        return DatabaseUnavailable(
            "The database was busy with what this would change; it is tried again.", code="database_busy"
        )
    return DatabaseUnavailable(f"The database went away: {str(error).strip().splitlines()[0]}")
