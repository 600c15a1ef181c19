"""A server behind nginx and behind Caddy, with the recipes of `deploy/`: streams, uploads, sign-in, client addresses.

`BEHIND_NGINX=1` runs any story of a browser or a client behind nginx: `tests/reverse_proxy.py`.
"""

import asyncio
import os
import socket
import subprocess
from collections.abc import Generator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from gristmill.client import Client
from gristmill.db import Database
from gristmill.identity import LOCAL_ORG
from gristmill.server.api.caller import COOKIE
from tests import reverse_proxy
from tests.answers.chat_endpoint import ChatEndpoint, serve_chat
from tests.embedding import endpoint
from tests.gristmill_process import environment, run_serve
from tests.server.clients import new_key
from tests.ui.harness import fresh_database

pytestmark = pytest.mark.slow

MIB = 1 << 20
PROXIES = [
    pytest.param(
        reverse_proxy.run_nginx,
        id="nginx",
        marks=pytest.mark.skipif(
            reverse_proxy.NGINX is None, reason="there is no nginx: apt-get install nginx-light"
        ),
    ),
    pytest.param(
        reverse_proxy.run_caddy,
        id="caddy",
        marks=pytest.mark.skipif(
            reverse_proxy.CADDY is None, reason="there is no caddy: apt-get install caddy"
        ),
    ),
]


@dataclass(frozen=True)
class ProxiedServer:
    """A server that requires a key, its address behind a proxy, an admin key, and its chat model."""

    url: str
    key: str
    chat: ChatEndpoint

    def client(self, key: str | None = None, **options: Any) -> httpx.Client:
        """A client that trusts the proxy's certificate."""
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        transport = httpx.HTTPTransport(verify=reverse_proxy.client_tls(), **options)
        return httpx.Client(
            base_url=self.url, headers=headers, transport=transport, trust_env=False, timeout=30
        )


async def create_admin_key(database_url: str) -> str:
    db = Database(database_url)
    await db.open()
    try:
        return (await new_key(db, LOCAL_ORG, "admin"))[1]
    finally:
        await db.close()


@pytest.fixture(scope="module", params=PROXIES)
def server(
    request: pytest.FixtureRequest, server_url: str, cache_dir: Path, tmp_path_factory: pytest.TempPathFactory
) -> Generator[ProxiedServer]:
    folder = tmp_path_factory.mktemp("proxied")
    with ExitStack() as stack:
        database = stack.enter_context(fresh_database(server_url))
        assert database is not None
        chat = stack.enter_context(serve_chat())
        embedder = stack.enter_context(endpoint.serve())
        settings = {
            **endpoint.embedder_settings(embedder.url),
            "database_url": database,
            "require_key": "true",
            "allowed_hosts": '["kb.example.org"]',
            "chat_url": chat.url,
            "chat_model": "quern",
            "max_upload_mb": "4",
        }
        key = asyncio.run(create_admin_key(database))
        running = stack.enter_context(
            run_serve(environment(folder / "data", cache_dir, **settings), log=folder / "log")
        )
        yield ProxiedServer(stack.enter_context(request.param(running.url)), key, chat)


def test_http_2_is_offered_and_a_request_without_a_key_is_nobodys(server: ProxiedServer) -> None:
    """Requests through a proxy come from loopback, and are not the local user's for it."""
    tls = reverse_proxy.client_tls()
    tls.set_alpn_protocols(["h2", "http/1.1"])
    parts = urlsplit(server.url)
    assert parts.hostname is not None
    with (
        socket.create_connection((parts.hostname, parts.port or 443)) as plain,
        tls.wrap_socket(plain, server_hostname=parts.hostname) as connection,
    ):
        assert connection.selected_alpn_protocol() == "h2"
    with server.client() as client:
        response = client.get("/api/knowledge-bases")
        assert (response.status_code, response.json()["code"]) == (401, "no_key")
        assert "max-age" in response.headers["strict-transport-security"]
        assert client.get("/healthz").status_code == 200


def test_events_and_answers_arrive_while_the_stream_is_open(server: ProxiedServer) -> None:
    """A proxy that buffers would hold the events back until there are many, and the answer until it is complete."""
    with server.client(server.key) as client, client.stream("GET", "/api/events/stream") as stream:
        lines = islice(stream.iter_lines(), 200)  # with the heartbeats they would never end
        with server.client(server.key) as other:
            base = other.post("/api/knowledge-bases", json={"name": "streamed"}).json()["id"]
            assert base in next(line for line in lines if line.startswith("data:") and base in line)
            other.post(
                f"/api/knowledge-bases/{base}/items",
                json={"items": [{"type": "note", "content": "Millstones are dressed in spring."}]},
            )
            next(line for line in lines if "AllDocumentsIngested" in line)
    server.chat.reply = lambda _: ["In spring", " [1]."]
    server.chat.may_go_on.clear()
    question = {"question": "millstones", "baseIds": [base], "stream": True}
    with (
        server.client(server.key) as client,
        client.stream("POST", "/api/ask", json=question) as stream,
    ):
        lines = islice(stream.iter_lines(), 200)  # with the heartbeats they would never end
        first = next(line for line in lines if line.startswith("data:") and "In spring" in line)
        assert "[1]" not in first  # the model has not written it yet
        server.chat.may_go_on.set()
        assert any("[1]" in line for line in lines)


def test_uploads_up_to_the_limit_are_accepted_and_larger_ones_refused_in_plain_words(
    server: ProxiedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our own client, which trusts the proxy's certificate by SSL_CERT_FILE, as an operator with an own authority has it."""
    (tmp_path / "large.txt").write_bytes(b"The mill wheel turns. " * (3 * MIB // 22))
    (tmp_path / "larger.txt").write_bytes(b"The mill wheel turns. " * (5 * MIB // 22))
    monkeypatch.setenv("SSL_CERT_FILE", str(reverse_proxy.certificate().path))
    with Client(server.url, server.key) as mill:
        base = mill.base_named("uploads", create=True)["id"]
        created = mill.upload(base, [tmp_path / "large.txt"])["created"]
        statuses = mill.wait(base, [item["id"] for item in created])
        assert [item["status"] for item in statuses.values()] == ["completed"]
        with server.client(server.key) as client:
            files = {"files": ("larger.txt", (tmp_path / "larger.txt").read_bytes())}
            response = client.post(f"/api/knowledge-bases/{base}/files", files=files)
    assert (response.status_code, response.json()["code"]) == (413, "request_too_large")


def test_a_browser_signs_in_and_other_sites_are_refused(server: ProxiedServer) -> None:
    """The cookie is for TLS only, and the page's origin, with its port, is the server's own."""
    with server.client() as client:
        page = {"Origin": server.url}
        response = client.post("/api/session", json={"key": server.key}, headers=page)
        assert response.status_code == 201, response.text
        flags = response.headers["set-cookie"].lower()
        assert "secure" in flags
        assert "httponly" in flags
        assert COOKIE in client.cookies
        assert (
            client.post("/api/knowledge-bases", json={"name": "from a page"}, headers=page).status_code == 201
        )
        foreign = {"Origin": "https://evil.example"}
        response = client.post("/api/knowledge-bases", json={"name": "forged"}, headers=foreign)
        assert (response.status_code, response.json()["code"]) == (403, "foreign_origin")
        response = client.get("/api/session", headers={"Host": "evil.example"})
        assert response.status_code in (403, 421) or response.content == b""  # Caddy knows no such site


def test_the_audit_log_has_the_clients_address_and_not_the_one_it_claims(server: ProxiedServer) -> None:
    with server.client(server.key, local_address="127.0.0.77") as client:
        claimed = {"X-Forwarded-For": "203.0.113.9"}
        name = {"name": "from afar"}
        assert client.post("/api/knowledge-bases", json=name, headers=claimed).status_code == 201
        entry = client.get("/api/audit?limit=1&method=POST").json()["items"][0]
    assert (entry["path"], entry["client"]) == ("/api/knowledge-bases", "127.0.0.77")


@pytest.mark.skipif(reverse_proxy.CADDY is None, reason="there is no caddy: apt-get install caddy")
def test_caddy_accepts_its_recipe_as_it_is(tmp_path: Path) -> None:
    recipe = reverse_proxy.RECIPES / "caddy/Caddyfile"
    command = [str(reverse_proxy.CADDY), "validate", "--config", str(recipe), "--adapter", "caddyfile"]
    env = {**os.environ, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, env=env, check=False)
    assert ended.returncode == 0, ended.stderr
