"""What a run does beside its tool: schedules, budgets, bases, permissions, deletions."""

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
from tests.wait_until import wait_until


@pytest.fixture
def tool() -> Generator[FakeGitHub]:
    with serve_fake(FakeGitHub()) as double:
        yield double


def vault(mill: app.Gristmill) -> Vault:
    return Vault(mill.settings.secret_key, mill.settings.data_dir)


async def change(bench: ConnectorHarness, **given: Any) -> None:
    mill = bench.mill
    bench.connector = await admin.change(
        mill.db, vault(mill), mill.connectors, bench.connector.id, ConnectorChanges(**given)
    )


async def refresh(bench: ConnectorHarness) -> None:
    """Have permissions resolved, and wait for it."""
    async with bench.mill.db.transaction() as tx:
        await jobs.enqueue(tx, NewJob(SyncAccess(bench.connector.id), lane=bench.connector.lane))

    async def over() -> bool:
        return await bench.fetch("select 1 from job where kind = 'sync_access' and state <> 'dead'") == []

    await wait_until(over)


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_second_sync_is_refused_while_one_is_open(bench: ConnectorHarness) -> None:
    """S2-19, S2-24."""
    with faults.watch("sync.opened", hold=True) as opened:
        run = await bench.start()
        rows = await bench.fetch("select last_sync_status from connector")
        assert rows == [("running",)]
        await opened.passed.wait()
        with pytest.raises(Conflict) as refused:
            await bench.start()
        assert refused.value.code == "sync_running"
    assert (await bench.wait_until_ended(run)).status == "success"


async def test_two_who_ask_at_once_get_one_run(bench: ConnectorHarness) -> None:
    asked = await asyncio.gather(*(bench.start() for _ in range(5)), return_exceptions=True)
    (run,) = [one for one in asked if not isinstance(one, BaseException)]
    assert all(isinstance(one, Conflict) for one in asked if isinstance(one, BaseException))
    await bench.wait_until_ended(run)


async def test_a_schedule_runs_a_connector_once(bench: ConnectorHarness) -> None:
    """S2-03, S2-06."""
    await change(bench, schedule="* * * * *")
    await bench.fetch(
        "update schedule set next_at = clock_now() where kind = 'sync_connector' returning name"
    )

    async def ran() -> bool:
        return await bench.fetch("select 1 from connector_run where status = 'success'") != []

    await wait_until(ran)
    assert await bench.fetch("select trigger, documents_processed from connector_run") == [
        ("schedule", len(bench.tool.expected_documents()))
    ]


async def test_a_paused_connector_has_no_schedule_and_a_resumed_one_has(bench: ConnectorHarness) -> None:
    await change(bench, enabled=False)
    assert await bench.fetch("select 1 from schedule where name like 'connector:%%'") == []
    await change(bench, enabled=True)
    assert len(await bench.fetch("select 1 from schedule where name like 'connector:%%'")) == 2


async def test_force_reads_everything_again_and_embeds_nothing(bench: ConnectorHarness) -> None:
    await bench.sync()
    bench.tool.calls.clear()
    run = await bench.sync(force=True)
    assert (run.documents_processed, run.documents_ingested) == (len(bench.tool.expected_documents()), 0)
    assert bench.tool.detail_calls()
    await bench.assert_matches_tool()


async def test_a_run_that_lost_its_job_is_ended_by_the_reconciler(bench: ConnectorHarness) -> None:
    """S2-04, S2-40, C15."""
    await change(bench, enabled=False)
    with faults.watch("sync.opened", hold=True) as opened:
        run = await bench.start()
        await opened.passed.wait()
        await bench.fetch("delete from job where id = %s returning id", run.job_id)
        found = await Reconciler(bench.mill.db, bench.mill.sources.blobs, timedelta(days=30)).run_pass()
    assert found["connectors"] == 1
    ended = await bench.reload_run(run)
    assert (ended.status, ended.error_code) == ("failed", "interrupted")
    assert await bench.fetch("select last_sync_status from connector") == [("failed",)]


async def test_a_document_that_can_not_be_indexed_counts(bench: ConnectorHarness, tool: FakeGitHub) -> None:
    """S2-17, C17: the end is read from the items."""
    tool.repos[1].files["docs/bad.md"] = "   \n"
    run = await bench.sync()
    assert (run.status, run.item_errors) == ("completed_with_errors", 1)


# ── bases ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_two_bases_are_fed_and_each_document_is_read_once(bench: ConnectorHarness) -> None:
    """S2-33."""
    other = await bases.create(bench.mill.db, "other", HashedEmbedder(), {})
    await change(bench, base_ids=[bench.base.id, other.id])
    await bench.sync()
    details = bench.tool.detail_calls()
    assert len(set(details)) == len(details)
    await bench.assert_matches_tool()
    both = ConnectorHarness(bench.mill, bench.tool, other, bench.connector)
    await both.assert_matches_tool()


async def test_a_base_that_is_added_later_gets_everything(bench: ConnectorHarness) -> None:
    await bench.sync()
    other = await bases.create(bench.mill.db, "other", HashedEmbedder(), {})
    await change(bench, base_ids=[bench.base.id, other.id])
    run = await bench.sync()
    assert run.documents_ingested == 0
    await ConnectorHarness(bench.mill, bench.tool, other, bench.connector).assert_matches_tool()


async def test_a_base_that_is_taken_away_is_emptied(bench: ConnectorHarness) -> None:
    await bench.sync()
    other = await bases.create(bench.mill.db, "other", HashedEmbedder(), {})
    await change(bench, base_ids=[other.id])

    async def empty() -> bool:
        return await bench.fetch("select 1 from item where base_id = %s", bench.base.id) == []

    await wait_until(empty)


@pytest.mark.parametrize("on_delete", ["purge", "detach"])
async def test_a_deleted_connector_takes_its_documents_along_or_leaves_them(
    bench: ConnectorHarness, on_delete: model.OnDelete
) -> None:
    """S2-35, C20."""
    await bench.sync()
    await admin.delete(bench.mill.db, bench.connector.id, on_delete)
    if on_delete == "detach":
        assert set(await bench.indexed_documents()) == set(bench.tool.expected_documents())
    else:
        assert await bench.indexed_documents() == {}

        async def empty() -> bool:
            return await bench.fetch("select 1 from item union all select 1 from content") == []

        await wait_until(empty)
    for table in ("connector", "connector_document", "connector_run", "schedule where name like 'conn%%'"):
        rows = await bench.fetch(f"select 1 from {table}")  # type: ignore[arg-type]
        assert rows == [], table


async def test_a_container_that_somebody_deleted_is_not_filled_again(bench: ConnectorHarness) -> None:
    await bench.sync()
    ((container,),) = await bench.fetch("select id from item where type = 'connector'")
    await delete(bench.mill.db, bench.base.id, [container])
    bench.tool.add()
    assert (await bench.sync()).status == "success"
    assert await bench.indexed_documents() == {}


# ── permissions ──────────────────────────────────────────────────────────────────────────────────────────


async def seen_by(bench: ConnectorHarness, email: str) -> set[str]:
    """What somebody finds."""
    words = " ".join(
        sorted(mark for truth in bench.tool.expected_documents().values() for mark in truth.words)
    )
    ask = SearchRequest(words, limit=100, mode="text", viewer=access.member(email))
    hits = await Searcher(bench.mill.db, cache_bytes=2**20).search([Target(bench.base, None)], ask)
    return {hit.source["sourceId"] for hit in hits}


async def test_a_permission_that_is_taken_away_is_gone_from_the_next_search(
    bench: ConnectorHarness, tool: FakeGitHub
) -> None:
    """S2-28, S2-29, C18; FIELD 14, 15."""
    await bench.sync()
    private = {f"issue:{issue.id}" for issue in tool.repos[0].issues}
    assert private
    assert private <= await seen_by(bench, "ann@example.org")
    assert not private & await seen_by(bench, "stranger@example.org")
    del tool.repos[0].people["ann"]
    await refresh(bench)
    assert not private & await seen_by(bench, "ann@example.org")


async def test_an_account_without_an_address_sees_what_it_may_once_it_is_mapped(
    bench: ConnectorHarness, tool: FakeGitHub
) -> None:
    await bench.sync()
    private = {f"issue:{issue.id}" for issue in tool.repos[0].issues}
    assert not private & await seen_by(bench, "bob@example.org")
    await admin.map_identity(bench.mill.db, bench.connector.id, "2", "Bob@example.org")
    assert private <= await seen_by(bench, "bob@example.org")
    await admin.map_identity(bench.mill.db, bench.connector.id, "2", None)
    assert not private & await seen_by(bench, "bob@example.org")


async def test_what_can_not_be_resolved_is_hidden(bench: ConnectorHarness, tool: FakeGitHub) -> None:
    await bench.sync()
    tool.repos[0].secret_people = True
    await refresh(bench)
    await bench.assert_matches_tool()
    assert not await seen_by(bench, "ann@example.org") & {f"issue:{one.id}" for one in tool.repos[0].issues}
    tool.repos[0].secret_people = False
    await refresh(bench)
    await bench.assert_matches_tool()


async def test_refused_credentials_close_every_list(bench: ConnectorHarness, tool: FakeGitHub) -> None:
    await bench.sync()
    tool.add_rule(lambda _: True, lambda: tool.respond({"message": "no"}, 401), times=100)
    await refresh(bench)
    assert all(truth.acl == frozenset() for truth in (await bench.indexed_documents()).values())
    tool.rules.clear()
    await refresh(bench)
    await bench.assert_matches_tool()


async def test_a_list_of_its_own_holds_for_all_of_a_connector(bench: ConnectorHarness) -> None:
    """C18: the explicit way out."""
    await bench.sync()
    await change(bench, acl=["org:*"], acl_given=True)
    everything = set(bench.tool.expected_documents())
    assert await seen_by(bench, "stranger@example.org") == everything
    bench.tool.add()
    await bench.sync()
    assert await seen_by(bench, "stranger@example.org") == set(bench.tool.expected_documents())
    await change(bench, acl=None, acl_given=True)
    await bench.assert_matches_tool()


# ── what must not be told ─────────────────────────────────────────────────────────────────────


async def test_no_secret_is_told_anywhere(
    bench: ConnectorHarness, tool: FakeTool, http: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    """In no answer, event, log, job, run or table, whatever the tool repeats; at rest it is sealed."""
    caplog.set_level("DEBUG", "gristmill")
    caplog.set_level("INFO", "httpx")
    await bench.sync()
    tool.add_rule(lambda _: True, lambda: tool.respond({"message": f"bad {SECRET}"}, 401, X_Echo=SECRET))
    await bench.sync()
    tool.add_rule(tool.is_detail, rate_limited(tool, seconds=0, status=403), times=2)
    await bench.sync(force=True)
    url = f"/api/connectors/{bench.connector.id}"
    bad = {
        "credentials": {"token": SECRET, "nothing": SECRET},
        "config": {"baseUrl": f"https://u:{SECRET}@x.org"},
    }
    told = [
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
        await http.get(f"/api/knowledge-bases/{bench.base.id}/items?parentId=*&limit=500"),
        await http.post("/api/connectors", json={"name": "x", "type": "github", "config": {}, **bad}),
    ]
    runs = (await http.get(f"{url}/runs")).json()["items"]
    told += [await http.get(f"/api/connector-runs/{run['id']}/logs") for run in runs]
    for answer in told:
        assert SECRET not in answer.text, answer.url
    assert SECRET not in caplog.text
    tables = await bench.fetch(
        "select c.relname from pg_class c where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace"
    )
    for (table,) in tables:
        rows = await bench.fetch(f'select count(*) from "{table}" t where t::text like %s', f"%{SECRET}%")  # type: ignore[arg-type]
        assert rows == [(0,)], table
    ((sealed,),) = await bench.fetch("select credentials from connector")
    assert SECRET.encode() not in bytes(sealed)


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
