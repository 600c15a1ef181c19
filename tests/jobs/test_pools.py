"""Pools: separate slots, one job per lane, a share per organisation; the general claim leaves their lanes alone."""

import asyncio
from datetime import timedelta
from uuid import UUID, uuid4

from gristmill import jobs
from gristmill.db import Database
from gristmill.identity import LOCAL_ORG, OrgId
from gristmill.jobs import NewJob, store
from gristmill.jobs.job import Job
from gristmill.work import DeliverEvents

OTHER_ORG = OrgId(UUID(int=7))
POOL = DeliverEvents.pool


async def enqueue(db: Database, count: int, org: OrgId = LOCAL_ORG) -> list[str]:
    lanes = [f"webhook:{uuid4()}" for _ in range(count)]
    async with db.transaction() as tx:
        await tx.execute(
            "insert into organisation (id, name) values (%s, 'other') on conflict do nothing", [OTHER_ORG]
        )
        for lane in lanes:
            await jobs.set_lane_owner(tx, lane, org)
        await jobs.enqueue(
            tx, *(NewJob(DeliverEvents(UUID(lane.partition(":")[2])), lane=lane) for lane in lanes)
        )
    return lanes


async def new_worker(db: Database) -> UUID:
    worker = uuid4()
    async with db.connection() as tx:
        await store.register_worker(tx, worker, {}, timedelta(minutes=1))
    return worker


async def claim(
    db: Database, worker: UUID, *, limit: int = 8, share: int = 8, running: list[str] | None = None
) -> list[Job]:
    async with db.connection() as tx:
        return await store.claim_pool(tx, worker, POOL, limit=limit, share=share, running=running or [])


async def test_two_workers_never_claim_the_same_job(db: Database) -> None:
    lanes = await enqueue(db, 20)
    workers = [await new_worker(db), await new_worker(db)]
    claimed_jobs: list[Job] = []
    while len(claimed_jobs) < len(lanes):
        results = await asyncio.gather(*(claim(db, worker, limit=3, share=3) for worker in workers))
        claimed_jobs += [job for result in results for job in result]
    assert sorted(job.lane for job in claimed_jobs) == sorted(lanes)
    assert all(job.pool == POOL for job in claimed_jobs)
    assert await claim(db, workers[0]) == []


async def test_an_organisation_is_given_its_share_and_no_more(db: Database) -> None:
    """What runs already counts; the organisation with fewer running jobs is next."""
    await enqueue(db, 10)
    worker = await new_worker(db)
    first = await claim(db, worker, share=2)
    assert len(first) == 2
    running = [job.lane for job in first]
    assert await claim(db, worker, share=2, running=running) == []
    other_lanes = await enqueue(db, 3, OTHER_ORG)
    (second,) = await claim(db, worker, limit=1, share=4, running=running)
    assert second.lane in other_lanes


async def test_the_general_claim_leaves_the_lanes_of_pools_alone(db: Database) -> None:
    await enqueue(db, 3)
    worker = await new_worker(db)
    async with db.connection() as tx:
        general = await store.complete_and_claim(
            tx, worker, [], limit=8, non_interactive_limit=8, lane_cap=8, global_cap=None
        )
    assert general == []
    assert len(await claim(db, worker)) == 3
