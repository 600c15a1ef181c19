"""Manual workers, a base and a folder, on the test's database and disk."""

import os
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from gristmill.catalog import Base
from gristmill.db import Database
from gristmill.settings import Settings
from tests.operations.manual_worker import ManualWorker

_LONG_AGO = 1_600_000_000


@pytest.fixture
async def worker(db: Database, settings: Settings) -> ManualWorker:
    """A worker that runs jobs when the test says so."""
    return await ManualWorker.start(db, settings)


@pytest.fixture
async def second_worker(worker: ManualWorker, settings: Settings) -> ManualWorker:
    """Another worker on the same database."""
    return await ManualWorker.start(worker.db, settings)


@pytest.fixture
async def ends_healthy(worker: ManualWorker, caplog: pytest.LogCaptureFixture) -> AsyncGenerator[None]:
    """After the test all work ends, the invariants hold before and after that, and the reconciler finds nothing."""
    yield
    await worker.assert_healthy()
    assert await worker.reconcile() == {}
    await worker.make_due()
    await worker.work()
    await worker.assert_healthy()
    assert await worker.reconcile() == {}
    assert await worker.value("select count(*) from job where state <> 'dead'") == 0
    assert set((await worker.statuses()).values()) <= {"completed", "failed"}
    assert "deadlock" not in caplog.text


@pytest.fixture
async def base(worker: ManualWorker) -> Base:
    """An empty base."""
    return await worker.base()


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """docs/{a.md, deep/b.md}."""
    top = tmp_path / "docs"
    (top / "deep").mkdir(parents=True)
    for name, text in (("a.md", "rye a"), ("deep/b.md", "rye b")):
        (top / name).write_text(text)
        os.utime(top / name, (_LONG_AGO, _LONG_AGO))  # a file of just now would be compared once more
    return top
