"""`Idempotency-Key` and `If-Match`: repeated and concurrent changes."""

import asyncio
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psycopg
import pytest

from gristmill import app, faults
from gristmill.identity import LOCAL_ORG, idempotency
from gristmill.identity.idempotency import RequestKey
from tests.database_clock import DatabaseClock
from tests.gristmill_process import environment, run_serve
from tests.server.clients import client_with_key
from tests.wait_until import ended, reached, wait_until

pytestmark = pytest.mark.slow


async def test_a_repeated_change_gets_the_stored_response(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    body = {"name": "secret", "role": "admin"}
    first, second = [
        await http.post("/api/api-keys", json=body, headers={"Idempotency-Key": "one"}) for _ in range(2)
    ]
    assert (first.status_code, first.content) == (second.status_code, second.content)
    assert "idempotency-replayed" not in first.headers
    assert second.headers["idempotency-replayed"] == "true"
    assert len((await http.get("/api/api-keys")).json()["items"]) == 1
    second_response = await http.post(
        "/api/api-keys", json={**body, "name": "y"}, headers={"Idempotency-Key": "one"}
    )
    assert (second_response.status_code, second_response.json()["code"]) == (422, "idempotency_mismatch")
    async with mill.db.connection() as tx:
        rows = await (await tx.execute("select i::text from idempotency i")).fetchall()
    assert first.json()["key"] not in str(rows), "stored responses are encrypted"
    async with client_with_key(mill, first.json()["key"]) as another:
        fresh = await another.post("/api/api-keys", json=body, headers={"Idempotency-Key": "one"})
        assert fresh.json()["id"] != first.json()["id"], "each caller has its own idempotency keys"


async def test_a_rejected_request_may_be_sent_again(http: httpx.AsyncClient) -> None:
    headers = {"Idempotency-Key": str(uuid4())}
    url = f"/api/knowledge-bases/{uuid4()}/items"
    items = {"items": [{"type": "note", "content": "x"}]}
    for _ in range(2):
        answer = await http.post(url, json=items, headers=headers)
        assert (answer.status_code, "idempotency-replayed" in answer.headers) == (404, False)
    bad = await http.post("/api/knowledge-bases", json={}, headers={"Idempotency-Key": "a b"})
    assert bad.json()["code"] == "bad_idempotency_key"


async def test_a_request_whose_client_left_before_the_end_of_its_body_may_be_sent_again(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    body, headers = b'{"name": "wheat"}', {"content-type": "application/json", "idempotency-key": "half"}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/api/knowledge-bases",
        "raw_path": b"/api/knowledge-bases",
        "query_string": b"",
        "headers": [
            (name.encode(), value.encode()) for name, value in {"host": "localhost", **headers}.items()
        ],
        "client": ("127.0.0.1", 1),
        "server": ("localhost", 80),
    }
    received = iter(
        [{"type": "http.request", "body": body[:5], "more_body": True}, {"type": "http.disconnect"}]
    )
    sent: list[Any] = []

    async def receive() -> Any:
        return next(received)

    async def send(message: Any) -> None:
        sent.append(message)

    await mill.api(scope, receive, send)
    assert sent == []
    whole = await http.post("/api/knowledge-bases", content=body, headers=headers)
    assert (whole.status_code, whole.json()["name"]) == (201, "wheat")


async def test_of_concurrent_identical_requests_one_is_executed(http: httpx.AsyncClient) -> None:
    headers = {"Idempotency-Key": "race"}
    answers = await asyncio.gather(
        *(http.post("/api/webhooks", json={"url": "https://x.org"}, headers=headers) for _ in range(5))
    )
    created_ids = {answer.json()["id"] for answer in answers if answer.status_code == 201}
    assert len(created_ids) == 1
    assert {answer.json().get("code") for answer in answers if answer.status_code != 201} <= {
        "idempotency_in_progress"
    }
    assert len((await http.get("/api/webhooks")).json()["items"]) == 1


async def test_a_repeated_upload_is_executed_once(http: httpx.AsyncClient) -> None:
    base = (await http.post("/api/knowledge-bases", json={"name": "b"})).json()["id"]
    for _ in range(2):
        response = await http.post(
            f"/api/knowledge-bases/{base}/files",
            files={"files": ("a.txt", b"wheel")},
            headers={"Idempotency-Key": "up"},
        )
        assert response.status_code == 202, response.text
    assert len((await http.get(f"/api/knowledge-bases/{base}/items")).json()["items"]) == 1


async def test_a_slow_request_changes_nothing_after_another_took_over(
    mill: app.Gristmill, http: httpx.AsyncClient, clock: DatabaseClock
) -> None:
    """The first request waits before its commit; its claim expires, and the same request is sent again and executed."""
    base = (await http.post("/api/knowledge-bases", json={"name": "b"})).json()["id"]
    url, headers = f"/api/knowledge-bases/{base}/items", {"Idempotency-Key": "slow"}
    items = {"items": [{"type": "note", "content": "x"}]}
    async with mill.db.transaction() as tx:
        request_key = RequestKey(LOCAL_ORG, "local", "slow")
        token = await idempotency.claim(tx, request_key, b"another")
    assert not isinstance(token, idempotency.EarlierRequest)
    assert (await http.post(url, json=items, headers=headers)).status_code == 422
    async with mill.db.connection() as tx:
        await tx.execute("update idempotency set at = at - interval '16 seconds', fingerprint = %s", [b"x"])
        claim = await idempotency.claim(tx, request_key, b"x")
        assert not isinstance(claim, idempotency.EarlierRequest)
    async with mill.db.connection() as tx:
        with pytest.raises(Exception, match="is being processed there"):
            await idempotency.mark_done(tx, request_key, token)
        await idempotency.mark_done(tx, request_key, claim)


async def test_a_running_request_keeps_its_key(
    mill: app.Gristmill, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it takes: its claim is renewed."""
    monkeypatch.setattr(idempotency, "RENEW_INTERVAL", timedelta(milliseconds=10))
    base = (await http.post("/api/knowledge-bases", json={"name": "b"})).json()["id"]
    url, headers = f"/api/knowledge-bases/{base}/items", {"Idempotency-Key": "slow"}
    items = {"items": [{"type": "note", "content": "x"}]}

    async def is_renewed() -> bool:
        async with mill.db.connection() as tx:
            rows = await (
                await tx.execute("select 1 from idempotency where at > now() - interval '5 seconds'")
            ).fetchall()
        return rows != []

    with faults.watch("add.before_commit", hold=True) as commit:
        request = asyncio.create_task(http.post(url, json=items, headers=headers))
        await reached(commit)
        async with mill.db.connection() as tx:
            await tx.execute("update idempotency set at = at - interval '1 hour'")
        await wait_until(is_renewed)
        response = await http.post(url, json=items, headers=headers)
    assert (response.status_code, response.json()["code"]) == (409, "idempotency_in_progress")
    assert (await ended(request)).status_code == 202


def test_a_request_of_a_killed_server_can_be_sent_again_soon(
    database_url: str, data_dir: Path, cache_dir: Path, quick_embedder: dict[str, str], tmp_path: Path
) -> None:
    """kill -9 before the commit: nothing was done, and 15 seconds later the same key carries the request out."""
    env = environment(data_dir, cache_dir, database_url=database_url, **quick_embedder)
    items, headers = {"items": [{"type": "note", "content": "x"}]}, {"Idempotency-Key": "k"}
    fault_env = {**env, "GRISTMILL_FAULTS": "add.before_commit=kill"}
    with run_serve(fault_env, log=tmp_path / "log") as first, first.client() as client:
        base = client.post("/api/knowledge-bases", json={"name": "b"}).json()["id"]
        with pytest.raises(httpx.HTTPError):
            client.post(f"/api/knowledge-bases/{base}/items", json=items, headers=headers)
        assert first.process.wait(120) == -signal.SIGKILL
    with (
        run_serve(env, log=tmp_path / "log") as second,
        second.client() as client,
        psycopg.connect(database_url, autocommit=True) as database,
    ):
        # The test sets the time, as a restart may take longer.
        database.execute("update idempotency set at = now()")
        answer = client.post(f"/api/knowledge-bases/{base}/items", json=items, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (409, "idempotency_in_progress")
        database.execute("update idempotency set at = now() - interval '16 seconds'")
        answer = client.post(f"/api/knowledge-bases/{base}/items", json=items, headers=headers)
        assert answer.status_code == 202
        assert len(client.get(f"/api/knowledge-bases/{base}/items").json()["items"]) == 1


def test_a_change_is_not_repeated_after_a_kill_between_commit_and_response(
    database_url: str, data_dir: Path, cache_dir: Path, quick_embedder: dict[str, str], tmp_path: Path
) -> None:
    """kill -9 between commit and response: the base exists once, and the client is informed."""
    env = environment(data_dir, cache_dir, database_url=database_url, **quick_embedder)
    fault_env = {**env, "GRISTMILL_FAULTS": "once.before_answer=kill"}
    body, headers = {"name": "one"}, {"Idempotency-Key": "k"}
    with run_serve(fault_env, log=tmp_path / "log") as first, first.client() as client:
        with pytest.raises(httpx.HTTPError):
            client.post("/api/knowledge-bases", json=body, headers=headers)
        assert first.process.wait(120) == -signal.SIGKILL
    with (
        run_serve(env, log=tmp_path / "log") as second,
        second.client() as client,
        psycopg.connect(database_url, autocommit=True) as database,
    ):
        # For ten seconds the response may still be on its way. The test sets the time, as a restart may take longer.
        database.execute("update idempotency set at = now() + interval '10 minutes'")
        answer = client.post("/api/knowledge-bases", json=body, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (409, "idempotency_in_progress")
        database.execute("update idempotency set at = now() - interval '11 seconds'")
        answer = client.post("/api/knowledge-bases", json=body, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (409, "idempotency_answer_lost")
        assert len(client.get("/api/knowledge-bases").json()["items"]) == 1
        log = client.get("/api/audit").json()["items"]
        assert [entry["status"] for entry in log] == [409, 409, None]


async def test_of_two_changes_with_the_same_etag_one_is_rejected(http: httpx.AsyncClient) -> None:
    base = await http.post("/api/knowledge-bases", json={"name": "b"})
    url = f"/api/knowledge-bases/{base.json()['id']}"
    etag = (await http.get(url)).headers["etag"]
    assert etag == base.headers["etag"]
    answers = [
        await http.patch(url, json={"name": name}, headers={"If-Match": etag}) for name in ("one", "two")
    ]
    assert [answer.status_code for answer in answers] == [200, 412]
    assert answers[1].json()["code"] == "changed_meanwhile"
    assert (
        await http.patch(url, json={"name": "3"}, headers={"If-Match": answers[0].headers["etag"]})
    ).is_success
    item = (await http.post(f"{url}/items", json={"items": [{"type": "note", "content": "x"}]})).json()[
        "created"
    ][0]
    hook = (await http.post("/api/webhooks", json={"url": "https://x.org"})).json()
    key = (await http.post("/api/api-keys", json={"name": "k", "role": "reader"})).json()
    changes: list[tuple[str, dict[str, Any]]] = [
        (f"/api/knowledge-items/{item['id']}", {"metadata": {}}),
        (f"/api/webhooks/{hook['id']}", {"description": "d"}),
        (f"/api/api-keys/{key['id']}", {"name": "n"}),
    ]
    for path, body in changes:
        assert (await http.patch(path, json=body, headers={"If-Match": '"0"'})).status_code == 412, path
        assert (await http.get(path)).headers["etag"]
