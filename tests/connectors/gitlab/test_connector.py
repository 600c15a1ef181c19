"""The peculiarities of GitLab: lists without totals, internal notes, inherited members."""

from typing import Any

import pytest

from tests.connectors.fakes.gitlab import GUEST, REPORTER, FakeGitLab
from tests.connectors.fakes.tool import FakeCall, failing, fake_tool_fixture
from tests.connectors.harness import ConnectorHarness

pytestmark = pytest.mark.slow


tool = fake_tool_fixture(FakeGitLab)


async def test_internal_notes_are_for_reporters_and_the_issue_for_all_members(
    harness: ConnectorHarness, tool: FakeGitLab
) -> None:
    project = tool.projects[0]
    issue = tool.add_work_item(project.issues)
    tool.edit(0)
    issue.notes.append(tool._new_comment(internal=True))  # pyright: ignore[reportPrivateUsage]
    await harness.sync()
    await harness.assert_matches_tool()
    guest, owner = (
        await harness.visible_ids("guest@example.org"),
        await harness.visible_ids("ann@example.org"),
    )
    assert f"issue:{issue.id}" in guest
    assert f"issue:{issue.id}:internal" not in guest
    assert f"issue:{issue.id}:internal" in owner
    issue.notes.pop()
    issue.updated = tool.now
    await harness.sync()
    await harness.assert_matches_tool()


async def test_internal_notes_survive_a_run_that_may_not_read_notes(
    harness: ConnectorHarness, tool: FakeGitLab
) -> None:
    """Known ones are not pruned meanwhile, and new ones come once notes can be read again."""
    known, new = (tool.add_work_item(tool.projects[0].issues) for _ in range(2))
    known.notes = [tool._new_comment(internal=True)]  # pyright: ignore[reportPrivateUsage]
    await harness.sync()
    new.notes = [tool._new_comment(internal=True)]  # pyright: ignore[reportPrivateUsage]
    tool.advance_clock(100)
    known.updated = new.updated = tool.now
    tool.add_rule(lambda call: call.path.endswith("/notes"), failing(tool, 403), times=1000)
    run = await harness.sync()
    assert (run.status, run.documents_pruned) == ("completed_with_errors", 0)
    assert f"issue:{known.id}:internal" in await harness.indexed_documents()
    tool.rules.clear()
    run = await harness.sync()
    assert run.status == "success", await harness.log_text(run)
    await harness.assert_matches_tool()


async def test_a_confidential_issue_is_hidden_from_guests_in_public_projects_too(
    harness: ConnectorHarness, tool: FakeGitLab
) -> None:
    issue = tool.add_work_item(tool.projects[1].issues, confidential=True)
    await harness.sync()
    assert f"issue:{issue.id}" not in await harness.visible_ids("stranger@example.org")
    assert f"issue:{issue.id}" in await harness.visible_ids("ann@example.org")
    issue.confidential, issue.updated = False, tool.now
    await harness.sync()
    assert f"issue:{issue.id}" in await harness.visible_ids("stranger@example.org")


async def test_members_of_parent_groups_see_code_by_their_access_level(
    harness: ConnectorHarness, tool: FakeGitLab
) -> None:
    """`members/all` returns both; code is for reporters and up."""
    tool.projects[0].members = {1: REPORTER, 4: GUEST}
    await harness.sync()
    await harness.assert_matches_tool()
    files = {f"file:{tool.projects[0].id}:README.md"}
    assert files <= await harness.visible_ids("ann@example.org")
    assert not files & await harness.visible_ids("guest@example.org")


async def test_lists_of_more_than_ten_thousand_are_read_without_totals_or_deep_offsets(
    harness: ConnectorHarness, tool: FakeGitLab
) -> None:
    """GitLab returns no total then, and refuses offsets past a limit: we need neither."""
    tool.page_size = 100
    project = tool.projects[0]
    for _ in range(350):
        tool.add_work_item(project.issues).notes = []
        tool.advance_clock(1)
    list_work_items = tool._list_work_items  # pyright: ignore[reportPrivateUsage]

    def list_shallow_pages(call: Any, name: str, collection: str) -> Any:
        assert int(call.params.get("page", 1)) <= 2, "a deep offset"
        return list_work_items(call, name, collection)

    tool.routes = [
        (method, pattern, list_shallow_pages if pattern.pattern.endswith("merge_requests)") else route)
        for method, pattern, route in tool.routes
    ]
    run = await harness.sync()
    assert run.status == "success"
    assert len(await harness.indexed_documents()) == len(tool.expected_documents()) > 350
    assert not [call for call in tool.calls if "x-total" in call.headers]


async def test_a_project_is_found_under_its_new_path(harness: ConnectorHarness, tool: FakeGitLab) -> None:
    await harness.sync()
    before = await harness.indexed_documents()
    tool.projects[0].path = "acme/elsewhere/widget"
    run = await harness.sync()
    assert (run.status, run.documents_pruned) == ("success", 0)
    assert set(await harness.indexed_documents()) == set(before)


async def test_files_are_listed_from_a_server_that_has_another_address_of_itself(
    harness: ConnectorHarness, tool: FakeGitLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a proxy, its links lead elsewhere: credentials are not sent there, and it would refuse the request."""
    tool.projects[0].files |= {f"docs/{number}.md": f"# Page {tool.new_word()}" for number in range(9)}
    usual = tool.page_url

    def page_url_inside(call: FakeCall, **params: str) -> str:
        return usual(call, **params).replace("127.0.0.1", "localhost")

    monkeypatch.setattr(tool, "page_url", page_url_inside)
    run = await harness.sync()
    assert run.status == "success", await harness.log_text(run)
    await harness.assert_matches_tool()
