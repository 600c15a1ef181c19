"""Jira and Confluence through `api.atlassian.com/ex/TOOL/ID`, where tokens with scopes have to go: links lead to the site."""

from dataclasses import replace

import pytest

from gristmill.connectors.confluence import connector as confluence
from gristmill.connectors.jira import connector as jira
from gristmill.connectors.testing import open_kind, read_all
from tests.connectors.fakes.confluence import FakeConfluence
from tests.connectors.fakes.jira import FakeJira
from tests.connectors.fakes.tool import FakeCall, FakeTool, serve_fake
from tests.sources.site import SiteRequest, SiteResponse


@pytest.mark.parametrize("name", ["confluence", "jira"])
async def test_links_lead_to_the_site_and_not_to_the_gateway(name: str) -> None:
    fake: FakeTool = FakeJira() if name == "jira" else FakeConfluence()
    kind = jira.KIND if name == "jira" else confluence.KIND
    with serve_fake(fake) as tool:
        prefix, site = f"/ex/{name}/1-2-3", "https://x.atlassian.net"

        def server_info(_: FakeCall) -> dict[str, str]:
            return {"baseUrl": site}

        tool.route("GET", "/rest/api/3/serverInfo", server_info)
        assert tool.site is not None

        def answer(request: SiteRequest) -> SiteResponse:
            assert request.path.startswith(prefix)
            return tool.answer(replace(request, path=request.path.removeprefix(prefix)))

        tool.site.fallback = answer
        config = {**tool.config(), "baseUrl": tool.site.url + prefix}
        documents = await read_all(open_kind(kind, config, tool.credentials()))
        urls = [read.document.url or "" for read in documents.values()]
        place = f"{site}/browse/" if name == "jira" else f"{site}/wiki/spaces/"
        assert urls
        assert all(url.startswith(place) for url in urls), urls
