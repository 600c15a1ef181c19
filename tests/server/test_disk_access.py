"""Which callers may have the server read which part of its disk."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from gristmill import app
from gristmill.identity import LOCAL_ORG
from gristmill.settings import Settings
from tests.embedding.hashed import HashedEmbedder
from tests.server.clients import client_with_key, new_key, new_organisation
from tests.wait_until import wait_until

pytestmark = pytest.mark.slow


@asynccontextmanager
async def running(settings: Settings, **changes: Any) -> AsyncGenerator[app.Gristmill]:
    updated = settings.model_copy(update=changes)
    async with app.gristmill(updated, work=True, extra_embedders={"hashed": HashedEmbedder()}) as mill:
        yield mill


@asynccontextmanager
async def client_with_allowed_path(
    settings: Settings, allowed_path: Path
) -> AsyncGenerator[httpx.AsyncClient]:
    """A client with an admin's key, and `allowed` as the only allowed path."""
    async with (
        running(settings, allowed_paths=[allowed_path]) as mill,
        client_with_key(mill, (await new_key(mill.db, LOCAL_ORG, "admin"))[1]) as client,
    ):
        yield client


async def add(client: httpx.AsyncClient, base: str, kind: str, path: Path) -> httpx.Response:
    body = {"items": [{"type": kind, "path": str(path)}]}
    return await client.post(f"/api/knowledge-bases/{base}/items", json=body)


async def new_base(client: httpx.AsyncClient, name: str = "b") -> str:
    body = {"name": name, "acl": ["org:*"]}
    return (await client.post("/api/knowledge-bases", json=body)).json()["id"]


async def wait_until_items_end(client: httpx.AsyncClient, base: str) -> dict[str, dict[str, Any]]:
    """The items by title, once all have ended."""

    async def items() -> dict[str, dict[str, Any]] | None:
        page = await client.get(f"/api/knowledge-bases/{base}/items", params={"parentId": "*"})
        rows = page.json()["items"]
        have_ended = all(item["status"] in ("completed", "failed") for item in rows)
        return {item["title"]: item for item in rows} if rows and have_ended else None

    return await wait_until(items)


@pytest.mark.parametrize("role", ["editor", "admin"])
async def test_a_key_does_not_read_the_servers_disk(settings: Settings, tmp_path: Path, role: Any) -> None:
    """Loopback behind a proxy with `require_key` is the documented deployment."""
    (tmp_path / "secret.txt").write_text("secret")
    async with running(settings, require_key=True) as mill:
        for org in (LOCAL_ORG, await new_organisation(mill.db, "other")):
            async with client_with_key(mill, (await new_key(mill.db, org, role))[1]) as client:
                base = await new_base(client)
                data_dir = mill.settings.data_dir
                for kind, path in (
                    ("file", Path("/etc/hosts")),
                    ("file", tmp_path / "secret.txt"),
                    ("file", tmp_path / "does-not-exist.txt"),
                    ("file", data_dir / "secret.key"),
                    ("file", Path("/proc/self/environ")),
                    ("directory", data_dir / "blobs"),
                    ("directory", tmp_path),
                ):
                    rejection = await add(client, base, kind, path)
                    assert (rejection.status_code, rejection.json()["code"]) == (403, "path_not_allowed"), (
                        path
                    )


async def test_the_local_user_reads_files_but_never_our_own_data(settings: Settings, tmp_path: Path) -> None:
    settings = settings.model_copy(update={"data_dir": tmp_path / "data"})
    (tmp_path / "plain.txt").write_text("plain")
    (tmp_path / "key.txt").symlink_to(settings.data_dir / "secret.key")
    async with running(settings) as mill, client_with_key(mill, None) as stranger:
        transport = httpx.ASGITransport(app=mill.api)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as local:
            base = await new_base(local)
            for kind, path in (
                ("file", settings.data_dir / "secret.key"),
                ("file", tmp_path / "key.txt"),
                ("file", Path("/proc/self/environ")),
                ("directory", settings.data_dir),
                ("directory", settings.data_dir / "blobs"),
                ("directory", settings.cache_dir),
            ):
                assert (await add(local, base, kind, path)).status_code == 403, path
            assert (await add(local, base, "directory", tmp_path)).status_code == 202
            items = await wait_until_items_end(local, base)
            assert set(items) == {tmp_path.name, "plain.txt"}
            assert items[tmp_path.name]["leftOut"] == {"protected_folder": 1, "link_outside": 1}
            assert "local" not in items["plain.txt"]["source"]
            original = await local.get(f"/api/knowledge-items/{items['plain.txt']['id']}/original")
            assert original.text == "plain"
        assert (await add(stranger, base, "file", tmp_path / "plain.txt")).status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"Forwarded": "for=203.0.113.9"},
        {"X-Forwarded-For": "127.0.0.1"},
        {"X-Forwarded-Host": "localhost"},
        {"X-Forwarded-Proto": "https"},
        {"X-Real-IP": "127.0.0.1"},
        {"Via": "1.1 proxy"},
        {"CF-Connecting-IP": "203.0.113.9"},
        {"Host": "kb.example.org"},
    ],
)
async def test_a_forwarded_request_is_not_the_local_users(
    settings: Settings, headers: dict[str, str]
) -> None:
    async with running(settings, allowed_hosts=["kb.example.org"]) as mill:
        transport = httpx.ASGITransport(app=mill.api)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            assert (await client.get("/api/session")).status_code == 200
            assert (await client.get("/api/session", headers=headers)).status_code == 401


async def test_links_in_an_added_folder_do_not_lead_out_of_allowed_paths(
    settings: Settings, tmp_path: Path
) -> None:
    allowed_path = tmp_path / "allowed"
    allowed_path.mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    (allowed_path / "plain.txt").write_text("plain")
    (allowed_path / "link.txt").symlink_to(tmp_path / "secret.txt")
    async with client_with_allowed_path(settings, allowed_path) as client:
        base = await new_base(client)
        assert (await add(client, base, "directory", allowed_path)).status_code == 202
        items = await wait_until_items_end(client, base)
        assert set(items) == {"allowed", "plain.txt"}
        assert items["allowed"]["leftOut"] == {"link_outside": 1}


async def test_a_file_swapped_for_a_link_is_not_read(settings: Settings, tmp_path: Path) -> None:
    allowed_path = tmp_path / "allowed"
    allowed_path.mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    file = allowed_path / "plain.txt"
    file.write_text("plain")
    async with client_with_allowed_path(settings, allowed_path) as client:
        base = await new_base(client)
        assert (await add(client, base, "file", file)).status_code == 202
        item = (await wait_until_items_end(client, base))["plain.txt"]
        await asyncio.to_thread(file.unlink)
        file.symlink_to(tmp_path / "secret.txt")
        rejection = await client.get(f"/api/knowledge-items/{item['id']}/original")
        assert (rejection.status_code, rejection.json()["code"]) == (403, "path_not_allowed")
        again = await client.post(f"/api/knowledge-items/{item['id']}/reprocess")
        assert again.json()["code"] == "source_unavailable"
        content = await client.get(f"/api/knowledge-items/{item['id']}/content")
        assert content.text == "plain"
