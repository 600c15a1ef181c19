"""Drives are read by what they report as changed: Google's changes, Graph's delta. Whatever changed, the base equals the tool."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gristmill import app, faults
from gristmill.connectors import admin, google_drive, microsoft_drives
from gristmill.connectors.port import Batch, Checkpoint, ConnectorKind, Stream
from gristmill.connectors.testing import open_temporarily
from gristmill.operations import freshness
from gristmill.operations.delete import delete
from tests.connectors.fakes.drive_model import FOLDER, READER, DriveFile, FakeDrives
from tests.connectors.fakes.drives import FakeGoogleDrive, FakeGraph
from tests.connectors.fakes.tool import FakeCall, failing, serve_fake
from tests.connectors.harness import ConnectorHarness
from tests.connectors.test_kill import ended_run
from tests.gristmill_process import environment, run_serve
from tests.sources.site import SiteRequest, SiteResponse
from tests.wait_until import reached

TOOLS: dict[str, tuple[type[FakeDrives], ConnectorKind]] = {
    "google-drive": (FakeGoogleDrive, google_drive.KIND),
    "sharepoint": (FakeGraph, microsoft_drives.KIND),
}
both_tools = pytest.mark.parametrize("name", sorted(TOOLS))
# What the engine does with the changes, whichever tool reports them.
one_tool = pytest.mark.parametrize(
    "name", ["sharepoint", pytest.param("google-drive", marks=pytest.mark.thorough)]
)
WEEK = 8 * 24 * 3600.0
GUS = "gus@example.org"


async def read_batches(
    tool: FakeDrives, kind: ConnectorKind, checkpoints: dict[Stream, Checkpoint]
) -> list[Batch]:
    """Read the tool from its checkpoints, which move on."""
    batches: list[Batch] = []
    async with open_temporarily(kind, tool.config(), tool.credentials()) as connector:
        async for batch in connector.sync(dict(checkpoints)):
            assert batch.problem is None
            batches.append(batch)
            if batch.checkpoint is not None:
                checkpoints[batch.stream] = batch.checkpoint
    return batches


def listings(tool: FakeDrives) -> list[FakeCall]:
    """The first requests of complete listings."""
    return [
        call
        for call in tool.calls
        if (call.path.endswith("/delta") and "token" not in call.params)
        or (call.path.endswith("/files") and "in parents" not in call.params["q"])
    ]


@both_tools
async def test_a_run_without_changes_costs_a_few_requests_however_many_files_there_are(name: str) -> None:
    fake, kind = TOOLS[name]
    with serve_fake(fake()) as tool:
        tool.page_size = 50
        for _ in range(400):
            tool.add()
        checkpoints: dict[Stream, Checkpoint] = {}
        await read_batches(tool, kind, checkpoints)
        assert len(tool.calls) > 12
        tool.calls.clear()
        batches = await read_batches(tool, kind, checkpoints)
        assert len(tool.calls) <= 8, [call.path for call in tool.calls]
        assert [(batch.listing, list(batch.present), batch.gone) for batch in batches] == [(None, [], [])] * 2

        # One changed file is a page of changes, and what it takes to describe that file.
        tool.edit(1)
        tool.calls.clear()
        batches = await read_batches(tool, kind, checkpoints)
        assert [len(batch.present) for batch in batches if batch.present] == [1]
        assert len(tool.calls) <= 14, [call.path for call in tool.calls]


@both_tools
@pytest.mark.slow
async def test_readers_that_are_changed_and_changed_back_around_a_refresh_are_those_of_the_tool(
    mill: app.Gristmill, name: str
) -> None:
    """What the tool says of a file, or of its whole drive, is what is known; but a refresh of permissions has seen another state
    in between."""
    fake, _ = TOOLS[name]
    with serve_fake(fake()) as tool:
        harness = await ConnectorHarness.create(mill, tool)
        guides = tool.files[f"guides-{tool.drive_ids[0]}"]
        drive_readers = tool.drives[tool.drive_ids[1]].readers
        await harness.sync()

        def share() -> None:
            guides.readers = [READER, GUS]
            drive_readers[:] = [READER, GUS]

        def take_back() -> None:
            guides.readers = None
            drive_readers[:] = [READER]

        share()
        await harness.refresh_permissions()
        assert await harness.visible_ids(GUS) == tool.visible_ids(GUS) != set()
        take_back()
        await harness.sync()
        await harness.assert_matches_tool()
        assert await harness.visible_ids(GUS) == set()

        # The run began before the refresh, and reads the files after it.
        share()
        with faults.watch("sync.saved", hold=True) as held:
            run = await harness.start()
            await reached(held)
            take_back()
            await harness.refresh_permissions()
            share()
        await harness.wait_until_ended(run)
        await harness.sync()
        await harness.assert_matches_tool()
        assert await harness.visible_ids(GUS) == tool.visible_ids(GUS) != set()


@both_tools
@pytest.mark.slow
async def test_what_lies_below_a_changed_folder_follows_it(mill: app.Gristmill, name: str) -> None:
    """The tool names the folder alone. Paths and readers of what lies in it change, and it comes and goes with it."""
    fake, _ = TOOLS[name]
    with serve_fake(fake()) as tool:
        harness = await ConnectorHarness.create(mill, tool)
        await harness.sync()
        drive = tool.drive_ids[0]
        guides, deeper = tool.files[f"guides-{drive}"], tool.files[f"deeper-{drive}"]
        content = tool.snapshot()
        shelf = DriveFile("shelf", "shelf", drive, media_type=FOLDER)

        def rename() -> None:
            guides.name = "handbook"

        def move() -> None:
            tool.files["shelf"], deeper.parent = shelf, "shelf"

        def share() -> None:
            guides.readers = [READER, GUS]

        def trash() -> None:
            guides.trashed = True

        def put_back() -> None:
            guides.trashed = False

        def remove() -> None:
            del tool.files[deeper.id]

        for act in (rename, move, share, trash, put_back, remove):
            act()
            tool.calls.clear()
            run = await harness.sync(allow_deletions=True)
            assert run.status == "success", await harness.log_text(run)
            assert listings(tool) == [], act.__name__
            await harness.assert_matches_tool()
            await assert_titles(harness, tool)

        # What was deleted is there again; then other people may read all of a drive: everything is listed.
        tool.restore(content)
        tool.drives[tool.drive_ids[1]].readers = [READER, "hal@example.org"]
        run = await harness.sync(allow_deletions=True)
        assert "the people who may see the whole drive have changed" in await harness.log_text(run)
        await harness.assert_matches_tool()
        await assert_titles(harness, tool)


async def assert_titles(harness: ConnectorHarness, tool: FakeDrives) -> None:
    """Every record has its file's path as its title."""
    rows = await harness.fetch(
        "select source_key, title from item where base_id = %s and type = 'record' and status <> 'deleting'",
        harness.base.id,
    )
    assert dict(rows) == {f"file:{file.drive}:{file.id}": tool.path_of(file) for file in tool.followed()}


@both_tools
@pytest.mark.slow
async def test_everything_is_listed_when_a_token_expires_and_once_a_week(
    mill: app.Gristmill, name: str
) -> None:
    """What the tool did not report is found by the next listing; what is gone is pruned by it."""
    fake, _ = TOOLS[name]
    with serve_fake(fake()) as tool:
        harness = await ConnectorHarness.create(mill, tool)
        await harness.sync()
        tool.log.compare(tool.files)
        tool.delete(2)
        tool.add()
        tool.log.compare(tool.files)
        tool.log.changes.clear()  # as if none of it had happened
        tool.calls.clear()
        await harness.sync()
        assert listings(tool) == []
        assert set(await harness.indexed_documents()) != set(tool.expected_documents())

        tool.log.expire_tokens()
        run = await harness.sync()
        assert "no longer accepts the position of the last run" in await harness.log_text(run)
        assert run.status == "success", await harness.log_text(run)
        await harness.assert_matches_tool()

        tool.add()
        tool.log.compare(tool.files)
        tool.log.changes.clear()
        tool.advance_clock(WEEK)
        run = await harness.sync()
        assert "the last complete listing was more than 7 days ago" in await harness.log_text(run)
        await harness.assert_matches_tool()


@both_tools
@pytest.mark.slow
async def test_what_changed_while_a_listing_was_interrupted_is_read_by_the_run_that_completes_it(
    mill: app.Gristmill, name: str
) -> None:
    """The first page is not listed again, and its files can have changed since."""
    fake, _ = TOOLS[name]
    with serve_fake(fake()) as tool:
        tool.page_size = 3
        harness = await ConnectorHarness.create(mill, tool)
        await harness.sync()
        tool.log.expire_tokens()
        tool.add_rule(is_later_page, failing(tool, 401), times=100)
        assert (await harness.sync()).status == "failed"
        tool.rules.clear()
        file = min(
            (file for file in tool.followed() if file.drive == tool.drive_ids[0]), key=lambda file: file.id
        )
        file.text, file.modified, file.version = f"text {tool.new_word()}", tool.stamp(), 2
        tool.calls.clear()
        run = await harness.sync()
        assert run.status == "success", await harness.log_text(run)
        assert any(is_later_page(call) for call in tool.calls)
        await harness.assert_matches_tool()
        streams = await harness.fetch("select listed from connector_stream")
        assert streams == [(True,)] * 2  # the permissions of all documents were read


def is_later_page(call: FakeCall) -> bool:
    """Whether a request is for a page of a complete listing after the first one."""
    is_google = call.path.endswith("/files") and "pageToken" in call.params and "!=" in call.params["q"]
    return is_google or call.params.get("token", "").startswith("l.")


@pytest.mark.slow
async def test_files_with_hidden_permissions_do_not_cost_a_listing_in_every_run(
    mill: app.Gristmill, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Google shows the permissions of a file only to accounts that may share it. A refresh of all permissions asks again."""
    with serve_fake(FakeGoogleDrive()) as tool:
        hidden = next(file for file in tool.followed() if file.drive == "my")
        show = tool.show

        def show_without_permissions(file: DriveFile) -> dict[str, Any]:
            return {
                name: value
                for name, value in show(file).items()
                if name != "permissions" or file.id != hidden.id
            }

        monkeypatch.setattr(tool, "show", show_without_permissions)
        harness = await ConnectorHarness.create(mill, tool)
        await harness.sync()
        tool.calls.clear()
        run = await harness.sync()
        assert listings(tool) == []
        assert "files with hidden permissions could not be found out" in await harness.log_text(run)

        monkeypatch.setattr(tool, "show", show)
        await harness.refresh_permissions()
        await harness.assert_matches_tool()


@one_tool
@pytest.mark.slow
async def test_what_a_mass_deletion_held_back_is_deleted_by_the_next_run_that_may(
    mill: app.Gristmill, name: str
) -> None:
    """That run reads only changes, and the tool does not report the deletions a second time."""
    fake, _ = TOOLS[name]
    with serve_fake(fake()) as tool:
        for _ in range(24):
            tool.add()
        harness = await ConnectorHarness.create(mill, tool)
        await harness.sync()
        before = set(tool.expected_documents())
        for file in tool.followed()[:24]:
            file.trashed = True
        run = await harness.sync()
        assert run.deletions_held == 24
        assert set(await harness.indexed_documents()) == before
        plan = (await harness.sync(dry_run=True)).plan
        assert plan is not None
        assert (plan["prune"], plan["held"]) == (24, True)
        run = await harness.sync(allow_deletions=True)
        assert run.documents_pruned == 24
        await harness.assert_matches_tool()


@one_tool
@pytest.mark.slow
async def test_a_deletion_that_is_taken_back_is_read_although_the_tool_reports_nothing(
    mill: app.Gristmill, name: str
) -> None:
    fake, _ = TOOLS[name]
    with serve_fake(fake()) as tool:
        harness = await ConnectorHarness.create(mill, tool)
        await harness.sync()
        ((record,),) = await harness.fetch("select id from item where type = 'record' order by id limit 1")
        await delete(mill.db, harness.base.id, [record])
        await harness.sync()
        assert len(await harness.indexed_documents()) == len(tool.expected_documents()) - 1
        await freshness.take_back(mill.db, harness.base.id, None, admin.forget_records)
        tool.calls.clear()
        await harness.sync()
        assert listings(tool) == []
        await harness.assert_matches_tool()


@one_tool
@pytest.mark.slow
async def test_a_dry_run_counts_what_is_reported(mill: app.Gristmill, name: str) -> None:
    fake, _ = TOOLS[name]
    with serve_fake(fake()) as tool:
        harness = await ConnectorHarness.create(mill, tool)
        await harness.sync()
        folder = tool.files[f"guides-{tool.drive_ids[0]}"]
        below = [file for file in tool.followed() if folder in tool.ancestors(file)]
        others = [file for file in tool.followed() if file not in below]
        folder.name = "handbook"
        others[0].trashed = True
        tool.add()
        plan = (await harness.sync(dry_run=True)).plan
        assert plan is not None
        assert (plan["add"], plan["change"], plan["prune"]) == (1, len(below), 1)


@both_tools
async def test_a_server_without_changes_is_listed_each_time(name: str) -> None:
    """As an emulator that has files, and no more."""
    fake, kind = TOOLS[name]
    with serve_fake(fake()) as tool:
        if isinstance(tool, FakeGraph):
            hide_delta_links(tool)
        else:
            tool.add_rule(lambda call: "/changes" in call.path, failing(tool, 404), times=100)
        checkpoints: dict[Stream, Checkpoint] = {}
        for _ in range(2):
            tool.calls.clear()
            batches = await read_batches(tool, kind, checkpoints)
            assert batches[-1].is_listing_complete
            assert listings(tool)


def hide_delta_links(tool: FakeGraph) -> None:
    """Leave out the link by which changes are read."""
    assert tool.site is not None

    def answer_without(request: SiteRequest) -> SiteResponse:
        response = tool.answer(request)
        return replace(response, body=response.body.replace(b"@odata.deltaLink", b"other"))

    tool.site.fallback = answer_without


@pytest.mark.crash
@one_tool
async def test_changes_survive_kills_on_either_side_of_their_checkpoint(
    database_url: str, tmp_path: Path, cache_dir: Path, quick_embedder: dict[str, str], name: str
) -> None:
    """Before it the page is read again; after it nothing names the changes once more, and they are still to do."""
    fake, _ = TOOLS[name]
    log = tmp_path / "log"
    env = environment(tmp_path / "data", cache_dir, database_url=database_url, lease="2", **quick_embedder)
    changes: dict[str, Callable[[FakeDrives], None]] = {
        "": lambda _: None,
        "sync.before_commit=kill@1": lambda tool: tool.edit(14),
        "sync.saved=kill@1": lambda tool: tool.delete(3),
        "prune.before_commit=kill@1": lambda tool: tool.add(),
    }
    with serve_fake(fake()) as tool:
        path, run_id, base_id = "", "", ""
        for point, change in changes.items():
            change(tool)
            with run_serve({**env, "GRISTMILL_FAULTS": point}, log=log) as server, server.client() as client:
                if not path:
                    base_id = client.post("/api/knowledge-bases", json={"name": "b"}).json()["id"]
                    body = {
                        "name": "c",
                        "type": tool.kind,
                        "config": tool.config(),
                        "credentials": tool.credentials(),
                        "knowledgeBaseIds": [base_id],
                        "schedule": "0 0 29 2 *",
                        "aclSchedule": "0 0 29 2 *",
                    }
                    path = f"/api/connectors/{client.post('/api/connectors', json=body).json()['id']}/sync"
                if not point or point.startswith("sync.before"):
                    run_id = client.post(path, json={}).json()["runId"]
                if not point:
                    await ended_run(client, run_id)
                else:
                    await asyncio.to_thread(server.process.wait, 60)
        with run_serve(env, log=log) as server, server.client() as client:
            assert (await ended_run(client, run_id))["status"] == "success"
            assert (await ended_run(client, client.post(path, json={}).json()["runId"]))[
                "status"
            ] == "success"
            query = f"/api/knowledge-bases/{base_id}/items?parentId=*&type=record&limit=500"
            items = {item["source"]["sourceId"]: item["title"] for item in client.get(query).json()["items"]}
        assert items == {f"file:{file.drive}:{file.id}": tool.path_of(file) for file in tool.followed()}
