"""The tables of an archive: their columns, and Parquet in both directions.

A table is a list of Parquet files of bounded size, so that neither side holds more than one of them in memory. Lists and
objects are columns of JSON text, hashes are in hex, instants in ISO 8601. A column or table with `since` above 1 is missing in
archives of an earlier format: its values are then null, its rows none.
"""

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import arro3.core
import numpy as np
from arro3.core import Array, DataType, RecordBatch, list_flatten
from arro3.io import read_parquet, write_parquet
from numpy.typing import NDArray

Row = dict[str, Any]
ColumnKind = Literal["text", "number", "flag", "bytes", "vector"]
_arrow: Any = arro3.core  # its functions that take arrays of several kinds are typed only in part
_COMPRESSION = "zstd(3)"
_TYPES: Mapping[str, DataType] = {
    "text": DataType.utf8(),
    "number": DataType.int64(),
    "flag": DataType.bool(),
    "bytes": DataType.binary(),
}


@dataclass(frozen=True)
class Column:
    """A column of a table of archives; `since` is the first format that has it."""

    name: str
    kind: ColumnKind = "text"
    since: int = 1


def _columns(text: str, *others: Column) -> tuple[Column, ...]:
    """Columns by their names; a suffix says what is not text: `:n` numbers, `:f` flags."""
    kinds: Mapping[str, ColumnKind] = {"": "text", "n": "number", "f": "flag"}
    named = [word.partition(":") for word in text.split()]
    return (*(Column(name, kinds[suffix]) for name, _, suffix in named), *others)


# In the order of an import: what a row refers to comes before it.
TABLES: Mapping[str, tuple[Column, ...]] = {
    "items": _columns(
        "id parent type title status error_code error_message warnings source source_key original body size_bytes:n"
        " wanted_version:n live_version:n attachments_version:n attachments_content chunk_count:n left_out acl metadata document"
        " chunking created_at updated_at"
    ),
    "contents": _columns("hash characters:n warnings document"),
    "content_parts": _columns("content start:n text page:n", Column("boxes", "bytes", since=2)),
    "attachments": _columns("content number:n name original size:n"),
    "assets": _columns(
        "content hash number:n kind media_type size:n page:n start:n end:n caption inline:f original"
    ),
    "versions": _columns("item version:n content recipe original validators"),
    "descriptions": _columns("item version:n hash analyst text"),
    "chunks": _columns("item index:n text start:n end:n page:n headings", Column("vector", "vector")),
    "chunk_marks": _columns("item text_hash mark"),
    "exclusions": _columns("root type source_key title"),
}
TABLES_SINCE: Mapping[str, int] = {"chunk_marks": 2, "exclusions": 2}


def encode_rows(table: str, rows: Sequence[Row], dimensions: int) -> bytes:
    """One Parquet file with these rows."""
    arrays: dict[str, Any] = {}
    for column in TABLES[table]:
        values = [row[column.name] for row in rows]
        if column.kind == "vector":
            matrix = np.asarray(values, np.float16).reshape(len(values), dimensions)
            arrays[column.name] = _arrow.fixed_size_list_array(
                Array.from_numpy(matrix.reshape(-1)), dimensions
            )
        else:
            arrays[column.name] = Array(values, _TYPES[column.kind])
    file = io.BytesIO()
    write_parquet(_arrow.Table.from_pydict(arrays), file, compression=_COMPRESSION)
    return file.getvalue()


def decode_rows(
    table: str, data: bytes, dimensions: int, batch_rows: int, version: int
) -> Iterator[list[Row]]:
    """The rows of a Parquet file in batches; `ValueError` when it is not what the format says."""
    for batch in read_parquet(io.BytesIO(data), batch_size=batch_rows):
        yield _decode_batch(table, batch, dimensions, version)


def _decode_batch(table: str, batch: RecordBatch, dimensions: int, version: int) -> list[Row]:
    names, count = set(batch.schema.names), batch.num_rows
    columns: list[Sequence[Any]] = []
    for column in TABLES[table]:
        if column.name not in names:
            if version >= column.since:
                raise ValueError(f"{table} lacks the column {column.name}")
            columns.append([None] * count)
        elif column.kind == "vector":
            columns.append(_decode_vectors(batch.column(column.name), count, dimensions))
        else:
            values: Any = batch.column(column.name)
            if values.type != _TYPES[column.kind]:
                raise ValueError(f"{table}.{column.name} is not of the type {column.kind}")
            columns.append(values.to_pylist())
    labels = [column.name for column in TABLES[table]]
    return [dict(zip(labels, values, strict=True)) for values in zip(*columns, strict=True)]


def _decode_vectors(values: Any, count: int, dimensions: int) -> Sequence[Any]:
    flat: NDArray[np.float16] = cast(Any, list_flatten(values)).to_numpy()
    if flat.dtype != np.float16 or len(flat) != count * dimensions or not np.isfinite(flat).all():
        raise ValueError("the vectors are not those of this embedder")
    return list(flat.reshape(count, dimensions).astype(np.float32))
