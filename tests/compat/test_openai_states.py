"""Vector stores whose work stops, waits, expires or is cancelled: a client that polls always comes to an end."""

from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Literal

import httpx
import openai
import pytest

from gristmill import app, faults
from gristmill.identity import LOCAL_ORG, Role
from gristmill.settings import Settings
from tests.api_calls import add_items, assert_healthy, make_base, wait_for_job, wait_until_ended
from tests.compat.openai_clients import async_client
from tests.database_clock import DatabaseClock
from tests.embedding import endpoint
from tests.embedding.hashed import HashedEmbedder
from tests.serve_api import serve_api
from tests.server.clients import new_key
from tests.sources import site
from tests.wait_until import wait_until

pytestmark = pytest.mark.slow

WHEAT = ("wheat.md", b"Wheat is ground into flour.")


@pytest.fixture
async def url(mill: app.Gristmill) -> AsyncGenerator[str]:
    async with serve_api(mill) as address:
        yield address


@pytest.fixture
async def client(url: str) -> AsyncGenerator[openai.AsyncOpenAI]:
    async with async_client(url) as client:
        yield client


async def upload(client: openai.AsyncOpenAI, count: int) -> list[str]:
    """Upload files with different texts; their ids."""
    return [
        (await client.files.create(file=(f"{n}.txt", b"grain number %d" % n), purpose="assistants")).id
        for n in range(count)
    ]


async def wait_until_completed(client: openai.AsyncOpenAI, store: str, file_id: str) -> None:
    """Not by polling: where the clock has just jumped, no worker seems to run until its next heartbeat."""

    async def is_completed() -> bool:
        file = await client.vector_stores.files.retrieve(file_id, vector_store_id=store)
        return file.status == "completed"

    await wait_until(is_completed)


async def reconcile(http: httpx.AsyncClient) -> None:
    job = await wait_for_job(http, (await http.post("/api/health/reconciler")).json()["jobId"])
    assert job["state"] == "done", job


def uuid_of(object_id: str) -> str:
    return object_id[-32:]


async def test_the_async_client_uploads_polls_searches_and_deletes(client: openai.AsyncOpenAI) -> None:
    store = await client.vector_stores.create(name="grain")
    file = await client.vector_stores.files.upload_and_poll(vector_store_id=store.id, file=WHEAT)
    assert file.status == "completed"
    batch = await client.vector_stores.file_batches.create_and_poll(
        store.id,
        files=[
            {"file_id": file_id, "attributes": {"number": number}}
            for number, file_id in enumerate(await upload(client, 3))
        ],
        attributes={"number": 99},
    )
    assert (batch.status, batch.file_counts.completed) == ("completed", 3)
    files = [entry async for entry in client.vector_stores.files.list(store.id, limit=2, order="asc")]
    assert [entry.attributes for entry in files] == [{}, {"number": 0}, {"number": 1}, {"number": 2}]
    listed = [
        entry.id
        async for entry in client.vector_stores.file_batches.list_files(
            batch.id, vector_store_id=store.id, limit=1
        )
    ]
    assert listed == [entry.id for entry in files[:0:-1]]
    results = await client.vector_stores.search(store.id, query="flour")
    assert results.data[0].file_id == file.id
    await client.files.delete(file.id)
    assert file.id not in [
        entry.file_id for entry in (await client.vector_stores.search(store.id, query="flour")).data
    ]
    await client.vector_stores.delete(store.id)


async def test_pages_can_be_read_from_both_sides(client: openai.AsyncOpenAI) -> None:
    store = await client.vector_stores.create(name="pages")
    ids = await upload(client, 5)
    batch = await client.vector_stores.file_batches.create_and_poll(store.id, file_ids=ids)
    down = await client.vector_stores.files.list(store.id, limit=2)
    assert ([file.id for file in down.data], down.has_more) == (ids[:2:-1], True)
    rest = await client.vector_stores.files.list(store.id, limit=5, after=down.data[-1].id)
    assert ([file.id for file in rest.data], rest.has_more) == (ids[2::-1], False)
    previous = await client.vector_stores.files.list(store.id, limit=2, before=ids[0])
    assert ([file.id for file in previous.data], previous.has_more) == ([ids[2], ids[1]], True)
    up = await client.vector_stores.files.list(store.id, limit=2, order="asc", before=ids[1])
    assert ([file.id for file in up.data], up.has_more) == ([ids[0]], False)
    between = await client.vector_stores.files.list(store.id, order="asc", after=ids[0], before=ids[3])
    assert [file.id for file in between.data] == ids[1:3]
    await client.vector_stores.files.delete(ids[3], vector_store_id=store.id)
    await client.files.delete(ids[1])
    pages: list[tuple[Literal["asc", "desc"], str, list[str]]] = [
        ("desc", ids[3], [ids[2], ids[0]]),
        ("asc", ids[1], [ids[2], ids[4]]),
        ("desc", ids[1], [ids[0]]),
    ]
    for order, after, left in pages:
        page = await client.vector_stores.files.list(store.id, order=order, after=after)
        assert [file.id for file in page.data] == left, "a file that was deleted still says where to go on"
    assert [file.id for file in (await client.files.list(after=ids[1])).data] == [ids[0]]
    page = await client.vector_stores.file_batches.list_files(
        batch.id, vector_store_id=store.id, after=ids[3]
    )
    assert [file.id for file in page.data] == [ids[2], ids[0]]
    with pytest.raises(openai.BadRequestError):
        await client.vector_stores.files.list(store.id, after="nonsense")
    for request in (
        client.vector_stores.retrieve(f"vs_{'0' * 32}"),
        client.vector_stores.files.list(f"vs_{'0' * 32}"),
        client.vector_stores.search(f"vs_{'0' * 32}", query="flour"),
    ):
        with pytest.raises(openai.NotFoundError) as missing:
            await request
        assert f"There is no vector store 'vs_{'0' * 32}'." in missing.value.message
    with pytest.raises(openai.NotFoundError) as missing:
        await client.vector_stores.files.retrieve(ids[1], vector_store_id=store.id)
    assert f"There is no file {ids[1]}." in missing.value.message
    with pytest.raises(openai.BadRequestError):
        await client.vector_stores.files.list(store.id, limit=101)


async def test_polling_ends_while_a_base_is_paused_and_goes_on_after_it(
    client: openai.AsyncOpenAI, http: httpx.AsyncClient
) -> None:
    """A paused base starts no work, so its files count as failed until it is resumed; the error says so."""
    store = await client.vector_stores.create(name="paused")
    base = uuid_of(store.id)
    assert (await http.post(f"/api/knowledge-bases/{base}/queue/pause")).status_code == 204
    (file_id,) = await upload(client, 1)
    batch = await client.vector_stores.file_batches.create_and_poll(store.id, file_ids=[file_id])
    assert (batch.status, batch.file_counts.failed) == ("failed", 1)
    file = await client.vector_stores.files.poll(file_id, vector_store_id=store.id)
    assert file.last_error is not None
    assert (file.status, file.last_error.code) == ("failed", "server_error")
    assert "paused" in file.last_error.message
    store = await client.vector_stores.retrieve(store.id)
    assert (store.status, store.file_counts.failed) == ("completed", 1)
    assert (await client.vector_stores.files.list(store.id, filter="in_progress")).data == []
    assert (await http.post(f"/api/knowledge-bases/{base}/queue/resume")).status_code == 204

    async def is_completed() -> bool:
        entry = await client.vector_stores.files.retrieve(file_id, vector_store_id=store.id)
        return entry.status == "completed"

    await wait_until(is_completed)
    done = await client.vector_stores.file_batches.retrieve(batch.id, vector_store_id=store.id)
    assert (done.status, done.file_counts.completed) == ("completed", 1)


async def test_polling_ends_while_the_embedder_is_down_and_the_file_is_indexed_after_it(
    client: openai.AsyncOpenAI, http: httpx.AsyncClient, clock: DatabaseClock
) -> None:
    """Such a file waits as long as the embedder is down. After ten minutes it counts as failed, and says why; then it goes on."""
    with endpoint.serve() as embedder:
        model = {"name": "quern", "kind": "openai", "url": embedder.url, "model": "hashed"}
        assert (await http.post("/api/embedders", json=model)).status_code == 201
        base = await make_base(http, "waiting", embedder="quern")
        store = f"vs_{base.replace('-', '')}"
        embedder.respond = lambda _: endpoint.CannedResponse(503, {}, {"Retry-After": "1"})
        (file_id,) = await upload(client, 1)
        batch = await client.vector_stores.file_batches.create(store, file_ids=[file_id])

        async def is_waiting() -> bool:
            (item,) = (await http.get(f"/api/knowledge-bases/{base}/items")).json()["items"]
            return item["waitingFor"] is not None

        await wait_until(is_waiting, every=0.1)
        assert (await client.vector_stores.retrieve(store)).file_counts.in_progress == 1
        await clock.advance(timedelta(minutes=11))
        file = await client.vector_stores.files.poll(file_id, vector_store_id=store)
        assert (file.status, file.last_error and file.last_error.code) == ("failed", "server_error")
        assert file.last_error is not None
        assert "embedder" in file.last_error.message
        batch = await client.vector_stores.file_batches.poll(batch.id, vector_store_id=store)
        assert (batch.status, batch.file_counts.failed) == ("failed", 1)
        assert (await client.vector_stores.files.list(store, filter="in_progress")).data == []
        embedder.respond = endpoint.hashed_vectors

        async def is_completed() -> bool:
            file = await client.vector_stores.files.retrieve(file_id, vector_store_id=store)
            return file.status == "completed"

        await wait_until(is_completed, every=0.1)
        batch = await client.vector_stores.file_batches.retrieve(batch.id, vector_store_id=store)
        assert (batch.status, batch.file_counts.completed) == ("completed", 1)


async def test_polling_ends_while_every_attempt_fails_and_the_file_is_indexed_after_it(
    settings: Settings, clock: DatabaseClock
) -> None:
    """A page of a site that is busy for an hour: after ten minutes it counts as failed, though a worker runs."""
    with site.serve() as pages:
        address = pages.add_page("/flour.txt", "busy", 503, Retry_After="3600")
        settings = settings.model_copy(update={"allow_private_addresses": True})
        embedders = {"hashed": HashedEmbedder()}
        async with (
            app.gristmill(settings, work=True, extra_embedders=embedders) as mill,
            serve_api(mill) as url,
            async_client(url) as client,
            httpx.AsyncClient(base_url=url) as http,
        ):
            base = await make_base(http, "pages")
            (item,) = (await add_items(http, base, {"type": "url", "url": address}))["created"]
            store, file_id = f"vs_{base.replace('-', '')}", f"file-{item['id'].replace('-', '')}"

            async def is_delayed() -> bool:
                async with mill.db.connection() as tx:
                    found = await tx.execute("select from job where state = 'delayed' and errors <> '[]'")
                    return await found.fetchone() is not None

            await wait_until(is_delayed, every=0.1)
            file = await client.vector_stores.files.retrieve(file_id, vector_store_id=store)
            assert file.status == "in_progress", "the next attempt may go well"
            await clock.advance(timedelta(minutes=11))

            async def is_worker_alive() -> bool:
                async with mill.db.connection() as tx:
                    found = await tx.execute("select from worker where heartbeat_at = clock_now()")
                    return await found.fetchone() is not None

            await wait_until(is_worker_alive, every=0.1)
            file = await client.vector_stores.files.retrieve(file_id, vector_store_id=store)
            assert file.last_error is not None
            assert (file.status, "503" in file.last_error.message) == ("failed", True), file.last_error
            pages.add_page("/flour.txt", "Rye flour.", Content_Type="text/plain")
            await clock.advance(timedelta(minutes=50))
            await wait_until_completed(client, store, file_id)


async def test_polling_ends_if_no_worker_runs(
    settings: Settings,
) -> None:
    async with (
        app.gristmill(settings, work=False, extra_embedders={"hashed": HashedEmbedder()}) as idle,
        serve_api(idle) as url,
        async_client(url) as client,
    ):
        store = await client.vector_stores.create(name="idle")
        file = await client.vector_stores.files.upload_and_poll(vector_store_id=store.id, file=WHEAT)
        assert file.status == "failed"
        assert file.last_error is not None
        assert file.last_error.message.startswith("No worker is running.")


async def test_a_batch_is_cancelled_before_its_files_are_indexed(
    client: openai.AsyncOpenAI, http: httpx.AsyncClient
) -> None:
    store = await client.vector_stores.create(name="cancelled")
    ids = await upload(client, 120)
    with faults.watch("embed.before_call", hold=True):
        batch = await client.vector_stores.file_batches.create(store.id, file_ids=ids)
        assert batch.status == "in_progress"
        cancelled = await client.vector_stores.file_batches.cancel(batch.id, vector_store_id=store.id)
        assert cancelled.status == "cancelled"
        assert cancelled.file_counts.in_progress == 0
        assert cancelled.file_counts.cancelled + cancelled.file_counts.completed == 120
        assert cancelled.file_counts.cancelled > 0
    polled = await client.vector_stores.file_batches.poll(batch.id, vector_store_id=store.id)
    assert polled.status == "cancelled"
    again = await client.vector_stores.file_batches.cancel(batch.id, vector_store_id=store.id)
    assert again.file_counts == polled.file_counts
    files = await client.vector_stores.files.list(store.id, filter="cancelled", limit=100)
    assert {file.status for file in files.data} == {"cancelled"}
    await assert_healthy(http)


async def test_a_store_expires_after_its_last_use_and_a_search_moves_that(
    client: openai.AsyncOpenAI, http: httpx.AsyncClient, clock: DatabaseClock
) -> None:
    store = await client.vector_stores.create(
        name="short", expires_after={"anchor": "last_active_at", "days": 2}
    )
    file = await client.vector_stores.files.upload(vector_store_id=store.id, file=WHEAT)
    await wait_until_completed(client, store.id, file.id)
    await clock.advance(timedelta(hours=36))
    assert (await client.vector_stores.search(store.id, query="flour")).data
    moved = await client.vector_stores.retrieve(store.id)
    assert moved.expires_at is not None
    assert store.expires_at is not None
    assert moved.expires_at - store.expires_at == 36 * 3600
    await clock.advance(timedelta(hours=49))
    assert (await client.vector_stores.retrieve(store.id)).status == "expired"
    with pytest.raises(openai.BadRequestError) as refused:
        await client.vector_stores.search(store.id, query="flour")
    assert refused.value.code == "base_expired"
    with pytest.raises(openai.BadRequestError):
        await client.vector_stores.files.create(store.id, file_id=(await upload(client, 1))[0])
    reply = await http.post("/api/search", json={"query": "flour"})
    assert reply.json()["hits"] == []
    revived = await client.vector_stores.update(
        store.id, expires_after={"anchor": "last_active_at", "days": 1}
    )
    assert revived.status == "completed"
    assert (await client.vector_stores.search(store.id, query="flour")).data
    await clock.advance(timedelta(days=3))
    await reconcile(http)
    with pytest.raises(openai.NotFoundError):
        await client.vector_stores.retrieve(store.id)


async def test_a_file_expires_in_every_store(
    client: openai.AsyncOpenAI, http: httpx.AsyncClient, clock: DatabaseClock
) -> None:
    store = await client.vector_stores.create(name="grain")
    file = await client.files.create(
        file=WHEAT, purpose="assistants", expires_after={"anchor": "created_at", "seconds": 3600}
    )
    await client.vector_stores.files.create(store.id, file_id=file.id)
    await wait_until_completed(client, store.id, file.id)
    await clock.advance(timedelta(seconds=3601))
    assert (await client.files.list()).data == []
    with pytest.raises(openai.NotFoundError):
        await client.files.retrieve(file.id)
    await reconcile(http)
    assert (await client.vector_stores.files.list(store.id)).data == []
    with pytest.raises(openai.NotFoundError):
        await client.files.retrieve(file.id)


async def test_keys_can_do_and_see_what_their_roles_and_lists_allow(
    mill: app.Gristmill, url: str, client: openai.AsyncOpenAI, http: httpx.AsyncClient
) -> None:
    """A reader writes nothing; files and stores of others are not found; an admin can read on behalf of a person."""
    roles: dict[str, Role] = {"ann": "editor", "bob": "reader"}
    secrets = {
        name: (await new_key(mill.db, LOCAL_ORG, role, email=f"{name}@example.org"))[1]
        for name, role in roles.items()
    }
    async with async_client(url, secrets["ann"]) as ann, async_client(url, secrets["bob"]) as bob:
        store = await ann.vector_stores.create(name="ann's")
        file = await ann.vector_stores.files.upload_and_poll(vector_store_id=store.id, file=WHEAT)
        for request in (
            bob.files.create(file=WHEAT, purpose="assistants"),
            bob.vector_stores.create(name="bob's"),
            bob.files.delete(file.id),
            ann.vector_stores.delete(store.id),
            ann.vector_stores.update(store.id, name="other"),
        ):
            with pytest.raises(openai.PermissionDeniedError):
                await request
        for hidden in (
            bob.files.retrieve(file.id),
            bob.files.content(file.id),
            bob.vector_stores.retrieve(store.id),
            bob.vector_stores.search(store.id, query="flour"),
            bob.vector_stores.files.retrieve(file.id, vector_store_id=store.id),
            bob.vector_stores.files.create(store.id, file_id=file.id),
        ):
            with pytest.raises(openai.NotFoundError):
                await hidden
        assert (await bob.files.list()).data == []
        assert (await bob.vector_stores.list()).data == []
        assert [entry.id for entry in (await ann.files.list()).data] == [file.id]
        for email, stores in (("ann@example.org", [store.id]), ("bob@example.org", [])):
            page = await client.vector_stores.list(
                extra_headers={"X-Gristmill-On-Behalf-Of": f"email:{email}"}
            )
            assert [entry.id for entry in page.data] == stores
        theirs = await make_base(http, "theirs", acl=["user_email:bob@example.org"])
        added = await add_items(http, theirs, {"type": "note", "content": "Oats for horses."})
        await wait_until_ended(http, added["created"][0]["id"])
        await client.vector_stores.files.create_and_poll(
            file.id, vector_store_id=f"vs_{uuid_of(theirs.replace('-', ''))}"
        )
        assert (await bob.files.retrieve(file.id)).filename == "wheat.md"
        with pytest.raises(openai.PermissionDeniedError) as refused:
            await ann.files.delete(file.id)
        assert refused.value.code == "partly_hidden"


async def test_a_request_that_is_sent_again_is_executed_once(client: openai.AsyncOpenAI) -> None:
    headers = {"Idempotency-Key": "one"}
    first = await client.vector_stores.create(name="once", extra_headers=headers)
    second = await client.vector_stores.create(name="once", extra_headers=headers)
    assert first.id == second.id
    assert len((await client.vector_stores.list()).data) == 1
