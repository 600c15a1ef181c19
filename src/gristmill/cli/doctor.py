"""`gristmill doctor`: looks at everything that Gristmill leans on, and says what to do about what is wrong."""

import shutil
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from gristmill import app, settings
from gristmill.cli import presence
from gristmill.errors import GristmillError
from gristmill.operations.health import violations
from gristmill.operations.ready import LOW_DISK
from gristmill.settings import Settings


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    what: str
    ok: bool
    detail: str


async def examine(current: Settings) -> AsyncGenerator[Finding]:
    """Look at one thing after the other; a database that can't be opened ends it."""
    file = settings.config_file()
    yield Finding("settings", True, str(file) if file else "no gristmill.toml; environment and defaults")
    yield _disk(current)
    serving = presence.find(current.data_dir)
    yield Finding("server", True, f"running at {serving}" if serving else "not running on this data dir")
    try:
        async with app.running(current, work=False) as mill:
            yield await _database(mill)
            yield await _embedder(mill)
            yield await _promises(mill)
    except GristmillError as error:
        yield Finding("database", False, f"{error.message} ({error.code})")


def _disk(current: Settings) -> Finding:
    place = next(parent for parent in (current.data_dir, *current.data_dir.parents) if parent.exists())
    free = shutil.disk_usage(place).free
    enough = free > LOW_DISK
    advice = "" if enough else ": free some space, PostgreSQL stops when there is none"
    return Finding("disk", enough, f"{free / 2**30:.1f} GiB free for {current.data_dir}{advice}")


async def _database(mill: app.Gristmill) -> Finding:
    async with mill.db.connection() as tx:
        cursor = await tx.execute(
            "select current_setting('server_version'),"
            " (select extversion from pg_extension where extname = 'vector'),"
            " (select max(number) from schema_migration), pg_size_pretty(pg_database_size(current_database()))"
        )
        row = await cursor.fetchone()
    assert row is not None
    kind = "your own" if mill.settings.database_url else "embedded"
    return Finding(
        "database", True, f"{kind} PostgreSQL {row[0]}, pgvector {row[1]}, schema {row[2]}, {row[3]}"
    )


async def _embedder(mill: app.Gristmill) -> Finding:
    embedder = mill.embedders.default
    try:
        await embedder.embed_query("Does the mill turn?")
    except GristmillError as error:
        return Finding("embedder", False, f"{embedder.name}: {error.message} ({error.code})")
    return Finding("embedder", True, f"{embedder.name}, {embedder.dimensions} dimensions")


async def _promises(mill: app.Gristmill) -> Finding:
    async with mill.db.connection() as tx:
        broken = await violations(tx)
    if not broken:
        return Finding("promises", True, "all hold")
    first = broken[0]
    told = f"{len(broken)} violations; the first: {first.promise}, {first.subject}: {first.detail} {first.advice}"
    return Finding("promises", False, told)
