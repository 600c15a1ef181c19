"""`schema/` and `functions/` make the same database as the migrations do."""

import re
from importlib import resources

import psycopg

from gristmill.db.migrate import list_migrations, migrate, schema_sql
from tests.db.catalog_dump import describe, differences


async def test_the_migrations_make_the_same_schema_as_the_schema_files(
    database_url: str, empty_url: str
) -> None:
    await migrate(empty_url, list_migrations())
    with psycopg.connect(database_url) as created, psycopg.connect(empty_url) as migrated:
        assert "table job" in describe(created)
        assert differences(describe(created), describe(migrated)) == [], (
            "write a migration for the change of schema/ or functions/ "
            "(before the first release: python -m tests.db.freeze_baseline)"
        )


PLANTED = {
    "alter table item add column extra int": ["column item.extra"],
    "alter table job alter priority set default 2": ["column job.priority"],
    "alter table base alter name drop not null": ["column base.name"],
    "drop index item_tree": ["index item_tree"],
    "alter table asset drop constraint asset_state_check": ["constraint asset.asset_state_check"],
    "drop trigger item_inherit_acl on item": ["trigger item.item_inherit_acl"],
    "create or replace function base_lock(p_base uuid) returns void language sql as ''": [
        "function base_lock(uuid)"
    ],
    "alter type job_state add value 'lost'": ["enum job_state"],
    "create view planted as select id from item": ["column planted.id", "view planted"],
    "alter table segment alter terms set storage extended": ["column segment.terms"],
}


def test_a_planted_difference_is_found(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        schema = describe(connection)
        for change, expected in PLANTED.items():
            with connection.transaction(force_rollback=True):
                connection.execute(change.encode())
                assert differences(schema, describe(connection)) == expected, change
        assert differences(schema, describe(connection)) == []


def test_every_table_names_its_owner() -> None:
    tables = re.findall(r"(-- owner: (\w+)\n(?:--.*\n)*)?create (?:unlogged )?table (\w+)", schema_sql())
    assert len(tables) > 30
    packages = {entry.name for entry in resources.files("gristmill").iterdir() if entry.is_dir()} | {
        "contents"
    }
    for _, owner, table in tables:
        assert owner, f"{table} names no owner"
        assert owner in packages, f"{table} is owned by {owner}"
