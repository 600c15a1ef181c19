"""Connectors by command: who sees their documents, which bases they sync into, and whether their tool accepts them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import RunCommand
from tests.connectors.fakes.github import FakeGitHub
from tests.connectors.fakes.tool import SECRET, fake_tool_fixture

pytestmark = pytest.mark.slow
tool = fake_tool_fixture(FakeGitHub)


@pytest.fixture
def env(env: dict[str, str], quick_embedder: dict[str, str]) -> dict[str, str]:
    """The usual environment, with an embedder that responds at once."""
    return {**env, **{f"GRISTMILL_{name.upper()}": value for name, value in quick_embedder.items()}}


@pytest.fixture
def work(run: RunCommand, tool: FakeGitHub, tmp_path: Path) -> str:
    """The name of a connector to GitHub that syncs into `mill` and `farm`."""
    (tmp_path / "token").write_text(SECRET)
    added = run(
        "connector", "add", "github", "work", "--base", "mill", "--base", "farm",
        "--set", f"baseUrl={tool.config()['baseUrl']}", "--set", "organizations=acme",
        "--secret", f"token=@{tmp_path / 'token'}",
    )  # fmt: skip
    assert added.code == 0
    return "work"


def shown(run: RunCommand, name: str) -> dict[str, Any]:
    """The connector as the API has it."""
    return json.loads(run("connector", "show", name, "--json").stdout)


def test_a_connector_is_restricted_later_and_follows_the_tool_again(run: RunCommand, work: str) -> None:
    """An address and the name of a group become entries of the access list; a name that no group has is refused."""
    group = json.loads(run("group", "create", "Research", "--json").stdout)["id"]
    changed = run("connector", "change", work, "--acl", "ann@example.org", "--acl", "research")
    assert (
        changed.stdout == f"Changed work.\nIts documents are for user_email:ann@example.org, group:{group}.\n"
    )
    assert shown(run, work)["acl"] == ["user_email:ann@example.org", f"group:{group}"]
    assert run("connector", "change", work, "--acl", "Reserch").code == "group_not_found"
    assert run("connector", "change", work, "--acl", "org:*", "--tool-permissions").code == "bad_option"
    assert run("connector", "change", work).code == "nothing_to_change"
    assert shown(run, work)["acl"] == ["user_email:ann@example.org", f"group:{group}"]
    changed = run("connector", "change", work, "--tool-permissions")
    assert changed.stdout == "Changed work.\nIts documents are for those whom the tool lets see them.\n"
    assert shown(run, work)["acl"] is None
    run("connector", "change", work, "--name", "code", "--acl-schedule", "0 3 * * *", "--acl", "org:*")
    code = shown(run, "code")
    assert (code["aclSchedule"], code["acl"]) == ("0 3 * * *", ["org:*"])


def test_tool_permissions_of_a_tool_without_any_are_announced_as_everyone(run: RunCommand) -> None:
    added = run(
        "connector", "add", "feeds", "news", "--base", "mill", "--set", "feeds=http://127.0.0.1:9/feed",
        "--acl", "ann@example.org", "--acl-schedule", "0 3 * * *",
    )  # fmt: skip
    assert added.code == 0
    news = shown(run, "news")
    assert (news["acl"], news["aclSchedule"]) == (["user_email:ann@example.org"], "0 3 * * *")
    changed = run("connector", "change", "news", "--tool-permissions").stdout
    assert "Its documents are for everyone: the tool has no permissions" in changed


def test_a_base_is_left_out_only_when_it_is_said_what_happens_to_its_documents(
    run: RunCommand, work: str
) -> None:
    assert run("sync", work, "--wait").code == 0
    ids = {base["name"]: base["id"] for base in json.loads(run("base", "list", "--json").stdout)}
    everything = item_count(run, "farm")
    assert item_count(run, "mill") == everything > 5
    assert run("connector", "change", work, "--base", "mill").code == "bad_option"
    assert run("connector", "change", work, "--base", "mlil", "--purge").code == "base_not_found"
    assert run("connector", "change", work, "--base", "mill", "--no-base", "--purge").code == "bad_option"
    assert shown(run, work)["knowledgeBaseIds"] == sorted(ids.values())

    left = run("connector", "change", work, "--base", "mill", "--detach")
    assert left.stdout == "Changed work.\nIts documents in the bases that were left out stay.\n"
    assert shown(run, work)["knowledgeBaseIds"] == [ids["mill"]]
    assert item_count(run, "farm") == everything
    assert "are being deleted" in run("connector", "change", work, "--no-base", "--purge").stdout
    assert shown(run, work)["knowledgeBaseIds"] == []
    assert item_count(run, "mill") == 0

    # A base that is given back is filled again.
    assert run("connector", "change", work, "--base", "mill").stdout == "Changed work.\n"
    assert run("sync", work, "--wait").code == 0
    assert item_count(run, "mill") == everything


def item_count(run: RunCommand, base: str) -> int:
    """How many records of a base can be found."""
    items = json.loads(run("item", "list", base, "--all", "--json").stdout)
    return sum(item["type"] == "record" for item in items)


def test_a_check_reports_the_account_or_why_there_is_none(run: RunCommand, work: str) -> None:
    checked = run("connector", "check", work)
    assert (checked.code, checked.stdout.startswith("work is signed in as robot")) == (0, True)
    assert json.loads(run("connector", "check", work, "--json").stdout)["ok"]
    run("connector", "change", work, "--secret", "token=wrong")
    checked = run("connector", "check", work)
    assert checked.code == 1
    assert checked.stdout.startswith("work can't connect: ")
    assert "(connector_unauthorized)" in checked.stdout
    assert run("connector", "check", work, "--json").code == 1


def test_a_run_that_could_not_see_something_says_what_and_why(run: RunCommand, work: str) -> None:
    """S2-34: also a dry run."""
    missing = "The repository or organisation acme/nope does not exist"
    run("connector", "change", work, "--set", "repositories=acme/nope,acme/widget")
    tried = run("sync", work, "--dry-run", "--wait")
    assert ", prune 0. 1 failed.\n" in tried.stdout
    assert missing in tried.stdout
    synced = run("sync", work, "--wait")
    assert "completed_with_errors: " in synced.stdout
    assert missing in synced.stdout
    run("connector", "change", work, "--set", "repositories=acme/widget")
    assert missing not in run("sync", work, "--wait").stdout
