"""Sign-in at an OpenID provider: what is sent there, what is accepted from there, and what becomes of groups and roles."""

import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from pydantic import SecretStr

from gristmill import app
from gristmill.settings import Settings
from tests.embedding.hashed import HashedEmbedder
from tests.server.open_id_server import CLIENT_ID, CLIENT_SECRET, FakeProvider, fake_provider, new_key

pytestmark = pytest.mark.slow

ANN = {"sub": "1", "email": "Ann@x.org", "email_verified": True, "name": "Ann Lee", "groups": ["research"]}


@asynccontextmanager
async def signed_up(
    settings: Settings, provider: FakeProvider, **changes: Any
) -> AsyncGenerator[tuple[httpx.AsyncClient, httpx.AsyncClient]]:
    """A Gristmill that knows the provider: a remote browser, and a local admin."""
    oidc = {
        "oidc_issuer": provider.issuer,
        "oidc_client_id": CLIENT_ID,
        "oidc_client_secret": SecretStr(CLIENT_SECRET),
    }
    running = settings.model_copy(update={**oidc, **changes})
    async with AsyncExitStack() as stack:
        mill = await stack.enter_async_context(
            app.gristmill(running, work=False, extra_embedders={"hashed": HashedEmbedder()})
        )

        async def client(address: str) -> httpx.AsyncClient:
            transport = httpx.ASGITransport(app=mill.api, client=(address, 1))
            return await stack.enter_async_context(
                httpx.AsyncClient(transport=transport, base_url="http://localhost")
            )

        yield await client("203.0.113.7"), await client("127.0.0.1")


async def begin(browser: httpx.AsyncClient, target: str = "/search?q=a") -> dict[str, str]:
    """The parameters that the browser takes to the provider."""
    answer = await browser.get("/api/session/oidc", params={"next": target})
    assert answer.status_code == 303, answer.text
    return {name: values[0] for name, values in parse_qs(urlsplit(answer.headers["location"]).query).items()}


async def sign_in(
    browser: httpx.AsyncClient, provider: FakeProvider, claims: dict[str, Any], **changed: Any
) -> str:
    """Where the browser ends up."""
    query = await begin(browser)
    provider.claims = {"nonce": query["nonce"], **claims, **changed}
    answer = await browser.get("/api/session/oidc/callback", params={"state": query["state"], "code": "c"})
    assert answer.status_code == 303
    return answer.headers["location"]


async def test_a_person_signs_in_with_pkce_and_gets_groups_and_a_role(settings: Settings) -> None:
    async with fake_provider() as provider:
        roles = {"admins": "admin", "writers": "editor"}
        async with signed_up(settings, provider, oidc_roles=roles, oidc_name="Mill ID") as (browser, admin):
            methods = (await browser.get("/api/session/methods")).json()["openId"]
            assert methods["name"] == "Mill ID"
            assert methods["signOutUrl"].startswith(
                f"{provider.issuer}/end_session_endpoint?client_id=gristmill"
            )
            query = await begin(browser)
            assert (query["response_type"], query["code_challenge_method"]) == ("code", "S256")
            assert query["redirect_uri"] == "http://localhost/api/session/oidc/callback"

            assert await sign_in(browser, provider, ANN) == "/search?q=a"
            request = provider.token_requests[-1]
            assert len(request["code_verifier"]) >= 43
            assert request["authorization"].startswith("Basic ")
            caller = (await browser.get("/api/session")).json()
            assert (caller["role"], caller["user"]["email"], caller["user"]["source"]) == (
                "reader",
                "ann@x.org",
                "oidc",
            )
            first_cookie = browser.cookies["gristmill_session"]
            groups = {group["name"]: group for group in (await admin.get("/api/groups")).json()["items"]}
            assert caller["principal"]["groups"] == [groups["research"]["id"]]

            await admin.post("/api/groups", json={"name": "board"})
            changed = {"groups": ["/writers", "board"], "name": "Ann Mill", "email": "mill@x.org"}
            await sign_in(browser, provider, ANN, **changed)
            assert browser.cookies["gristmill_session"] != first_cookie
            caller = (await browser.get("/api/session")).json()
            assert (caller["role"], caller["user"]["name"], caller["user"]["email"]) == (
                "editor",
                "Ann Mill",
                "mill@x.org",
            )
            names = {
                group["name"]: group["memberCount"]
                for group in (await admin.get("/api/groups")).json()["items"]
            }
            assert names == {"research": 0, "writers": 1, "board": 0}, (
                "a local group is not joined by its name"
            )

            await sign_in(browser, provider, {**ANN, "groups": []}, _claim_names={"groups": "src1"})
            assert (await browser.get("/api/session")).json()["role"] == "editor", "too many groups to send"

            await admin.patch(f"/api/users/{caller['user']['id']}", json={"active": False})
            assert (await browser.get("/api/session")).status_code == 401
            assert await sign_in(browser, provider, ANN) == "/sign-in?error=user_inactive"


async def test_what_the_provider_did_not_say_about_this_sign_in_is_refused(settings: Settings) -> None:
    now = int(time.time())
    async with fake_provider() as provider, signed_up(settings, provider) as (browser, admin):
        for wrong in (
            {"nonce": "another"},
            {"aud": "another"},
            {"aud": [CLIENT_ID, "another"]},
            {"azp": "another"},
            {"iss": "https://evil.example"},
            {"iat": now - 900, "exp": now - 600},
            {"sub": None},
        ):
            assert await sign_in(browser, provider, ANN, **wrong) == "/sign-in?error=open_id_failed", wrong
        for unverified in ({"email_verified": False}, {"email": None}, {"email_verified": "false"}):
            location = await sign_in(browser, provider, ANN, **unverified)
            assert location == "/sign-in?error=email_not_verified", unverified
        stranger = new_key("unknown")
        provider.signing_key = stranger
        assert await sign_in(browser, provider, ANN) == "/sign-in?error=open_id_failed"
        provider.signing_key = new_key("first")  # the same id, another key
        assert await sign_in(browser, provider, ANN) == "/sign-in?error=open_id_failed"
        provider.signing_key = None
        assert (await browser.get("/api/session")).status_code == 401
        assert (await admin.get("/api/users")).json()["items"] == []

        query = await begin(browser)
        provider.claims = {"nonce": query["nonce"], **ANN}
        callback = {"state": query["state"], "code": "c"}
        cookie = browser.cookies["gristmill_sign_in"]
        browser.cookies.delete("gristmill_sign_in")
        answer = await browser.get("/api/session/oidc/callback", params=callback)
        assert answer.headers["location"] == "/sign-in?error=open_id_expired", "another browser"
        browser.cookies.set("gristmill_sign_in", cookie)
        answer = await browser.get("/api/session/oidc/callback", params=callback)
        assert answer.headers["location"] == "/search?q=a"
        browser.cookies.set("gristmill_sign_in", cookie)
        answer = await browser.get("/api/session/oidc/callback", params=callback)
        assert answer.headers["location"] == "/sign-in?error=open_id_expired", "a state is used once"
        browser.cookies.clear()
        query = await begin(browser)
        mixed_up = {"state": query["state"], "code": "c", "iss": "https://evil.example"}
        answer = await browser.get("/api/session/oidc/callback", params=mixed_up)
        assert answer.headers["location"] == "/sign-in?error=open_id_failed"
        query = await begin(browser)
        denied = {"state": query["state"], "error": "access_denied"}
        answer = await browser.get("/api/session/oidc/callback", params=denied)
        assert answer.headers["location"] == "/sign-in?error=open_id_denied"


async def test_rotated_keys_are_fetched_and_pages_of_other_sites_are_no_target(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gristmill.identity.open_id._RETRY_INTERVAL", 0.0)
    async with fake_provider() as provider, signed_up(settings, provider) as (browser, _):
        assert await sign_in(browser, provider, ANN) == "/search?q=a"
        fetches = provider.key_fetches
        assert await sign_in(browser, provider, ANN) == "/search?q=a"
        assert provider.key_fetches == fetches, "keys are cached"
        provider.keys = [new_key("second")]
        assert await sign_in(browser, provider, ANN) == "/search?q=a"
        assert provider.key_fetches == fetches + 1
        for target in ("//evil.example", "/\\evil.example", "https://evil.example", "/\tx"):
            answer = await browser.get("/api/session/oidc", params={"next": target})
            if answer.status_code == 400:
                continue  # control characters are refused before
            query = parse_qs(urlsplit(answer.headers["location"]).query)
            provider.claims = {"nonce": query["nonce"][0], **ANN}
            callback = {"state": query["state"][0], "code": "c"}
            answer = await browser.get("/api/session/oidc/callback", params=callback)
            assert answer.headers["location"] == "/", target


async def test_a_provider_that_does_not_answer_is_reported_and_an_account_of_another_person_is_not_taken_over(
    settings: Settings,
) -> None:
    async with (
        fake_provider() as provider,
        signed_up(settings, provider, oidc_trust_email=True) as (browser, admin),
    ):
        created = await admin.post("/api/users", json={"email": "ann@x.org", "role": "admin"})
        assert await sign_in(browser, provider, ANN, email_verified=None) == "/search?q=a"
        caller = (await browser.get("/api/session")).json()
        assert (caller["user"]["id"], caller["role"]) == (created.json()["id"], "admin"), "linked by address"
        location = await sign_in(browser, provider, ANN, sub="2")
        assert location == "/sign-in?error=open_id_failed", "the address belongs to another subject"
    unreachable = settings.model_copy(update={"oidc_issuer": "http://127.0.0.1:9", "oidc_client_id": "x"})
    async with app.gristmill(unreachable, work=False, extra_embedders={"hashed": HashedEmbedder()}) as mill:
        transport = httpx.ASGITransport(app=mill.api)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            answer = await http.get("/api/session/oidc")
            assert answer.headers["location"] == "/sign-in?error=open_id_unavailable"
            assert (await http.get("/api/session/methods")).json()["openId"]["signOutUrl"] is None
