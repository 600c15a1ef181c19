"""The rows of a base as an archive has them, read in one snapshot, some at a time."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from uuid import UUID

import numpy as np

from gristmill.catalog import Base
from gristmill.db import Queries, Tx
from gristmill.portable.tables import TABLES, Row

queries = Queries(__package__ or "gristmill.portable")

_FETCH_ROWS = 500
_FILE_ROWS = 50_000
_FILE_BYTES = 16 << 20
_VALUE_BYTES = 16


@dataclass(frozen=True)
class OriginalFile:
    """The bytes of an original: the hash of them, and their size and name in the blob store."""

    digest: str
    size: int
    name: str


async def original_names(tx: Tx, base: Base) -> list[OriginalFile]:
    """The original files of a base, each once."""
    return await queries.many(tx, OriginalFile, "export_originals", base=base.id)


async def export_table(tx: Tx, base: Base, table: str) -> AsyncGenerator[list[Row]]:
    """The rows of a table, as many at a time as one file has. `tx` is a snapshot."""
    parameters = {"base": base.id, "set": UUID(str(base.chunk_set))}
    columns = TABLES[table]
    rows: list[Row] = []
    size = 0
    async with tx.cursor(f"export_{table}") as cursor:
        await cursor.execute(queries[f"export_{table}"], parameters)
        while batch := await cursor.fetchmany(_FETCH_ROWS):
            for values in batch:
                row = dict(zip((column.name for column in columns), values, strict=True))
                if "vector" in row:
                    row["vector"] = np.frombuffer(row["vector"], ">f2", offset=4)
                size += sum(
                    len(value) if isinstance(value, str | bytes) else _VALUE_BYTES for value in values
                )
                rows.append(row)
            if len(rows) >= _FILE_ROWS or size >= _FILE_BYTES:
                yield rows
                rows, size = [], 0
    if rows:
        yield rows
