"""A person signs in at the tool of a connector: PKCE, sealed state, the stored token, and one that the tool renews."""

import hashlib
import json
from base64 import urlsafe_b64encode
from collections.abc import AsyncGenerator, Generator
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import httpx
import pytest

from gristmill import app
from gristmill.connectors import admin, transport
from gristmill.connectors.model import ConnectorId
from gristmill.connectors.registry import credentials_purpose
from gristmill.settings import Settings
from tests.connectors.fakes.drives import FakeGraph
from tests.connectors.fakes.tool import SECRET, serve_fake
from tests.connectors.harness import NEVER, vault_of
from tests.sources.site import SiteRequest, SiteResponse


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """The usual settings, with private addresses allowed, and one variable that may be referred to."""
    return settings.model_copy(
        update={"allow_private_addresses": True, "secret_variables": ["RYE_CLIENT_ID"]}
    )


@pytest.fixture
async def http(mill: app.Gristmill) -> AsyncGenerator[httpx.AsyncClient]:
    """A local admin."""
    transport = httpx.ASGITransport(app=mill.api, client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


class Authority:
    """A Graph whose token endpoint records what it gets, and returns another refresh token each time."""

    def __init__(self, tool: FakeGraph) -> None:
        self.tool, self.forms = tool, list[dict[str, str]]()
        assert tool.site is not None
        tool.site.fallback = self.answer

    def answer(self, request: SiteRequest) -> SiteResponse:
        """Issue a token; else answer as Graph."""
        if not request.path.endswith("/oauth2/v2.0/token"):
            return self.tool.answer(request)
        form = dict(httpx.QueryParams(request.body.decode()))
        self.forms.append(form)
        if form.get("code") == "late":
            return self.tool.respond({"error": "temporarily_unavailable"}, 503)
        if form.get("code") == "wrong":
            return self.tool.respond({"error": "invalid_grant"}, 400)
        token = {"access_token": SECRET, "expires_in": 3600, "refresh_token": f"refresh-{len(self.forms)}"}
        return self.tool.respond(token)


@pytest.fixture
def authority() -> Generator[Authority]:
    """The tool."""
    with serve_fake(FakeGraph()) as tool:
        yield Authority(tool)


async def add_connector(
    http: httpx.AsyncClient, tool_type: str, config: dict[str, Any], secrets: dict[str, str]
) -> str:
    """The id of a new connector."""
    body = {
        "name": tool_type,
        "type": tool_type,
        "config": config,
        "credentials": secrets,
        "schedule": NEVER,
        "aclSchedule": NEVER,
    }
    answer = await http.post("/api/connectors", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


async def stored_credentials(mill: app.Gristmill, connector: str) -> dict[str, str]:
    """The credentials of a connector in plain text."""
    async with mill.db.connection() as tx:
        row = await admin.require_connector(tx, ConnectorId(UUID(connector)))
    return json.loads(vault_of(mill).open(row.credentials, credentials_purpose(row.id)))


async def test_a_person_signs_in_and_the_token_is_stored_and_renewed(
    mill: app.Gristmill, http: httpx.AsyncClient, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "_MAX_DELAY", 0)
    client = {"clientId": "app", "clientSecret": "s3cret"}
    connector = await add_connector(http, "sharepoint", authority.tool.config(), client)
    answer = await http.post(f"/api/connectors/{connector}/sign-in")
    assert answer.json()["redirectUri"] == "http://localhost/api/oauth/callback"
    url = urlsplit(str(answer.json()["url"]))
    query = {name: values[0] for name, values in parse_qs(url.query).items()}
    assert url.path == "/login/acme.example/oauth2/v2.0/authorize"
    assert (query["client_id"], query["code_challenge_method"]) == ("app", "S256")
    assert "offline_access" in query["scope"]
    assert "s3cret" not in answer.text

    for params, code in (
        ({"state": query["state"], "error": "access_denied"}, "oauth_denied"),
        ({"state": query["state"][:-8] + "AAAAAAA=", "code": "c"}, "oauth_state_invalid"),
        ({"state": "é", "code": "c"}, "oauth_state_invalid"),
        ({"state": query["state"], "code": "wrong"}, "oauth_failed"),
        ({"state": query["state"], "code": "late"}, "connector_unavailable"),
    ):
        answer = await http.get("/api/oauth/callback", params=params)
        assert (answer.status_code, answer.headers["location"]) == (303, f"/connectors?error={code}")
    assert "refresh_token" not in await stored_credentials(mill, connector)

    answer = await http.get("/api/oauth/callback", params={"state": query["state"], "code": "good"})
    assert (answer.status_code, answer.headers["location"]) == (303, f"/connectors/{connector}")
    form = authority.forms[-1]
    challenge = (
        urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).rstrip(b"=").decode()
    )
    assert (challenge, form["redirect_uri"]) == (
        query["code_challenge"],
        "http://localhost/api/oauth/callback",
    )
    assert (await stored_credentials(mill, connector))["refresh_token"] == "refresh-6"

    # A run uses the stored token; the one that comes back replaces it at once.
    async with mill.db.connection() as tx:
        row = await admin.require_connector(tx, ConnectorId(UUID(connector)))
    async with mill.connectors.open_connector(row) as opened:
        await opened.check()
        assert (await stored_credentials(mill, connector))["refresh_token"] == "refresh-7"
    assert (authority.forms[-1]["grant_type"], authority.forms[-1]["refresh_token"]) == (
        "refresh_token",
        "refresh-6",
    )
    async with mill.connectors.open_connector(row) as opened:  # another worker, with the row of before
        await opened.check()
    assert authority.forms[-1]["refresh_token"] == "refresh-7"
    assert (await stored_credentials(mill, connector))["refresh_token"] == "refresh-8"


async def test_a_client_id_by_reference_is_read_for_the_address_of_the_sign_in(
    http: httpx.AsyncClient, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RYE_CLIENT_ID", "app")
    client = {"clientId": "env:RYE_CLIENT_ID", "clientSecret": "s3cret"}
    connector = await add_connector(http, "sharepoint", authority.tool.config(), client)
    answer = await http.post(f"/api/connectors/{connector}/sign-in")
    query = parse_qs(urlsplit(str(answer.json()["url"])).query)
    assert query["client_id"] == ["app"]
    params = {"state": query["state"][0], "code": "good"}
    assert (await http.get("/api/oauth/callback", params=params)).headers["location"].endswith(connector)
    assert authority.forms[-1]["client_id"] == "app"


async def test_sign_in_needs_a_tool_and_a_client_that_have_one(
    http: httpx.AsyncClient, authority: Authority
) -> None:
    connector = await add_connector(http, "slack", {}, {"token": "xoxb"})
    answer = await http.post(f"/api/connectors/{connector}/sign-in")
    assert (answer.status_code, answer.json()["code"]) == (409, "oauth_not_supported")
    connector = await add_connector(http, "sharepoint", authority.tool.config(), {"token": "t"})
    answer = await http.post(f"/api/connectors/{connector}/sign-in")
    assert (answer.status_code, answer.json()["code"]) == (409, "oauth_client_missing")
    drive = {"clientId": "app", "clientSecret": "s3cret"}
    connector = await add_connector(http, "google-drive", {}, drive)
    answer = await http.post(f"/api/connectors/{connector}/check")
    assert (answer.json()["ok"], answer.json()["error"]["code"]) == (False, "connector_sign_in_needed")
    answer = await http.post(f"/api/connectors/{connector}/sign-in")
    assert answer.json()["url"].startswith("https://accounts.google.com/o/oauth2/v2/auth?")
