"""Which addresses and secrets a webhook may have."""

import stat
from collections.abc import AsyncGenerator
from pathlib import Path
from uuid import UUID

import httpx
import pytest
from pydantic import SecretStr

from gristmill import app, events, jobs
from gristmill.catalog import BaseId
from gristmill.errors import SetupError
from gristmill.events import signature
from gristmill.identity import LOCAL_ORG
from gristmill.settings import Settings
from gristmill.vault import SecretUnreadable, Vault
from tests.events.receiver import Receiver
from tests.events.webhook_calls import create_webhook, get_webhook, wait_until_paused

pytestmark = pytest.mark.slow

PUBLIC = "https://9.9.9.9/hook"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Receivers are on this machine."""
    return settings.model_copy(update={"allow_private_addresses": True})


@pytest.fixture
async def guarded_mill(settings: Settings) -> AsyncGenerator[tuple[app.Gristmill, httpx.AsyncClient]]:
    """A Gristmill that may not reach private networks, and a client of its API."""
    update = {"allow_private_addresses": False, "embedder": "granite-30m-en"}
    async with app.gristmill(settings.model_copy(update=update), work=True) as mill:
        transport = httpx.ASGITransport(app=mill.api)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            yield mill, http


async def test_a_secret_that_the_caller_chose_is_stored_encrypted(
    mill: app.Gristmill, http: httpx.AsyncClient, receiver: Receiver
) -> None:
    secret = signature.new_secret()
    hook = await create_webhook(http, receiver.url, secret=secret)
    assert hook["secret"] == secret
    async with mill.db.connection() as tx:
        rows = await (await tx.execute("select secret from webhook")).fetchall()
    key = signature.signing_key(secret)
    assert secret.encode() not in bytes(rows[0][0])
    assert key not in bytes(rows[0][0])
    file = mill.settings.data_dir / "secret.key"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_a_webhook_that_is_not_valid_is_refused(http: httpx.AsyncClient) -> None:
    good = "https://receiver.example/hook"
    for body in (
        {"url": "ftp://receiver.example"},
        {"url": "https://user:password@receiver.example"},
        {"url": "https://receiver.example:port/"},
        {"url": good, "secret": "whsec_c2hvcnQ="},
        {"url": good, "types": ["Nothing"]},
        {"url": good, "cursor": 1},
    ):
        rejection = await http.post("/api/webhooks", json=body)
        assert rejection.status_code == 422, body
    unknown = await http.post("/api/webhooks", json={"url": good, "baseId": str(UUID(int=1))})
    assert (unknown.status_code, unknown.json()["code"]) == (404, "base_not_found")
    for method, path in (("GET", "x"), ("DELETE", UUID(int=1)), ("POST", f"{UUID(int=1)}/test")):
        missing = await http.request(method, f"/api/webhooks/{path}")
        assert (missing.status_code, missing.json()["code"]) == (404, "webhook_not_found")
    assert (await http.get("/api/webhooks")).json() == {"items": [], "nextCursor": None}


async def test_a_private_address_is_refused_when_a_webhook_is_created_or_changed(
    guarded_mill: tuple[app.Gristmill, httpx.AsyncClient], receiver: Receiver
) -> None:
    """The response says what to do."""
    _, http = guarded_mill
    for url in (
        receiver.url,
        "http://localhost/hook",
        "https://[64:ff9b::a00:1]/hook",
        "https://10.0.0.1/hook",
    ):
        rejection = await http.post("/api/webhooks", json={"url": url})
        assert (rejection.status_code, rejection.json()["code"]) == (422, "private_address"), url
        assert "`allow_private_addresses`" in rejection.json()["detail"]
    hook = await create_webhook(http, PUBLIC)
    rejection = await http.patch(f"/api/webhooks/{hook['id']}", json={"url": receiver.url})
    assert (rejection.status_code, rejection.json()["code"]) == (422, "private_address")
    assert (await get_webhook(http, hook))["url"] == PUBLIC
    await create_webhook(http, "https://does-not-exist.invalid/hook")


async def test_a_private_address_is_never_sent_to(
    guarded_mill: tuple[app.Gristmill, httpx.AsyncClient], receiver: Receiver
) -> None:
    """A name that was public when the webhook was created may have another address later."""
    mill, http = guarded_mill
    hook = await create_webhook(http, PUBLIC)
    async with mill.db.connection() as tx:
        await tx.execute("update webhook set url = %s", [receiver.url])
    delivery = (await http.post(f"/api/webhooks/{hook['id']}/test")).json()
    assert delivery["error"]["code"] == "private_address"
    async with mill.db.transaction() as tx:
        await jobs.set_lane_owner(tx, str(UUID(int=1)), LOCAL_ORG)
        await events.record(tx, events.BaseChanged(BaseId(UUID(int=1)), "x"))
    assert (await wait_until_paused(http, hook))["error"]["code"] == "private_address"
    assert receiver.requests == []


def test_a_secret_is_decrypted_only_with_its_own_key_and_context(tmp_path: Path) -> None:
    vault = Vault(None, tmp_path / "new")
    ciphertext = vault.seal("rye", "one")
    assert Vault(None, tmp_path / "new").open(ciphertext, "one") == "rye", "the key is kept"
    for wrong_vault in (Vault(None, tmp_path / "other"), vault):
        with pytest.raises(SecretUnreadable):
            wrong_vault.open(ciphertext, "two")
    with pytest.raises(SetupError) as caught:
        Vault(SecretStr("short"), tmp_path)
    assert caught.value.code == "bad_secret_key"
    (tmp_path / "new" / "secret.key").write_text("nonsense")
    with pytest.raises(SetupError):
        Vault(None, tmp_path / "new").open(ciphertext, "one")
