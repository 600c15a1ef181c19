"""The background loops of the composition root survive unexpected errors."""

import asyncio
from datetime import timedelta
from typing import Any, cast

import pytest

from gristmill import app, clock
from gristmill.db import Database
from gristmill.ingest import update_index
from gristmill.search import compaction


@pytest.fixture(autouse=True)
def short_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "_WATCH_INTERVAL", timedelta(0))
    for module in (compaction, update_index):
        monkeypatch.setattr(module, "_CHECK_INTERVAL", timedelta(0))


class FailingOnce:
    """Raises an unexpected error on the first call; `repeated` is set by the second."""

    def __init__(self) -> None:
        self.calls = 0
        self.repeated = asyncio.Event()

    def __call__(self) -> bool:
        self.calls += 1
        if self.calls == 1:
            raise RuntimeError("a bug")
        self.repeated.set()
        return False


async def test_queueing_compactions_goes_on_after_an_unexpected_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failing = FailingOnce()

    async def queue_due(_scheduler: compaction.CompactionScheduler) -> int:
        return int(failing())

    monkeypatch.setattr(compaction.CompactionScheduler, "queue_due", queue_due)
    await run_until_repeated(compaction.keep_compacting(cast(Any, None)), failing)
    assert "a bug" in caplog.text


async def test_queueing_index_updates_goes_on_after_an_unexpected_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failing = FailingOnce()

    async def queue_updates(_db: Database) -> int:
        return int(failing())

    monkeypatch.setattr(update_index, "queue_updates", queue_updates)
    await run_until_repeated(update_index.keep_queueing(cast(Any, None)), failing)
    assert "a bug" in caplog.text


async def test_the_watch_over_postgresql_goes_on_after_an_unexpected_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failing = FailingOnce()

    class Server:
        restart_if_dead = staticmethod(failing)

    async def run_here(function: Any) -> Any:  # in the loop's thread, where the event can be set
        return function()

    monkeypatch.setattr(asyncio, "to_thread", run_here)
    await run_until_repeated(cast(Any, app)._keep_alive(cast(Any, Server())), failing)
    assert "a bug" in caplog.text


async def run_until_repeated(loop: Any, failing: FailingOnce) -> None:
    task = asyncio.ensure_future(loop)
    repeated = asyncio.ensure_future(failing.repeated.wait())
    await asyncio.wait([task, repeated], return_when=asyncio.FIRST_COMPLETED)
    assert failing.repeated.is_set(), task.exception()
    await clock.cancel_tasks([task])
