"""`gristmill doctor`: checks everything that Gristmill depends on, and says how to fix problems."""

import shutil
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from gristmill import app, settings
from gristmill.cli import serve_lock
from gristmill.cli.open_gristmill import open_gristmill
from gristmill.db import upgrade
from gristmill.db.programs import MAJOR
from gristmill.db.switch import old_copies
from gristmill.errors import GristmillError
from gristmill.integrity.invariants import find_violations
from gristmill.integrity.readiness import MIN_FREE_BYTES
from gristmill.search.index import tasks
from gristmill.settings import Settings


@dataclass(frozen=True)
class CheckResult:
    """The result of one check."""

    what: str
    ok: bool
    detail: str


async def run_checks(current: Settings) -> AsyncGenerator[CheckResult]:
    """Run the checks one after the other; the rest is skipped if the database can't be opened."""
    file = settings.config_file()
    yield CheckResult(
        "settings", True, str(file) if file else "no gristmill.toml; using the environment and defaults"
    )
    yield _check_disk(current)
    if (upgrade_check := _check_upgrade(current)) is not None:
        yield upgrade_check
    server_url = serve_lock.find_server_url(current.data_dir)
    yield CheckResult(
        "server", True, f"running at {server_url}" if server_url else "not running on this data dir"
    )
    try:
        async with open_gristmill(current, work=False) as mill:
            yield await _check_database(mill)
            yield await _check_embedder(mill)
            if (index_check := await _check_index(mill)) is not None:
                yield index_check
            yield await _check_invariants(mill)
    except GristmillError as error:
        yield CheckResult("database", False, f"{error.message} ({error.code})")


def _check_disk(current: Settings) -> CheckResult:
    folder = next(parent for parent in (current.data_dir, *current.data_dir.parents) if parent.exists())
    free = shutil.disk_usage(folder).free
    enough = free > MIN_FREE_BYTES
    advice = "" if enough else ". Free some space: PostgreSQL stops when the disk is full"
    return CheckResult("disk", enough, f"{free / 2**30:.1f} GiB free for {current.data_dir}{advice}")


def _check_upgrade(current: Settings) -> CheckResult | None:
    """What is due for the built-in database, or what an upgrade left to be deleted."""
    if current.database_url is not None:
        return None
    version = upgrade.database_version(current.data_dir)
    if version is not None and version < MAJOR:
        advice = "Stop `gristmill serve`, then run `gristmill upgrade`: it copies the data and keeps the old database"
        return CheckResult("upgrade", False, f"due, from PostgreSQL {version} to {MAJOR}. {advice}")
    if copies := old_copies(current.data_dir / "postgres"):
        names = ", ".join(path.name for path in copies)
        return CheckResult("upgrade", True, f"none due; {names} is kept until `gristmill upgrade --drop-old`")
    return CheckResult("upgrade", True, "none due")


async def _check_database(mill: app.Gristmill) -> CheckResult:
    async with mill.db.connection() as tx:
        cursor = await tx.execute(
            "select current_setting('server_version'),"
            " (select extversion from pg_extension where extname = 'vector'),"
            " (select max(number) from schema_migration), pg_size_pretty(pg_database_size(current_database()))"
        )
        row = await cursor.fetchone()
    assert row is not None
    kind = "your own" if mill.settings.database_url else "built-in"
    return CheckResult(
        "database", True, f"{kind} PostgreSQL {row[0]}, pgvector {row[1]}, schema {row[2]}, {row[3]}"
    )


async def _check_embedder(mill: app.Gristmill) -> CheckResult:
    embedder = mill.embedders.default
    try:
        await embedder.embed_query("Does the mill turn?")
    except GristmillError as error:
        return CheckResult("embedder", False, f"{embedder.name}: {error.message} ({error.code})")
    return CheckResult("embedder", True, f"{embedder.name}, {embedder.dimensions} dimensions")


async def _check_index(mill: app.Gristmill) -> CheckResult | None:
    """The search engine of the settings, if there is one."""
    health = await mill.indexes.health()
    if health is None:
        return None
    async with mill.db.connection() as tx:
        counts = await tasks.counts(tx)
    waiting = sum(count.tasks for count in counts)
    oldest = max((count.age for count in counts), default=0.0)
    queue = f", {waiting:,} changes wait, the oldest for {oldest:.0f} s" if waiting else ""
    return CheckResult("index", health.status != "down", f"OpenSearch, {health.detail}{queue}")


async def _check_invariants(mill: app.Gristmill) -> CheckResult:
    async with mill.db.connection() as tx:
        violated = await find_violations(tx)
    if not violated:
        return CheckResult("guarantees", True, "all hold")
    first = violated[0]
    summary = f"{len(violated)} violations; the first: {first.promise}, {first.subject}: {first.detail} {first.advice}"
    return CheckResult("guarantees", False, summary)
