"""What GitHub refuses, hides or ignores: said in the run, and nothing is lost."""

import base64
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from gristmill.cli.client_session import Refused
from gristmill.cli.connector_admin import parse_credentials, parse_settings
from gristmill.connectors import sync, transport
from gristmill.connectors.github.api import decode_blob
from gristmill.connectors.registry import KINDS
from gristmill.connectors.testing import open_temporarily
from gristmill.errors import Permanent
from gristmill.net import retry_after
from tests.connectors.fakes.github import FakeGitHub
from tests.connectors.fakes.github_model import Repo
from tests.connectors.fakes.tool import FakeCall, failing, fake_tool_fixture, serve_fake
from tests.connectors.harness import ConnectorHarness
from tests.wait_until import wait_until

tool = fake_tool_fixture(FakeGitHub)


def is_graphql(call: FakeCall) -> bool:
    return call.path == "/graphql"


@pytest.mark.slow
async def test_a_rate_limit_inside_a_graphql_response_is_waited_for(
    harness: ConnectorHarness, tool: FakeGitHub
) -> None:
    """S2-22. The status is 200, and the data is null: nothing is gone, and no position moves past it."""
    limited = {"data": {"repository": None}, "errors": [{"type": "RATE_LIMITED", "message": "slow down"}]}
    tool.add_rule(is_graphql, lambda: tool.respond(limited, 200, Retry_After="30"))
    started = await harness.start()

    async def is_limited() -> bool:
        rows = await harness.fetch("select 1 from job where id = %s and state = 'delayed'", started.job_id)
        return rows != []

    await wait_until(is_limited)
    await harness.run_delayed_jobs()
    run = await harness.wait_until_ended(started)
    assert run.status == "success", await harness.log_text(run)
    assert "GraphQL API is rate limited" in await harness.log_text(run)
    await harness.assert_matches_tool()


@pytest.mark.slow
@pytest.mark.parametrize("status", [403, 500])
async def test_a_tool_that_refuses_to_count_is_read_all_the_same(
    harness: ConnectorHarness, tool: FakeGitHub, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "_MAX_DELAY", 0.0)
    tool.add_rule(lambda call: call.params.get("per_page") == "1", failing(tool, status), times=10**9)
    run = await harness.sync()
    assert run.status == "success", await harness.log_text(run)
    await harness.assert_matches_tool()


@pytest.mark.slow
async def test_names_that_do_not_exist_and_hidden_people_are_named(
    harness: ConnectorHarness, tool: FakeGitHub
) -> None:
    """S2-26. In the check and in each run: a typing mistake is no green run without documents."""
    hidden = next(repo for repo in tool.repos if repo.private)
    hidden.hides_collaborators = True
    await harness.change(config={**tool.config(), "repositories": ["acme/typo"]})
    run = await harness.sync()
    log = await harness.log_text(run)
    assert run.status == "completed_with_errors"
    assert "acme/typo does not exist" in log
    assert f"the group {hidden.name} (collaborators) could not be found out" in log
    with pytest.raises(Permanent, match="acme/typo"):
        await harness.mill.connectors.check_new(
            tool.kind, {**tool.config(), "repositories": ["acme/typo"]}, json.dumps(tool.credentials())
        )


@pytest.mark.slow
async def test_a_repository_that_is_refused_keeps_no_other_from_being_followed(
    harness: ConnectorHarness, tool: FakeGitHub
) -> None:
    """An organisation may want a sign-on for its own, and a repository can be blocked: status 403 and 451."""
    for name, status in (("sealed", 403), ("blocked", 451)):
        path = f"/repos/acme/{name}"
        tool.add_rule(lambda call, path=path: call.path == path, failing(tool, status), times=99)
    config = {**tool.config(), "repositories": ["acme/sealed", "acme/blocked"]}
    await harness.change(config=config)
    run = await harness.sync()
    log = await harness.log_text(run)
    assert run.status == "completed_with_errors"
    assert "acme/sealed can't be read: These credentials can't read" in log
    assert "acme/blocked can't be read" in log
    assert "status 451" in log
    await harness.assert_matches_tool()
    private = next(repo for repo in tool.repos if repo.private)
    private.collaborators.popitem()
    await harness.refresh_permissions()
    await harness.assert_matches_tool()
    with pytest.raises(Permanent, match="acme/sealed"):
        await harness.mill.connectors.check_new(tool.kind, config, json.dumps(tool.credentials()))
    config = {**tool.config(), "organizations": [], "repositories": ["acme/sealed"]}
    with pytest.raises(Permanent) as refusal:  # all of them: it is not about one name
        await harness.mill.connectors.check_new(tool.kind, config, json.dumps(tool.credentials()))
    assert refusal.value.code == "connector_forbidden"


@pytest.mark.slow
async def test_a_server_that_ignores_the_time_filter_ends_the_stream_with_a_problem(
    harness: ConnectorHarness, tool: FakeGitHub
) -> None:
    for _ in range(12):
        tool.add()
        tool.advance_clock(600)
    assert (await harness.sync()).status == "success"
    tool.ignores_since = True
    run = await harness.sync()
    assert run.status == "completed_with_errors"
    assert "ignores the filter" in await harness.log_text(run)


def test_a_wait_can_be_a_fraction_of_a_second() -> None:
    for value, seconds in (("1.0", 1), ("2", 2), ("0.5", 0.5)):
        assert retry_after(httpx.Headers({"Retry-After": value})) == timedelta(seconds=seconds)


def test_values_of_a_list_can_be_separated_by_commas() -> None:
    lists = {"properties": {name: {"type": "array"} for name in ("spaces", "files")}}
    assert parse_settings(["spaces=2024.10", "spaces=1e3", 'spaces="HR"'], lists) == {
        "spaces": ["2024.10", "1e3", "HR"]
    }
    assert parse_settings(["spaces=HR, DEV", "spaces=OPS", 'files=["a,b"]', "comments=false"], lists) == {
        "spaces": ["HR", "DEV", "OPS"],
        "files": ["a,b"],
        "comments": False,
    }


def test_a_setting_that_may_be_absent_can_look_like_a_number() -> None:
    schema = KINDS["git"].json_schemas()[0]
    assert parse_settings(["branch=2024", "fileUrl=null"], schema) == {"branch": "2024", "fileUrl": None}
    assert parse_settings(['branch="2024"'], schema) == {"branch": "2024"}


def test_a_file_with_a_secret_is_text_with_or_without_a_mark_of_its_encoding(tmp_path: Path) -> None:
    file = tmp_path / "token.txt"
    file.write_bytes("\ufeffghp_x\n".encode())
    assert parse_credentials([f"token=@{file}"]) == {"token": "ghp_x"}
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Refused, match="not a text in UTF-8"):
        parse_credentials([f"token=@{file}"])


def test_a_blob_that_came_as_json_is_decoded() -> None:
    body = json.dumps({"sha": "abc", "encoding": "base64", "content": base64.b64encode(b"# Title").decode()})
    assert decode_blob(body, "abc") == "# Title"
    assert decode_blob("{not json: abc", "abc") == "{not json: abc"


@pytest.mark.slow
async def test_a_changed_file_that_is_not_returned_for_a_moment_is_read_by_the_next_run(
    harness: ConnectorHarness, tool: FakeGitHub
) -> None:
    """The tree names it, and no later comparison of trees would."""
    await harness.sync()
    tool.repos[0].files["README.md"] = f"# Readme {tool.new_word()}"
    tool.add_rule(lambda call: "/git/blobs/" in call.path, failing(tool, 404))
    run = await harness.sync()
    assert (run.status, run.item_errors) == ("completed_with_errors", 1)
    assert (await harness.sync()).status == "success"
    await harness.assert_matches_tool()


@pytest.mark.slow
async def test_documents_that_always_fail_do_not_keep_others_from_being_tried_again(
    harness: ConnectorHarness, tool: FakeGitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run tries some of them again: in turn, not always the same."""
    monkeypatch.setattr(sync, "MAX_RETRIED_FAILURES", 1)
    repo = tool.repos[0]
    first, second = sorted(repo.issues, key=lambda issue: f"issue:{issue.id}")[:2]
    for issue, times in ((first, 10**9), (second, 1)):
        path = f"/repos/{repo.name}/issues/{issue.number}/comments"
        tool.add_rule(lambda call, path=path: call.path == path, failing(tool, 403), times=times)
    for failures in (2, 1, 0):
        run = await harness.sync()
        assert run.item_errors == failures, await harness.log_text(run)
    assert f"issue:{second.id}" in await harness.indexed_documents()


@pytest.mark.parametrize(
    ("absent", "is_public"),
    [({"visibility"}, True), ({"private"}, True), ({"private", "visibility"}, False)],
    ids=["visibility", "private", "both"],
)
async def test_a_repository_is_public_only_if_github_says_so(absent: set[str], is_public: bool) -> None:
    class FakeTerseGitHub(FakeGitHub):
        def _repo_json(self, repo: Repo) -> dict[str, Any]:
            return {name: value for name, value in super()._repo_json(repo).items() if name not in absent}

    with serve_fake(FakeTerseGitHub()) as fake:
        public_scopes = {f"repository:{repo.id}" for repo in fake.repos if not repo.private}
        async with open_temporarily(KINDS["github"], fake.config(), fake.credentials()) as connector:
            updates = [
                update
                async for update in connector.resolve_access([f"repository:{repo.id}" for repo in fake.repos])
            ]
        opened = {audience.key for update in updates for audience in update.audiences if audience.everybody}
        assert opened == (public_scopes if is_public else set())
