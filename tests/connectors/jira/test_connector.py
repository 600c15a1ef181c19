"""The peculiarities of Jira, from its documentation and its users, and how the connector copes with them."""

import re
from collections.abc import Callable, Generator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gristmill import app, faults
from gristmill.connectors.jira.connector import JiraConfig
from tests.connectors.fakes.jira import FakeJira, FakeJiraDataCenter
from tests.connectors.fakes.tool import FakeCall, serve_fake
from tests.connectors.harness import ConnectorHarness
from tests.wait_until import reached

pytestmark = pytest.mark.slow


@pytest.fixture
def jira() -> Generator[FakeJira]:
    with serve_fake(FakeJira()) as fake:
        assert isinstance(fake, FakeJira)
        yield fake


def change_search_pages(fake: FakeJira, change: Callable[[FakeCall, dict[str, Any]], dict[str, Any]]) -> None:
    """Change every page of a search result."""
    usual = fake.cloud_search

    def search(call: FakeCall) -> Any:
        return change(call, usual(call))

    fake.routes.insert(0, ("POST", re.compile(re.escape(f"{fake.root}/search/jql")), search))


async def test_the_removed_search_api_is_never_called(mill: app.Gristmill, jira: FakeJira) -> None:
    """It answers 410."""
    harness = await ConnectorHarness.create(mill, jira)
    assert (await harness.sync()).status == "success"
    assert not [call for call in jira.calls if call.path == f"{jira.root}/search"]


async def test_a_search_without_a_last_page_does_not_hold_up_a_run(
    mill: app.Gristmill, jira: FakeJira
) -> None:
    """`isLast` is never true, and there is always a token; pages after the end are empty."""

    def never_last(call: FakeCall, page: dict[str, Any]) -> dict[str, Any]:
        start = int(call.body.get("nextPageToken", "t0")[1:])
        return page | {"isLast": False, "nextPageToken": f"t{start + jira.page_size}"}

    change_search_pages(jira, never_last)
    harness = await ConnectorHarness.create(mill, jira)
    assert (await harness.sync()).status == "success"
    await harness.assert_matches_tool()


async def test_a_token_that_repeats_at_the_end_does_not_hold_up_a_run(
    mill: app.Gristmill, jira: FakeJira
) -> None:
    """The last page is returned again and again."""

    def repeat_last_page(call: FakeCall, page: dict[str, Any]) -> dict[str, Any]:
        if page["isLast"]:
            return page | {"isLast": False, "nextPageToken": call.body.get("nextPageToken", "t0")}
        return page

    for number, (_, issue) in enumerate(jira.all_issues()):
        issue.updated = jira.now - timedelta(minutes=number)
    change_search_pages(jira, repeat_last_page)
    harness = await ConnectorHarness.create(mill, jira)
    run = await harness.sync()
    assert run.status == "success", await harness.log_text(run)
    await harness.assert_matches_tool()


async def test_a_token_that_repeats_in_a_crowded_minute_is_reported_and_skips_nothing(
    mill: app.Gristmill, jira: FakeJira
) -> None:
    """One minute can't be read completely: the run reports it, and once it can, everything is indexed."""
    for _ in range(20):
        jira.add()
    repeats = [True]

    def repeat_first_page(call: FakeCall, page: dict[str, Any]) -> dict[str, Any]:
        return page | {"isLast": False, "nextPageToken": "t0"} if repeats[0] else page

    change_search_pages(jira, repeat_first_page)
    harness = await ConnectorHarness.create(mill, jira)
    run = await harness.sync()
    assert run.status == "completed_with_errors"
    assert "same page again" in await harness.log_text(run)
    repeats[0] = False
    assert (await harness.sync()).status == "success"
    await harness.assert_matches_tool()


@pytest.mark.parametrize(
    "zone",
    [
        "America/New_York",
        "Nowhere/Land",
        *(
            pytest.param(zone, marks=pytest.mark.thorough)
            for zone in ("Pacific/Kiritimati", "Etc/GMT+12", None)
        ),
    ],
)
async def test_queries_use_the_users_own_time_zone(mill: app.Gristmill, zone: str | None) -> None:
    """JQL compares minutes in the user's time zone. Nothing is missed, not even in an hour that the clock repeats."""
    fake = FakeJira()
    fake.shows_zone = zone is not None
    fake.shown_zone = zone
    fake.zone = zone if zone not in (None, "Nowhere/Land") else "America/New_York"
    fake.now = datetime(2026, 11, 1, 5, 20, tzinfo=UTC)  # New York puts its clock back at 6:00 UTC
    for _, issue in fake.all_issues():
        issue.updated = fake.now
    with serve_fake(fake):
        harness = await ConnectorHarness.create(mill, fake)
        assert (await harness.sync()).status == "success"
        await harness.assert_matches_tool()
        for step in range(5):
            fake.advance_clock(900)
            fake.edit(step * 7 + 5)
            fake.calls.clear()
            assert (await harness.sync()).status == "success"
            await harness.assert_matches_tool()


async def test_an_issue_that_left_the_projects_that_are_followed_is_pruned(mill: app.Gristmill) -> None:
    """A moved issue keeps its id."""

    class OneProject(FakeJira):
        def config(self) -> dict[str, Any]:
            return super().config() | {"projects": ["AB"]}

        def expected_documents(self) -> dict[str, Any]:
            own = {f"issue:{issue.id}" for issue in self.projects[0].issues}
            return {key: document for key, document in super().expected_documents().items() if key in own}

    with serve_fake(OneProject()) as fake:
        assert isinstance(fake, OneProject)
        harness = await ConnectorHarness.create(mill, fake)
        await harness.sync()
        issue = fake.projects[0].issues[0]
        fake.move(fake.projects[0], issue)
        issue.updated = fake.now
        run = await harness.sync()
        assert run.documents_pruned == 1
        await harness.assert_matches_tool()


async def test_an_issue_that_the_filter_no_longer_takes_is_pruned(
    mill: app.Gristmill, jira: FakeJira
) -> None:
    jira.labels_followed = "handbook"
    for _, issue in jira.all_issues()[:8]:
        issue.labels.append("handbook")
    harness = await ConnectorHarness.create(mill, jira)
    await harness.sync()
    await harness.assert_matches_tool()
    assert len(await harness.indexed_documents()) == 8
    _, issue = jira.all_issues()[2]
    issue.labels.clear()
    issue.updated = jira.now
    await harness.sync()
    await harness.assert_matches_tool()


@pytest.mark.parametrize("kind", [FakeJira, FakeJiraDataCenter])
async def test_attachments_are_files_below_their_issue_and_the_large_are_left_out(
    mill: app.Gristmill, kind: type[FakeJira]
) -> None:
    with serve_fake(kind()) as fake:
        assert isinstance(fake, FakeJira)
        _, issue = fake.all_issues()[0]
        issue.files = {1: b"minutes of the meeting", 2: b"x"}
        fake.route("GET", "/secure/attachment/{number}/x.txt", fake.content)
        harness = await ConnectorHarness.create(mill, fake)
        await harness.sync()
        files = "select source_key from item where type = 'file' and status <> 'deleting' order by 1"
        assert await harness.fetch(files) == [("attachment:1",), ("attachment:2",)]
        downloads = [call.path for call in fake.calls if "attachment" in call.path]
        del issue.files[2]
        issue.updated = fake.now
        await harness.sync()
        assert await harness.fetch(files) == [("attachment:1",)]
        assert [call.path for call in fake.calls if "attachment" in call.path] == downloads


async def test_a_scheme_that_can_not_be_read_hides_its_project(mill: app.Gristmill, jira: FakeJira) -> None:
    """C18: incomplete resolution hides."""
    jira.projects[1].hides_scheme = True
    harness = await ConnectorHarness.create(mill, jira)
    await harness.sync()
    await harness.assert_matches_tool()
    assert {frozenset(document.acl) for document in jira.expected_documents().values()} >= {frozenset()}


async def test_a_group_that_can_not_be_read_hides_what_it_may_see(
    mill: app.Gristmill, jira: FakeJira
) -> None:
    jira.add_rule(lambda call: call.path.endswith("/group/member"), lambda: jira.respond({}, 403), times=99)
    harness = await ConnectorHarness.create(mill, jira)
    await harness.sync()
    documents = await harness.indexed_documents()
    hidden = {f"issue:{issue.id}" for issue in jira.projects[0].issues}
    assert {key for key, document in documents.items() if not document.acl} == hidden


@pytest.mark.parametrize(
    "jql", ["project = X ORDER BY key", "a = b) OR (c = d", 'summary ~ "open', "(a = b", "order  by x"]
)
def test_a_filter_that_is_not_one_condition_is_refused(jql: str) -> None:
    with pytest.raises(ValueError, match="JQL"):
        JiraConfig(base_url="https://x.atlassian.net", jql=jql)


def test_a_filter_may_contain_anything_in_quotes() -> None:
    page = 'summary ~ "order by ) (" AND (labels = x OR labels = y)'
    assert JiraConfig(base_url="https://x.atlassian.net", jql=page).jql == page


def test_cloud_is_known_by_its_address() -> None:
    assert JiraConfig(base_url="https://x.atlassian.net").is_cloud
    assert not JiraConfig(base_url="https://jira.example.org").is_cloud
    assert JiraConfig(base_url="https://jira.example.org", deployment="cloud").is_cloud


async def test_an_issue_that_is_found_in_another_project_in_the_end_is_not_as_open_as_before(
    mill: app.Gristmill, jira: FakeJira
) -> None:
    """It was moved from a public project to a level that no other issue has, when that project had been read."""
    harness = await ConnectorHarness.create(mill, jira)
    await harness.sync()
    closed, public = jira.projects
    issue = public.issues[0]
    jira.advance_clock(600)
    closed.issues[0].updated = jira.now  # so that the changes of the project are one page
    await harness.sync()
    jira.advance_clock(600)
    with faults.watch("sync.saved", hold=True) as saved:
        run = await harness.start()
        await reached(saved)
        public.issues.remove(issue)
        closed.issues.append(issue)
        issue.level, issue.updated = 7, jira.now
    run = await harness.wait_until_ended(run)
    assert run.status == "success", await harness.log_text(run)
    assert f"issue:{issue.id}" not in await harness.visible_ids("stranger@example.org")
    await harness.assert_matches_tool()
