"""Loads the `.sql` files of a package, as a rule one `queries.sql`, and runs their statements.

A file is a list of `-- name: some_name`, a sentence, and one statement with `%(name)s` parameters.
`queries = Queries(__package__)` reads them once; `await queries.many(tx, Row, "some_name", id=…)` runs one.
Rows become instances of a dataclass or named tuple whose fields are the statement's columns.
"""

import dataclasses
import functools
import re
from collections.abc import Callable
from importlib import resources
from typing import Any, TypeVar

from psycopg import AsyncConnection
from psycopg.rows import BaseRowFactory, RowMaker, scalar_row

from gristmill.db.reads import Reads

Row = TypeVar("Row")
Tx = AsyncConnection[Any]

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


class Queries:
    """The named statements of one package."""

    def __init__(self, package: str) -> None:
        folder = resources.files(package)
        files = sorted(
            (file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name
        )
        text = "\n".join(file.read_text(encoding="utf-8") for file in files)
        _, *parts = _NAME.split(text)
        names, statements = parts[::2], parts[1::2]
        if len(set(names)) != len(names):
            raise ValueError(f"the .sql files of {package} name a statement twice")
        # Bytes, because psycopg accepts only literal strings or bytes: SQL that is built in Python can't get in here.
        self._statements = {n: s.strip().encode() for n, s in zip(names, statements, strict=True)}
        self._row_makers: dict[tuple[str, type[Any]], RowMaker[Any]] = {}

    def __getitem__(self, name: str) -> bytes:
        return self._statements[name]

    def names(self) -> list[str]:
        """The names, in the order of the file."""
        return list(self._statements)

    async def many(self, tx: Tx | Reads, row: type[Row], name: str, /, **parameters: Any) -> list[Row]:
        """All rows of the statement."""
        if isinstance(tx, Reads):
            return await tx.fetch(self[name], parameters, lambda columns: self._row_maker(row, name, columns))
        async with tx.cursor(row_factory=self._row_factory(row, name)) as cursor:
            await cursor.execute(self[name], parameters)
            return await cursor.fetchall()

    async def maybe(self, tx: Tx | Reads, row: type[Row], name: str, /, **parameters: Any) -> Row | None:
        """The first row of the statement, if there is one."""
        if isinstance(tx, Reads):
            rows = await self.many(tx, row, name, **parameters)
            return rows[0] if rows else None
        async with tx.cursor(row_factory=self._row_factory(row, name)) as cursor:
            await cursor.execute(self[name], parameters)
            return await cursor.fetchone()

    async def one(self, tx: Tx, row: type[Row], name: str, /, **parameters: Any) -> Row:
        """The only row of a statement that always returns one."""
        result = await self.maybe(tx, row, name, **parameters)
        if result is None:
            raise LookupError(f"{name} returned no row")
        return result

    async def values(self, tx: Tx, name: str, /, **parameters: Any) -> list[Any]:
        """The first column of all rows."""
        async with tx.cursor(row_factory=scalar_row) as cursor:
            await cursor.execute(self[name], parameters)
            return await cursor.fetchall()

    async def run(self, tx: Tx, name: str, /, **parameters: Any) -> int:
        """Run the statement; the number of rows it affected."""
        async with tx.cursor() as cursor:
            await cursor.execute(self[name], parameters)
            return cursor.rowcount

    def _row_factory(self, row: type[Row], name: str) -> BaseRowFactory[Row]:
        """Rows as instances of `row`."""
        return lambda cursor: self._row_maker(
            row, name, lambda: [column.name for column in cursor.description or ()]
        )

    def _row_maker(self, row: type[Row], name: str, columns: Callable[[], list[str]]) -> RowMaker[Row]:
        """The columns are looked up once: that costs as much as reading a row."""
        make_row = self._row_makers.get((name, row))
        if make_row is None:
            column_names = columns()
            make_row = _create_row_maker(row, column_names)
            if column_names:
                self._row_makers[name, row] = make_row
        return make_row


def _create_row_maker(row: type[Row], columns: list[str]) -> RowMaker[Row]:
    """By position where columns and fields agree, which is twice as fast as by name."""
    if columns == _field_names(row)[: len(columns)]:
        return lambda values: row(*values)
    return lambda values: row(**dict(zip(columns, values, strict=True)))


@functools.cache
def _field_names(row: type[Any]) -> list[str]:
    if dataclasses.is_dataclass(row):
        return [field.name for field in dataclasses.fields(row)]
    return list(row._fields)
