"""Workers are killed at every step of a change of the embedder, while the base is searched and documents are added."""

import asyncio
import json
from collections.abc import AsyncGenerator
from datetime import timedelta
from pathlib import Path

import pytest

from gristmill import catalog, clock
from gristmill.catalog import Base, SwapState
from gristmill.db import Database
from gristmill.ingest.build_chunk_set import BATCH_CHUNKS
from gristmill.integrity import invariants
from gristmill.operations import swap_embedder
from gristmill.search import Searcher, SearchRequest, Target
from gristmill.settings import Settings
from tests.crash.event_consumers import Daemon
from tests.crash.swap_worker import DIMENSIONS, PaidEmbedder
from tests.embedding.hashed import HashedEmbedder
from tests.embedding.probes import without_probes
from tests.gristmill_process import environment
from tests.operations.manual_worker import ManualWorker, note_to_add
from tests.wait_until import wait_until

ROOT = Path(__file__).parents[2]
NOTES = 150
# In the order in which a swap comes by.
SWAP_POINTS = (
    "swap.before_call",
    "swap.embedded",
    "swap.before_write",
    "swap.batch_written",
    "swap.built",
    "swap.comparing",
    "swap.compared",
    "swap.before_switch",
)
AFTER_POINTS = ("swap.refreshed",)
QUERY = "wheel stone flour"
_BETWEEN_SEARCHES = timedelta(milliseconds=30)  # the workers need a core too


def text_of(number: int) -> str:
    """Three sentences in words that no other text has, so that any embedder finds them, and words that all have."""
    return (
        f"# Sack{number} and cart{number}\n\nThe wheel of mill{number} turns by weir{number} and river{number}. "
        f"A stone grinds rye{number} with oats{number} to flour. Miller{number} carries bran{number} to barn{number}."
    )


class Searches:
    """Searches the base all the time; every answer must come from one set of chunks, with its own embedder."""

    def __init__(self, db: Database, base: Base, embedders: dict[str, HashedEmbedder]) -> None:
        self._db, self._base, self._embedders = db, base, embedders
        self.answers = 0
        self.checked_answers = 0
        self.embedders_seen: set[str] = set()

    async def run(self) -> None:
        """Search until cancelled."""
        searcher = Searcher(self._db, cache_bytes=2**20)
        while True:
            async with self._db.connection() as tx:
                base = await catalog.find_base(tx, self._base.id)
            assert base is not None
            target = Target(base, self._embedders[base.embedder])
            hits = await searcher.search([target], SearchRequest(QUERY, limit=20))
            assert len(hits) == 20, "the base answers throughout"
            async with self._db.connection() as tx:
                rows = await (
                    await tx.execute(
                        "select distinct c.set_id, vector_dims(c.embedding) from chunk c where c.id = any (%s)",
                        [[hit.chunk_id for hit in hits]],
                    )
                ).fetchall()
            # A hit may have been removed since; what is left is of the set of the base as it was read.
            assert rows in ([], [(base.chunk_set, base.dimensions)])
            self.answers += 1
            self.checked_answers += rows != []
            self.embedders_seen.add(base.embedder)
            await clock.pause(_BETWEEN_SEARCHES)


@pytest.fixture
async def searching(
    db: Database, settings: Settings, tmp_path: Path
) -> AsyncGenerator[tuple[ManualWorker, Base, Searches]]:
    """A base of notes that is searched all the time."""
    worker = await ManualWorker.start(db, settings)
    base = await worker.base()
    await worker.add(base, *(note_to_add(f"note-{n}", text_of(n)) for n in range(NOTES)))
    await worker.work()
    embedders = {"hashed": HashedEmbedder(), "other": PaidEmbedder(tmp_path / "unused")}
    searches = Searches(db, base, embedders)
    task = asyncio.create_task(searches.run())
    yield worker, base, searches
    assert not task.done(), task.exception()
    task.cancel()


class KilledWorker:
    """A worker process that is killed at named points."""

    def __init__(self, url: str, folder: Path, cache_dir: Path) -> None:
        self._url, self._folder, self._cache_dir = url, folder, cache_dir
        self.paid_file = folder / "paid"
        self.daemon: Daemon | None = None

    def _daemon(self, faults: str = "", call: list[str] | None = None) -> Daemon:
        settings = {
            "database_url": self._url,
            "lease": "PT1S",
            "embedder": "hashed",
            "log_level": "error",
            "faults": faults,
        }
        env = {**environment(self._folder / "data", self._cache_dir, **settings), "PYTHONPATH": str(ROOT)}
        call = call or ["tests.crash.swap_worker", str(self.paid_file)]
        return Daemon(call, env, self._folder / "log")

    async def run_until_killed(self, point: str) -> None:
        """Run a worker that is killed at the point."""
        await self._wait_for_kill(self._daemon(f"{point}=kill"))

    async def revert_until_killed(self, base: Base, point: str) -> None:
        """Call `revert` in a process that is killed at the point."""
        call = ["tests.crash.revert_caller", str(base.id), str(self.paid_file)]
        await self._wait_for_kill(self._daemon(f"{point}=kill", call))

    async def _wait_for_kill(self, daemon: Daemon) -> None:
        await daemon.start()
        assert daemon.process is not None
        process = daemon.process

        async def is_dead() -> bool:
            return process.poll() is not None

        try:
            await wait_until(is_dead, limit=60, every=0.05)
        finally:
            daemon.kill()

    async def start(self) -> None:
        """Run a worker that lives."""
        self.daemon = self._daemon()
        await self.daemon.start()

    def stop(self) -> None:
        """End it."""
        if self.daemon is not None:
            self.daemon.kill()

    @property
    def paid(self) -> list[str]:
        """The texts that were embedded with the other embedder."""
        lines = self.paid_file.read_text().splitlines() if self.paid_file.exists() else []
        return without_probes(json.loads(line) for line in lines)


@pytest.fixture
def killed(database_url: str, tmp_path: Path, cache_dir: Path) -> KilledWorker:
    """A worker process."""
    return KilledWorker(database_url, tmp_path, cache_dir)


async def until_state(db: Database, base: Base, state: SwapState) -> None:
    """Wait until the swap has this state and its items are refreshed."""

    async def is_so() -> bool:
        async with db.connection() as tx:
            swap = await catalog.last_swap(tx, base.id)
            assert swap is None or swap.state != "refused", swap
            open_jobs = await (
                await tx.execute("select count(*) from job where state <> 'dead' and lane = %s", [base.lane])
            ).fetchone()
        return swap is not None and swap.state == state and open_jobs == (0,)

    await wait_until(is_so, limit=60, every=0.05)


@pytest.mark.slow
async def test_a_swap_survives_kills_at_every_step_while_the_base_answers(
    searching: tuple[ManualWorker, Base, Searches], killed: KilledWorker
) -> None:
    """Promises 1, 2 and 4: the base answers throughout from one set, no text is paid again that was written, and the switch
    is one step."""
    worker, base, searches = searching
    other = PaidEmbedder(killed.paid_file)
    swap = await swap_embedder.swap(worker.db, base.id, other)
    # For each kill, how many texts were paid so far and which are written.
    written_after: list[tuple[int, set[str]]] = []
    for point in SWAP_POINTS:
        await killed.run_until_killed(point)
        rows = await worker.rows("select text from chunk where set_id = %s", swap.set_id)
        written_after.append((len(killed.paid), {text for (text,) in rows}))
        async with worker.db.connection() as tx:
            current = await catalog.find_base(tx, base.id)
        assert current is not None
        assert current.embedder == "hashed", f"before the switch: {point}"
        await worker.add(base, note_to_add(f"after {point}", text_of(1000 + SWAP_POINTS.index(point))))
    await killed.run_until_killed("swap.after_switch")
    async with worker.db.connection() as tx:
        current = await catalog.find_base(tx, base.id)
    assert current is not None
    assert (current.embedder, current.dimensions) == ("other", DIMENSIONS)
    for point in AFTER_POINTS:
        await killed.run_until_killed(point)
    await killed.start()
    await until_state(worker.db, base, "switched")
    assert await worker.value("select count(*) from item where status = 'completed'") == NOTES + len(
        SWAP_POINTS
    )
    # What was written is never paid again. Two of the kills come between the call and the commit, and cost a batch each; so does
    # a lease that is lost on a busy machine.
    paid = killed.paid
    for paid_before, written in written_after:
        assert not written & set(paid[paid_before:])
    assert len(written_after[-1][1]) >= NOTES, "most of it was written before the last kill"
    assert len(paid) <= NOTES + len(SWAP_POINTS) + 4 * BATCH_CHUNKS
    async with worker.db.connection() as tx:
        assert list(await invariants.find_violations(tx)) == []
    assert searches.embedders_seen == {"hashed", "other"}
    assert searches.answers > 20
    assert searches.checked_answers > 10
    killed.stop()


@pytest.mark.slow
@pytest.mark.thorough
async def test_the_removal_of_a_set_survives_kills(
    searching: tuple[ManualWorker, Base, Searches], killed: KilledWorker
) -> None:
    """Promise 3: nothing of a cancelled swap is left."""
    worker, base, _ = searching
    await swap_embedder.swap(worker.db, base.id, PaidEmbedder(killed.paid_file), gate="ask")
    await killed.run_until_killed("swap.compared")
    await swap_embedder.cancel(worker.db, base.id)
    await killed.run_until_killed("remove.batch")
    await killed.run_until_killed("remove.set_dropped")
    await killed.start()
    await until_state(worker.db, base, "cancelled")
    assert await worker.rows("select id from chunk_set") == [(base.chunk_set,)]
    assert await worker.rows("select distinct set_id from chunk") == [(base.chunk_set,)]
    assert await worker.rows("select distinct set_id from segment") == [(base.chunk_set,)]
    killed.stop()


@pytest.mark.slow
async def test_two_workers_share_a_swap_with_the_documents_of_its_base(
    searching: tuple[ManualWorker, Base, Searches], database_url: str, tmp_path: Path, cache_dir: Path
) -> None:
    """One works on the swap at a time; documents are published meanwhile, and are in the new set."""
    worker, base, searches = searching
    workers = [KilledWorker(database_url, tmp_path, cache_dir) for _ in range(2)]
    for process in workers:
        await process.start()
    try:
        await swap_embedder.swap(worker.db, base.id, PaidEmbedder(tmp_path / "paid"))
        for number in range(40):
            await worker.add(base, note_to_add(f"meanwhile {number}", text_of(2000 + number)))
        await until_state(worker.db, base, "switched")
    finally:
        for process in workers:
            process.stop()
    async with worker.db.connection() as tx:
        current = await catalog.find_base(tx, base.id)
        assert list(await invariants.find_violations(tx)) == []
    assert current is not None
    assert current.embedder == "other"
    paid = workers[0].paid
    assert (
        len(paid)
        == len(set(paid))
        == await worker.value(
            "select count(distinct text_hash) from chunk where set_id = %s", current.chunk_set
        )
    )
    assert searches.answers


@pytest.mark.slow
async def test_the_way_back_survives_kills_on_either_side_of_each_step(
    searching: tuple[ManualWorker, Base, Searches], killed: KilledWorker
) -> None:
    """The call is one transaction: before its commit nothing has happened, after it everything has. If something was published since,
    the worker builds it and switches; nothing that another set has is paid again, and the base answers throughout."""
    worker, base, searches = searching

    async def current_embedder() -> str:
        async with worker.db.connection() as tx:
            current = await catalog.find_base(tx, base.id)
        assert current is not None
        return current.embedder

    await swap_embedder.swap(worker.db, base.id, PaidEmbedder(killed.paid_file), gate="off")
    await killed.start()
    await until_state(worker.db, base, "switched")
    killed.stop()
    paid = len(killed.paid)
    for point in ("swap.revert_begun", "swap.before_switch"):
        await killed.revert_until_killed(base, point)
        assert await current_embedder() == "other", point
        assert await worker.value("select count(*) from swap where is_revert") == 0, point
    await killed.revert_until_killed(base, "swap.reverted")
    assert await current_embedder() == "hashed"
    await killed.revert_until_killed(base, "swap.reverted")
    assert await current_embedder() == "other"
    await worker.add(base, note_to_add("since", text_of(3000)))
    await killed.start()
    await until_state(worker.db, base, "switched")
    killed.stop()
    await killed.revert_until_killed(base, "swap.reverted")
    assert await current_embedder() == "other", "what was published since is missing there"
    for point in ("swap.before_write", "swap.batch_written", "swap.built", "swap.before_switch"):
        await killed.run_until_killed(point)
        assert await current_embedder() == "other", point
    await killed.run_until_killed("swap.after_switch")
    assert await current_embedder() == "hashed"
    await killed.start()
    await until_state(worker.db, base, "switched")
    killed.stop()
    async with worker.db.connection() as tx:
        assert list(await invariants.find_violations(tx)) == []
    assert (paid, len(killed.paid)) == (NOTES, NOTES + 1), "the note since then, and nothing again"
    assert searches.embedders_seen == {"hashed", "other"}
