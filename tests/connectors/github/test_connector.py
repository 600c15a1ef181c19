"""The peculiarities of GitHub: pull requests among issues, renamed repositories, secondary rate limits, Apps."""

import base64
import json
from datetime import timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from gristmill.connectors.github.connector import KIND
from gristmill.connectors.port import ConnectorLimits
from gristmill.errors import Invalid
from tests.connectors.fakes.github import FakeGitHub, iso
from tests.connectors.fakes.tool import FakeCall, fake_tool_fixture
from tests.connectors.harness import ConnectorHarness
from tests.wait_until import wait_until

pytestmark = pytest.mark.slow


tool = fake_tool_fixture(FakeGitHub)


async def test_pull_requests_among_the_issues_are_read_as_such(
    harness: ConnectorHarness, tool: FakeGitHub
) -> None:
    """GitHub's list of issues has both; reviews are requested only of pull requests (the fake checks it)."""
    await harness.sync()
    pulls = {f"issue:{issue.id}" for repo in tool.repos for issue in repo.issues if issue.is_pull}
    rows = await harness.fetch("select source_key from item where metadata ->> 'type' = 'pull_request'")
    assert pulls
    assert {key for (key,) in rows} == pulls


async def test_without_pull_requests_they_are_neither_read_nor_kept(
    harness: ConnectorHarness, tool: FakeGitHub
) -> None:
    await harness.sync()
    await harness.change(config={**tool.config(), "pullRequests": False})
    tool.calls.clear()
    await harness.sync(allow_deletions=True)
    pulls = {f"issue:{issue.id}" for repo in tool.repos for issue in repo.issues if issue.is_pull}
    assert set(await harness.indexed_documents()) == set(tool.expected_documents()) - pulls
    assert not [path for path in tool.detail_calls() if "reviews" in path]


async def test_a_wiki_is_fetched_again_only_when_it_changed(
    harness: ConnectorHarness, tool: FakeGitHub
) -> None:
    """The sidebar is not a page; a wiki without a first page is empty."""
    tool.repos[0].wiki = {"Home.md": f"Welcome {tool.new_word()}"}
    tool.repos[1].wiki = {}
    assert (await harness.sync()).status == "success"
    await harness.assert_matches_tool()
    tool.repos[0].wiki["_Sidebar.md"] = "Home, and so on"
    for expected_fetches in (1, 0):
        tool.calls.clear()
        assert (await harness.sync()).status == "success"
        assert sum(call.path.endswith("/git-upload-pack") for call in tool.calls) == expected_fetches
    assert "Welcome" in str(await harness.fetch("select text from chunk where text like '%%Welcome%%'"))
    assert await harness.fetch("select 1 from item where title ilike '%%sidebar%%'") == []


async def test_a_wiki_that_the_token_can_not_read_fails_alone(
    harness: ConnectorHarness, tool: FakeGitHub
) -> None:
    tool.repos[0].wiki = {"Home.md": f"Welcome {tool.new_word()}"}
    tool.repos[1].wiki = {}
    tool.add_rule(lambda call: ".wiki.git/" in call.path, lambda: tool.respond({}, 401), times=9)
    run = await harness.sync()
    assert run.status == "completed_with_errors"
    assert "These credentials can't read" in await harness.log_text(run)
    wiki = {key for key in tool.expected_documents() if key.startswith("wiki:")}
    assert set(await harness.indexed_documents()) == set(tool.expected_documents()) - wiki


async def test_a_renamed_repository_is_the_same_one(harness: ConnectorHarness, tool: FakeGitHub) -> None:
    """Repositories are identified by number: a new name adds and prunes nothing, and old names redirect; S2-26."""
    await harness.change(config={"baseUrl": tool.config()["baseUrl"], "repositories": ["acme/widget"]})
    await harness.sync()
    before = await harness.indexed_documents()
    tool.repos[0].former_names.append("acme/widget")
    tool.repos[0].name = "other/gadget"
    run = await harness.sync()
    assert (run.status, run.documents_pruned) == ("success", 0)
    assert await harness.indexed_documents() == before
    tool.add_issue(tool.repos[0])
    tool.advance_clock()
    run = await harness.sync()
    assert run.documents_ingested == 1


async def test_a_transferred_issue_goes_from_one_repository_to_the_other(
    harness: ConnectorHarness, tool: FakeGitHub
) -> None:
    """It gets another id there, and its old address redirects to it."""
    await harness.sync()
    old_issue = tool.repos[0].issues[0]
    tool.repos[0].issues.remove(old_issue)
    new_issue = tool.add_issue(tool.repos[1])
    target = f"{tool.config()['baseUrl']}/repos/{tool.repos[1].name}/issues/{new_issue.number}"

    def reads_old_address(call: FakeCall) -> bool:
        return call.path == f"/repos/{tool.repos[0].name}/issues/{old_issue.number}"

    tool.add_rule(reads_old_address, lambda: tool.respond({}, 301, Location=target), times=10)
    assert (await harness.sync()).status == "success"
    await harness.assert_matches_tool()


@pytest.mark.parametrize("header", ["retry", "reset", "none"])
async def test_a_secondary_limit_is_a_limit_and_not_a_refusal(
    harness: ConnectorHarness, tool: FakeGitHub, header: str
) -> None:
    """403 with Retry-After, with x-ratelimit-reset, or only with a message."""
    headers: dict[str, str] = {"retry": {"Retry_After": "1800"}, "none": {}}.get(
        header,
        {
            "x_ratelimit_remaining": "0",
            "x_ratelimit_reset": str(int((tool.now + timedelta(hours=1)).timestamp())),
        },
    )
    message = {"message": "You have exceeded a secondary rate limit."}
    tool.add_rule(tool.is_detail, lambda: tool.respond(message, 403, **headers), after=3)
    run = await harness.start()

    async def is_waiting() -> bool:
        return (await harness.reload_run(run)).rate_limited_until is not None

    await wait_until(is_waiting)
    ((seconds,),) = await harness.fetch(
        "select extract(epoch from rate_limited_until - clock_now())::int from connector"
    )
    low, high = {"retry": (1700, 1801), "reset": (3500, 3602), "none": (50, 61)}[header]
    assert low <= seconds <= high

    async def is_over() -> bool:
        await harness.run_delayed_jobs()
        return (await harness.reload_run(run)).completed_at is not None

    await wait_until(is_over)
    await harness.assert_matches_tool()


async def test_a_tree_that_is_too_large_for_one_answer_is_walked(
    harness: ConnectorHarness, tool: FakeGitHub
) -> None:
    full_tree = tool._tree  # pyright: ignore[reportPrivateUsage]

    def truncated_tree(call: FakeCall, owner: str, name: str, sha: str) -> Any:
        tree = full_tree(call, owner, name, sha.removeprefix("docs-"))
        entries = tree["tree"]
        if sha.startswith("docs-"):
            below = [entry for entry in entries if entry["path"].startswith("docs/")]
            cut = [{**entry, "path": entry["path"].removeprefix("docs/")} for entry in below]
            return {**tree, "tree": cut}
        if "recursive" in call.params:
            return {**tree, "tree": entries[:1], "truncated": True}
        return {**tree, "tree": [*entries, {"path": "docs", "type": "tree", "sha": f"docs-{tree['sha']}"}]}

    tool.routes = [
        (method, pattern, truncated_tree if "git/trees" in pattern.pattern else route)
        for method, pattern, route in tool.routes
    ]
    await harness.sync()
    await harness.assert_matches_tool()


async def test_a_github_app_signs_its_requests_and_renews_its_token(tool: FakeGitHub) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    tokens: list[str] = []

    def issue_token(call: FakeCall, installation: str) -> Any:
        assert installation == "77"
        head, body, signature = call.headers["authorization"].removeprefix("Bearer ").split(".")
        signature_bytes = base64.urlsafe_b64decode(signature + "==")
        key.public_key().verify(
            signature_bytes, f"{head}.{body}".encode(), padding.PKCS1v15(), hashes.SHA256()
        )
        claims = json.loads(base64.urlsafe_b64decode(body + "=="))
        assert claims["iss"] == "123"
        assert claims["exp"] - claims["iat"] <= 600
        tokens.append(f"ghs_{len(tokens)}")
        return tool.respond({"token": tokens[-1], "expires_at": "2026-01-01T00:00:00Z"}, 201)

    tool.check_authorization = lambda call: None
    tool.route("POST", "/app/installations/{installation}/access_tokens", issue_token)
    config = KIND.config.model_validate(tool.config())
    credentials = KIND.credentials.model_validate(
        {"appId": "123", "installationId": 77, "privateKey": pem.decode()}
    )
    connector = KIND.open(config, credentials, ConnectorLimits(allow_private=True))
    try:
        account = await connector.check()
    finally:
        await connector.close()
    assert "App 123" in account.name
    assert len(tokens) > 1  # the first one had expired


@pytest.mark.parametrize(
    "credentials", [{}, {"token": "x", "appId": "1"}, {"appId": "1", "installationId": 2}, {"password": "x"}]
)
async def test_incomplete_or_unknown_credentials_are_rejected(
    harness: ConnectorHarness, credentials: dict[str, Any]
) -> None:
    with pytest.raises(Invalid):
        harness.mill.connectors.validate("github", harness.tool.config(), credentials)


def test_times_are_sent_to_the_second() -> None:
    assert iso(FakeGitHub().now) == "2026-03-01T12:00:00Z"
