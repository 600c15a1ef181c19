"""Mail of people who signed in at Google or Microsoft: a real Dovecot that asks an authorisation server whose token it got."""

import json
from collections.abc import AsyncGenerator, Generator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from gristmill import app
from gristmill.connectors import admin, imap, sign_in
from gristmill.connectors.model import ConnectorRow, NewConnector
from gristmill.connectors.registry import credentials_purpose
from gristmill.connectors.testing import open_kind
from gristmill.connectors.transport import CredentialsRejected
from gristmill.errors import Transient
from gristmill.operations import bases
from gristmill.settings import Settings
from tests import reverse_proxy
from tests.connectors.fakes.mail_tokens import CLIENT, TokenIssuer, serve_tokens
from tests.connectors.harness import NEVER, ConnectorHarness, vault_of
from tests.connectors.servers.dovecot import USER, Dovecot, find_dovecot, message, run_dovecot
from tests.embedding.hashed import HashedEmbedder

needs_dovecot = pytest.mark.skipif(
    find_dovecot() is None, reason="needs Dovecot (Debian's dovecot-imapd), and root to start it"
)


@pytest.fixture(autouse=True)
def trust(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trust the certificate of the tests."""
    monkeypatch.setenv("SSL_CERT_FILE", str(reverse_proxy.certificate().path))


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """The usual settings, with private addresses allowed."""
    return settings.model_copy(update={"allow_private_addresses": True})


@pytest.fixture
async def http(mill: app.Gristmill) -> AsyncGenerator[httpx.AsyncClient]:
    """A local admin."""
    transport = httpx.ASGITransport(app=mill.api, client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


@pytest.fixture
def issuer() -> Generator[TokenIssuer]:
    """Who issues tokens for the owner of the mailbox."""
    with serve_tokens(USER) as issuer:
        yield issuer


@pytest.fixture
def server(issuer: TokenIssuer) -> Generator[Dovecot]:
    """The mail server, with one message."""
    with run_dovecot(token_info=issuer.token_info) as server:
        with server.client() as mailbox:
            mailbox.append("INBOX", message("Rye", "Rye comes on Tuesday.", message_id="<rye@x>"))
        yield server


def microsoft(issuer: TokenIssuer, server: Dovecot) -> dict[str, Any]:
    """The configuration of a connector whose people sign in at Microsoft."""
    return {
        **server.config(),
        "provider": "microsoft",
        "tenant": "acme.example",
        "authority": issuer.site.url,
    }


async def follow(
    mill: app.Gristmill, config: dict[str, Any], credentials: dict[str, str]
) -> ConnectorHarness:
    """A connector to the mailbox, and the base that it feeds."""
    base = await bases.create(mill.db, "mail", HashedEmbedder(), {})
    new = NewConnector("post", "imap", config, credentials, NEVER, NEVER, base_ids=[base.id])
    connector = await admin.create(mill.db, vault_of(mill), mill.connectors, new)
    return ConnectorHarness(mill, None, base, connector)  # pyright: ignore[reportArgumentType]


async def stored_token(mill: app.Gristmill, connector: ConnectorRow) -> str | None:
    """The refresh token that is stored."""
    async with mill.db.connection() as tx:
        row = await admin.require_connector(tx, connector.id)
    return json.loads(vault_of(mill).open(row.credentials, credentials_purpose(row.id))).get("refresh_token")


@needs_dovecot
async def test_every_login_uses_a_token_that_is_valid_then(
    mill: app.Gristmill, issuer: TokenIssuer, server: Dovecot
) -> None:
    """A connection that is lost after its token has expired is opened with the next one; so is that of the next run."""
    harness = await follow(mill, microsoft(issuer, server), issuer.sign_in())
    async with mill.connectors.open_connector(harness.connector) as mailbox:
        assert (await mailbox.check()).name == USER
        assert await mailbox.find_problems() == []
        assert issuer.logins == ["access-1"]  # the connection is used again
        server.end_connections()
        with pytest.raises(Transient):
            await mailbox.check()
        assert (await mailbox.check()).name == USER
        assert issuer.logins == ["access-1", "access-2"]
    assert await stored_token(mill, harness.connector) == issuer.valid_refresh == "refresh-2"
    run = await harness.wait_until_ended(await harness.start())
    assert (run.status, run.documents_ingested) == ("success", 1)
    assert issuer.logins == ["access-1", "access-2", "access-3"]
    assert [form["refresh_token"] for form in issuer.forms] == ["refresh-0", "refresh-1", "refresh-2"]
    assert await stored_token(mill, harness.connector) == "refresh-3"
    scope = "https://outlook.office.com/IMAP.AccessAsUser.All offline_access"
    assert all(form["scope"] == scope for form in issuer.forms)
    assert {request.path for request in issuer.site.requests if request.method == "POST"} == {
        "/acme.example/oauth2/v2.0/token"
    }


@needs_dovecot
async def test_a_person_signs_in_and_again_when_the_sign_in_has_ended(
    mill: app.Gristmill, http: httpx.AsyncClient, issuer: TokenIssuer, server: Dovecot
) -> None:
    """Before and after it, checks and runs say that a sign-in is needed, and name no secret."""
    harness = await follow(mill, microsoft(issuer, server), {**CLIENT, "username": USER})
    path = f"/api/connectors/{harness.connector.id}"
    for reason in ("No one has signed in at Microsoft yet", "no longer accepts the sign-in"):
        check = (await http.post(f"{path}/check")).json()
        assert check["error"]["code"] == "connector_sign_in_needed"
        assert reason in check["error"]["message"]
        run = await harness.wait_until_ended(await harness.start())
        assert (run.status, run.error_code) == ("failed", "connector_sign_in_needed")
        assert "refresh-" not in str(run.error_message) + str(check)

        url = urlsplit(str((await http.post(f"{path}/sign-in")).json()["url"]))
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        assert url.path == "/acme.example/oauth2/v2.0/authorize"
        assert query["scope"] == "https://outlook.office.com/IMAP.AccessAsUser.All offline_access"
        assert query["login_hint"] == USER
        answer = await http.get("/api/oauth/callback", params={"state": query["state"], "code": "good"})
        assert answer.headers["location"] == f"/connectors/{harness.connector.id}"
        assert (await http.post(f"{path}/check")).json() == {
            "ok": True,
            "account": f"{USER} (127.0.0.1)",
            "error": None,
        }
        run = await harness.wait_until_ended(await harness.start())
        assert run.status == "success"
        issuer.revoke()


@needs_dovecot
async def test_mail_is_read_after_a_sign_in_at_google(
    issuer: TokenIssuer, server: Dovecot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sign_in, "GOOGLE_TOKENS", f"{issuer.site.url}/token")
    config = {**server.config(), "provider": "google"}
    connector = open_kind(imap.KIND, config, issuer.sign_in())
    assert (await connector.check()).name == USER
    assert "scope" not in issuer.forms[0]
    await connector.close()


@needs_dovecot
async def test_a_login_that_is_refused_says_why_it_may_be(issuer: TokenIssuer, server: Dovecot) -> None:
    """Someone else signed in; a token is too old; the secret of the client is wrong."""
    config = microsoft(issuer, server)
    someone_else = {**issuer.sign_in(), "username": "eve@example.org"}
    old = {"username": USER, "accessToken": "access-0"}
    wrong_client = {**issuer.sign_in(), "clientSecret": "wrong"}
    for credentials, reason in (
        (someone_else, "Whoever signed in must be eve@example.org"),
        (old, "it lasts about an hour"),
        (wrong_client, "rejects the credentials"),
    ):
        connector = open_kind(imap.KIND, config, credentials)
        with pytest.raises(CredentialsRejected, match=reason) as refusal:
            await connector.check()
        assert refusal.value.code == "connector_unauthorized"
        assert not any(secret in str(refusal.value) for secret in ("access-", "refresh-", "cl1ent"))
        await connector.close()


@pytest.mark.parametrize(
    ("config", "host", "scope"),
    [
        ({"host": "imap.gmail.com"}, "accounts.google.com", "https://mail.google.com/"),
        (
            {"host": "mail.acme.example", "provider": "google"},
            "accounts.google.com",
            "https://mail.google.com/",
        ),
        (
            {"host": "outlook.office365.com"},
            "login.microsoftonline.com",
            "https://outlook.office.com/IMAP.AccessAsUser.All offline_access",
        ),
    ],
    ids=["gmail", "provider", "microsoft"],
)
async def test_the_host_or_the_provider_says_where_people_sign_in(
    http: httpx.AsyncClient, config: dict[str, str], host: str, scope: str
) -> None:
    connector = await add_mailbox(http, config)
    url = urlsplit(str((await http.post(f"/api/connectors/{connector}/sign-in")).json()["url"]))
    query = parse_qs(url.query)
    assert (url.netloc, query["scope"]) == (host, [scope])
    # Where an organisation's admin consents for all, Microsoft refuses people whom it is told to ask.
    assert ("prompt" in query, "access_type" in query) == (
        (True, True) if "google" in host else (False, False)
    )


async def test_a_mailbox_elsewhere_has_no_sign_in(http: httpx.AsyncClient) -> None:
    connector = await add_mailbox(http, {"host": "imap.example.org"})
    answer = await http.post(f"/api/connectors/{connector}/sign-in")
    assert (answer.status_code, answer.json()["code"]) == (409, "oauth_not_supported")
    check = (await http.post(f"/api/connectors/{connector}/check")).json()
    assert check["error"]["code"] == "oauth_not_supported"
    assert "Set provider" in check["error"]["message"]


async def add_mailbox(http: httpx.AsyncClient, config: dict[str, str]) -> str:
    """The id of a new connector whose owner has not signed in."""
    body = {
        "name": "post",
        "type": "imap",
        "config": config,
        "credentials": {**CLIENT, "username": USER},
        "schedule": NEVER,
        "aclSchedule": NEVER,
    }
    answer = await http.post("/api/connectors", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]
