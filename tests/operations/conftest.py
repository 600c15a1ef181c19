"""Manual workers, a base and a folder, on the test's database and disk."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from gristmill.catalog import Base
from gristmill.db import Database
from gristmill.settings import Settings
from tests.operations.manual_worker import ManualWorker


@pytest.fixture
async def hand(db: Database, settings: Settings) -> ManualWorker:
    """A worker that runs jobs when the test says so."""
    return await ManualWorker.start(db, settings)


@pytest.fixture
async def second(hand: ManualWorker, settings: Settings) -> ManualWorker:
    """Another worker on the same database."""
    return await ManualWorker.start(hand.db, settings)


@pytest.fixture
async def ends_healthy(hand: ManualWorker, caplog: pytest.LogCaptureFixture) -> AsyncGenerator[None]:
    """After the test all work ends, the invariants hold before and after that, and the reconciler finds nothing."""
    yield
    await hand.assert_healthy()
    assert await hand.reconcile() == {}
    await hand.make_due()
    await hand.work()
    await hand.assert_healthy()
    assert await hand.reconcile() == {}
    assert await hand.value("select count(*) from job where state <> 'dead'") == 0
    assert set((await hand.statuses()).values()) <= {"completed", "failed"}
    assert "deadlock" not in caplog.text


@pytest.fixture
async def base(hand: ManualWorker) -> Base:
    """An empty base."""
    return await hand.base()


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """docs/{a.md, deep/b.md}."""
    top = tmp_path / "docs"
    (top / "deep").mkdir(parents=True)
    (top / "a.md").write_text("rye a")
    (top / "deep/b.md").write_text("rye b")
    return top
