"""Keys, sessions, rates, the log, and what is done once."""

import asyncio
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import psycopg
import pytest

from gristmill import app, identity, jobs
from gristmill.catalog import BaseId
from gristmill.identity import LOCAL_ORG
from gristmill.identity.idempotency import RequestKey
from gristmill.settings import Settings
from gristmill.work import DeleteBase
from tests.database_clock import DatabaseClock
from tests.embedding.hashed import HashedEmbedder
from tests.gristmill_process import environment, run_command, run_serve
from tests.server.clients import client_with_key, new_key, new_organisation


async def create_key(http: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    answer = await http.post("/api/api-keys", json={"name": "k", "role": "reader", **body})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def test_a_secret_is_shown_once_and_kept_as_a_hash(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    made = await create_key(http, principal={"email": "Ann@x.org", "teams": ["7"]})
    assert made["key"].startswith(made["prefix"])
    assert made["principal"] == {"email": "ann@x.org", "teams": ["7"], "groups": []}
    for answer in (await http.get(f"/api/api-keys/{made['id']}"), await http.get("/api/api-keys")):
        assert made["key"] not in answer.text
        assert made["prefix"] in answer.text
    async with mill.db.connection() as tx:
        rows = await (await tx.execute("select k::text from api_key k")).fetchall()
    assert made["key"] not in str(rows)


async def test_a_key_lets_in_until_it_is_revoked_or_expires(
    mill: app.Gristmill, http: httpx.AsyncClient, clock: DatabaseClock
) -> None:
    revoked, expired = await create_key(http), await create_key(http)
    await http.patch(f"/api/api-keys/{expired['id']}", json={"expiresAt": "2030-01-01T01:00:00Z"})
    for key in (revoked, expired):
        async with client_with_key(mill, key["key"]) as client:
            assert (await client.get("/api/session")).json()["keyId"] == key["id"]
            used = (await http.get(f"/api/api-keys/{key['id']}")).json()["lastUsedAt"]
            assert used is not None
    await http.delete(f"/api/api-keys/{revoked['id']}")
    await clock.advance(timedelta(hours=2))
    for secret in (revoked["key"], expired["key"], "gm_none", "none"):
        async with client_with_key(mill, secret) as client:
            answer = await client.get("/api/knowledge-bases")
            assert (answer.status_code, answer.json()["code"]) == (401, "bad_key")


async def test_a_key_sees_what_lists_allow_its_principal(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    """S2-28: a key's eyes are its principal's, as those on whose behalf an admin reads."""
    base = (await http.post("/api/knowledge-bases", json={"name": "b", "acl": ["team:7"]})).json()["id"]
    inside, outside = (
        await create_key(http, principal={"teams": ["7"]}),
        await create_key(http, role="editor"),
    )
    async with client_with_key(mill, inside["key"]) as client:
        assert (await client.get(f"/api/knowledge-bases/{base}")).status_code == 200
        refused = await client.get("/api/knowledge-bases", headers={"X-Gristmill-On-Behalf-Of": "team:8"})
        assert (refused.status_code, refused.json()["code"]) == (403, "role_too_low")
    async with client_with_key(mill, outside["key"]) as client:
        assert (await client.get(f"/api/knowledge-bases/{base}")).status_code == 404
        made = await client.post("/api/knowledge-bases", json={"name": "own"})
        assert made.json()["acl"] == ["org:*"]
        added = await client.post(
            f"/api/knowledge-bases/{made.json()['id']}/items",
            json={"items": [{"type": "note", "content": "x"}]},
        )
        assert added.status_code == 202


async def test_an_editor_changes_no_base_that_hides_something_from_it(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    base = (await http.post("/api/knowledge-bases", json={"name": "b", "acl": ["org:*"]})).json()["id"]
    items = [{"type": "note", "content": "open"}, {"type": "note", "content": "hidden", "acl": ["team:1"]}]
    created = (await http.post(f"/api/knowledge-bases/{base}/items", json={"items": items})).json()["created"]
    async with client_with_key(mill, (await create_key(http, role="editor"))["key"]) as client:
        for method, path in (
            ("DELETE", f"/api/knowledge-items/{created[0]['id']}"),
            ("POST", f"/api/knowledge-bases/{base}/queue/dismiss"),
        ):
            answer = await client.request(method, path)
            assert (answer.status_code, answer.json()["code"]) == (403, "partly_hidden")
        assert (await client.delete(f"/api/knowledge-items/{created[1]['id']}")).status_code == 404
    async with client_with_key(
        mill, (await create_key(http, role="editor", principal={"teams": ["1"]}))["key"]
    ) as client:
        listed = await client.patch(f"/api/knowledge-items/{created[0]['id']}", json={"acl": []})
        assert (listed.status_code, listed.json()["code"]) == (403, "role_too_low")
        assert (await client.delete(f"/api/knowledge-items/{created[0]['id']}")).status_code == 202


async def test_only_a_neighbour_of_a_server_on_loopback_needs_no_key(
    mill: app.Gristmill, settings: Settings
) -> None:
    async def status(headers: dict[str, str], client: str = "127.0.0.1", **changed: Any) -> int:
        running = settings.model_copy(update=changed)
        async with app.gristmill(running, work=False, extra_embedders={"hashed": HashedEmbedder()}) as other:
            transport = httpx.ASGITransport(app=other.api, client=(client, 1))
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
                return (await http.get("/api/knowledge-bases", headers=headers)).status_code

    assert await status({}) == 200
    assert await status({"X-Forwarded-For": "203.0.113.9"}) == 401
    assert await status({}, client="203.0.113.9") == 401
    assert await status({}, host="0.0.0.0") == 401
    assert await status({}, require_key=True) == 401


async def test_a_session_is_a_cookie_that_other_sites_cant_use(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    key = await create_key(http, role="editor")
    async with client_with_key(mill, None) as browser:
        assert (await browser.post("/api/session", json={"key": "gm_wrong"})).json()["code"] == "bad_key"
        opened = await browser.post("/api/session", json={"key": key["key"]})
        assert opened.status_code == 201
        cookie = opened.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert (await browser.get("/api/session")).json()["role"] == "editor"
        body = {"name": "by a browser"}
        assert (await browser.post("/api/knowledge-bases", json=body)).json()["code"] == "no_origin"
        foreign = await browser.post(
            "/api/knowledge-bases", json=body, headers={"Origin": "http://evil.example"}
        )
        assert foreign.json()["code"] == "foreign_origin"
        ours = await browser.post("/api/knowledge-bases", json=body, headers={"Origin": "http://localhost"})
        assert ours.status_code == 201
        await browser.delete("/api/session", headers={"Origin": "http://localhost"})
        browser.cookies.clear()
    async with client_with_key(mill, None) as browser:
        browser.cookies.set("gristmill_session", opened.cookies["gristmill_session"])
        assert (await browser.get("/api/session")).status_code == 401


async def test_a_key_that_asks_too_often_is_told_when_to_come_back(settings: Settings) -> None:
    slow = settings.model_copy(update={"key_requests_per_minute": 12})
    async with app.gristmill(slow, work=False, extra_embedders={"hashed": HashedEmbedder()}) as mill:
        secrets = [(await new_key(mill.db, LOCAL_ORG, "reader"))[1] for _ in range(2)]
        async with client_with_key(mill, secrets[0]) as client:
            statuses = [(await client.get("/api/session")).status_code for _ in range(3)]
            refused = await client.get("/api/session")
        assert statuses == [200, 200, 429]
        assert refused.json()["code"] == "rate_limited"
        assert 1 <= int(refused.headers["retry-after"]) <= 5
        async with client_with_key(mill, secrets[1]) as client:
            assert (await client.get("/api/session")).status_code == 200


async def test_every_change_is_in_the_log_with_who_asked_and_what_came_of_it(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    key = await create_key(http)
    async with client_with_key(mill, key["key"]) as reader:
        await reader.post("/api/knowledge-bases", json={"name": "x"})
        await reader.post("/api/search", json={"query": "x"})
    await http.post("/api/knowledge-bases", json={"name": "x"})
    found = (await http.get("/api/audit")).json()["items"]
    assert [(entry["actor"], entry["method"], entry["path"], entry["status"]) for entry in found] == [
        ("local", "POST", "/api/knowledge-bases", 201),
        (f"key:{key['prefix']}", "POST", "/api/knowledge-bases", 403),
        ("local", "POST", "/api/api-keys", 201),
    ]
    page = (await http.get("/api/audit?limit=2")).json()
    rest = (await http.get(f"/api/audit?limit=2&cursor={page['nextCursor']}")).json()
    assert [entry["id"] for entry in page["items"] + rest["items"]] == [entry["id"] for entry in found]


# ── once ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_change_that_is_sent_again_is_answered_and_not_done_again(
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
    other = await http.post("/api/api-keys", json={**body, "name": "y"}, headers={"Idempotency-Key": "one"})
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_mismatch")
    async with mill.db.connection() as tx:
        rows = await (await tx.execute("select i::text from idempotency i")).fetchall()
    assert first.json()["key"] not in str(rows), "what is kept is sealed"
    async with client_with_key(mill, first.json()["key"]) as another:
        fresh = await another.post("/api/api-keys", json=body, headers={"Idempotency-Key": "one"})
        assert fresh.json()["id"] != first.json()["id"], "keys are each caller's own"


async def test_what_was_refused_may_be_sent_again(http: httpx.AsyncClient) -> None:
    headers = {"Idempotency-Key": str(uuid4())}
    url = f"/api/knowledge-bases/{uuid4()}/items"
    items = {"items": [{"type": "note", "content": "x"}]}
    for _ in range(2):
        answer = await http.post(url, json=items, headers=headers)
        assert (answer.status_code, "idempotency-replayed" in answer.headers) == (404, False)
    bad = await http.post(url, json=items, headers={"Idempotency-Key": "a b"})
    assert bad.json()["code"] == "bad_idempotency_key"


async def test_of_two_at_once_one_does_it(http: httpx.AsyncClient) -> None:
    headers = {"Idempotency-Key": "race"}
    answers = await asyncio.gather(
        *(http.post("/api/webhooks", json={"url": "https://x.org"}, headers=headers) for _ in range(5))
    )
    made = {answer.json()["id"] for answer in answers if answer.status_code == 201}
    assert len(made) == 1
    assert {answer.json().get("code") for answer in answers if answer.status_code != 201} <= {
        "idempotency_in_progress"
    }
    assert len((await http.get("/api/webhooks")).json()["items"]) == 1


async def test_an_upload_is_done_once(http: httpx.AsyncClient) -> None:
    base = (await http.post("/api/knowledge-bases", json={"name": "b"})).json()["id"]
    for _ in range(2):
        sent = await http.post(
            f"/api/knowledge-bases/{base}/files",
            files={"files": ("a.txt", b"wheel")},
            headers={"Idempotency-Key": "up"},
        )
        assert sent.status_code == 202, sent.text
    assert len((await http.get(f"/api/knowledge-bases/{base}/items")).json()["items"]) == 1


async def test_who_was_too_slow_does_nothing_once_another_took_over(
    mill: app.Gristmill, http: httpx.AsyncClient, clock: DatabaseClock
) -> None:
    """The first is held before its commit; five minutes later the same is sent again, and done."""
    base = (await http.post("/api/knowledge-bases", json={"name": "b"})).json()["id"]
    url, headers = f"/api/knowledge-bases/{base}/items", {"Idempotency-Key": "slow"}
    items = {"items": [{"type": "note", "content": "x"}]}
    async with mill.db.transaction() as tx:
        asked = RequestKey(LOCAL_ORG, "local", "slow")
        token = await identity.idempotency.claim(tx, asked, b"another")
    assert not isinstance(token, identity.idempotency.EarlierRequest)
    assert (await http.post(url, json=items, headers=headers)).status_code == 422
    async with mill.db.connection() as tx:
        await tx.execute("update idempotency set at = at - interval '6 minutes', fingerprint = %s", [b"x"])
        taken = await identity.idempotency.claim(tx, asked, b"x")
        assert not isinstance(taken, identity.idempotency.EarlierRequest)
    async with mill.db.connection() as tx:
        with pytest.raises(Exception, match="done by that one"):
            await identity.idempotency.mark_done(tx, asked, token)
        await identity.idempotency.mark_done(tx, asked, taken)


def test_killed_after_the_commit_it_is_not_done_again(
    database_url: str, data_dir: Path, cache_dir: Path, tmp_path: Path
) -> None:
    """kill -9 between the commit and the answer: the base is there once, and the client is told."""
    env = environment(data_dir, cache_dir, database_url=database_url)
    armed = {**env, "GRISTMILL_FAULTS": "once.before_answer=kill"}
    body, headers = {"name": "one"}, {"Idempotency-Key": "k"}
    with run_serve(armed, log=tmp_path / "log") as first, first.client() as client:
        with pytest.raises(httpx.HTTPError):
            client.post("/api/knowledge-bases", json=body, headers=headers)
        assert first.process.wait(10) == -signal.SIGKILL
    with run_serve(env, log=tmp_path / "log") as second, second.client() as client:
        answer = client.post("/api/knowledge-bases", json=body, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (409, "idempotency_in_progress")
        with psycopg.connect(database_url) as later:
            later.execute("update idempotency set at = at - interval '10 seconds'")
        answer = client.post("/api/knowledge-bases", json=body, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (409, "idempotency_answer_lost")
        assert len(client.get("/api/knowledge-bases").json()["items"]) == 1
        log = client.get("/api/audit").json()["items"]
        assert [entry["status"] for entry in log] == [409, 409, None]


async def test_of_two_that_saw_the_same_one_is_refused(http: httpx.AsyncClient) -> None:
    base = await http.post("/api/knowledge-bases", json={"name": "b"})
    url = f"/api/knowledge-bases/{base.json()['id']}"
    seen = (await http.get(url)).headers["etag"]
    assert seen == base.headers["etag"]
    answers = [
        await http.patch(url, json={"name": name}, headers={"If-Match": seen}) for name in ("one", "two")
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
    key = await create_key(http)
    changes: list[tuple[str, dict[str, Any]]] = [
        (f"/api/knowledge-items/{item['id']}", {"metadata": {}}),
        (f"/api/webhooks/{hook['id']}", {"description": "d"}),
        (f"/api/api-keys/{key['id']}", {"name": "n"}),
    ]
    for path, body in changes:
        assert (await http.patch(path, json=body, headers={"If-Match": '"0"'})).status_code == 412, path
        assert (await http.get(path)).headers["etag"]


# ── the disk, the address ────────────────────────────────────────────────────────────────────────────────


async def test_the_servers_disk_is_read_below_allowed_paths_alone(settings: Settings, tmp_path: Path) -> None:
    allowed, secret = tmp_path / "allowed", tmp_path / "secret.txt"
    allowed.mkdir()
    (allowed / "a.txt").write_text("wheel")
    secret.write_text("secret")
    (allowed / "link.txt").symlink_to(secret)
    changed = settings.model_copy(update={"allowed_paths": [allowed]})
    async with app.gristmill(changed, work=False, extra_embedders={"hashed": HashedEmbedder()}) as mill:
        org = await new_organisation(mill.db, "other")
        async with client_with_key(mill, (await new_key(mill.db, org, "admin"))[1]) as client:
            base = (await client.post("/api/knowledge-bases", json={"name": "b"})).json()["id"]

            async def add(kind: str, path: Path) -> int:
                body = {"items": [{"type": kind, "path": str(path)}]}
                return (await client.post(f"/api/knowledge-bases/{base}/items", json=body)).status_code

            assert await add("file", allowed / "a.txt") == 202
            assert await add("directory", allowed) == 202
            assert await add("file", secret) == 403
            assert await add("file", allowed / "link.txt") == 403
            assert await add("file", allowed / ".." / "secret.txt") == 403
            assert await add("directory", tmp_path) == 403


def test_beyond_loopback_nothing_is_served_without_a_key(
    database_url: str, data_dir: Path, cache_dir: Path, tmp_path: Path
) -> None:
    env = environment(data_dir, cache_dir, database_url=database_url, host="0.0.0.0", port="0")
    refused = run_command(env, "serve")
    assert refused.returncode == 2
    assert "gristmill keys create" in refused.stderr
    made = run_command(env, "keys", "create", "first", "--role", "admin")
    assert made.returncode == 0, made.stderr
    secret = made.stdout.strip()
    with run_serve(env, log=tmp_path / "log") as server:
        url = server.url.replace("0.0.0.0", "127.0.0.1")
        with httpx.Client(base_url=url, trust_env=False) as client:
            assert client.get("/api/knowledge-bases").status_code == 401
            key = {"Authorization": f"Bearer {secret}"}
            assert client.get("/api/knowledge-bases", headers=key).status_code == 200
        assert run_command(env, "status").returncode == 1
        assert run_command({**env, "GRISTMILL_API_KEY": secret}, "status").returncode == 0
        assert run_command(env, "keys", "revoke", "first").returncode == 0
        with httpx.Client(base_url=url, trust_env=False) as client:
            body = {"name": "b"}  # who reads is known for a second
            assert client.post("/api/knowledge-bases", json=body, headers=key).status_code == 401
    listed = run_command(env, "keys", "list", "--json")
    assert listed.stdout.strip() == "[]"
    log = run_command(env, "audit", "--json")
    assert '"DELETE"' in log.stdout
    assert '"cli"' in log.stdout


async def test_answers_tell_browsers_to_be_careful(http: httpx.AsyncClient) -> None:
    answer = await http.get("/api/knowledge-bases")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["cache-control"] == "no-store"
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]


async def test_metrics_count_requests_searches_and_jobs_and_name_no_lane_of_others(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    org = await new_organisation(mill.db, "other")
    async with client_with_key(mill, (await new_key(mill.db, org, "admin"))[1]) as theirs:
        bases = [
            (await client.post("/api/knowledge-bases", json={"name": "b"})).json()["id"]
            for client in (http, theirs)
        ]
        assert (await theirs.get("/metrics")).json()["code"] == "operator_only"
    async with mill.db.transaction() as tx:
        for base in bases:
            work = DeleteBase(BaseId(UUID(base)))
            await jobs.enqueue(tx, jobs.NewJob(work, lane=base, delay=timedelta(hours=1)))
    await http.post("/api/search", json={"query": "x", "mode": "text"})
    told = (await http.get("/metrics")).text
    assert 'gristmill_requests_total{method="POST",status="201"} 2.0' in told
    assert 'gristmill_search_seconds_count{mode="text"} 1.0' in told
    assert f'gristmill_jobs{{kind="delete_base",lane="{bases[0]}",state="delayed"}} 1.0' in told
    assert 'gristmill_jobs{kind="delete_base",lane="other",state="delayed"} 1.0' in told
    assert bases[1] not in told
    assert "gristmill_event_lag_seconds" in told
