"""A GitHub App without configured names: it follows what its installation lists."""

import asyncio
import json
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from gristmill.connectors import transport
from gristmill.connectors.github.api import GitHubApi, GitHubApp, Repository, default_headers
from gristmill.connectors.transport import Transport
from tests.connectors.fakes.github import FakeGitHub
from tests.connectors.fakes.github_model import Repo
from tests.connectors.fakes.tool import SECRET, FakeCall, failing, fake_tool_fixture
from tests.connectors.harness import ConnectorHarness
from tests.sources.site import SiteResponse

pytestmark = pytest.mark.slow


class FakeGitHubWithApp(FakeGitHub):
    """A GitHub with an App that is installed in all repositories but `uninstalled`. `listings` counts how often they were listed; the
    first listing leaves out those that are `stepped_over`."""

    page_size = 1

    def __init__(self) -> None:
        super().__init__()
        self.uninstalled: list[Repo] = []
        self.stepped_over: list[Repo] = []
        self.listings = 0
        self.expires_at = "2099-01-01T00:00:00Z"
        self.route("POST", "/app/installations/{installation}/access_tokens", self._issue_token)
        self.route("GET", "/installation/repositories", self._installed_repos)

    def config(self) -> dict[str, Any]:
        assert self.site is not None
        return {"baseUrl": self.site.url}

    def credentials(self) -> dict[str, Any]:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        pem = key.private_bytes(encoding, form, serialization.NoEncryption())
        return {"appId": "123", "installationId": 77, "privateKey": pem.decode()}

    def check_authorization(self, call: FakeCall) -> None:
        if not call.path.startswith("/app/"):
            super().check_authorization(call)

    def _issue_token(self, call: FakeCall, installation: str) -> Any:
        del installation
        assert call.headers["authorization"].removeprefix("Bearer ").count(".") == 2  # the App's own
        return self.respond({"token": SECRET, "expires_at": self.expires_at}, 201)

    def _installed_repos(self, call: FakeCall) -> SiteResponse:
        self.listings += call.params["page"] == "1"
        left_out = [*self.uninstalled, *(self.stepped_over if self.listings == 1 else ())]
        page = self.respond_page(call, [repo for repo in self.repos if repo not in left_out], self._repo_json)
        return SiteResponse(
            page.status, json.dumps({"repositories": json.loads(page.body)}).encode(), page.headers
        )


tool = fake_tool_fixture(FakeGitHubWithApp)


async def test_a_repository_that_a_listing_steps_over_keeps_its_documents(
    harness: ConnectorHarness, tool: FakeGitHubWithApp
) -> None:
    """The listing is requested once more in the run, not for each document."""
    await harness.sync()
    await harness.assert_matches_tool()
    tool.listings, tool.stepped_over = 0, [tool.repos[0]]
    run = await harness.sync(allow_deletions=True)
    assert (run.status, run.documents_pruned, tool.listings) == ("success", 0, 2)
    await harness.assert_matches_tool()


async def test_a_repository_that_the_app_is_no_longer_installed_in_loses_its_documents(
    harness: ConnectorHarness, tool: FakeGitHubWithApp
) -> None:
    """Also a public one, which GitHub shows to anyone."""
    tool.uninstalled = [next(repo for repo in tool.repos if not repo.private)]
    await harness.sync()
    installed = await harness.indexed_documents()
    tool.uninstalled = []
    await harness.sync()
    await harness.assert_matches_tool()
    tool.uninstalled = [next(repo for repo in tool.repos if not repo.private)]
    run = await harness.sync(allow_deletions=True)
    assert run.documents_pruned > 0
    assert await harness.indexed_documents() == installed


async def test_a_renewal_of_the_token_does_not_disturb_other_requests(
    tool: FakeGitHubWithApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that was sent again meanwhile had the App's own token, which GitHub refuses: the run failed."""
    tool.expires_at = "2020-01-01T00:00:00Z"  # every request wants another one
    assert tool.site is not None
    credentials, name = tool.credentials(), tool.repos[0].name
    app = GitHubApp(credentials["appId"], credentials["installationId"], credentials["privateKey"])
    http = Transport(
        tool.site.url, headers=default_headers(), allow_private=True, max_wait=timedelta(seconds=0)
    )
    api = GitHubApi(http, f"{tool.site.url}/graphql", app)
    others = list[asyncio.Task[Repository]]()

    async def begin_another_request(_: timedelta) -> None:
        others.append(asyncio.create_task(api.repository(name)))
        await asyncio.sleep(0)

    monkeypatch.setattr(transport, "clock", SimpleNamespace(pause=begin_another_request))
    tool.add_rule(lambda call: call.path == f"/repos/{name}", failing(tool, 502))
    assert (await api.repository(name)).full_name == name
    assert [repository.full_name for repository in await asyncio.gather(*others)] == [name]
    await http.close()
