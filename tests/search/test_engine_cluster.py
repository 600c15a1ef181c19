"""A base in an OpenSearch cluster of three nodes, while a node or the cluster is away and while workers are killed."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from pydantic import SecretStr

from gristmill import app
from gristmill.db import Database
from gristmill.operations import add as add_operation
from gristmill.operations import bases
from gristmill.settings import Settings
from tests.api_calls import add_items, assert_problem, make_base
from tests.crash.event_consumers import Daemon
from tests.embedding.hashed import HashedEmbedder
from tests.gristmill_process import environment
from tests.operations.manual_worker import UNLIMITED, note_to_add
from tests.search.opensearch_cluster import Cluster
from tests.search.shared_cluster import takes_minutes
from tests.search.test_engine_base import add, note, titles
from tests.wait_until import ended, wait_until

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture
async def mill(settings: Settings, request: pytest.FixtureRequest) -> AsyncGenerator[app.Gristmill]:
    name = "own_opensearch" if "own_opensearch" in request.fixturenames else "opensearch"
    opensearch: Cluster = request.getfixturevalue(name)
    in_engine = settings.model_copy(
        update={
            "index_url": SecretStr(",".join(opensearch.urls)),
            "index_prefix": f"test-{uuid4().hex[:8]}",
        }
    )
    async with app.gristmill(in_engine, work=True, extra_embedders={"hashed": HashedEmbedder()}) as running:
        yield running


@takes_minutes
async def test_while_the_whole_cluster_is_away_items_wait_and_searches_say_so(
    mill: app.Gristmill, http: httpx.AsyncClient, own_opensearch: Cluster
) -> None:
    base = await make_base(http)
    await add(http, base, note("a wheel"))
    own_opensearch.kill()
    try:
        (item,) = (await add_items(http, base, note("a second wheel")))["created"]

        async def reason() -> Any:
            return (await http.get(f"/api/knowledge-items/{item['id']}")).json()["waitingFor"]

        assert (await wait_until(reason))["code"] == "index_unavailable"
        response = await http.post(f"/api/knowledge-bases/{base}/search", json={"query": "wheel"})
        assert_problem(response, 503, "index_unavailable")
    finally:
        for node in own_opensearch.nodes:
            own_opensearch.start(node)
        own_opensearch.wait()

    async def is_completed() -> bool:
        return (await http.get(f"/api/knowledge-items/{item['id']}")).json()["status"] == "completed"

    await wait_until(is_completed)
    assert sorted(await titles(http, base, "wheel")) == ["a second wheel", "a wheel"]


class SearchesInBackground:
    """Searches again and again: every answer has all that was completed before it, and nothing that was deleted before it;
    or it says that the engine is not available."""

    def __init__(self, http: httpx.AsyncClient, base: str) -> None:
        self._http, self._base = http, base
        self.completed: set[str] = set()
        self.deleted: set[str] = set()
        self.answers: list[int] = []  # how many items were completed when each began

    async def run(self, is_over: asyncio.Event) -> None:
        while not is_over.is_set():
            completed, deleted = self.completed - self.deleted, set(self.deleted)
            response = await self._http.post(
                f"/api/knowledge-bases/{self._base}/search", json={"query": "wheel", "limit": 50}
            )
            if response.status_code != 200:
                assert_problem(response, 503, "index_unavailable")
                continue
            shown = {hit["title"] for hit in response.json()["hits"]}
            assert completed - self.deleted <= shown
            assert deleted.isdisjoint(shown)
            self.answers.append(len(completed))


@takes_minutes
async def test_a_node_killed_and_restarted_under_ingest_and_search_loses_nothing_and_shows_nothing_wrong(
    mill: app.Gristmill, http: httpx.AsyncClient, own_opensearch: Cluster
) -> None:
    """S2-36: documents are added, deleted and searched while a node is away and while it comes back."""
    base, victim = await make_base(http), own_opensearch.nodes[1]
    searches, is_over = SearchesInBackground(http, base), asyncio.Event()
    task = asyncio.create_task(searches.run(is_over))
    ids: list[str] = []
    try:
        for number in range(24):
            if number == 6:
                victim.kill()
            if number == 14:
                own_opensearch.start(victim)
            ids += await add(http, base, note(f"wheel {number}"))
            searches.completed.add(f"wheel {number}")
            if number % 4 == 3:
                assert (await http.delete(f"/api/knowledge-items/{ids[number - 2]}")).status_code == 202
                searches.deleted.add(f"wheel {number - 2}")
            assert not task.done(), task.exception()
        await asyncio.to_thread(own_opensearch.wait)
        is_over.set()
        await ended(task)
    finally:
        is_over.set()
        task.cancel()
        if not victim.is_running:
            own_opensearch.start(victim)
        await asyncio.to_thread(own_opensearch.wait)
    assert any(4 <= count <= 11 for count in searches.answers), "a search answered while the node was away"
    assert {*await titles(http, base, "wheel", limit=50)} == searches.completed - searches.deleted


@takes_minutes
@pytest.mark.parametrize("point", ["index.batch_written", "index.put", "publish.before_commit"])
async def test_a_worker_killed_on_either_side_of_a_put_loses_nothing_and_embeds_nothing_twice(
    db: Database, database_url: str, opensearch: Cluster, tmp_path: Path, cache_dir: Path, point: str
) -> None:
    """kill -9 before the put, between the put and its mark, and before the commit that publishes."""
    base = await bases.create(db, "killed", HashedEmbedder(dimensions=64), {}, index_kind="opensearch")
    text = "\n\n".join(f"Stone {n} of the mill turns slowly over grain{n} of the year." for n in range(400))
    await add_operation.add(db, base.id, [note_to_add("book", text)], UNLIMITED)
    overrides = {"database_url": database_url, "lease": "PT1S", "embedder": "hashed", "log_level": "error"}
    overrides |= {"index_url": ",".join(opensearch.urls), "index_prefix": f"test-{uuid4().hex[:8]}"}
    env = {**environment(tmp_path / "data", cache_dir, **overrides), "PYTHONPATH": str(ROOT)}
    arguments = ["tests.ingest.worker", "64", "0", str(tmp_path / "counted")]
    daemon = Daemon(arguments, {**env, "GRISTMILL_FAULTS": f"{point}=kill"}, tmp_path / "log")
    again = Daemon(arguments, env, tmp_path / "log")

    async def fetch_row(statement: Any) -> tuple[Any, ...] | None:
        async with db.connection() as tx:
            return await (await tx.execute(statement)).fetchone()

    async def is_killed() -> bool:
        return daemon.process is not None and daemon.process.poll() is not None

    try:
        await daemon.start()
        await wait_until(is_killed, limit=60)
        assert await fetch_row("select 1 from item where live_version is not null") is None
        written = await fetch_row("select count(*) from chunk")
        embedded = (tmp_path / "counted").stat().st_size
        await again.start()
        await wait_until(lambda: fetch_row("select 1 from item where status = 'completed'"), limit=60)
    finally:
        daemon.kill()
        again.kill()
    chunks = await fetch_row("select count(*) from chunk")
    assert chunks is not None
    assert written is not None
    assert (tmp_path / "counted").stat().st_size - embedded <= chunks[0] - written[0]
    assert await fetch_row("select count(*) from index_task where kind = 'put'") == (0,)
    count = opensearch.http.get(f"{opensearch.urls[0]}/{overrides['index_prefix']}-*/_count").json()["count"]
    assert count == chunks[0]
