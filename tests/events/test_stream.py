"""The stream: no event is missed, no subscriber delays another, and streams end when the server stops."""

import asyncio
import socket
from datetime import timedelta
from urllib.parse import urlsplit
from uuid import UUID

import httpx
import psycopg
import pytest

from gristmill import app, events, faults
from gristmill.catalog import BaseId
from gristmill.db import Database
from gristmill.events import StreamFilter
from gristmill.events import stream as streaming
from gristmill.server.api import event_stream
from gristmill.server.api.routes import events as event_routes
from tests.events.sse import Frame, Stream, stream
from tests.terminate_backends import terminate_backends
from tests.wait_until import wait_until

pytestmark = pytest.mark.slow


async def record(db: Database, base: str, *names: str) -> None:
    async with db.transaction() as tx:
        await events.record(tx, *(events.BaseChanged(BaseId(UUID(base)), name) for name in names))


async def new_base(http: httpx.AsyncClient, name: str = "one") -> str:
    return (await http.post("/api/knowledge-bases", json={"name": name})).json()["id"]


async def add_note(http: httpx.AsyncClient, base: str, text: str) -> str:
    body = {"items": [{"type": "note", "content": text}]}
    response = await http.post(f"/api/knowledge-bases/{base}/items", json=body)
    return response.json()["created"][0]["id"]


def names(frames: list[Frame]) -> list[str]:
    return [frame.data["data"]["name"] for frame in frames]


async def test_a_stream_reports_a_note_from_upload_to_a_ready_base(http: httpx.AsyncClient, url: str) -> None:
    """S2-25 and S4-68 as decided in C21: clients need not poll."""
    base = await new_base(http)
    async with stream(url, types=",".join(event.type for event in events.EVENTS)) as subscriber:
        await subscriber.read_start()
        item = await add_note(http, base, "rye")
        frames = await subscriber.take(6)
    assert [frame.type for frame in frames] == [
        "DocumentUploadCompleted",
        "DocumentContentExtracted",
        "DocumentChunkingCompleted",
        "DocumentIndexingCompleted",
        "DocumentIngestionCompleted",
        "KnowledgeSpaceAllDocumentsIngested",
    ]
    assert {frame.data["subject"] for frame in frames[:5]} == {item}
    listed_events = (await http.get("/api/events", params={"after": 1})).json()["items"]
    assert [frame.data for frame in frames] == listed_events, "an event is the same however it is read"
    assert [frame.id for frame in frames] == [event["id"] for event in listed_events]


async def test_a_client_that_reconnects_gets_the_events_it_missed(
    mill: app.Gristmill, http: httpx.AsyncClient, url: str
) -> None:
    base = await new_base(http)
    async with stream(url) as subscriber:
        await subscriber.read_start()
        await record(mill.db, base, "a")
        assert names(await subscriber.take(1)) == ["a"]
        last = subscriber.last_id
    await record(mill.db, base, "b", "c")
    async with stream(url, last_id=last, after="0") as subscriber:
        assert names(await subscriber.take(2)) == ["b", "c"]
        await record(mill.db, base, "d")
        assert names(await subscriber.take(1)) == ["d"]
    async with stream(url, after="1", types="BaseChanged") as subscriber:
        assert names(await subscriber.take(4)) == ["a", "b", "c", "d"]


async def test_many_pages_of_the_past_join_the_present_without_a_gap(
    mill: app.Gristmill, http: httpx.AsyncClient, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events are written while the subscriber catches up: the switch to live batches happens in the middle."""
    monkeypatch.setattr(streaming, "_PAGE", 7)
    base = await new_base(http)
    await record(mill.db, base, *(str(n) for n in range(100)))

    async def write() -> None:
        for n in range(100, 200):
            await record(mill.db, base, str(n))

    writing = asyncio.create_task(write())
    async with stream(url, after="1", types="BaseChanged") as subscriber:
        frames = await subscriber.take(200)
    await writing
    assert names(frames) == [str(n) for n in range(200)]
    assert [int(frame.id or 0) for frame in frames] == list(range(2, 202))


async def test_a_client_that_falls_behind_is_served_from_the_table_and_asked_to_reload(
    mill: app.Gristmill, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its queue is bounded: no memory is used, and yet no event is lost."""
    monkeypatch.setattr(streaming, "_MAX_QUEUED", 5)
    base = await new_base(http)
    following = mill.broadcaster.subscribe(StreamFilter(UUID(base)))
    await anext(following)
    live = asyncio.ensure_future(anext(following))
    await record(mill.db, base, "live")
    assert [event.data["name"] for event in (await live).events] == ["live"]
    await record(mill.db, base, *(str(n) for n in range(50)))
    names_received: list[str] = []
    while not (batch := await anext(following)).reload:
        names_received += [event.data["name"] for event in batch.events]
    assert names_received == [str(n) for n in range(50)]
    assert batch.reload == [UUID(base)]
    await following.aclose()


async def test_filters_leave_out_events_but_the_cursor_still_advances(
    mill: app.Gristmill, http: httpx.AsyncClient, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "HEARTBEAT", timedelta(milliseconds=100))
    base, other_base = await new_base(http), await new_base(http, "two")
    async with stream(url, baseId=base, types="BaseChanged") as subscriber:
        assert await subscriber.read_start() == "2"
        assert subscriber.retry == "1000"
        await record(mill.db, other_base, "filtered out")
        await add_note(http, other_base, "rye")
        reading = asyncio.create_task(subscriber.take(1))

        async def has_moved() -> bool:
            return int(subscriber.last_id or 0) >= 8

        await wait_until(has_moved)
        await record(mill.db, base, "reported")
        assert names(await reading) == ["reported"]
        assert subscriber.heartbeats > 0
    rejection = await http.get("/api/events/stream", params={"types": "Nothing"})
    assert (rejection.status_code, rejection.json()["code"]) == (422, "event_unknown")


async def test_updates_of_items_have_no_cursor_and_end_in_the_newest_state(
    http: httpx.AsyncClient, url: str
) -> None:
    """S4-38: changes of an item between two polls are reported as one, and its last state always is."""
    base, other_base = await new_base(http), await new_base(http, "two")
    async with stream(url, baseId=base, types="item") as subscriber:
        await subscriber.read_start()
        await add_note(http, other_base, "elsewhere")
        item = await add_note(http, base, "rye")
        frames: list[Frame] = []
        async for frame in subscriber.frames():
            frames.append(frame)
            if frame.data["status"] == "completed":
                break
    assert {frame.data["id"] for frame in frames} == {item}
    assert {(frame.type, frame.id) for frame in frames} == {("item", None)}
    assert frames[-1].data == (await http.get(f"/api/knowledge-items/{item}")).json()
    assert frames[-1].data["progress"] == 100


async def test_a_change_that_commits_late_is_still_reported(
    mill: app.Gristmill, http: httpx.AsyncClient, url: str
) -> None:
    """Its rows have an earlier time than rows that were already sent."""
    base = await new_base(http)
    late, early = await add_note(http, base, "late"), await add_note(http, base, "early")

    async def is_idle() -> bool:
        return (await http.get(f"/api/knowledge-bases/{base}")).json()["itemCounts"] == {"completed": 2}

    await wait_until(is_idle)
    touch = "update item set title = %s, updated_at = clock_now() where id = %s"
    async with (
        await psycopg.AsyncConnection.connect(mill.db.url) as slow,
        stream(url, baseId=base, types="item") as subscriber,
    ):
        await subscriber.read_start()
        await slow.execute(touch, ["late", late])
        for round_ in range(4):  # one poll for each: together longer than any slack
            async with mill.db.connection() as tx:
                await tx.execute(touch, [f"early {round_}", early])
            await read_until_title(subscriber, f"early {round_}")
        await slow.commit()
        await read_until_title(subscriber, "late")


async def read_until_title(subscriber: Stream, expected: str) -> None:
    while (await subscriber.take(1))[0].data["title"] != expected:
        pass


async def test_too_many_changes_are_reported_as_one_reload(
    mill: app.Gristmill, http: httpx.AsyncClient, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "_MAX_ITEMS", 2)
    base = await new_base(http)
    async with stream(url, baseId=base, types="item") as subscriber:
        await subscriber.read_start()
        notes = [{"type": "note", "content": str(n)} for n in range(20)]
        await http.post(f"/api/knowledge-bases/{base}/items", json={"items": notes})
        frames = subscriber.frames()
        while (frame := await anext(frames)).type != "reload":
            pass
    assert frame.data == {"baseId": base}


async def test_a_cursor_older_than_the_retained_events_is_reported_as_a_gap(
    mill: app.Gristmill, http: httpx.AsyncClient, url: str
) -> None:
    base = await new_base(http)
    await record(mill.db, base, "a", "b")
    await http.get("/api/events")
    async with mill.db.connection() as tx:
        await tx.execute("update event set at = at - interval '31 days' where seq < 3")
        assert await events.sweep(tx, timedelta(days=30)) == 2
    async with stream(url, after="0") as subscriber:
        gap, event = await subscriber.take(2)
    assert (gap.type, gap.data) == ("gap", {"upTo": "2"})
    assert names([event]) == ["b"]


async def test_a_stream_outlives_the_loss_of_every_connection_to_the_database(
    mill: app.Gristmill, http: httpx.AsyncClient, url: str
) -> None:
    base = await new_base(http)
    async with stream(url, types="BaseChanged") as subscriber:
        await subscriber.read_start()
        await terminate_backends(mill.db.url)
        await record(mill.db, base, "after")
        assert names(await subscriber.take(1)) == ["after"]


async def test_a_stream_reports_an_event_whose_process_was_killed_before_it_announced_it(
    mill: app.Gristmill, http: httpx.AsyncClient, url: str
) -> None:
    base = await new_base(http)
    async with stream(url, types="BaseChanged") as subscriber:
        await subscriber.read_start()
        with faults.watch("announcer.before_notify", hold=True) as announcement:
            await record(mill.db, base, "killed")
            await announcement.passed.wait()
            assert names(await subscriber.take(1)) == ["killed"]


@pytest.mark.parametrize("change", ["revoked", "demoted"])
async def test_a_stream_ends_with_the_rights_of_its_caller(
    mill: app.Gristmill, http: httpx.AsyncClient, url: str, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that happens afterwards is sent to whoever holds a revoked key, or one that is no longer an admin's."""
    monkeypatch.setattr(event_routes, "_PERMISSION_LIFE", timedelta(0))
    base = await new_base(http)
    created = (await http.post("/api/api-keys", json={"name": "agent", "role": "admin"})).json()
    path = f"/api/api-keys/{created['id']}"
    async with stream(url, key=created["key"], types="BaseChanged") as subscriber:
        await subscriber.read_start()
        await record(mill.db, base, "before")
        assert names(await subscriber.take(1)) == ["before"]
        response = await (
            http.delete(path) if change == "revoked" else http.patch(path, json={"role": "editor"})
        )
        assert response.is_success
        await record(mill.db, base, "afterwards")
        assert names(await subscriber.take(1)) == []


async def test_streams_end_at_once_when_the_server_stops(
    mill: app.Gristmill, http: httpx.AsyncClient, url: str
) -> None:
    async with stream(url) as first, stream(url) as second:
        await first.read_start()
        await second.read_start()
        mill.broadcaster.close()
        assert await first.take(1) == await second.take(1) == []
        rejection = await http.get("/api/events/stream")
    assert (rejection.status_code, rejection.json()["code"]) == (503, "stopping")


async def test_a_client_that_reads_nothing_is_disconnected_and_leaves_no_trace(
    mill: app.Gristmill, http: httpx.AsyncClient, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "_SEND_TIMEOUT", timedelta(milliseconds=200))
    base = await new_base(http)
    place = urlsplit(url)
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await asyncio.to_thread(deaf.connect, (place.hostname, place.port))
        deaf.sendall(f"GET /api/events/stream HTTP/1.1\r\nHost: {place.netloc}\r\n\r\n".encode())

        async def is_connected() -> bool:
            return mill.broadcaster.subscriber_count == 1

        async def is_disconnected() -> bool:
            await record(mill.db, base, *("x" * 10_000 for _ in range(50)))
            return mill.broadcaster.subscriber_count == 0

        await wait_until(is_connected)
        await wait_until(is_disconnected)


async def test_the_number_of_streams_is_limited(
    http: httpx.AsyncClient, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "MAX_SUBSCRIBERS", 1)
    async with stream(url) as subscriber:
        await subscriber.read_start()
        rejection = await http.get("/api/events/stream")
        assert (rejection.status_code, rejection.json()["code"]) == (429, "too_many_streams")
