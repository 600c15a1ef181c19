"""Keys, sessions, rate limits, the audit log, and who may do what with a key."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from gristmill import app
from gristmill.identity import LOCAL_ORG
from gristmill.settings import Settings
from tests.database_clock import DatabaseClock
from tests.embedding.hashed import HashedEmbedder
from tests.gristmill_process import environment, run_command, run_serve
from tests.server.clients import client_with_key, new_key, new_organisation

pytestmark = pytest.mark.slow


async def create_key(http: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    answer = await http.post("/api/api-keys", json={"name": "k", "role": "reader", **body})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def test_a_secret_is_shown_once_and_kept_as_a_hash(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    creation = await create_key(http, principal={"email": "Ann@x.org", "teams": ["7"]})
    assert creation["key"].startswith(creation["prefix"])
    assert creation["principal"] == {"email": "ann@x.org", "teams": ["7"], "groups": []}
    for answer in (await http.get(f"/api/api-keys/{creation['id']}"), await http.get("/api/api-keys")):
        assert creation["key"] not in answer.text
        assert creation["prefix"] in answer.text
    async with mill.db.connection() as tx:
        rows = await (await tx.execute("select k::text from api_key k")).fetchall()
    assert creation["key"] not in str(rows)


async def test_a_key_is_valid_until_it_is_revoked_or_expires(
    mill: app.Gristmill, http: httpx.AsyncClient, clock: DatabaseClock
) -> None:
    revoked_key, expired_key = await create_key(http), await create_key(http)
    await http.patch(f"/api/api-keys/{expired_key['id']}", json={"expiresAt": "2030-01-01T01:00:00Z"})
    for key in (revoked_key, expired_key):
        async with client_with_key(mill, key["key"]) as client:
            assert (await client.get("/api/session")).json()["keyId"] == key["id"]
            last_used = (await http.get(f"/api/api-keys/{key['id']}")).json()["lastUsedAt"]
            assert last_used is not None
    await http.delete(f"/api/api-keys/{revoked_key['id']}")
    await clock.advance(timedelta(hours=2))
    for secret in (revoked_key["key"], expired_key["key"], "gm_none", "none"):
        async with client_with_key(mill, secret) as client:
            answer = await client.get("/api/knowledge-bases")
            assert (answer.status_code, answer.json()["code"]) == (401, "bad_key")


async def test_a_key_sees_what_lists_allow_its_principal(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    """S2-28: a key sees what its principal may see, as an admin does on behalf of that principal."""
    base = (await http.post("/api/knowledge-bases", json={"name": "b", "acl": ["team:7"]})).json()["id"]
    inside, outside = (
        await create_key(http, principal={"teams": ["7"]}),
        await create_key(http, role="editor"),
    )
    async with client_with_key(mill, inside["key"]) as client:
        assert (await client.get(f"/api/knowledge-bases/{base}")).status_code == 200
        rejection = await client.get("/api/knowledge-bases", headers={"X-Gristmill-On-Behalf-Of": "team:8"})
        assert (rejection.status_code, rejection.json()["code"]) == (403, "role_too_low")
    async with client_with_key(mill, outside["key"]) as client:
        assert (await client.get(f"/api/knowledge-bases/{base}")).status_code == 404
        creation = await client.post("/api/knowledge-bases", json={"name": "own"})
        assert creation.json()["acl"] == ["org:*"]
        response = await client.post(
            f"/api/knowledge-bases/{creation.json()['id']}/items",
            json={"items": [{"type": "note", "content": "x"}]},
        )
        assert response.status_code == 202


async def test_an_editor_cannot_change_a_base_with_hidden_items(
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
        response = await client.patch(f"/api/knowledge-items/{created[0]['id']}", json={"acl": []})
        assert (response.status_code, response.json()["code"]) == (403, "role_too_low")
        assert (await client.delete(f"/api/knowledge-items/{created[0]['id']}")).status_code == 202


async def test_only_local_requests_to_a_loopback_server_need_no_key(
    mill: app.Gristmill, settings: Settings
) -> None:
    async def status(headers: dict[str, str], client: str = "127.0.0.1", **changes: Any) -> int:
        running = settings.model_copy(update=changes)
        async with app.gristmill(running, work=False, extra_embedders={"hashed": HashedEmbedder()}) as other:
            transport = httpx.ASGITransport(app=other.api, client=(client, 1))
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
                return (await http.get("/api/knowledge-bases", headers=headers)).status_code

    assert await status({}) == 200
    assert await status({"X-Forwarded-For": "203.0.113.9"}) == 401
    assert await status({}, client="203.0.113.9") == 401
    assert await status({}, host="0.0.0.0") == 401
    assert await status({}, require_key=True) == 401


async def test_other_sites_cannot_use_the_session_cookie(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    key = await create_key(http, role="editor")
    async with client_with_key(mill, None) as browser:
        assert (await browser.post("/api/session", json={"key": "gm_wrong"})).json()["code"] == "bad_key"
        sign_in = await browser.post("/api/session", json={"key": key["key"]})
        assert sign_in.status_code == 201
        cookie = sign_in.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert (await browser.get("/api/session")).json()["role"] == "editor"
        body = {"name": "by a browser"}
        assert (await browser.post("/api/knowledge-bases", json=body)).json()["code"] == "no_origin"
        foreign = await browser.post(
            "/api/knowledge-bases", json=body, headers={"Origin": "http://evil.example"}
        )
        assert foreign.json()["code"] == "foreign_origin"
        same_origin = await browser.post(
            "/api/knowledge-bases", json=body, headers={"Origin": "http://localhost"}
        )
        assert same_origin.status_code == 201
        await browser.delete("/api/session", headers={"Origin": "http://localhost"})
        browser.cookies.clear()
    async with client_with_key(mill, None) as browser:
        browser.cookies.set("gristmill_session", sign_in.cookies["gristmill_session"])
        assert (await browser.get("/api/session")).status_code == 401


async def test_a_key_over_its_rate_limit_gets_retry_after(settings: Settings) -> None:
    slow = settings.model_copy(update={"key_requests_per_minute": 12})
    async with app.gristmill(slow, work=False, extra_embedders={"hashed": HashedEmbedder()}) as mill:
        secrets = [(await new_key(mill.db, LOCAL_ORG, "reader"))[1] for _ in range(2)]
        async with client_with_key(mill, secrets[0]) as client:
            statuses = [(await client.get("/api/session")).status_code for _ in range(3)]
            rejection = await client.get("/api/session")
        assert statuses == [200, 200, 429]
        assert rejection.json()["code"] == "rate_limited"
        assert 1 <= int(rejection.headers["retry-after"]) <= 5
        async with client_with_key(mill, secrets[1]) as client:
            assert (await client.get("/api/session")).status_code == 200


async def test_every_change_is_in_the_audit_log_with_actor_and_status(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    key = await create_key(http)
    async with client_with_key(mill, key["key"]) as reader:
        await reader.post("/api/knowledge-bases", json={"name": "x"})
        await reader.post("/api/search", json={"query": "x"})
    await http.post("/api/knowledge-bases", json={"name": "x"})
    entries = (await http.get("/api/audit")).json()["items"]
    assert [(entry["actor"], entry["method"], entry["path"], entry["status"]) for entry in entries] == [
        ("local", "POST", "/api/knowledge-bases", 201),
        (f"key:{key['prefix']}", "POST", "/api/knowledge-bases", 403),
        ("local", "POST", "/api/api-keys", 201),
    ]
    page = (await http.get("/api/audit?limit=2")).json()
    second_page = (await http.get(f"/api/audit?limit=2&cursor={page['nextCursor']}")).json()
    assert [entry["id"] for entry in page["items"] + second_page["items"]] == [
        entry["id"] for entry in entries
    ]


# ── paths on the server's disk, and servers beyond loopback ──────────────────────────────────────────────


async def test_the_servers_disk_is_read_only_below_allowed_paths(settings: Settings, tmp_path: Path) -> None:
    allowed_path, secret = tmp_path / "allowed", tmp_path / "secret.txt"
    allowed_path.mkdir()
    (allowed_path / "a.txt").write_text("wheel")
    secret.write_text("secret")
    (allowed_path / "link.txt").symlink_to(secret)
    changes = settings.model_copy(update={"allowed_paths": [allowed_path]})
    async with app.gristmill(changes, work=False, extra_embedders={"hashed": HashedEmbedder()}) as mill:
        org = await new_organisation(mill.db, "other")
        async with client_with_key(mill, (await new_key(mill.db, org, "admin"))[1]) as client:
            base = (await client.post("/api/knowledge-bases", json={"name": "b"})).json()["id"]

            async def add(kind: str, path: Path) -> int:
                body = {"items": [{"type": kind, "path": str(path)}]}
                return (await client.post(f"/api/knowledge-bases/{base}/items", json=body)).status_code

            assert await add("file", allowed_path / "a.txt") == 202
            assert await add("directory", allowed_path) == 202
            assert await add("file", secret) == 403
            assert await add("file", allowed_path / "link.txt") == 403
            assert await add("file", allowed_path / ".." / "secret.txt") == 403
            assert await add("directory", tmp_path) == 403


def test_a_server_beyond_loopback_requires_a_key(
    database_url: str, data_dir: Path, cache_dir: Path, quick_embedder: dict[str, str], tmp_path: Path
) -> None:
    env = environment(
        data_dir, cache_dir, database_url=database_url, host="0.0.0.0", port="0", **quick_embedder
    )
    rejection = run_command(env, "serve")
    assert rejection.returncode == 2
    assert "gristmill keys create" in rejection.stderr
    creation = run_command(env, "keys", "create", "first", "--role", "admin")
    assert creation.returncode == 0, creation.stderr
    secret = creation.stdout.strip()
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
            body = {"name": "b"}  # a read could still be answered from the caller cache
            assert client.post("/api/knowledge-bases", json=body, headers=key).status_code == 401
    response = run_command(env, "keys", "list", "--json")
    assert response.stdout.strip() == "[]"
    log = run_command(env, "audit", "--json")
    assert '"DELETE"' in log.stdout
    assert '"cli"' in log.stdout


async def test_responses_have_security_headers(http: httpx.AsyncClient) -> None:
    answer = await http.get("/api/knowledge-bases")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["cache-control"] == "no-store"
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
