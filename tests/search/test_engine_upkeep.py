"""Moving a base into a search engine and back, and the sweep that compares both."""

from typing import Any
from uuid import UUID

import httpx
import pytest

from gristmill import app, catalog, faults, jobs
from gristmill.catalog import BaseId
from gristmill.ingest import move_index as move_index_job
from gristmill.integrity import reconcile
from gristmill.jobs import NewJob
from gristmill.operations import bases
from gristmill.operations.move_index import move_index
from gristmill.search.index import opensearch_queries as queries
from gristmill.work import SweepIndex
from tests.api_calls import assert_healthy, assert_problem, make_base, wait_for_job
from tests.search.faulty_index import FaultyEngine
from tests.search.index_setup import bulk
from tests.search.opensearch_cluster import Cluster
from tests.search.test_engine_base import (
    CountingEmbedder,
    Points,
    add,
    embedder,
    engine,
    mill,
    note,
    points,
    titles,
    until_no_tasks,
)
from tests.wait_until import reached, wait_until

__all__ = ["embedder", "engine", "mill", "points"]

pytestmark = pytest.mark.slow


async def wait_until_moved(http: httpx.AsyncClient, job: Any) -> None:
    ended = await wait_for_job(http, str(job))
    assert ended["state"] == "done", ended


async def test_a_base_moves_into_the_engine_and_back_while_it_answers(
    mill: app.Gristmill,
    http: httpx.AsyncClient,
    engine: FaultyEngine,
    points: Points,
    embedder: CountingEmbedder,
) -> None:
    """Nothing is embedded again; what is added, replaced and deleted meanwhile is there, or gone, as anywhere."""
    base = await bases.create(mill.db, "moving", mill.embedders.default, {})
    text = "\n\n".join(f"Stone {n} of the mill turns slowly over grain{n} of the year." for n in range(600))
    _, gone = await add(http, str(base.id), note(text, "book"), note("a wheel that goes"))
    before = await titles(http, str(base.id), "grain333", mode="text")
    for to in ("opensearch", "embedded", "opensearch"):
        embedded = embedder.embedded
        engine.answers.clear()
        job = await move_index(mill.db, base.id, to)
        await http.delete(f"/api/knowledge-items/{gone}")
        assert "a wheel that goes" not in await titles(http, str(base.id), "wheel")
        assert await titles(http, str(base.id), "grain333", mode="text") == before
        engine.answers.set()
        [gone] = await add(http, str(base.id), note("a wheel that goes"))
        await wait_until_moved(http, job)
        # The note that is added; once more, if it was being written when the move began.
        assert embedder.embedded <= embedded + 2
        assert await titles(http, str(base.id), "grain333", mode="text") == before
        assert await titles(http, str(base.id), "wheel", mode="text") == ["a wheel that goes"]
        await until_no_tasks(mill)
        async with mill.db.connection() as tx:
            row = await catalog.find_base(tx, base.id)
            chunks = await (await tx.execute("select count(*) from chunk")).fetchone()
            segments = await (await tx.execute("select coalesce(sum(chunks), 0) from segment")).fetchone()
        assert row is not None
        assert (row.index_kind, row.index_fill) == (to, None)
        assert chunks is not None
        assert len(points(str(base.id))) == (chunks[0] if to == "opensearch" else 0)
        assert (segments == (0,)) == (to == "opensearch")
    await assert_healthy(http)


async def test_an_index_in_the_engine_is_rebuilt_while_it_answers(
    mill: app.Gristmill,
    http: httpx.AsyncClient,
    opensearch: Cluster,
    points: Points,
    embedder: CountingEmbedder,
) -> None:
    """As after a restored backup: the engine has other words for a number, an orphan, and lacks a point."""
    base = await make_base(http)
    await add(http, base, note("a wheel"), note("wheat"), note("rye"))
    first, second, third = points(base)
    addresses = [queries.address(BaseId(UUID(base)), no) for no in (first["no"], third["no"], 10**9)]
    bulk(
        opensearch,
        {"index": addresses[0]},
        {**first, "words": "other", "principals": ["group:other"]},
        {"delete": addresses[1]},
        {"create": addresses[2]},
        {**first, "no": 10**9},
    )
    embedded = embedder.embedded
    with faults.watch("move_index.step", hold=True) as step:
        response = await http.post(f"/api/knowledge-bases/{base}/index/rebuild")
        assert response.status_code == 202, response.text
        await reached(step)  # from here on, searches know that the engine may lack something
        again = await http.post(f"/api/knowledge-bases/{base}/index/rebuild")
        assert_problem(again, 409, "index_moving")
        assert {*await titles(http, base, "wheat rye", mode="vector")} == {"a wheel", "wheat", "rye"}
        step.hold.set()
    await wait_until_moved(http, response.json()["jobId"])

    async def is_rebuilt() -> bool:
        return [without_vector(point) for point in points(base)] == [
            without_vector(point) for point in (first, second, third)
        ]

    await wait_until(is_rebuilt)
    assert embedder.embedded == embedded
    assert await titles(http, base, "wheel", mode="text") == ["a wheel"]
    shown = (await http.get(f"/api/knowledge-bases/{base}")).json()
    assert (shown["index"], shown["movingTo"]) == ("opensearch", None)


async def test_the_sweep_removes_orphans_and_puts_what_the_engine_has_lost(
    mill: app.Gristmill, http: httpx.AsyncClient, opensearch: Cluster, points: Points
) -> None:
    base = await make_base(http)
    await add(http, base, note("a wheel"), note("wheat"))
    kept, lost = points(base)
    gone = queries.address(BaseId(UUID(base)), lost["no"])
    orphan = queries.address(BaseId(UUID(base)), 10**9)  # of a worker that was slow to notice a deletion
    bulk(opensearch, {"delete": gone}, {"create": orphan}, {**kept, "no": 10**9})
    async with mill.db.connection() as tx:
        await tx.execute("update item set updated_at = updated_at - interval '2 minutes'")
    before = await metric(http, "gristmill_index_orphans_total")
    await reconcile.enqueue_thorough_pass(mill.db)

    async def is_repaired() -> bool:
        return [without_vector(point) for point in points(base)] == [
            without_vector(kept),
            without_vector(lost),
        ]

    await wait_until(is_repaired)
    assert await metric(http, "gristmill_index_orphans_total") == before + 1
    await until_no_tasks(mill)
    assert await metric(http, "gristmill_index_lag_seconds") == 0


async def test_the_sweep_leaves_a_base_alone_that_is_being_filled(
    mill: app.Gristmill, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the move has yet to put is not lost."""
    monkeypatch.setattr(move_index_job, "_ITEMS", 1)
    base = await bases.create(mill.db, "moving", mill.embedders.default, {})
    await add(http, str(base.id), note("a wheel"), note("wheat"))
    async with mill.db.connection() as tx:
        await tx.execute("update item set updated_at = updated_at - interval '2 minutes'")
    before = await metric(http, "gristmill_index_missing_total")
    with faults.watch("move_index.step", hold=True) as step:
        job = await move_index(mill.db, base.id, "opensearch")
        await reached(step)
        async with mill.db.transaction() as tx:
            (sweep,) = await jobs.enqueue(tx, NewJob(SweepIndex(base.id), lane=base.lane))
        await wait_until_moved(http, sweep.id)
        step.hold.set()
    await wait_until_moved(http, job)
    assert await metric(http, "gristmill_index_missing_total") == before
    assert sorted(await titles(http, str(base.id), "wheel wheat", mode="text")) == ["a wheel", "wheat"]


def without_vector(point: dict[str, Any]) -> dict[str, Any]:
    """The point without its vector, which the table has with fewer digits."""
    return {name: value for name, value in point.items() if name != "vector"}


async def metric(http: httpx.AsyncClient, name: str) -> float:
    lines = (await http.get("/metrics")).text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name))
