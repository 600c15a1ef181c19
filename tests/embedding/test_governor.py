"""The governor on real PostgreSQL: several processes' worth of governors, one provider."""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import timedelta

import pytest

from gristmill import faults
from gristmill.db import Database
from gristmill.embedding import EmbedderPaused
from gristmill.embedding.governor import Governor, provider_key
from gristmill.embedding.pacing import ProviderLimits
from gristmill.errors import Permanent, Transient
from gristmill.telemetry import pipeline_metrics
from tests.database_clock import DatabaseClock
from tests.wait_until import wait_until

pytestmark = pytest.mark.slow

KEY = "the provider"
Make = Callable[..., Awaitable[Governor]]


@pytest.fixture
async def governor(database_url: str) -> AsyncGenerator[Make]:
    """Makes governors, each with connections of its own, as if it were in another process."""
    async with AsyncExitStack() as stack:

        async def make(
            requests: int | None = None, tokens: int | None = None, concurrency: int = 8, **more: timedelta
        ) -> Governor:
            db = Database(database_url)
            await db.open()
            stack.push_async_callback(db.close)
            new_governor = Governor(
                db, KEY, ProviderLimits(requests, tokens, concurrency), "The provider", **more
            )
            stack.push_async_callback(new_governor.close)
            return new_governor

        yield make


class Provider:
    """Counts who is with it at once, and when they came."""

    def __init__(self) -> None:
        self.now = self.peak = 0
        self.came: list[float] = []
        self.door = asyncio.Event()
        self.door.set()

    async def request(self) -> str:
        self.came.append(time.monotonic())
        self.now += 1
        self.peak = max(self.peak, self.now)
        try:
            await asyncio.sleep(0)
            await self.door.wait()
        finally:
            self.now -= 1
        return "answer"

    async def has(self, requests: int) -> bool:
        return self.now >= requests

    async def has_had(self, requests: int) -> bool:
        return self.peak >= requests


def seconds_waited() -> float:
    """What this process measured so far."""
    paused_too = pipeline_metrics.REGISTRY.get_sample_value(
        "gristmill_embedder_wait_seconds_sum", {"what": "documents"}
    )
    return paused_too or 0.0


async def test_all_workers_together_keep_to_the_concurrency(governor: Make) -> None:
    """S4-70."""
    patient = {"concurrency": 4, "patience": timedelta(minutes=1)}
    provider, governors = Provider(), [await governor(**patient), await governor(**patient)]
    provider.door.clear()
    with faults.watch("governor.asks") as fault:

        async def have_both_asked() -> bool:
            return fault.count >= 3 or provider.now > 3

        tasks = [
            asyncio.create_task(each.run(provider.request, tokens=0)) for each in governors for _ in range(20)
        ]
        await wait_until(have_both_asked)
    provider.door.set()
    assert await asyncio.gather(*tasks) == ["answer"] * 40
    assert provider.peak <= 3  # one is kept for queries


async def test_all_workers_together_keep_to_the_requests_a_minute(governor: Make) -> None:
    provider, governors = Provider(), [await governor(requests=240), await governor(requests=240)]
    started = time.monotonic()
    await asyncio.gather(*(each.run(provider.request, tokens=0) for each in governors for _ in range(12)))
    for count, at in enumerate(provider.came, 1):
        assert count <= 24 + 4 * (at - started) + 1  # a tenth of a minute's worth at once, then four a second


async def test_tokens_count_too(governor: Make, clock: DatabaseClock) -> None:
    provider = Provider()
    impatient = await governor(tokens=60_000, patience=timedelta(seconds=0.1))
    await impatient.run(provider.request, tokens=5_000)
    with pytest.raises(EmbedderPaused) as pause:
        await impatient.run(provider.request, tokens=5_000)
    assert timedelta(seconds=3) < pause.value.pause < timedelta(seconds=6)  # a thousand come back each second
    assert (pause.value.code, pause.value.retry_after) == ("embedder_paced", pause.value.pause)
    assert len(provider.came) == 1


async def test_a_provider_that_asks_for_time_gets_it_from_every_worker(governor: Make) -> None:
    """S4-70."""
    provider, first, other = Provider(), await governor(), await governor()
    request_count = 0

    async def refuse() -> None:
        nonlocal request_count
        request_count += 1
        raise Transient("429.", code="embedder_rate_limited", retry_after=timedelta(seconds=30))

    with pytest.raises(EmbedderPaused, match="429") as pause:
        await first.run(refuse, tokens=0)
    assert pause.value.code == "embedder_rate_limited"
    assert pause.value.pause == timedelta(seconds=30)
    for query in (False, True):
        with pytest.raises(EmbedderPaused) as paused_too:
            await other.run(provider.request, tokens=0, query=query)
        assert timedelta(seconds=25) < paused_too.value.pause <= timedelta(seconds=30)
    assert (request_count, provider.came) == (1, [])


async def test_a_short_pause_is_waited_out_and_the_request_sent_again(governor: Make) -> None:
    provider, first = Provider(), await governor()
    answers = iter([timedelta(seconds=0.2), None])

    async def sometimes() -> str:
        for pause in answers:
            raise Transient("not now", retry_after=pause)
        return await provider.request()

    begun, measured = time.monotonic(), seconds_waited()
    assert await first.run(sometimes, tokens=0) == "answer"
    assert time.monotonic() - begun > 0.2 + 1  # its own wish, then our second pause
    assert seconds_waited() - measured > 0.2 + 1, "/metrics shows the wait"


async def test_a_provider_that_stays_away_is_asked_less_and_less(governor: Make) -> None:
    first, other = [await governor(patience=timedelta(seconds=0.6)) for _ in range(2)]
    request_count = 0

    async def refuse() -> None:
        nonlocal request_count
        request_count += 1
        raise Transient("no connection", code="embedder_unreachable")

    with pytest.raises(EmbedderPaused, match="no connection"):
        await first.run(refuse, tokens=0)
    for caller in (first, other) * 10:
        with pytest.raises(EmbedderPaused):
            await caller.run(refuse, tokens=0)
    assert 2 <= request_count <= 5, "twenty more calls, and only as many requests as the growing pauses allow"


async def test_a_permanent_error_slows_no_one_down(governor: Make) -> None:
    first = await governor()

    async def refuse() -> None:
        raise Permanent("never")

    for _ in range(3):
        with pytest.raises(Permanent):
            await first.run(refuse, tokens=0)
    assert await first.run(Provider().request, tokens=0) == "answer"


async def test_a_query_never_waits_behind_documents(governor: Make) -> None:
    provider, first = Provider(), await governor(requests=100, tokens=10_000, concurrency=2)
    provider.door.clear()
    documents = [asyncio.create_task(first.run(provider.request, tokens=10)) for _ in range(5)]
    await wait_until(lambda: provider.has(1))
    assert await first.run(Provider().request, tokens=10, query=True) == "answer"
    assert (provider.now, [task.done() for task in documents]) == (1, [False] * 5)
    provider.door.set()
    await asyncio.gather(*documents)


async def test_a_newcomer_gets_its_share_once_the_portion_is_renewed(
    governor: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gristmill.embedding.governor._RENEW", timedelta(seconds=0.2))
    provider, first, other = Provider(), await governor(concurrency=3), await governor(concurrency=3)
    busy = True

    async def go_on() -> None:
        while busy:
            await first.run(provider.request, tokens=0)
            await asyncio.sleep(0.001)

    tasks = [asyncio.create_task(go_on()) for _ in range(4)]
    await wait_until(lambda: provider.has_had(2))
    assert await other.run(Provider().request, tokens=0) == "answer"
    busy = False
    await asyncio.gather(*tasks)


async def test_the_database_is_not_asked_for_each_request(governor: Make) -> None:
    provider, first = Provider(), await governor(requests=6000)
    with faults.watch("governor.asks") as fault:
        for _ in range(200):
            await first.run(provider.request, tokens=0)
    assert 1 <= fault.count <= 5


async def test_what_a_dead_process_held_runs_out(
    governor: Make, clock: DatabaseClock, database_url: str
) -> None:
    holder = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.embedding.holder", database_url, KEY), stdout=asyncio.subprocess.PIPE
    )
    assert holder.stdout is not None
    assert await holder.stdout.readline() == b"holds\n"
    holder.kill()
    await holder.wait()
    impatient = await governor(concurrency=2, patience=timedelta(seconds=0.1))
    with pytest.raises(EmbedderPaused):
        await impatient.run(Provider().request, tokens=0)
    await clock.advance(timedelta(seconds=15))
    assert await impatient.run(Provider().request, tokens=0) == "answer"


async def test_an_idle_process_holds_nothing(governor: Make, db: Database) -> None:
    first = await governor()
    await first.run(Provider().request, tokens=0)
    await first.close()
    async with db.connection() as tx:
        assert await (await tx.execute("select * from provider_portion")).fetchall() == []
        (row,) = await (await tx.execute("select key, concurrency, strikes from provider")).fetchall()
    assert row == (KEY, 8, 0)


async def test_a_cancelled_wait_leaves_the_others_their_turns(governor: Make) -> None:
    provider, first = Provider(), await governor(concurrency=2)
    provider.door.clear()
    tasks = [asyncio.create_task(first.run(provider.request, tokens=0)) for _ in range(6)]
    await wait_until(lambda: provider.has(1))
    for task in tasks[:4]:
        task.cancel()
    provider.door.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert results[4:] == ["answer", "answer"]
    assert await first.run(provider.request, tokens=0) == "answer"


def test_a_providers_key_reveals_nothing() -> None:
    secret = "sk-secret"
    key = provider_key("https://api.example/v1", secret)
    assert key == provider_key("https://api.example/v1", secret)
    assert secret not in key
    assert (
        len({key, provider_key("https://api.example/v1", None), provider_key("https://b.example", secret)})
        == 3
    )
