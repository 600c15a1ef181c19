"""Jira's own oddities: what its documentation and its users tell of, each with what must hold here."""

import re
from collections.abc import Callable, Generator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gristmill import app
from gristmill.connectors.jira.connector import JiraConfig
from tests.connectors.fakes.jira import FakeJira, FakeJiraDataCenter
from tests.connectors.fakes.tool import FakeCall, serve_fake
from tests.connectors.harness import ConnectorHarness


@pytest.fixture
def jira() -> Generator[FakeJira]:
    with serve_fake(FakeJira()) as double:
        assert isinstance(double, FakeJira)
        yield double


def retold(double: FakeJira, change: Callable[[FakeCall, dict[str, Any]], dict[str, Any]]) -> None:
    """Have every page of a search told otherwise."""
    usual = double.cloud_search

    def told(call: FakeCall) -> Any:
        return change(call, usual(call))

    double.routes.insert(0, ("POST", re.compile(re.escape(f"{double.root}/search/jql")), told))


async def test_the_search_that_was_removed_is_never_asked(mill: app.Gristmill, jira: FakeJira) -> None:
    """It answers 410."""
    bench = await ConnectorHarness.create(mill, jira)
    assert (await bench.sync()).status == "success"
    assert not [call for call in jira.calls if call.path == f"{jira.root}/search"]


async def test_an_end_that_never_comes_does_not_hold_a_run(mill: app.Gristmill, jira: FakeJira) -> None:
    """`isLast` is never true, and there is always a token; pages behind the end are empty."""

    def never_last(call: FakeCall, told: dict[str, Any]) -> dict[str, Any]:
        start = int(call.body.get("nextPageToken", "t0")[1:])
        return told | {"isLast": False, "nextPageToken": f"t{start + jira.page_size}"}

    retold(jira, never_last)
    bench = await ConnectorHarness.create(mill, jira)
    assert (await bench.sync()).status == "success"
    await bench.assert_matches_tool()


async def test_a_token_that_repeats_at_the_end_does_not_hold_a_run(
    mill: app.Gristmill, jira: FakeJira
) -> None:
    """The last page is given again and again."""

    def again(call: FakeCall, told: dict[str, Any]) -> dict[str, Any]:
        if told["isLast"]:
            return told | {"isLast": False, "nextPageToken": call.body.get("nextPageToken", "t0")}
        return told

    for number, (_, issue) in enumerate(jira.all()):
        issue.updated = jira.now - timedelta(minutes=number)
    retold(jira, again)
    bench = await ConnectorHarness.create(mill, jira)
    run = await bench.sync()
    assert run.status == "success", await bench.log_text(run)
    await bench.assert_matches_tool()


async def test_a_token_that_repeats_in_a_crowd_is_told_and_passes_nothing_over(
    mill: app.Gristmill, jira: FakeJira
) -> None:
    """All of a minute can't be read: the run says so, and once it can, everything is there."""
    for _ in range(20):
        jira.add()
    first_page = [True]

    def stuck(call: FakeCall, told: dict[str, Any]) -> dict[str, Any]:
        return told | {"isLast": False, "nextPageToken": "t0"} if first_page[0] else told

    retold(jira, stuck)
    bench = await ConnectorHarness.create(mill, jira)
    run = await bench.sync()
    assert run.status == "completed_with_errors"
    assert "same page again" in await bench.log_text(run)
    first_page[0] = False
    assert (await bench.sync()).status == "success"
    await bench.assert_matches_tool()


@pytest.mark.parametrize(
    "zone", ["Pacific/Kiritimati", "America/New_York", "Etc/GMT+12", "Nowhere/Land", None]
)
async def test_times_are_told_in_the_users_own_zone(mill: app.Gristmill, zone: str | None) -> None:
    """JQL knows minutes of the user's clock alone. In an hour that the clock has twice, too, nothing is missed."""
    double = FakeJira()
    double.shows_zone = zone is not None
    double.shown_zone = zone
    double.zone = zone if zone not in (None, "Nowhere/Land") else "America/New_York"
    double.now = datetime(2026, 11, 1, 5, 20, tzinfo=UTC)  # New York puts its clock back at 6:00 UTC
    for _, issue in double.all():
        issue.updated = double.now
    with serve_fake(double):
        bench = await ConnectorHarness.create(mill, double)
        assert (await bench.sync()).status == "success"
        await bench.assert_matches_tool()
        for step in range(5):
            double.advance_clock(900)
            double.edit(step * 7 + 5)
            double.calls.clear()
            assert (await bench.sync()).status == "success"
            await bench.assert_matches_tool()


async def test_an_issue_that_left_the_projects_that_are_followed_is_pruned(mill: app.Gristmill) -> None:
    """Moved, it keeps its id; deleted, it is gone."""

    class OneProject(FakeJira):
        def config(self) -> dict[str, Any]:
            return super().config() | {"projects": ["AB"]}

        def expected_documents(self) -> dict[str, Any]:
            own = {f"issue:{issue.id}" for issue in self.projects[0].issues}
            return {key: truth for key, truth in super().expected_documents().items() if key in own}

    with serve_fake(OneProject()) as double:
        assert isinstance(double, OneProject)
        bench = await ConnectorHarness.create(mill, double)
        await bench.sync()
        moved = double.projects[0].issues[0]
        double.move(double.projects[0], moved)
        moved.updated = double.now
        run = await bench.sync()
        assert run.documents_pruned == 1
        await bench.assert_matches_tool()


async def test_an_issue_that_the_filter_no_longer_takes_is_pruned(
    mill: app.Gristmill, jira: FakeJira
) -> None:
    jira.labels_followed = "handbook"
    for _, issue in jira.all()[:8]:
        issue.labels.append("handbook")
    bench = await ConnectorHarness.create(mill, jira)
    await bench.sync()
    await bench.assert_matches_tool()
    assert len(await bench.indexed_documents()) == 8
    _, issue = jira.all()[2]
    issue.labels.clear()
    issue.updated = jira.now
    await bench.sync()
    await bench.assert_matches_tool()


@pytest.mark.parametrize("kind", [FakeJira, FakeJiraDataCenter])
async def test_attachments_are_files_below_their_issue_and_the_large_are_left_out(
    mill: app.Gristmill, kind: type[FakeJira]
) -> None:
    with serve_fake(kind()) as double:
        assert isinstance(double, FakeJira)
        _, issue = double.all()[0]
        issue.files = {1: b"minutes of the meeting", 2: b"x"}
        double.route("GET", "/secure/attachment/{number}/x.txt", double.content)
        bench = await ConnectorHarness.create(mill, double)
        await bench.sync()
        files = "select source_key from item where type = 'file' and status <> 'deleting' order by 1"
        assert await bench.fetch(files) == [("attachment:1",), ("attachment:2",)]
        fetched = [call.path for call in double.calls if "attachment" in call.path]
        del issue.files[2]
        issue.updated = double.now
        await bench.sync()
        assert await bench.fetch(files) == [("attachment:1",)]
        assert [call.path for call in double.calls if "attachment" in call.path] == fetched


async def test_a_scheme_that_can_not_be_read_hides_its_project(mill: app.Gristmill, jira: FakeJira) -> None:
    """C18: incomplete resolution hides."""
    jira.projects[1].secret_scheme = True
    bench = await ConnectorHarness.create(mill, jira)
    await bench.sync()
    await bench.assert_matches_tool()
    assert {frozenset(truth.acl) for truth in jira.expected_documents().values()} >= {frozenset()}


async def test_a_group_that_can_not_be_read_hides_what_it_may_see(
    mill: app.Gristmill, jira: FakeJira
) -> None:
    jira.add_rule(lambda call: call.path.endswith("/group/member"), lambda: jira.respond({}, 403), times=99)
    bench = await ConnectorHarness.create(mill, jira)
    await bench.sync()
    found = await bench.indexed_documents()
    hidden = {f"issue:{issue.id}" for issue in jira.projects[0].issues}
    assert {key for key, truth in found.items() if not truth.acl} == hidden


@pytest.mark.parametrize(
    "jql", ["project = X ORDER BY key", "a = b) OR (c = d", 'summary ~ "open', "(a = b", "order  by x"]
)
def test_a_filter_that_is_not_one_condition_is_refused(jql: str) -> None:
    with pytest.raises(ValueError, match="JQL"):
        JiraConfig(base_url="https://x.atlassian.net", jql=jql)


def test_a_filter_may_hold_anything_in_quotes() -> None:
    told = 'summary ~ "order by ) (" AND (labels = x OR labels = y)'
    assert JiraConfig(base_url="https://x.atlassian.net", jql=told).jql == told


def test_cloud_is_known_by_its_address() -> None:
    assert JiraConfig(base_url="https://x.atlassian.net").is_cloud
    assert not JiraConfig(base_url="https://jira.example.org").is_cloud
    assert JiraConfig(base_url="https://jira.example.org", deployment="cloud").is_cloud
