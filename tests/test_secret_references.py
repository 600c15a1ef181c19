"""Secrets by reference: read where the settings allow it, by the operator alone, and never shown."""

import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gristmill import app, secret_references
from gristmill.errors import Invalid
from gristmill.secret_references import SecretResolver, SecretUnavailable
from gristmill.settings import Settings
from tests.embedding import endpoint
from tests.embedding.hashed import HashedEmbedder
from tests.server.clients import client_with_key, new_key, new_organisation


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "github").write_text("ghp_rye\n")
    (tmp_path / "passwd").write_text("root")
    (folder / "link").symlink_to(tmp_path / "passwd")
    (folder / "empty").write_text("\n")
    commands = {
        "jira": ["/bin/echo", "$(id); token"],
        "broken": ["/bin/sh", "-c", "echo half; exit 3"],
        "slow": ["/bin/sleep", "60"],
        "absent": ["/nonexistent"],
    }
    update = {
        "secret_folders": [folder],
        "secret_variables": ["RYE_TOKEN"],
        "secret_commands": commands,
        "allow_private_addresses": True,
    }
    return settings.model_copy(update=update)


async def test_a_reference_is_read_only_where_the_settings_allow_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = settings.secret_folders[0]
    monkeypatch.setenv("RYE_TOKEN", "from the environment")
    monkeypatch.setattr(secret_references, "_TIME_LIMIT", 0.2)
    resolver = SecretResolver(settings)
    assert await resolver.resolve("plain") == "plain"
    assert await resolver.resolve(f"file:{folder}/github") == "ghp_rye"
    assert await resolver.resolve("env:RYE_TOKEN") == "from the environment"
    assert await resolver.resolve("command:jira") == "$(id); token", "no shell reads the arguments"
    assert await resolver.resolve_json('{"token": "env:RYE_TOKEN", "user": "ann"}') == (
        '{"token": "from the environment", "user": "ann"}'
    )
    assert resolver.redact("the key ghp_rye is wrong") == "the key … is wrong"
    (folder / "github").write_text("ghp_wheat")
    assert await resolver.resolve(f"file:{folder}/github") == "ghp_rye", "cached for a moment"
    for reference in (
        f"file:{folder}/../passwd",
        f"file:{folder}/link",
        "file:/etc/passwd",
        "file:github",
        "env:PATH",
        "command:/bin/sh",
        "command:jira; id",
    ):
        with pytest.raises(Invalid):
            resolver.check(reference)
        with pytest.raises(SecretUnavailable):
            await resolver.resolve(reference)
    for reference in (
        "command:broken",
        "command:slow",
        "command:absent",
        f"file:{folder}/empty",
        f"file:{folder}/none",
    ):
        with pytest.raises(SecretUnavailable) as error:
            await resolver.resolve(reference)
        assert "half" not in error.value.message


@pytest.fixture
async def mill(settings: Settings) -> AsyncGenerator[app.Gristmill]:
    async with app.gristmill(settings, work=False, extra_embedders={"hashed": HashedEmbedder()}) as running:
        yield running


async def test_only_the_operator_enters_references_and_the_provider_gets_the_secret(
    mill: app.Gristmill, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "RYE_TOKEN", "sk-rye")
    connector: dict[str, Any] = {
        "name": "w",
        "type": "github",
        "config": {"repositories": ["a/b"]},
        "knowledgeBaseIds": [],
    }
    with endpoint.serve() as provider:
        body = {
            "name": "paid",
            "url": provider.url,
            "model": "hashed",
            "dimensions": 64,
            "apiKey": "env:RYE_TOKEN",
        }
        created = await http.post("/api/embedders", json=body)
        assert created.status_code == 201, created.text
        assert "rye" not in created.text.lower()
        assert (await http.post("/api/embedders/paid/test")).json()["ok"] is True
        assert {request.headers.get("Authorization") for request in provider.requests} == {"Bearer sk-rye"}
        unknown = await http.post("/api/embedders", json={**body, "name": "x", "apiKey": "env:HOME"})
        assert (unknown.status_code, unknown.json()["code"]) == (422, "secret_reference_unknown")
        org = await new_organisation(mill.db, "guests")
        async with client_with_key(mill, (await new_key(mill.db, org, "admin"))[1]) as guest:
            responses = [
                await guest.post("/api/embedders", json={**body, "url": "https://example.org/v1"}),
                await guest.post(
                    "/api/connectors", json={**connector, "credentials": {"token": "env:RYE_TOKEN"}}
                ),
                await guest.post(
                    "/api/connector-kinds/check",
                    json={
                        "type": "github",
                        "config": connector["config"],
                        "credentials": {"token": "command:jira"},
                    },
                ),
            ]
            codes = [(response.status_code, response.json()["code"]) for response in responses]
            assert codes == [(403, "secret_reference_forbidden")] * 3
            own = {**body, "url": "https://example.org/v1", "apiKey": "sk-own"}
            assert (await guest.post("/api/embedders", json=own)).status_code == 201
            change = await guest.patch("/api/embedders/paid", json={"apiKey": "file:/etc/passwd"})
            assert change.json()["code"] == "secret_reference_forbidden"
