"""Connections for the few statements that are sent hundreds of times a second.

Such a statement costs the client more in cursors, prepared statements and waiting than in sending it and reading its rows. Here it
is sent through libpq itself: prepared once per connection, one at a time on each, while the event loop watches the socket.

    connection closed or broken while idle    dropped; the next statement opens another
    statement failed, connection lost         the connection is closed, and the statement is run again on the pool
    all connections busy                      waits for one; `DatabaseUnavailable` after a while
    caller cancelled                          the connection is closed: its result is still to come

A statement that only reads can be run twice, so the pool stays the only place that knows which errors mean what.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import psycopg
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult
from psycopg.rows import RowMaker

from gristmill.db.outage import DatabaseUnavailable

Row = TypeVar("Row")
Tx = psycopg.AsyncConnection[Any]

_SIZE = 4
_PARAMETER = re.compile(rb"%\((\w+)\)s|%%")


class _ReadFailed(Exception):
    """The statement has no result; the pool will say why."""


@dataclass(frozen=True)
class _Statement:
    """A statement with numbered parameters, and their names in that order."""

    query: bytes
    names: Sequence[str]


class Reads:
    """A few connections for frequent statements that only read. Each statement is its own transaction."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[Tx]],
        pool: Callable[[], AbstractAsyncContextManager[Tx]],
        patience: timedelta,
    ) -> None:
        self._connect, self._pool, self._patience = connect, pool, patience.total_seconds()
        self._places = asyncio.Semaphore(_SIZE)
        self._idle: list[_ReadConnection] = []
        self._statements: dict[bytes, _Statement] = {}
        self._is_closed = False

    async def fetch(
        self,
        query: bytes,
        parameters: Mapping[str, Any],
        row_maker: Callable[[Callable[[], list[str]]], RowMaker[Row]],
    ) -> list[Row]:
        """All rows of the statement; `row_maker` makes a row of its values, and may ask for the names of the columns."""
        statement = self._statements.get(query)
        if statement is None:
            statement = self._statements[query] = _parse(query)
        values = [parameters[name] for name in statement.names]
        if self._places.locked():
            await self._wait_for_place()
        else:
            await self._places.acquire()
        try:
            return await self._fetch(statement, values, row_maker)
        except (_ReadFailed, psycopg.Error):
            pass
        finally:
            self._places.release()
        async with self._pool() as connection, connection.cursor() as cursor:
            await cursor.execute(query, parameters)
            make_row = row_maker(lambda: [column.name for column in cursor.description or ()])
            return [make_row(values) for values in await cursor.fetchall()]

    async def close(self) -> None:
        """Close the idle connections now, and the others once their statements have ended."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().close()

    async def _wait_for_place(self) -> None:
        try:
            async with asyncio.timeout(self._patience):
                await self._places.acquire()
        except TimeoutError as error:
            raise DatabaseUnavailable("The database does not answer.") from error

    async def _fetch(
        self,
        statement: _Statement,
        values: Sequence[Any],
        row_maker: Callable[[Callable[[], list[str]]], RowMaker[Row]],
    ) -> list[Row]:
        connection = self._idle_connection() or _ReadConnection(await self._connect())
        try:
            rows = await connection.fetch(statement, values, row_maker)
        except BaseException:
            connection.close()
            raise
        if self._is_closed:
            connection.close()
        else:
            self._idle.append(connection)
        return rows

    def _idle_connection(self) -> "_ReadConnection | None":
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed:
                return connection
        return None


class _ReadConnection:
    """One connection, and the statement that it runs."""

    def __init__(self, connection: Tx) -> None:
        self._pgconn, self._loop = connection.pgconn, asyncio.get_running_loop()
        self._connection = connection  # the adapters refer to it
        self._transformer = Transformer(connection)
        self._prepared: dict[tuple[bytes, tuple[int, ...]], bytes] = {}
        self._socket = self._pgconn.socket
        self._result: PGresult | None = None
        self._waiter: asyncio.Future[PGresult | None] | None = None
        self.is_closed = False
        self._loop.add_reader(self._socket, self._receive)

    async def fetch(
        self,
        statement: _Statement,
        values: Sequence[Any],
        row_maker: Callable[[Callable[[], list[str]]], RowMaker[Row]],
    ) -> list[Row]:
        """Run the statement, prepared for parameters of these types."""
        parameters = self._transformer.dump_sequence(values, [PyFormat.AUTO] * len(values))
        types, formats = self._transformer.types or (), self._transformer.formats
        name = self._prepared.get((statement.query, types))
        if name is None:
            name = b"read_%d" % len(self._prepared)
            self._pgconn.send_prepare(name, statement.query, types)
            await self._await_result(ExecStatus.COMMAND_OK)
            self._prepared[statement.query, types] = name
        self._pgconn.send_query_prepared(name, parameters, formats)
        result = await self._await_result(ExecStatus.TUPLES_OK)
        make_row = row_maker(lambda: [_column_name(result, number) for number in range(result.nfields)])
        self._transformer.set_pgresult(result)
        return self._transformer.load_rows(0, result.ntuples, make_row)

    def close(self) -> None:
        """Close the connection; a statement under way fails."""
        if not self.is_closed:
            self.is_closed = True
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._pgconn.finish()
            self._end_statement(None)

    async def _await_result(self, expected: ExecStatus) -> PGresult:
        self._waiter = self._loop.create_future()
        if self._pgconn.flush():
            self._loop.add_writer(self._socket, self._flush)
        result = await self._waiter
        if result is None or result.status != expected:
            raise _ReadFailed
        return result

    def _flush(self) -> None:
        try:
            if not self._pgconn.flush():
                self._loop.remove_writer(self._socket)
        except psycopg.Error:
            self.close()

    def _receive(self) -> None:
        try:
            self._pgconn.consume_input()
            while self._waiter is not None and not self._pgconn.is_busy():
                result = self._pgconn.get_result()
                if result is None:
                    self._end_statement(self._result)
                else:
                    self._result = result
        except psycopg.Error:
            self.close()

    def _end_statement(self, result: PGresult | None) -> None:
        waiter, self._waiter, self._result = self._waiter, None, None
        if waiter is not None and not waiter.done():
            waiter.set_result(result)


def _parse(query: bytes) -> _Statement:
    """Number the parameters: `%(name)s` becomes `$1`, and the same name the same number."""
    names: dict[str, int] = {}

    def number(match: re.Match[bytes]) -> bytes:
        if match[1] is None:
            return b"%"
        return b"$%d" % names.setdefault(match[1].decode(), len(names) + 1)

    numbered = _PARAMETER.sub(number, query)
    return _Statement(numbered, list(names))


def _column_name(result: PGresult, number: int) -> str:
    name = result.fname(number)
    return "" if name is None else name.decode()
