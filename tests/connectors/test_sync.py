"""Runs: schedules, bases, permissions, deletions and secrets."""

import asyncio
from collections.abc import Generator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from gristmill import app, faults, jobs
from gristmill.catalog import access
from gristmill.connectors import admin, model
from gristmill.connectors.model import ConnectorChanges
from gristmill.errors import Conflict
from gristmill.integrity.reconcile import Reconciler
from gristmill.jobs import NewJob
from gristmill.operations import bases
from gristmill.operations.delete import delete
from gristmill.search import Searcher, SearchRequest, Target
from gristmill.vault import Vault
from gristmill.work import SyncAccess
from tests.connectors.fakes.github import FakeGitHub
from tests.connectors.fakes.tool import SECRET, FakeTool, rate_limited, serve_fake
from tests.connectors.harness import ConnectorHarness
from tests.embedding.hashed import HashedEmbedder
from tests.gristmill_process import environment, run_command
from tests.wait_until import reached, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def tool() -> Generator[FakeGitHub]:
    with serve_fake(FakeGitHub()) as fake:
        yield fake


def vault(mill: app.Gristmill) -> Vault:
    return Vault(mill.settings.secret_key, mill.settings.data_dir)


async def change(harness: ConnectorHarness, **given: Any) -> None:
    mill = harness.mill
    harness.connector = await admin.change(
        mill.db, vault(mill), mill.connectors, harness.connector.id, ConnectorChanges(**given)
    )


async def refresh(harness: ConnectorHarness) -> None:
    """Resolve permissions, and wait for it."""
    async with harness.mill.db.transaction() as tx:
        await jobs.enqueue(tx, NewJob(SyncAccess(harness.connector.id), lane=harness.connector.lane))

    async def over() -> bool:
        return await harness.fetch("select 1 from job where kind = 'sync_access' and state <> 'dead'") == []

    await wait_until(over)


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_second_sync_is_refused_while_one_is_open(harness: ConnectorHarness) -> None:
    """S2-19, S2-24."""
    with faults.watch("sync.opened", hold=True) as opened:
        run = await harness.start()
        rows = await harness.fetch("select last_sync_status from connector")
        assert rows == [("running",)]
        await reached(opened)
        with pytest.raises(Conflict) as refused:
            await harness.start()
        assert refused.value.code == "sync_running"
    assert (await harness.wait_until_ended(run)).status == "success"


async def test_two_who_ask_at_once_get_one_run(harness: ConnectorHarness) -> None:
    asked = await asyncio.gather(*(harness.start() for _ in range(5)), return_exceptions=True)
    (run,) = [one for one in asked if not isinstance(one, BaseException)]
    assert all(isinstance(one, Conflict) for one in asked if isinstance(one, BaseException))
    await harness.wait_until_ended(run)


async def test_a_schedule_runs_a_connector_once(harness: ConnectorHarness) -> None:
    """S2-03, S2-06."""
    await change(harness, schedule="* * * * *")
    await harness.fetch(
        "update schedule set next_at = clock_now() where kind = 'sync_connector' returning name"
    )

    async def ran() -> bool:
        return await harness.fetch("select 1 from connector_run where status = 'success'") != []

    await wait_until(ran)
    assert await harness.fetch("select trigger, documents_processed from connector_run") == [
        ("schedule", len(harness.tool.expected_documents()))
    ]


async def test_a_paused_connector_has_no_schedule_and_a_resumed_one_has(harness: ConnectorHarness) -> None:
    await change(harness, enabled=False)
    assert await harness.fetch("select 1 from schedule where name like 'connector:%%'") == []
    await change(harness, enabled=True)
    assert len(await harness.fetch("select 1 from schedule where name like 'connector:%%'")) == 2


async def test_force_reads_everything_again_and_embeds_nothing(harness: ConnectorHarness) -> None:
    await harness.sync()
    harness.tool.calls.clear()
    run = await harness.sync(force=True)
    assert (run.documents_processed, run.documents_ingested) == (len(harness.tool.expected_documents()), 0)
    assert harness.tool.detail_calls()
    await harness.assert_matches_tool()


async def test_a_run_that_lost_its_job_is_ended_by_the_reconciler(harness: ConnectorHarness) -> None:
    """S2-04, S2-40, C15."""
    await change(harness, enabled=False)
    with faults.watch("sync.opened", hold=True) as opened:
        run = await harness.start()
        await reached(opened)
        await harness.fetch("delete from job where id = %s returning id", run.job_id)
        found = await Reconciler(harness.mill.db, harness.mill.sources.blobs, timedelta(days=30)).run_pass()
    assert found["connectors"] == 1
    ended = await harness.reload_run(run)
    assert (ended.status, ended.error_code) == ("failed", "interrupted")
    assert await harness.fetch("select last_sync_status from connector") == [("failed",)]


async def test_a_document_that_can_not_be_indexed_counts(harness: ConnectorHarness, tool: FakeGitHub) -> None:
    """S2-17, C17: the end is read from the items; S2-16."""
    tool.repos[1].files["docs/bad.md"] = "   \n"
    run = await harness.sync()
    assert (run.status, run.item_errors) == ("completed_with_errors", 1)


# ── bases ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_two_bases_are_fed_and_each_document_is_read_once(harness: ConnectorHarness) -> None:
    """S2-33."""
    other = await bases.create(harness.mill.db, "other", HashedEmbedder(), {})
    await change(harness, base_ids=[harness.base.id, other.id])
    await harness.sync()
    details = harness.tool.detail_calls()
    assert len(set(details)) == len(details)
    await harness.assert_matches_tool()
    both = ConnectorHarness(harness.mill, harness.tool, other, harness.connector)
    await both.assert_matches_tool()


async def test_a_base_that_is_added_later_gets_everything(harness: ConnectorHarness) -> None:
    await harness.sync()
    other = await bases.create(harness.mill.db, "other", HashedEmbedder(), {})
    await change(harness, base_ids=[harness.base.id, other.id])
    run = await harness.sync()
    assert run.documents_ingested == 0
    await ConnectorHarness(harness.mill, harness.tool, other, harness.connector).assert_matches_tool()


async def test_a_base_that_is_taken_away_is_emptied(harness: ConnectorHarness) -> None:
    await harness.sync()
    other = await bases.create(harness.mill.db, "other", HashedEmbedder(), {})
    await change(harness, base_ids=[other.id])

    async def empty() -> bool:
        return await harness.fetch("select 1 from item where base_id = %s", harness.base.id) == []

    await wait_until(empty)


@pytest.mark.parametrize("on_delete", ["purge", "detach"])
async def test_a_deleted_connector_takes_its_documents_along_or_leaves_them(
    harness: ConnectorHarness, on_delete: model.OnDelete
) -> None:
    """S2-35, C20."""
    await harness.sync()
    await admin.delete(harness.mill.db, harness.connector.id, on_delete)
    if on_delete == "detach":
        assert set(await harness.indexed_documents()) == set(harness.tool.expected_documents())
    else:
        assert await harness.indexed_documents() == {}

        async def empty() -> bool:
            return await harness.fetch("select 1 from item union all select 1 from content") == []

        await wait_until(empty)
    for table in ("connector", "connector_document", "connector_run", "schedule where name like 'conn%%'"):
        rows = await harness.fetch(f"select 1 from {table}")
        assert rows == [], table


async def test_a_container_that_a_user_deleted_is_not_filled_again(harness: ConnectorHarness) -> None:
    await harness.sync()
    ((container,),) = await harness.fetch("select id from item where type = 'connector'")
    await delete(harness.mill.db, harness.base.id, [container])
    harness.tool.add()
    assert (await harness.sync()).status == "success"
    assert await harness.indexed_documents() == {}


# ── permissions ──────────────────────────────────────────────────────────────────────────────────────────


async def seen_by(harness: ConnectorHarness, email: str) -> set[str]:
    """What a user finds."""
    words = " ".join(
        sorted(mark for truth in harness.tool.expected_documents().values() for mark in truth.words)
    )
    ask = SearchRequest(words, limit=100, mode="text", viewer=access.member(email))
    hits = await Searcher(harness.mill.db, cache_bytes=2**20).search([Target(harness.base, None)], ask)
    return {hit.source["sourceId"] for hit in hits}


async def test_a_permission_that_is_taken_away_is_gone_from_the_next_search(
    harness: ConnectorHarness, tool: FakeGitHub
) -> None:
    """S2-28, S2-29, C18; FIELD 14, 15."""
    await harness.sync()
    private = {f"issue:{issue.id}" for issue in tool.repos[0].issues}
    assert private
    assert private <= await seen_by(harness, "ann@example.org")
    assert not private & await seen_by(harness, "stranger@example.org")
    del tool.repos[0].people["ann"]
    await refresh(harness)
    assert not private & await seen_by(harness, "ann@example.org")


async def test_an_account_without_an_address_sees_what_it_may_once_it_is_mapped(
    harness: ConnectorHarness, tool: FakeGitHub
) -> None:
    await harness.sync()
    private = {f"issue:{issue.id}" for issue in tool.repos[0].issues}
    assert not private & await seen_by(harness, "bob@example.org")
    await admin.map_identity(harness.mill.db, harness.connector.id, "2", "Bob@example.org")
    assert private <= await seen_by(harness, "bob@example.org")
    await admin.map_identity(harness.mill.db, harness.connector.id, "2", None)
    assert not private & await seen_by(harness, "bob@example.org")


async def test_what_can_not_be_resolved_is_hidden(harness: ConnectorHarness, tool: FakeGitHub) -> None:
    """S2-28, S2-29, C18: an incomplete list of people allows no one."""
    await harness.sync()
    tool.repos[0].secret_people = True
    await refresh(harness)
    await harness.assert_matches_tool()
    assert not await seen_by(harness, "ann@example.org") & {f"issue:{one.id}" for one in tool.repos[0].issues}
    tool.repos[0].secret_people = False
    await refresh(harness)
    await harness.assert_matches_tool()


async def test_refused_credentials_close_every_list(harness: ConnectorHarness, tool: FakeGitHub) -> None:
    await harness.sync()
    tool.add_rule(lambda _: True, lambda: tool.respond({"message": "no"}, 401), times=100)
    await refresh(harness)
    assert all(truth.acl == frozenset() for truth in (await harness.indexed_documents()).values())
    tool.rules.clear()
    await refresh(harness)
    await harness.assert_matches_tool()


async def test_a_list_of_its_own_holds_for_all_of_a_connector(harness: ConnectorHarness) -> None:
    """C18: the explicit way out."""
    await harness.sync()
    await change(harness, acl=["org:*"], acl_given=True)
    everything = set(harness.tool.expected_documents())
    assert await seen_by(harness, "stranger@example.org") == everything
    harness.tool.add()
    await harness.sync()
    assert await seen_by(harness, "stranger@example.org") == set(harness.tool.expected_documents())
    await change(harness, acl=None, acl_given=True)
    await harness.assert_matches_tool()


# ── secrets ─────────────────────────────────────────────────────────────────────


async def test_no_secret_appears_anywhere(
    harness: ConnectorHarness, tool: FakeTool, http: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    """In no answer, event, log, job, run or table, whatever the tool repeats; at rest it is sealed."""
    caplog.set_level("DEBUG", "gristmill")
    caplog.set_level("INFO", "httpx")
    await harness.sync()
    tool.add_rule(lambda _: True, lambda: tool.respond({"message": f"bad {SECRET}"}, 401, X_Echo=SECRET))
    await harness.sync()
    tool.add_rule(tool.is_detail, rate_limited(tool, seconds=0, status=403), times=2)
    await harness.sync(force=True)
    url = f"/api/connectors/{harness.connector.id}"
    bad = {
        "credentials": {"token": SECRET, "nothing": SECRET},
        "config": {"baseUrl": f"https://u:{SECRET}@x.org"},
    }
    responses = [
        await http.get("/api/connectors"),
        await http.get(url),
        await http.post(f"{url}/check"),
        await http.patch(url, json=bad),
        await http.patch(url, json={"credentials": {"token": [SECRET]}}),
        await http.get(f"{url}/runs"),
        await http.get(f"{url}/failures"),
        await http.get(f"{url}/identities"),
        await http.get("/api/events?limit=500"),
        await http.get("/api/jobs?limit=500"),
        await http.get(f"/api/knowledge-bases/{harness.base.id}/items?parentId=*&limit=500"),
        await http.post("/api/connectors", json={"name": "x", "type": "github", "config": {}, **bad}),
    ]
    runs = (await http.get(f"{url}/runs")).json()["items"]
    responses += [await http.get(f"/api/connector-runs/{run['id']}/logs") for run in runs]
    for answer in responses:
        assert SECRET not in answer.text, answer.url
    assert SECRET not in caplog.text
    tables = await harness.fetch(
        "select c.relname from pg_class c where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace"
    )
    for (table,) in tables:
        rows = await harness.fetch(f'select count(*) from "{table}" t where t::text like %s', f"%{SECRET}%")  # type: ignore[arg-type]
        assert rows == [(0,)], table
    ((sealed,),) = await harness.fetch("select credentials from connector")
    assert SECRET.encode() not in bytes(sealed)


@pytest.mark.slow
async def test_the_commands_follow_a_tool(
    tool: FakeGitHub, database_url: str, tmp_path: Path, cache_dir: Path
) -> None:
    """add, sync --wait, list, show, pause, resume, delete; the secret comes from a file."""
    given = {"database_url": database_url, "allow_private_addresses": "true"}
    env = environment(tmp_path / "data", cache_dir, **given)
    secret = tmp_path / "token"
    secret.write_text(SECRET)
    base_url = tool.config()["baseUrl"]

    def run(*arguments: str, code: int = 0) -> str:
        done = run_command(env, *arguments)
        assert done.returncode == code, done.stdout + done.stderr
        assert SECRET not in done.stdout + done.stderr
        return done.stdout

    added = run(
        "connector", "add", "github", "work", "--base", "team", "--set", f"baseUrl={base_url}", "--set",
        "organizations=acme", "--secret", f"token=@{secret}", "--acl", "org:*",
    )  # fmt: skip
    assert "robot" in added
    assert f"Would add {len(tool.expected_documents())}" in run("sync", "work", "--dry-run", "--wait")
    assert f"success: {len(tool.expected_documents())} read" in run("sync", "work", "--wait")
    assert "work" in run("connector", "list")
    run("connector", "pause", "work")
    assert '"enabled": false' in run("connector", "show", "work")
    run("connector", "resume", "work")
    run("connector", "delete", "work", "--purge")
    run("connector", "show", "work", code=1)
