"""SharePoint and OneDrive: applications that sign in, every sort of grant, throttling inside a batch."""

from typing import Any

import httpx
import pytest

from gristmill import app
from gristmill.connectors import microsoft_drives
from gristmill.connectors.microsoft_readers import GrantedReaders
from gristmill.connectors.port import Audience
from gristmill.connectors.testing import open_kind, open_temporarily, read_all
from gristmill.connectors.transport import CredentialsRejected, RateLimited
from gristmill.errors import SourceGone
from tests.connectors.fakes.drives import FakeGraph
from tests.connectors.fakes.tool import SECRET, FakeCall, serve_fake
from tests.connectors.harness import ConnectorHarness
from tests.sources.site import SiteRequest, SiteResponse

GRANTS: list[dict[str, Any]] = [
    {"grantedToV2": {"siteUser": {"loginName": "i:0#.f|membership|Bob@acme.example"}}},
    {"grantedToV2": {"group": {"id": "g-1", "displayName": "HR"}}},
    {"grantedToV2": {"siteGroup": {"loginName": "HR Visitors"}}},
    {"link": {"scope": "users"}, "grantedToIdentitiesV2": [{"user": {"id": "u-9", "displayName": "Eve"}}]},
    {"grantedToV2": {"siteUser": {"loginName": "c:0-.f|rolemanager|spo-grid-all-users/1"}}},
]


async def test_an_application_signs_in_and_reads_what_it_may() -> None:
    """Paths from folders, a token by client credentials, grants of every sort; throttling and refusals have their errors."""
    with serve_fake(FakeGraph()) as tool:
        assert tool.site is not None
        forms: list[dict[str, str]] = []

        def answer(request: SiteRequest) -> SiteResponse:
            if request.path != "/login/acme.example/oauth2/v2.0/token":
                return tool.answer(request)
            forms.append(dict(httpx.QueryParams(request.body.decode())))
            if forms[-1]["client_secret"] != "s3cret":
                return tool.respond({"error": "invalid_client"}, 401)
            return tool.respond({"access_token": SECRET, "expires_in": 3599})

        tool.site.fallback = answer
        application = {"clientId": "app", "clientSecret": "s3cret"}
        documents = await read_all(open_kind(microsoft_drives.KIND, tool.config(), application))
        assert len(documents) == len(tool.expected_documents())
        assert "guides/deep er" in {read.document.title.rpartition("/")[0] for read in documents.values()}
        assert (len(forms), forms[0]["grant_type"], forms[0]["scope"]) == (
            1,
            "client_credentials",
            f"{tool.site.url}/.default",
        )
        async with open_temporarily(
            microsoft_drives.KIND, tool.config(), {"clientId": "app", "clientSecret": "wrong"}
        ) as connector:
            with pytest.raises(CredentialsRejected):
                await connector.check()

        def is_batch(call: FakeCall) -> bool:
            return call.path.endswith("$batch")

        file = tool.followed()[0]
        async with open_temporarily(microsoft_drives.KIND, tool.config(), application) as connector:
            assert isinstance(connector, microsoft_drives.MicrosoftDrivesConnector)
            replies = [{"status": 200, "body": {"value": GRANTS}}, {"status": 403}]
            audiences: list[Audience] = []
            for reply in replies:
                body = {"responses": [{"id": "0", **reply}]}
                tool.add_rule(is_batch, lambda body=body: tool.respond(body))
                audiences.append((await connector.find_file(file.drive, file.id)).audience)
            assert (audiences[0].everybody, audiences[0].emails) == (
                True,
                {"bob@acme.example"},
            )
            groups = [(group.id, group.name, group.emails) for group in audiences[0].tool_groups]
            assert groups == [("g-1", "HR", {"cat@acme.example"})]
            assert (audiences[0].groups, audiences[0].users) == ({"g-1", "HR Visitors"}, {"u-9": "Eve"})
            assert not audiences[1].complete
            gone = {"responses": [{"id": "0", "status": 404}]}
            tool.add_rule(is_batch, lambda: tool.respond(gone))
            with pytest.raises(SourceGone):
                await connector.find_file(file.drive, file.id)
            limit = {"responses": [{"id": "0", "status": 429, "headers": {"Retry-After": "40"}}]}
            tool.add_rule(is_batch, lambda: tool.respond(limit))
            with pytest.raises(RateLimited):
                await connector.find_file(file.drive, file.id)
        wrong = {**tool.config(), "sites": ["https://acme.example/sites/gone"], "libraries": ["Wiki"]}
        async with open_temporarily(microsoft_drives.KIND, wrong, application) as connector:
            problems = " ".join(await connector.find_problems())
        assert "sites/gone does not exist" in problems
        assert "library Wiki does not exist" in problems


async def test_files_of_a_site_that_is_locked_stay(mill: app.Gristmill) -> None:
    """It counted as a site that does not exist, and all of its files were removed."""
    with serve_fake(FakeGraph()) as tool:
        harness = await ConnectorHarness.create(mill, tool)
        await harness.sync()

        def lock(times: int) -> None:
            blocked = {"error": {"code": "notAllowed", "message": "Access to this site has been blocked."}}
            tool.add_rule(
                lambda call: "/sites/" in call.path, lambda: tool.respond(blocked, 423), times=times
            )

        for options in ({}, {"force": True}):
            lock(1)
            run = await harness.sync(**options, allow_deletions=True)
            assert (run.status, run.documents_pruned) == ("completed_with_errors", 0)
            assert "sites/hr can't be read at present" in await harness.log_text(run)
        assert (await harness.sync()).status == "success"
        await harness.assert_matches_tool()


def test_levels_of_sharepoint_that_read_nothing_admit_no_one() -> None:
    permissions: list[dict[str, Any]] = [
        {"roles": roles, "grantedToV2": {"user": {"email": f"{name}@a.org"}}}
        for name, roles in (
            ("ann", ["read"]),
            ("bob", ["sp.limited access"]),
            ("cat", ["sp.limited access", "sp.read"]),
            ("dan", []),
        )
    ]
    assert GrantedReaders.of(permissions).emails == {"ann@a.org", "cat@a.org", "dan@a.org"}
