"""Lists as parameters: what PostgreSQL receives is what was sent."""

from collections.abc import AsyncGenerator
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg import DataError, adapters
from psycopg.adapt import PyFormat, Transformer
from psycopg.types.array import ListDumper

from gristmill.db import Database, Tx
from gristmill.db.list_dumper import PlainListDumper

TEXTS = ["", " ", "NULL", "null", 'a "quoted" \\ word', "{a,b}", "a\nb\tc", "知识库", "\\x00", "'", '"', "\\"]


@pytest.fixture
async def tx(db: Database) -> AsyncGenerator[Tx]:
    async with db.connection() as connection:
        yield connection


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (TEXTS, "text"),
        ([*TEXTS, None], "text"),
        ([], "text"),
        ([None, None], "text"),
        ([[*TEXTS], [*reversed(TEXTS)]], "text"),
        ([0, -1, 2**62, -(2**63)], "bigint"),
        ([1, None], "int"),
        ([True, False], "boolean"),
        ([UUID(int=7), UUID(int=2**127)], "uuid"),
        ([b"", b"\x00\xff", b'"\\'], "bytea"),
        ([1.5, -2.25], "float"),
    ],
    ids=str,
)
async def test_a_list_arrives_as_it_was_sent(tx: Tx, values: list[object], kind: str) -> None:
    statement = f"select %s::{kind}[]".encode()
    row = await (await tx.execute(statement, [values])).fetchone()
    assert row == (values,)


@given(
    st.one_of(
        st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))),
        st.lists(st.integers(-(2**63), 2**63 - 1)),
        st.lists(st.uuids()),
        st.lists(st.none()),
        st.lists(st.one_of(st.none(), st.integers(0, 10))),
    )
)
def test_the_type_of_a_list_is_the_one_that_psycopg_finds(values: list[object]) -> None:
    transformer = Transformer.from_context(adapters)
    own, other = (kind(list, transformer) for kind in (PlainListDumper, ListDumper))
    assert own.get_key(values, PyFormat.AUTO) == other.get_key(values, PyFormat.AUTO)
    assert own.upgrade(values, PyFormat.AUTO).oid == other.upgrade(values, PyFormat.AUTO).oid


async def test_texts_that_postgresql_refuses_are_refused(tx: Tx) -> None:
    with pytest.raises(DataError):
        await tx.execute("select %s::text[]", [["a\0b", "c"]])
