"""A database of every earlier schema, with data in it, becomes one of today, and nothing in it is lost or changed."""

from typing import Any

import psycopg
import pytest
from psycopg import sql

from gristmill.db.migrate import list_migrations, migrate

FIRST_RELEASE = 19  # the last number of the baseline: no database has an earlier schema

# Only columns that the first schema has.
DATA = """
insert into organisation (id, name) values ('00000000-0000-7000-8000-0000000000aa', 'Mill');
insert into api_key (org_id, name, prefix, hash, role) values ('00000000-0000-7000-8000-0000000000aa', 'k', 'gm_', '\\x01', 'admin');
insert into base (id, org_id, name, embedder, embedder_identity, dimensions, chunking, settings, acl, metadata)
values ('00000000-0000-7000-8000-0000000000b1', '00000000-0000-7000-8000-0000000000aa', 'notes', 'e', 'e/1', 3,
        '{"maxTokens": 64}', '{"ignore": ["*.log"]}', '{org:*}', '{"a": 1}');
insert into blob (hash, size, name) values ('\\x0b', 3, 'abc.def');
insert into item (id, base_id, type, title, status, source, source_key, acl)
values ('00000000-0000-7000-8000-0000000000c1', '00000000-0000-7000-8000-0000000000b1', 'directory', 'Folder', 'completed',
        '{"path": "/srv"}', '/srv', '{team:a}');
insert into item (id, base_id, parent_id, type, title, status, source_key, blob_hash, live_version, chunk_count, metadata, document)
values ('00000000-0000-7000-8000-0000000000c2', '00000000-0000-7000-8000-0000000000b1', '00000000-0000-7000-8000-0000000000c1', 'file',
        '石磨.md', 'completed', 'x', '\\x0b', 1, 1, '{"year": 2026}', '{"title": "Stones", "authors": ["A"]}');
insert into content (hash, characters, warnings) values ('\\x0c', 5, '{w}');
insert into content_part (content_hash, start, text, page) values ('\\x0c', 0, 'Größe', 1);
insert into attachment (content_hash, fingerprint, number, name, blob_hash, size) values ('\\x0c', '\\x01', 1, 'a', '\\x0b', 3);
insert into item_version (item_id, version, content_hash, recipe) values ('00000000-0000-7000-8000-0000000000c2', 1, '\\x0c', 'r');
insert into chunk (set_id, item_id, version, index, text, start, "end", headings, embedding)
values ('00000000-0000-7000-8000-0000000000b1', '00000000-0000-7000-8000-0000000000c2', 1, 0, 'Größe', 0, 5, '{h}', '[1,2,3]');
insert into connector (id, org_id, name, type, config, credentials, schedule, acl_schedule)
values ('00000000-0000-7000-8000-0000000000d1', '00000000-0000-7000-8000-0000000000aa', 'c', 'github', '{}', '\\x01', '@daily', '@daily');
insert into connector_document (connector_id, source_id, scope, kind, hash, audience)
values ('00000000-0000-7000-8000-0000000000d1', 's', 'scope', 'issue', '\\x01', 'a');
insert into webhook (org_id, url, secret, cursor) values ('00000000-0000-7000-8000-0000000000aa', 'https://example.com', '\\x01', 0);
insert into event (seq, org_id, position, type, data, at)
values (1, '00000000-0000-7000-8000-0000000000aa', 1, 'BaseCreated', '{}', now());
"""


def _rows(url: str) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table."""
    with psycopg.connect(url) as connection:
        tables = connection.execute(
            "select relname from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'"
            " and relname <> 'schema_migration' order by 1"
        ).fetchall()
        return {
            name: [
                row
                for (row,) in connection.execute(
                    sql.SQL("select to_jsonb(t) from {} t").format(sql.Identifier(name))
                )
            ]
            for (name,) in tables
        }


@pytest.mark.parametrize(
    "number", [migration.number for migration in list_migrations()][FIRST_RELEASE - 1 : -1]
)
async def test_data_of_an_earlier_schema_is_kept_by_the_migrations(empty_url: str, number: int) -> None:
    await migrate(empty_url, list_migrations()[:number])
    with psycopg.connect(empty_url) as connection:
        connection.execute(DATA.encode())
    before = _rows(empty_url)
    assert await migrate(empty_url) == len(list_migrations()) - number
    after = _rows(empty_url)
    assert before["chunk"]
    for table, rows in before.items():
        columns = set(rows[0]) if rows else set[str]()
        shown = [{name: row.get(name) for name in columns} for row in after[table]]
        for row in rows:
            assert row in shown, (table, row)
