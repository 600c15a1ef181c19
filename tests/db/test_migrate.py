import asyncio
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from gristmill.db.migrate import Migration, list_migrations, migrate
from gristmill.errors import SetupError

FIRST = Migration(1, "one", "create table one ()")
SECOND = Migration(2, "two", "create table two ()")


async def test_an_empty_database_gets_the_schema_and_counts_as_migrated(empty_url: str) -> None:
    assert await migrate(empty_url) == len(list_migrations())
    with psycopg.connect(empty_url) as connection:
        versions = connection.execute(
            "select number, checksum from schema_migration order by number"
        ).fetchall()
        assert connection.execute("select name from organisation").fetchall() == [("local",)]
    assert versions == [(migration.number, migration.checksum) for migration in list_migrations()]


async def test_a_later_migration_is_applied_to_a_database_that_was_created_from_the_schema(
    empty_url: str,
) -> None:
    await migrate(empty_url)
    later = Migration(len(list_migrations()) + 1, "later", "create table later ()")
    assert await migrate(empty_url, [*list_migrations(), later]) == 1


async def test_migrations_are_applied_once(empty_url: str) -> None:
    assert await migrate(empty_url, [FIRST]) == 1
    assert await migrate(empty_url, [FIRST, SECOND]) == 1
    assert await migrate(empty_url, [FIRST, SECOND]) == 0


async def test_when_many_start_at_once_one_migrates_and_the_others_wait(empty_url: str) -> None:
    counts = await asyncio.gather(*(migrate(empty_url) for _ in range(5)))
    assert sorted(counts) == [0, 0, 0, 0, len(list_migrations())]


async def test_a_migration_that_fails_leaves_nothing_and_can_be_tried_again(empty_url: str) -> None:
    broken = Migration(2, "two", "create table two (); select 1 / 0")
    with pytest.raises(psycopg.errors.DivisionByZero):
        await migrate(empty_url, [FIRST, broken])
    assert await migrate(empty_url, [FIRST, SECOND]) == 1


async def test_a_database_of_a_later_release_is_refused(empty_url: str) -> None:
    await migrate(empty_url, [FIRST, SECOND])
    with pytest.raises(SetupError, match="later release") as caught:
        await migrate(empty_url, [FIRST])
    assert caught.value.code == "database_too_new"


async def test_a_migration_that_was_changed_after_it_was_applied_is_refused(empty_url: str) -> None:
    await migrate(empty_url, [FIRST])
    with pytest.raises(SetupError) as caught:
        await migrate(empty_url, [Migration(1, "one", "create table other ()")])
    assert caught.value.code == "schema_differs"


async def test_an_unreachable_server_is_reported_without_its_password() -> None:
    with pytest.raises(SetupError) as caught:
        await migrate("postgresql://user:hunter2@127.0.0.1:1/none")
    assert caught.value.code == "database_unreachable"
    assert "hunter2" not in caught.value.message


def test_the_files_are_numbered_without_a_gap() -> None:
    assert [migration.number for migration in list_migrations()] == list(range(1, len(list_migrations()) + 1))


async def test_a_role_that_may_not_create_tables_is_refused_with_what_to_do(empty_url: str) -> None:
    """As a role that is not the owner of its database, since PostgreSQL 15."""
    role = f"guest_{uuid4().hex}"
    with psycopg.connect(empty_url, autocommit=True) as connection:
        connection.execute(sql.SQL("create role {} login").format(sql.Identifier(role)))
        try:
            with pytest.raises(SetupError, match="permission denied for schema public") as caught:
                await migrate(make_conninfo(empty_url, user=role))
        finally:
            connection.execute(sql.SQL("drop role {}").format(sql.Identifier(role)))
    assert caught.value.code == "database_not_permitted"


@pytest.mark.parametrize("url", ["mysql://ann:hunter2@db/x", "hunter2"])
async def test_what_is_no_address_of_a_database_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(SetupError) as caught:
        await migrate(url)
    assert caught.value.code == "database_unreachable"
    assert "hunter2" not in caught.value.message
