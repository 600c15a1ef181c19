"""Requests that try to cost much or to break something, with and without a key."""

import asyncio
import json
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from gristmill import app, faults
from gristmill.cli.serve import Server
from gristmill.identity import LOCAL_ORG
from gristmill.server.http_protocol import BoundedHttpProtocol, HttpLimits
from gristmill.settings import Settings
from tests.embedding.hashed import HashedEmbedder
from tests.server.clients import client_with_key, new_key
from tests.terminate_backends import terminate_backends
from tests.wait_until import ended, reached, wait_until

pytestmark = pytest.mark.slow

MB = 1 << 20
DEFAULT_LIMITS = HttpLimits()


@asynccontextmanager
async def listening(mill: app.Gristmill, limits: HttpLimits = DEFAULT_LIMITS) -> AsyncGenerator[int]:
    """The port of a real server in this process."""

    class Protocol(BoundedHttpProtocol):
        pass

    Protocol.limits = limits
    config = uvicorn.Config(
        mill.api, port=0, http=Protocol, ws="none", log_config=None, lifespan="off", access_log=False
    )
    server = Server(config)
    serving = asyncio.create_task(server.serve())
    await server.ready.wait()
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await ended(serving)


async def exchange(port: int, *parts: bytes) -> bytes:
    """Send these parts, and return all that comes back until the server closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


def problem_of(answer: bytes) -> tuple[int, str]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"application/problem+json" in head, answer[:500]
    return int(head.split()[1]), json.loads(body)["code"]


# ── headers ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "head",
    [
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * 70_000 + b"\r\n\r\n",
        b"GET /healthz?" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
        + b"".join(b"A%d: b\r\n" % n for n in range(101))
        + b"\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"X: " + b"y" * 400_000,
    ],
)
async def test_a_head_that_is_too_large_is_refused(mill: app.Gristmill, head: bytes) -> None:
    async with listening(mill) as port:
        assert problem_of(await exchange(port, head)) == (431, "headers_too_large")
        small = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        assert (await exchange(port, small)).startswith(b"HTTP/1.1 200")


async def test_a_header_of_64_mb_costs_next_to_nothing(mill: app.Gristmill) -> None:
    """The client runs in another process, so that the time of this thread is the server's."""
    async with listening(mill) as port:
        code = (
            "import socket\n"
            f"s = socket.create_connection(('127.0.0.1', {port}))\n"
            "try:\n"
            "    s.sendall(b'GET / HTTP/1.1\\r\\nHost: localhost\\r\\nX: ' + b'x' * (64 << 20))\n"
            "except OSError:\n"
            "    pass\n"
        )
        before = time.thread_time()
        client = await asyncio.create_subprocess_exec("python3", "-c", code, env=dict(os.environ))
        await client.wait()
        assert time.thread_time() - before < 0.05


async def test_a_trailer_that_is_too_long_ends_the_connection(mill: app.Gristmill) -> None:
    head = b"POST /api/search HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with listening(mill) as port:
        answer = await exchange(port, head, b"1\r\n{\r\n0\r\n", b"X: " + b"x" * 400_000)
        assert b" 200 " not in answer[:20]


async def test_headers_that_never_end_get_408_and_silence_is_closed(mill: app.Gristmill) -> None:
    async with listening(mill, HttpLimits(head_seconds=0.2)) as port:
        slow = await exchange(port, b"GET /healthz HTTP/1.1\r\nHost: loc")
        assert problem_of(slow) == (408, "request_too_slow")
        assert await exchange(port) == b""


async def test_what_is_not_http_gets_a_problem_document(mill: app.Gristmill) -> None:
    async with listening(mill) as port:
        assert problem_of(await exchange(port, b"\x16\x03\x01 nonsense\r\n\r\n")) == (400, "request_refused")


async def test_a_refused_client_cannot_hold_the_connection_with_its_body(mill: app.Gristmill) -> None:
    """The response is sent, the body never ends."""
    head = b"POST /api/nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\nx"
    async with listening(mill, HttpLimits(drain_seconds=0.2)) as port:
        assert problem_of(await exchange(port, head)) == (404, "no_such_route")


# ── bodies ───────────────────────────────────────────────────────────────────────────────────────────────


class Body:
    """A body that counts how much of it was read."""

    def __init__(self, size: int) -> None:
        self.size, self.bytes_sent = size, 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while self.bytes_sent < self.size:
            self.bytes_sent += MB
            yield b"x" * MB


@asynccontextmanager
async def mill_with_keys(settings: Settings) -> AsyncGenerator[app.Gristmill]:
    key_settings = settings.model_copy(update={"require_key": True})
    async with app.gristmill(key_settings, work=False, extra_embedders={"hashed": HashedEmbedder()}) as mill:
        yield mill


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "a"}])
@pytest.mark.parametrize("content_type", ["application/json", "multipart/form-data; boundary=x"])
async def test_nothing_of_a_body_is_read_before_the_caller_is_authorised(
    settings: Settings, headers: dict[str, str], content_type: str
) -> None:
    async with mill_with_keys(settings) as mill:
        async with client_with_key(mill, (await new_key(mill.db, LOCAL_ORG, "admin"))[1]) as admin:
            body = {"name": "b", "acl": ["org:*"]}
            base = (await admin.post("/api/knowledge-bases", json=body)).json()["id"]
        secret = (await new_key(mill.db, LOCAL_ORG, "reader"))[1]
        for key, status, code in ((None, 401, "no_key"), (secret, 403, "role_too_low")):
            async with client_with_key(mill, key) as client:
                for path in (f"/api/knowledge-bases/{base}/files", f"/api/knowledge-bases/{base}/items"):
                    body = Body(400 * MB)
                    all_headers = {**headers, "Content-Type": content_type}
                    rejection = await client.post(path, content=body, headers=all_headers)
                    assert (rejection.status_code, rejection.json()["code"]) == (status, code)
                    assert body.bytes_sent == 0


async def test_a_body_that_is_too_large_gets_413(mill: app.Gristmill, http: httpx.AsyncClient) -> None:
    for path, headers, limit in (
        ("/api/session", {}, 1),
        ("/api/search", {}, 17),
        ("/api/knowledge-bases", {"Idempotency-Key": "a"}, 17),
        ("/api/knowledge-bases/00000000-0000-7000-8000-000000000009/items/delete", {}, 17),
    ):
        body = Body(400 * MB)
        json_headers = {**headers, "Content-Type": "application/json"}
        rejection = await http.post(path, content=body, headers=json_headers)
        if rejection.status_code != 404:  # the base does not exist, and so nothing of the body is read
            assert (rejection.status_code, rejection.json()["code"]) == (413, "request_too_large"), path
        assert body.bytes_sent <= limit * MB
        headers_with_length = {**json_headers, "Content-Length": str(400 * MB)}
        assert (await http.post(path, content=b"", headers=headers_with_length)).status_code == 413


async def test_a_body_that_arrives_too_slowly_gets_408(mill: app.Gristmill) -> None:
    """Progress counts, not the total time: a large upload may take hours."""
    limits = next(each.kwargs["limits"] for each in mill.api.user_middleware if "limits" in each.kwargs)
    object.__setattr__(limits, "grace_seconds", 0.2)
    head = b"POST /api/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\nContent-Type: application/json\r\n"
    async with listening(mill) as port:
        assert problem_of(await exchange(port, head + b"\r\n{")) == (408, "request_too_slow")
        with_key = head + b"Idempotency-Key: a\r\n\r\n{"
        with_key = with_key.replace(b"/api/search", b"/api/knowledge-bases")
        assert problem_of(await exchange(port, with_key)) == (408, "request_too_slow")


# ── control characters ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("GET", "/api/knowledge-bases?name=%00", {}),
        ("GET", "/api/knowledge-bases?cursor=%00", {}),
        ("GET", "/api/knowledge-bases/x/items?q=%00", {}),
        ("GET", "/api/knowledge-bases/x/items?q=a%0Ab", {}),
        ("DELETE", "/api/knowledge-items/%00", {}),
        ("PATCH", "/api/knowledge-bases/%1b", {}),
        ("PUT", "/api/connectors/x/identities/%00", {}),
        ("POST", "/api/knowledge-bases/x/files%00", {}),
        ("GET", "/api/knowledge-bases", {"Host": "["}),
        ("GET", "/api/knowledge-bases", {"Host": "[::1"}),
    ],
)
async def test_control_characters_outside_of_bodies_get_400(
    http: httpx.AsyncClient, method: str, path: str, headers: dict[str, str]
) -> None:
    rejection = await http.request(method, path, headers=headers)
    assert (rejection.status_code, rejection.json()["code"]) == (400, "bad_characters")


async def test_odd_origins_and_principals_are_refused(http: httpx.AsyncClient) -> None:
    foreign = await http.get("/api/knowledge-bases", headers={"Origin": "http://["})
    assert (foreign.status_code, foreign.json()["code"]) == (403, "foreign_origin")
    for principal in ('{"teams": ["a\\u0000"]}', '{"email": "a\\u0000@b"}', '{"groups": ["\\ud800"]}'):
        rejection = await http.get("/api/knowledge-bases", headers={"X-Gristmill-On-Behalf-Of": principal})
        assert rejection.status_code == 422, principal


NUL, SURROGATE = "a\0b", "a\ud800b"


@pytest.mark.parametrize("text", [NUL, SURROGATE])
async def test_text_that_cannot_be_stored_is_refused_everywhere(http: httpx.AsyncClient, text: str) -> None:
    base = (await http.post("/api/knowledge-bases", json={"name": "b"})).json()["id"]
    note = {"type": "note", "content": "words"}
    item = (await http.post(f"/api/knowledge-bases/{base}/items", json={"items": [note]})).json()["created"][
        0
    ]
    bodies: list[tuple[str, str, Any]] = [
        ("POST", "/api/knowledge-bases", {"name": text}),
        ("POST", "/api/knowledge-bases", {"name": "c", "acl": [f"team:{text}"]}),
        ("POST", f"/api/knowledge-bases/{base}/items", {"items": [{**note, "content": text}]}),
        ("POST", f"/api/knowledge-bases/{base}/items", {"items": [{**note, "metadata": {"a": [text]}}]}),
        ("POST", f"/api/knowledge-bases/{base}/items", {"items": [{**note, "metadata": {text: 1}}]}),
        ("POST", f"/api/knowledge-bases/{base}/items", {"items": [{**note, "acl": [f"group:{text}"]}]}),
        ("POST", f"/api/knowledge-bases/{base}/items", {"items": [{"type": "file", "path": f"/{text}"}]}),
        ("PATCH", f"/api/knowledge-items/{item['id']}", {"metadata": {"a": {"b": text}}}),
        ("POST", "/api/search", {"query": text}),
        ("POST", "/api/search", {"query": "x", "filters": {"metadata": {"a": text}}}),
        ("POST", "/api/api-keys", {"name": "k", "role": "reader", "principal": {"teams": [text]}}),
        ("POST", "/api/api-keys", {"name": "k", "role": "reader", "principal": {"email": f"{text}@b"}}),
        ("POST", "/api/webhooks", {"url": "https://example.org/", "description": text}),
        ("POST", "/api/session", {"key": text}),
        (
            "POST",
            "/api/connectors",
            {"name": "n", "type": "github", "config": {"a": text}, "credentials": {}},
        ),
    ]
    for method, path, body in bodies:
        rejection = await http.request(
            method, path, content=json.dumps(body), headers={"Content-Type": "application/json"}
        )
        assert rejection.status_code == 422, (path, body, rejection.text)
    upload = await http.post(
        f"/api/knowledge-bases/{base}/files",
        files={"files": ("a.txt", b"words")},
        data={"metadata": json.dumps({"a": text})},
    )
    assert upload.status_code == 422


async def test_a_key_that_has_expired_already_is_refused(http: httpx.AsyncClient) -> None:
    for expires in ("2001-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59"):
        rejection = await http.post(
            "/api/api-keys", json={"name": "k", "role": "reader", "expiresAt": expires}
        )
        assert rejection.status_code == 422, expires
        assert rejection.json()["errors"][0]["field"] == "expiresAt"
    creation = await http.post(
        "/api/api-keys", json={"name": "k", "role": "reader", "expiresAt": "9999-12-31T23:59:59+00:00"}
    )
    assert creation.status_code == 201
    path = f"/api/api-keys/{creation.json()['id']}"
    assert (await http.patch(path, json={"expiresAt": "2001-01-01T00:00:00Z"})).status_code == 422


# ── what strangers learn ─────────────────────────────────────────────────────────────────────────────────


async def test_a_trailing_slash_is_not_redirected(settings: Settings) -> None:
    async with mill_with_keys(settings) as mill, client_with_key(mill, None) as client:
        for path in ("/api/knowledge-bases/", "/api/session/", "/healthz/"):
            assert (await client.get(path)).status_code == 404, path


async def test_sign_ins_are_audited_and_slowed_down(settings: Settings) -> None:
    async with mill_with_keys(settings) as mill:
        key, secret = await new_key(mill.db, LOCAL_ORG, "reader")
        admin = (await new_key(mill.db, LOCAL_ORG, "admin"))[1]
        async with client_with_key(mill, None) as stranger:
            assert (await stranger.post("/api/session", json={"key": secret})).status_code == 201
            stranger.cookies.clear()
            wrong = [await stranger.post("/api/session", json={"key": "gm_wrong"}) for _ in range(20)]
            statuses = [answer.status_code for answer in wrong]
            assert set(statuses) == {401, 429}
            assert statuses.count(401) < 12
            assert wrong[-1].json()["code"] == "too_many_sign_ins"
            assert int(wrong[-1].headers["retry-after"]) >= 1
        async with client_with_key(mill, admin) as client:
            entries = (await client.get("/api/audit")).json()["items"]
        signed_in = [entry for entry in entries if entry["status"] == 201]
        assert [(entry["actor"], entry["path"], entry["client"]) for entry in signed_in] == [
            (f"key:{key.prefix}", "/api/session", "203.0.113.7")
        ]
        failures = [entry for entry in entries if entry["status"] == 401]
        assert len(failures) == statuses.count(401)
        assert {(entry["actor"], entry["client"]) for entry in failures} == {("anonymous", "203.0.113.7")}


async def test_a_change_whose_path_ends_like_a_search_is_audited(http: httpx.AsyncClient) -> None:
    unknown = "00000000-0000-7000-8000-000000000009"
    path = f"/api/connectors/{unknown}/identities/search"
    await http.put(path, json={"email": "a@example.org"})
    entries = (await http.get("/api/audit")).json()["items"]
    assert [(entry["method"], entry["path"]) for entry in entries] == [("PUT", path)]


async def test_a_response_stands_if_the_database_goes_away_before_its_audit_entry_is_ended(
    mill: app.Gristmill, http: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    with faults.watch("audit.ending", hold=True) as ending:
        request = asyncio.create_task(http.post("/api/knowledge-bases", json={"name": "stands"}))
        await reached(ending)
        await terminate_backends(mill.db.url)
        ending.hold.set()
        response = await request
    assert response.status_code == 201
    assert (await http.get(f"/api/knowledge-bases/{response.json()['id']}")).status_code == 200
    entries = (await http.get("/api/audit")).json()["items"]
    assert [(entry["path"], entry["status"]) for entry in entries] == [("/api/knowledge-bases", None)]
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


async def test_titles_of_folder_entries_are_fit_to_be_shown(http: httpx.AsyncClient, tmp_path: Path) -> None:
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "invoice\u202efdp.txt").write_text("one")
    (folder / "two\nlines\x1b[31m.txt").write_text("two")
    base = (await http.post("/api/knowledge-bases", json={"name": "b"})).json()["id"]
    body = {"items": [{"type": "directory", "path": str(folder)}]}
    assert (await http.post(f"/api/knowledge-bases/{base}/items", json=body)).status_code == 202

    async def titles() -> set[str] | None:
        page = await http.get(f"/api/knowledge-bases/{base}/items", params={"parentId": "*"})
        items = page.json()["items"]
        is_ended = len(items) == 3 and all(item["status"] == "completed" for item in items)
        return {item["title"] for item in items} if is_ended else None

    assert await wait_until(titles) == {"documents", "invoicefdp.txt", "two lines [31m.txt"}


async def test_names_keep_the_joiners_that_their_words_are_written_with(http: httpx.AsyncClient) -> None:
    """Persian words and many emoji have them; a name of nothing else is empty, and what reverses it is refused."""
    persian, family = "می\u200cخواهم.txt", "👩\u200d👩\u200d👧 notes"
    base = (await http.post("/api/knowledge-bases", json={"name": family})).json()
    assert base["name"] == family
    path = f"/api/knowledge-bases/{base['id']}"
    uploaded = await http.post(f"{path}/files", files=[("files", (persian, b"rye"))])
    assert uploaded.json()["created"][0]["title"] == persian
    titles = (persian, "\u200d", "invoice\u202efdp")
    notes = [{"type": "note", "title": title, "content": family} for title in titles]
    added = (await http.post(f"{path}/items", json={"items": notes, "onConflict": "skip"})).json()
    assert [item["title"] for item in added["created"]] == [persian]
    assert [entry["index"] for entry in added["failed"]] == [1, 2]
    untitled = {"type": "note", "content": f"{family}\nmore"}
    (note,) = (await http.post(f"{path}/items", json={"items": [untitled]})).json()["created"]
    assert note["title"] == family
