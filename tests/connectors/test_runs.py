"""What a run records: its estimate, batches, checkpoint and status; and what a connector starts with."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from gristmill import app, faults
from gristmill.connectors import admin, model
from gristmill.connectors import sync as syncing
from gristmill.jobs import retry
from gristmill.settings import Settings
from gristmill.work import SyncConnector
from tests.api_calls import make_base
from tests.connectors.fakes.github import FakeGitHub
from tests.connectors.fakes.tool import SECRET, FakeTool, fake_tool_fixture
from tests.connectors.harness import ConnectorHarness
from tests.wait_until import reached, wait_until

pytestmark = pytest.mark.slow

BUDGET = 1000  # seconds


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return Settings.model_validate(
        {**settings.model_dump(), "allow_private_addresses": True, "sync_budget": BUDGET}
    )


tool = fake_tool_fixture(FakeGitHub)


async def test_a_run_knows_from_its_start_about_how_many_documents_there_are(
    harness: ConnectorHarness,
) -> None:
    """S2-07."""
    with faults.watch("sync.before_commit", hold=True) as first_batch:
        run = await harness.start()
        await reached(first_batch)
        started_run = await harness.reload_run(run)
        assert started_run.documents_processed == 0
        assert started_run.total_items is not None
        assert 1 <= started_run.total_items <= len(harness.tool.expected_documents())
    await harness.wait_until_ended(run)


async def test_a_run_stops_at_90_percent_of_its_time_and_is_partial_until_it_continues(
    harness: ConnectorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S2-14, S2-15: a batch that ends at 89 % is followed by another, one that ends at 91 % is not."""
    seconds = iter([0.0, 0.89 * BUDGET, 0.91 * BUDGET])
    monkeypatch.setattr(
        syncing, "time", SimpleNamespace(monotonic=lambda: next(seconds, 0.91 * BUDGET)), raising=True
    )
    with faults.watch("sync.opened", hold=True) as opened, faults.watch("sync.saved") as saved:
        run = await harness.start()
        await reached(opened)
        opened.hold.set()
        opened.hold.clear()

        async def is_opened_again() -> bool:
            return opened.count == 2

        await wait_until(is_opened_again)
        partial_run = await harness.reload_run(run)
        assert (partial_run.status, partial_run.continuations, saved.count) == ("partial", 1, 2)
        assert partial_run.completed_at is None
    ended_run = await harness.wait_until_ended(run)
    assert (ended_run.status, ended_run.continuations) == ("success", 1)
    await harness.assert_matches_tool()


def test_minutes_of_an_outage_do_not_end_a_run() -> None:
    """The next one by schedule may be six hours away."""
    waits = [retry.backoff(attempt, jitter=0.5) for attempt in range(1, SyncConnector.attempts)]
    assert sum(waits, timedelta()) > timedelta(minutes=4)


def test_a_run_is_continued_at_most_50_times() -> None:
    """S2-15."""
    assert syncing.MAX_CONTINUATIONS == 50


async def test_a_run_counts_its_batches_and_keeps_its_log_and_checkpoint(harness: ConnectorHarness) -> None:
    """S2-34, S2-13: the checkpoint is the one that the next run starts from."""
    with faults.watch("sync.saved") as saved:
        run = await harness.sync()
    assert 2 <= run.total_batches <= saved.count
    documents = len(harness.tool.expected_documents())
    assert (run.documents_processed, run.documents_ingested, run.item_errors) == (documents, documents, 0)
    assert run.total_items == documents
    assert f"{documents} read" in await harness.log_text(run)
    streams = await harness.fetch("select scope, kind, checkpoint from connector_stream order by 1, 2")
    ((checkpoint,),) = await harness.fetch("select checkpoint from connector_run")
    assert [(mark["scope"], mark["kind"], mark["mark"]) for mark in checkpoint] == streams
    assert any(mark for _, _, mark in streams)


async def test_runs_are_deleted_with_their_connector(harness: ConnectorHarness) -> None:
    """S2-34."""
    await harness.sync()
    await admin.delete(harness.mill.db, harness.connector.id, "detach")
    assert await harness.fetch("select 1 from connector_run union all select 1 from connector_run_line") == []


async def test_a_later_batch_replaces_the_checkpoint(harness: ConnectorHarness, tool: FakeGitHub) -> None:
    """S2-13: saved with each batch, so that the next run does not read the same again."""
    await harness.sync()
    before = await harness.fetch("select checkpoint from connector_stream order by scope, kind")
    for pick in range(4):
        tool.edit(pick)
        tool.advance_clock()
    await harness.sync()
    assert await harness.fetch("select checkpoint from connector_stream order by scope, kind") != before
    tool.calls.clear()
    assert (await harness.sync()).documents_processed == 0
    assert tool.detail_calls() == []


def _break_nothing(_tool: FakeGitHub) -> None:
    pass


def _add_an_empty_document(tool: FakeGitHub) -> None:
    tool.repos[1].files["docs/bad.md"] = "   \n"


def _reject_credentials(tool: FakeTool) -> None:
    tool.add_rule(lambda _: True, lambda: tool.respond({"message": "no"}, 401), times=100)


@pytest.mark.parametrize(
    ("prepare", "status"),
    [
        (_break_nothing, "success"),
        (_add_an_empty_document, "completed_with_errors"),
        (_reject_credentials, "failed"),
    ],
    ids=["success", "completed_with_errors", "failed"],
)
async def test_a_connector_shows_the_status_of_its_last_run(
    harness: ConnectorHarness, tool: FakeGitHub, prepare: Any, status: model.RunStatus
) -> None:
    """S2-18, S2-20: the same words for both."""
    prepare(tool)
    run = await harness.sync()
    assert run.status == status
    assert await harness.fetch(
        "select last_sync_status, last_sync_at = %s from connector", run.completed_at
    ) == [(status, True)]


async def test_a_cancelled_run_shows_on_its_connector(harness: ConnectorHarness) -> None:
    """S2-18, S2-20."""
    with faults.watch("sync.opened", hold=True) as opened:
        run = await harness.start()
        await reached(opened)
        await admin.cancel_sync(harness.mill.db, harness.connector.id)
    assert (await harness.wait_until_ended(run)).status == "cancelled"
    assert await harness.fetch("select last_sync_status from connector") == [("cancelled",)]


async def test_an_audience_that_is_not_complete_allows_no_one(harness: ConnectorHarness) -> None:
    """S2-28, S2-29: not even the people that are known already."""
    await harness.sync()
    for complete, allows in ((False, set[str]()), (True, {"user_email:ann@example.org", "org:*"})):
        rows = await harness.fetch(
            "update connector_audience a set complete = %s, everybody = true, emails = '{Ann@example.org}', users = '{}',"
            " groups = '{}', tool_groups = '{}' returning connector_acl(a)",
            complete,
        )
        assert rows
        assert all(set(acl) == allows for (acl,) in rows)


async def test_schedule_run_and_indexing_are_separate_durable_jobs_of_one_table(
    harness: ConnectorHarness,
) -> None:
    """S2-01, S2-02: a row of `schedule` fires the run, a job reads the tool, and one job per document indexes it."""
    assert await harness.fetch(
        "select distinct kind from schedule where kind not in ('reconcile', 'find_due') order by 1"
    ) == [
        ("sync_access",),
        ("sync_connector",),
    ]
    with faults.watch("index.opened", hold=True) as indexing:
        run = await harness.start()
        await reached(indexing)
        rows = await harness.fetch("select kind, count(*)::int from job group by 1 order by 1")
        kinds = dict(rows)
        assert kinds["sync_connector"] == 1
        assert 1 <= kinds["index_document"] <= len(harness.tool.expected_documents())
    await harness.wait_until_ended(run)

    async def is_done() -> bool:
        outcomes = await harness.fetch(
            "select kind, count(*)::int from job_history where outcome = 'done' group by 1"
        )
        expected = len(harness.tool.expected_documents())
        return dict(outcomes).get("index_document") == expected and dict(outcomes).get("sync_connector") == 1

    await wait_until(is_done)


async def test_a_new_connector_has_a_schedule_of_six_hours_and_encrypted_credentials(
    mill: app.Gristmill, http: httpx.AsyncClient, tool: FakeGitHub
) -> None:
    """S2-32."""
    base = await make_base(http)
    response = await http.post(
        "/api/connectors",
        json={
            "name": "work",
            "type": "github",
            "config": tool.config(),
            "credentials": tool.credentials(),
            "knowledgeBaseIds": [base],
        },
    )
    assert response.status_code == 201, response.text
    created = response.json()
    assert (created["type"], created["schedule"], created["enabled"]) == ("github", "0 */6 * * *", True)
    assert (created["lastSyncStatus"], created["lastSyncAt"]) == (None, None)
    async with mill.db.connection() as tx:
        cursor = await tx.execute(
            "select c.org_id, c.config, c.credentials, s.cron, mod(extract(hour from s.next_at)::int, 6),"
            " extract(minute from s.next_at)::int from connector c"
            " join schedule s on s.name = 'connector:' || c.id"
        )
        ((org, config, credentials, cron, hour, minute),) = await cursor.fetchall()
    assert org is not None
    assert config["organizations"] == tool.config()["organizations"]
    assert SECRET.encode() not in bytes(credentials)
    assert (cron, hour, minute) == ("0 */6 * * *", 0, 0)
