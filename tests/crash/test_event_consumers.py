"""Processes are killed at random: every consumer still sees every event, in order, and none before it is true."""

from datetime import timedelta
from pathlib import Path

from tests.crash.event_consumers import (
    aggregate_errors,
    all_events,
    first_seen,
    run,
    running_system,
)
from tests.gristmill_process import environment
from tests.wait_until import wait_until


async def test_every_consumer_sees_every_event_in_order_whatever_is_killed(
    database_url: str, tmp_path: Path, cache_dir: Path
) -> None:
    """S3-06, S3-14, S3-18, S3-20, S3-21: at least once, per base in order, aggregates once and never early."""
    env = environment(
        tmp_path / "data",
        cache_dir,
        database_url=database_url,
        lease="1",
        allow_private_addresses="true",
        log_level="warning",
    )
    async with running_system(env, tmp_path, workers=1) as system:
        await run(system, documents=60, bases=3, kills=3, pause=timedelta(seconds=0.3), seed=7)
        events = await all_events(system)
        places = [int(event["id"]) for event in events]
        assert places == list(range(1, len(places) + 1))
        assert first_seen(system.polled_events) == places
        assert first_seen(system.streamed_events) == places
        assert first_seen(system.received_events()) == places, "also the order in which each was sent first"
        assert aggregate_errors(events) == []
        assert system.reconnects > 2
        assert all(daemon.kills for daemon in (system.receiver, system.server, *system.workers))
        job_id = (await system.request("POST", "/api/health/reconciler"))["jobId"]

        async def repairs() -> dict[str, int] | None:
            reconciler = await system.request("GET", "/api/health/reconciler")
            return reconciler["damage"] if reconciler["jobId"] == job_id else None

        assert set((await wait_until(repairs)).values()) == {0}, (
            "leases and transactions have left nothing to repair"
        )
        assert (await system.request("GET", "/api/health/invariants")) == {"violations": []}
    assert "Traceback" not in (tmp_path / "log").read_text()
