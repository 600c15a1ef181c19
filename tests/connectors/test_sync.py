"""Runs: schedules, bases, permissions, deletions and secrets."""

import asyncio
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from gristmill import faults, jobs
from gristmill.connectors import admin, model
from gristmill.errors import Conflict
from gristmill.integrity.reconcile import Reconciler
from gristmill.jobs import NewJob
from gristmill.operations import bases
from gristmill.operations.delete import delete
from gristmill.operations.freshness import take_back
from gristmill.work import SyncConnector
from tests.connectors.fakes.github import FakeGitHub
from tests.connectors.fakes.tool import SECRET, FakeTool, fake_tool_fixture, rate_limited
from tests.connectors.harness import ConnectorHarness
from tests.embedding.hashed import HashedEmbedder
from tests.gristmill_process import environment, run_command
from tests.wait_until import reached, wait_until

pytestmark = pytest.mark.slow


tool = fake_tool_fixture(FakeGitHub)


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_second_sync_is_refused_while_one_is_open(harness: ConnectorHarness) -> None:
    """S2-19, S2-24."""
    with faults.watch("sync.opened", hold=True) as opened:
        run = await harness.start()
        rows = await harness.fetch("select last_sync_status from connector")
        assert rows == [("running",)]
        await reached(opened)
        with pytest.raises(Conflict) as rejection:
            await harness.start()
        assert rejection.value.code == "sync_running"
    assert (await harness.wait_until_ended(run)).status == "success"


async def test_concurrent_requests_start_one_run(harness: ConnectorHarness) -> None:
    results = await asyncio.gather(*(harness.start() for _ in range(5)), return_exceptions=True)
    (run,) = [result for result in results if not isinstance(result, BaseException)]
    assert all(isinstance(result, Conflict) for result in results if isinstance(result, BaseException))
    await harness.wait_until_ended(run)


async def test_a_schedule_runs_a_connector_once(harness: ConnectorHarness) -> None:
    """S2-03, S2-06."""
    await harness.change(schedule="* * * * *")
    await harness.fetch(
        "update schedule set next_at = clock_now() where kind = 'sync_connector' returning name"
    )

    async def ran() -> bool:
        return await harness.fetch("select 1 from connector_run where status = 'success'") != []

    await wait_until(ran)
    assert await harness.fetch("select trigger, documents_processed from connector_run") == [
        ("schedule", len(harness.tool.expected_documents()))
    ]


async def test_a_schedule_starts_no_run_while_one_is_open(harness: ConnectorHarness) -> None:
    """S2-03, S2-24: neither now nor after it."""
    await harness.change(schedule="* * * * *")
    with faults.watch("sync.opened", hold=True) as opened:
        run = await harness.start()
        await reached(opened)
        await harness.fetch(
            "update schedule set next_at = clock_now() where kind = 'sync_connector' returning name"
        )

        async def has_fired() -> bool:
            return (
                await harness.fetch(
                    "select 1 from schedule where kind = 'sync_connector' and next_at > clock_now()"
                )
                != []
            )

        await wait_until(has_fired)
        assert len(await harness.fetch("select 1 from job where kind = 'sync_connector'")) == 1
    await harness.wait_until_ended(run)
    assert await harness.fetch("select trigger from connector_run") == [("manual",)]


async def test_a_paused_connector_has_no_schedule_and_a_resumed_one_has(harness: ConnectorHarness) -> None:
    await harness.change(enabled=False)
    assert await harness.fetch("select 1 from schedule where name like 'connector:%%'") == []
    await harness.change(enabled=True)
    assert len(await harness.fetch("select 1 from schedule where name like 'connector:%%'")) == 2


async def test_an_empty_configuration_replaces_the_old_one(harness: ConnectorHarness) -> None:
    """It follows everything that has a default."""
    await harness.change(config={})
    assert harness.connector.config["baseUrl"] == "https://api.github.com"
    assert harness.connector.config["organizations"] == []


async def test_force_reads_everything_again_and_embeds_nothing(harness: ConnectorHarness) -> None:
    await harness.sync()
    harness.tool.calls.clear()
    run = await harness.sync(force=True)
    assert (run.documents_processed, run.documents_ingested) == (len(harness.tool.expected_documents()), 0)
    assert harness.tool.detail_calls()
    await harness.assert_matches_tool()


async def test_a_run_that_lost_its_job_is_ended_by_the_reconciler(harness: ConnectorHarness) -> None:
    """S2-04, S2-40, C15."""
    await harness.change(enabled=False)
    with faults.watch("sync.opened", hold=True) as opened:
        run = await harness.start()
        await reached(opened)
        await harness.fetch("delete from job where id = %s returning id", run.job_id)
        repairs = await Reconciler(harness.mill.db, harness.mill.sources.blobs, timedelta(days=30)).run_pass()
    assert repairs["connectors"] == 1
    failed_run = await harness.reload_run(run)
    assert (failed_run.status, failed_run.error_code) == ("failed", "interrupted")
    assert await harness.fetch("select last_sync_status from connector") == [("failed",)]


async def test_a_document_that_can_not_be_indexed_counts(harness: ConnectorHarness, tool: FakeGitHub) -> None:
    """S2-16, S2-17, C17: the run's outcome is read from the items."""
    tool.repos[1].files["docs/bad.md"] = "   \n"
    run = await harness.sync()
    assert (run.status, run.item_errors) == ("completed_with_errors", 1)


# ── bases ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_two_bases_are_fed_and_each_document_is_read_once(harness: ConnectorHarness) -> None:
    """S2-33."""
    second_base = await bases.create(harness.mill.db, "other", HashedEmbedder(), {})
    await harness.change(base_ids=[harness.base.id, second_base.id])
    await harness.sync()
    details = harness.tool.detail_calls()
    assert len(set(details)) == len(details)
    await harness.assert_matches_tool()
    second_harness = ConnectorHarness(harness.mill, harness.tool, second_base, harness.connector)
    await second_harness.assert_matches_tool()


async def test_a_connector_without_a_base_asks_its_tool_for_nothing(harness: ConnectorHarness) -> None:
    """Neither by schedule, nor when its last base goes in the middle of a run."""
    with faults.watch("sync.opened", hold=True) as opened:
        run = await harness.start()
        await reached(opened)
        await harness.change(base_ids=[])
    run = await harness.wait_until_ended(run)
    assert (run.status, run.error_code) == ("failed", "connector_without_base")
    harness.tool.calls.clear()
    async with harness.mill.db.transaction() as tx:
        await jobs.enqueue(tx, NewJob(SyncConnector(harness.connector.id), lane=harness.connector.lane))

    async def is_over() -> bool:
        return await harness.fetch("select 1 from job where kind = 'sync_connector'") == []

    await wait_until(is_over)
    assert harness.tool.calls == []
    assert len(await harness.fetch("select 1 from connector_run")) == 1


async def test_a_base_that_is_added_later_gets_everything(harness: ConnectorHarness) -> None:
    await harness.sync()
    second_base = await bases.create(harness.mill.db, "other", HashedEmbedder(), {})
    await harness.change(base_ids=[harness.base.id, second_base.id])
    run = await harness.sync()
    assert run.documents_ingested == 0
    await ConnectorHarness(harness.mill, harness.tool, second_base, harness.connector).assert_matches_tool()


async def test_a_base_removed_from_a_connector_is_emptied(harness: ConnectorHarness) -> None:
    await harness.sync()
    second_base = await bases.create(harness.mill.db, "other", HashedEmbedder(), {})
    await harness.change(base_ids=[second_base.id])

    async def is_empty() -> bool:
        return await harness.fetch("select 1 from item where base_id = %s", harness.base.id) == []

    await wait_until(is_empty)


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

        async def is_empty() -> bool:
            return await harness.fetch("select 1 from item union all select 1 from content") == []

        await wait_until(is_empty)
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


async def test_a_document_that_a_user_deleted_stays_deleted_until_it_is_taken_back(
    harness: ConnectorHarness,
) -> None:
    await harness.sync()
    documents = await harness.indexed_documents()
    ((record, source_id),) = await harness.fetch(
        "select id, source_key from item where type = 'record' order by id limit 1"
    )
    await delete(harness.mill.db, harness.base.id, [record])
    for pick in range(len(documents)):
        harness.tool.edit(pick)
    assert (await harness.sync()).status == "success"
    assert set(await harness.indexed_documents()) == set(documents) - {source_id}
    taken_back = await take_back(harness.mill.db, harness.base.id, None, admin.forget_records)
    assert [exclusion.source_key for exclusion in taken_back] == [source_id]
    await harness.sync()
    await harness.assert_matches_tool()


# ── permissions ──────────────────────────────────────────────────────────────────────────────────────────


async def test_a_revoked_permission_hides_documents_from_the_next_search(
    harness: ConnectorHarness, tool: FakeGitHub
) -> None:
    """S2-28, S2-29, C18; FIELD 14, 15."""
    await harness.sync()
    private = {f"issue:{issue.id}" for issue in tool.repos[0].issues}
    assert private
    assert private <= await harness.visible_ids("ann@example.org")
    assert not private & await harness.visible_ids("stranger@example.org")
    del tool.repos[0].collaborators["ann"]
    await harness.refresh_permissions()
    assert not private & await harness.visible_ids("ann@example.org")


async def test_an_account_without_an_address_sees_what_it_may_once_it_is_mapped(
    harness: ConnectorHarness, tool: FakeGitHub
) -> None:
    await harness.sync()
    private = {f"issue:{issue.id}" for issue in tool.repos[0].issues}
    assert not private & await harness.visible_ids("bob@example.org")
    await admin.map_identity(harness.mill.db, harness.connector.id, "2", "Bob@example.org")
    assert private <= await harness.visible_ids("bob@example.org")
    await admin.map_identity(harness.mill.db, harness.connector.id, "2", None)
    assert not private & await harness.visible_ids("bob@example.org")


async def test_documents_with_unresolved_permissions_are_hidden(
    harness: ConnectorHarness, tool: FakeGitHub
) -> None:
    """S2-28, S2-29, C18: an incomplete list of people allows no one."""
    await harness.sync()
    tool.repos[0].hides_collaborators = True
    await harness.refresh_permissions()
    await harness.assert_matches_tool()
    assert not await harness.visible_ids("ann@example.org") & {
        f"issue:{issue.id}" for issue in tool.repos[0].issues
    }
    tool.repos[0].hides_collaborators = False
    await harness.refresh_permissions()
    await harness.assert_matches_tool()


async def test_rejected_credentials_hide_every_document(harness: ConnectorHarness, tool: FakeGitHub) -> None:
    await harness.sync()
    tool.add_rule(lambda _: True, lambda: tool.respond({"message": "no"}, 401), times=100)
    await harness.refresh_permissions()
    assert all(document.acl == frozenset() for document in (await harness.indexed_documents()).values())
    tool.rules.clear()
    await harness.refresh_permissions()
    await harness.assert_matches_tool()


async def test_an_acl_of_the_connector_replaces_the_permissions_of_the_tool(
    harness: ConnectorHarness,
) -> None:
    """C18: an explicit list of readers takes precedence."""
    await harness.sync()
    await harness.change(acl=["org:*"], acl_given=True)
    everything = set(harness.tool.expected_documents())
    assert await harness.visible_ids("stranger@example.org") == everything
    harness.tool.add()
    await harness.sync()
    assert await harness.visible_ids("stranger@example.org") == set(harness.tool.expected_documents())
    await harness.change(acl=None, acl_given=True)
    await harness.assert_matches_tool()


# ── secrets ─────────────────────────────────────────────────────────────────────


async def test_no_secret_appears_anywhere(
    harness: ConnectorHarness, tool: FakeTool, http: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    """In no response, event, log, job, run or table, whatever the tool repeats; at rest it is encrypted."""
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
    for response in responses:
        assert SECRET not in response.text, response.url
    assert SECRET not in caplog.text
    tables = await harness.fetch(
        "select c.relname from pg_class c where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace"
    )
    for (table,) in tables:
        rows = await harness.fetch(f'select count(*) from "{table}" t where t::text like %s', f"%{SECRET}%")  # type: ignore[arg-type]
        assert rows == [(0,)], table
    ((encrypted,),) = await harness.fetch("select credentials from connector")
    assert SECRET.encode() not in bytes(encrypted)


@pytest.mark.slow
async def test_the_commands_follow_a_tool(
    tool: FakeGitHub, database_url: str, tmp_path: Path, cache_dir: Path, quick_embedder: dict[str, str]
) -> None:
    """add, change, sync --wait, list, show, pause, resume, delete; the secret comes from a file."""
    env = environment(tmp_path / "data", cache_dir, database_url=database_url, **quick_embedder)
    secret = tmp_path / "token"
    secret.write_text(SECRET)
    base_url = tool.config()["baseUrl"]

    def run(*arguments: str, code: int = 0) -> str:
        result = run_command(env, *arguments)
        assert result.returncode == code, result.stdout + result.stderr
        assert SECRET not in result.stdout + result.stderr
        return result.stdout

    # A connector that is refused leaves no base behind; one that can't connect is corrected.
    run("connector", "add", "github", "work", "--base", "taem", "--set", f"baseURL={base_url}", code=1)
    assert "taem" not in run("status")
    output = run(
        "connector", "add", "github", "work", "--base", "team", "--set", f"baseUrl={base_url}", "--set",
        "organizations=acme", "--secret", f"token=@{secret}", "--acl", "org:*",
    )  # fmt: skip
    assert "robot" in output
    assert "change work --set" in run("connector", "change", "work", "--secret", "token=wrong")
    assert "robot" in run(
        "connector", "change", "work", "--secret", f"token=@{secret}", "--schedule", "0 4 * * *"
    )
    assert '"schedule": "0 4 * * *"' in run("connector", "show", "work")
    assert f"Would add {len(tool.expected_documents())}" in run("sync", "work", "--dry-run", "--wait")
    assert f"success: {len(tool.expected_documents())} read" in run("sync", "work", "--wait")
    assert "work" in run("connector", "list")
    assert "No secret yet" in run("connector", "push", "work")
    assert "/push?token=" in run("connector", "push", "work", "--new-secret")
    assert "not mapped" in run("connector", "people", "work", "--unmapped")
    run("connector", "pause", "work")
    assert '"enabled": false' in run("connector", "show", "work")
    run("connector", "resume", "work")
    run("connector", "delete", "work", code=1)  # it has to be said what happens to its documents
    run("connector", "delete", "work", "--purge")
    run("connector", "show", "work", code=1)
