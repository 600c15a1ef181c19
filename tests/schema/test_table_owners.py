"""Every table has one owner: only the SQL of that package writes it. Reading is free.

SQL functions and triggers (`db/`) are not covered: they belong to the schema, and are called by the owner of the table.
"""

import re
from collections.abc import Iterator
from importlib import resources

import pytest

OWNERS = {
    "catalog": {
        "base",
        "base_share",
        "item",
        "progress",
        "chunk_set",
        "missing_item",
        "swap",
        "item_refresh",
        "exclusion",
        "folder_watch",
        "site_crawl",
        "crawl_page",
        "web_host",
        "deletion_record",
        "legal_hold",
        "retention",
    },
    "connectors": {
        "connector",
        "connector_audience",
        "connector_base",
        "connector_document",
        "connector_failure",
        "connector_group",
        "connector_group_member",
        "connector_identity",
        "connector_push",
        "connector_renewal",
        "connector_run",
        "connector_run_line",
        "connector_stream",
    },
    "contents": {
        "asset",
        "attachment",
        "blob",
        "content",
        "content_asset",
        "content_part",
        "conversion",
        "item_version",
        "pending_blob_name",
    },
    "embedding": {"default_embedder", "embedder", "provider", "provider_portion"},
    "events": {"dead_letter", "event", "event_head", "event_position", "outbox", "webhook"},
    "files": {"file_batch", "file_batch_item", "stored_file"},
    "identity": {
        "api_key",
        "audit",
        "group_member",
        "idempotency",
        "organisation",
        "pending_sign_in",
        "retired_sealing_key",
        "session",
        "user_account",
        "user_group",
    },
    "jobs": {"job", "job_count", "job_history", "lane", "lane_owner", "schedule", "worker"},
    "search": {
        "asked_question",
        "chunk",
        "chunk_mark",
        "deleted_chunk",
        "saved_search",
        "index_language",
        "index_task",
        "segment",
    },
    "usage": {"request_caller", "usage_day", "usage_limit", "usage_reservation"},
}
OWNER = {table: package for package, tables in OWNERS.items() for table in tables}

_COMMENT = re.compile(r"--[^\n]*")
_STRING = re.compile(r"'[^']*'")
_WRITE = re.compile(
    r"\b(?:insert\s+into|merge\s+into|delete\s+from|truncate(?:\s+table)?|copy|(?<!for )(?<!key )(?<!do )update)"
    r"\s+(?:only\s+)?(\w+)",
    re.IGNORECASE,
)


def tables_written_by(sql: str) -> set[str]:
    """The tables that statements write, comments and strings aside."""
    return set(_WRITE.findall(_STRING.sub("''", _COMMENT.sub("", sql))))


def violations(package: str, sql: str) -> list[str]:
    """The tables that a package writes though another owns them, or no package is known to."""
    return sorted(table for table in tables_written_by(sql) if OWNER.get(table) != package)


def sql_files() -> Iterator[tuple[str, str, str]]:
    """Every SQL file of a package: the package, the file's name, its text. Without the schema itself."""
    for package in resources.files("gristmill").iterdir():
        if package.is_dir() and package.name != "db":
            for file in package.iterdir():
                if file.name.endswith(".sql"):
                    yield package.name, file.name, file.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("package", "name", "sql"), [pytest.param(*file, id="/".join(file[:2])) for file in sql_files()]
)
def test_a_package_writes_only_its_own_tables(package: str, name: str, sql: str) -> None:
    assert violations(package, sql) == [], f"{package}/{name} writes tables of other packages"


@pytest.mark.parametrize(
    "sql",
    [
        "-- name: steal\n-- A sentence.\nupdate item set status = 'failed' where id = %(id)s;",
        "insert into item (id) values (%(id)s) on conflict (id) do update set title = 'x';",
        "with old as (delete from item where id = %(id)s returning id) select id from old;",
        "merge into item using base on true when matched then delete;",
        "copy item (id) from stdin;",
        "INSERT\n  INTO item (id) VALUES (1);",
    ],
)
def test_a_planted_violation_is_found(sql: str) -> None:
    assert violations("operations", sql) == ["item"]
    assert violations("catalog", sql) == []


def test_reading_and_locking_is_no_violation() -> None:
    sql = "select id from item i join blob b on true where i.title = 'update item' for no key update of i;"
    assert violations("operations", sql) == []
    assert violations("operations", "select id from item for update skip locked; -- delete from item") == []


def test_a_table_without_an_owner_is_a_violation() -> None:
    assert violations("catalog", "insert into new_table (id) values (1);") == ["new_table"]


def test_every_table_of_the_schema_has_an_owner() -> None:
    schema = "".join(
        file.read_text(encoding="utf-8")
        for file in resources.files("gristmill.db").joinpath("schema").iterdir()
        if file.name.endswith(".sql")
    )
    tables = set(re.findall(r"^create (?:unlogged )?table (?:if not exists )?(\w+)", schema, re.MULTILINE))
    assert tables
    assert tables == OWNER.keys()
