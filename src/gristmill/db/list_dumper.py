"""Sends lists to PostgreSQL: the same text that psycopg sends, made with one call for a whole list.

psycopg looks at every element several times in Python, and escapes each by a regular expression. The documents of a batch are
parameters too, so that this was a tenth of what the event loop of a worker did. Lists of one plain type are joined here;
all others (nulls among values, nested lists, other types, a NUL that PostgreSQL refuses) are left to psycopg.
"""

from collections.abc import Callable
from types import NoneType
from typing import Any
from uuid import UUID

from psycopg import adapters
from psycopg.adapt import Buffer, PyFormat
from psycopg.types.array import ListDumper

_NUL = "\0"  # in no text that PostgreSQL stores


def _join_texts(values: list[str]) -> str | None:
    joined = _NUL.join(values)
    if joined.count(_NUL) >= len(values):
        return None
    escaped = joined.replace("\\", "\\\\").replace('"', '\\"')
    return '{"' + escaped.replace(_NUL, '","') + '"}'


def _join_uuids(values: list[UUID]) -> str:
    return "{" + ",".join([value.hex for value in values]) + "}"


def _join_integers(values: list[int]) -> str:
    return "{" + ",".join(map(str, values)) + "}"


def _join_bytes(values: list[bytes]) -> str:
    return '{"\\\\x' + '","\\\\x'.join(map(bytes.hex, values)) + '"}'


def _join_nulls(values: list[None]) -> str:
    return "{" + ",".join(["NULL"] * len(values)) + "}"


_JOIN: dict[type[Any], Callable[[list[Any]], str | None]] = {
    str: _join_texts,
    UUID: _join_uuids,
    int: _join_integers,
    bytes: _join_bytes,
    NoneType: _join_nulls,
}


class PlainListDumper(ListDumper):
    """Dumps lists of texts, ids, integers and bytes at once, and others as psycopg does."""

    def dump(self, obj: list[Any]) -> Buffer | None:
        """The list in PostgreSQL's text format."""
        types = set(map(type, obj))
        join = _JOIN.get(types.pop()) if len(types) == 1 else None
        joined = None if join is None else join(obj)
        return super().dump(obj) if joined is None else joined.encode()

    def _find_list_element(self, L: list[Any], format: PyFormat) -> Any:  # noqa: A002, N803, psycopg's names
        """An element that decides on the type of the array: of integers, the one that needs the most bytes."""
        types = set(map(type, L))
        if len(types) == 1 and (kind := types.pop()) in _JOIN:
            return max(max(L), -min(L) - 1) if kind is int else L[0]
        return super()._find_list_element(L, format)


def register() -> None:
    """Use it for every list that is a parameter of a statement."""
    adapters.register_dumper(list, PlainListDumper)
