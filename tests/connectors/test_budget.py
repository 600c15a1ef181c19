"""A run whose time is used up after every batch: it goes on from its marks, and not for ever."""

from collections.abc import Generator
from datetime import timedelta

import pytest

from gristmill.connectors import sync as syncing
from gristmill.settings import Settings
from tests.connectors.bench import Bench
from tests.connectors.double import following
from tests.connectors.doubles.github import GitHubDouble


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """No time at all."""
    given = {"allow_private_addresses": True, "sync_budget": timedelta(microseconds=1)}
    return settings.model_copy(update=given)


@pytest.fixture
def tool() -> Generator[GitHubDouble]:
    with following(GitHubDouble()) as double:
        yield double


async def test_a_run_out_of_time_goes_on_where_it_was(bench: Bench) -> None:
    """S2-14, S2-15."""
    run = await bench.sync()
    assert run.status == "success"
    assert 3 <= run.continuations <= syncing.MOST_CONTINUATIONS
    details = bench.tool.details()
    assert len(set(details)) == len(details)
    await bench.equal()


async def test_a_run_is_not_continued_for_ever(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """S2-15: at most so many times; the next run goes on from there."""
    monkeypatch.setattr(syncing, "MOST_CONTINUATIONS", 1)
    run = await bench.sync()
    assert (run.status, run.error_code) == ("partial", "continuation_limit")
    monkeypatch.undo()
    assert (await bench.sync()).status == "success"
    await bench.equal()
