"""What is odd about GitLab: lists without totals, notes for fewer eyes, members by inheritance."""

from collections.abc import Generator
from typing import Any

import pytest

from tests.connectors.fakes.gitlab import GUEST, REPORTER, FakeGitLab
from tests.connectors.fakes.tool import serve_fake
from tests.connectors.harness import ConnectorHarness
from tests.connectors.test_sync import seen_by

pytestmark = pytest.mark.slow


@pytest.fixture
def tool() -> Generator[FakeGitLab]:
    with serve_fake(FakeGitLab()) as fake:
        yield fake


async def test_internal_notes_are_for_reporters_and_the_issue_for_all_members(
    harness: ConnectorHarness, tool: FakeGitLab
) -> None:
    project = tool.projects[0]
    work = tool.new_work(project.issues)
    tool.edit(0)
    work.notes.append(tool._new_comment(internal=True))  # pyright: ignore[reportPrivateUsage]
    await harness.sync()
    await harness.assert_matches_tool()
    guest, owner = await seen_by(harness, "guest@example.org"), await seen_by(harness, "ann@example.org")
    assert f"issue:{work.id}" in guest
    assert f"issue:{work.id}:internal" not in guest
    assert f"issue:{work.id}:internal" in owner
    work.notes.pop()
    work.updated = tool.now
    await harness.sync()
    await harness.assert_matches_tool()


async def test_a_confidential_issue_is_hidden_from_guests_in_public_projects_too(
    harness: ConnectorHarness, tool: FakeGitLab
) -> None:
    work = tool.new_work(tool.projects[1].issues, confidential=True)
    await harness.sync()
    assert f"issue:{work.id}" not in await seen_by(harness, "stranger@example.org")
    assert f"issue:{work.id}" in await seen_by(harness, "ann@example.org")
    work.confidential, work.updated = False, tool.now
    await harness.sync()
    assert f"issue:{work.id}" in await seen_by(harness, "stranger@example.org")


async def test_who_is_a_member_by_a_group_above_counts_and_who_is_blocked_does_not(
    harness: ConnectorHarness, tool: FakeGitLab
) -> None:
    """`members/all` returns both; code is for reporters and up."""
    tool.projects[0].members = {1: REPORTER, 4: GUEST}
    await harness.sync()
    await harness.assert_matches_tool()
    files = {f"file:{tool.projects[0].id}:README.md"}
    assert files <= await seen_by(harness, "ann@example.org")
    assert not files & await seen_by(harness, "guest@example.org")


async def test_lists_of_more_than_ten_thousand_are_read_without_totals_or_deep_offsets(
    harness: ConnectorHarness, tool: FakeGitLab
) -> None:
    """GitLab returns no total then, and refuses offsets past a limit: we need neither."""
    tool.page_size = 100
    project = tool.projects[0]
    for _ in range(350):
        tool.new_work(project.issues).notes = []
        tool.advance_clock(1)
    real = tool._works  # pyright: ignore[reportPrivateUsage]

    def shallow(call: Any, name: str, thing: str) -> Any:
        assert int(call.params.get("page", 1)) <= 2, "a deep offset"
        return real(call, name, thing)

    tool.routes = [
        (method, pattern, shallow if pattern.pattern.endswith("merge_requests)") else route)
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
