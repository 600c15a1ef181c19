"""Confluence's own oddities, each with what must hold here."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gristmill import app, jobs
from gristmill.connectors.confluence.connector import ConfluenceConfig
from gristmill.connectors.listing.by_minute import measure_zone
from gristmill.jobs import NewJob
from gristmill.work import SyncAccess
from tests.connectors.fakes.confluence import Content, FakeConfluence, FakeConfluenceDataCenter
from tests.connectors.fakes.tool import serve_fake
from tests.connectors.harness import ConnectorHarness
from tests.wait_until import wait_until

BOTH = pytest.mark.parametrize("kind", [FakeConfluence, FakeConfluenceDataCenter])


def family(double: FakeConfluence) -> tuple[Content, Content, Content]:
    """A page, one below it, and a comment on that one."""
    space = double.spaces[0].id
    pages = [
        Content(
            double.new_id(),
            "page",
            f"Title {double.new_word()}",
            f"Text {double.new_word()}",
            double.now,
            space,
        )
        for _ in range(2)
    ]
    double.contents += pages
    pages[1].parent = pages[0].id
    return pages[0], pages[1], double.add_comment(pages[1])


async def access(bench: ConnectorHarness) -> None:
    """Have permissions asked for, without a run."""
    async with bench.mill.db.transaction() as tx:
        await jobs.enqueue(tx, NewJob(SyncAccess(bench.connector.id), lane=bench.connector.lane))

    async def over() -> bool:
        return await bench.fetch("select 1 from job where kind = 'sync_access'") == []

    await wait_until(over)


async def test_a_restriction_of_a_page_holds_for_all_below_it_and_for_comments(mill: app.Gristmill) -> None:
    """Who sees a page must be let in by its space and by every restricted page above."""
    with serve_fake(FakeConfluence()) as double:
        assert isinstance(double, FakeConfluence)
        above, below, comment = family(double)
        above.restricted, below.restricted = ["@all", "c:3"], ["a:1", "c:3"]
        bench = await ConnectorHarness.create(mill, double)
        assert (await bench.sync()).status == "success"
        await bench.assert_matches_tool()
        acls = {key: truth.acl for key, truth in (await bench.indexed_documents()).items()}
        assert acls[f"comment:{comment.id}"] == {
            "user_email:ann@example.org"
        }  # cat is not let in by the space
        assert acls[f"page:{above.id}"] == {"user_email:ann@example.org", "user_email:bob@example.org"}


async def test_what_becomes_restricted_or_open_follows_without_a_run(mill: app.Gristmill) -> None:
    """A restriction changes no version: nothing but asking finds it."""
    with serve_fake(FakeConfluence()) as double:
        assert isinstance(double, FakeConfluence)
        above, below, _ = family(double)
        bench = await ConnectorHarness.create(mill, double)
        await bench.sync()
        above.restricted = ["b:2"]
        await access(bench)
        await bench.assert_matches_tool()
        above.restricted, below.restricted = [], ["@all"]
        await access(bench)
        await bench.assert_matches_tool()
        below.restricted = []
        await access(bench)
        await bench.assert_matches_tool()


async def test_restrictions_that_can_not_be_read_hide_the_page(mill: app.Gristmill) -> None:
    with serve_fake(FakeConfluence()) as double:
        assert isinstance(double, FakeConfluence)
        above, below, comment = family(double)
        double.add_rule(
            lambda call: call.path.endswith(f"/{above.id}/restriction/byOperation/read"),
            lambda: double.respond({}, 403),
            times=99,
        )
        bench = await ConnectorHarness.create(mill, double)
        await bench.sync()
        found = await bench.indexed_documents()
        hidden = {f"page:{above.id}", f"page:{below.id}", f"comment:{comment.id}"}
        assert {key for key, truth in found.items() if not truth.acl} == hidden


@BOTH
async def test_a_space_whose_permissions_can_not_be_read_is_hidden(
    mill: app.Gristmill, kind: type[FakeConfluence]
) -> None:
    with serve_fake(kind()) as double:
        assert isinstance(double, FakeConfluence)
        double.spaces[1].secret = True
        bench = await ConnectorHarness.create(mill, double)
        await bench.sync()
        await bench.assert_matches_tool()


@BOTH
async def test_a_page_is_read_once_for_all_that_was_attached_to_it(
    mill: app.Gristmill, kind: type[FakeConfluence]
) -> None:
    with serve_fake(kind()) as double:
        page, _, _ = family(double)
        bench = await ConnectorHarness.create(mill, double)
        assert (await bench.sync()).status == "success"
        for number in range(950, 960):
            double.advance_clock(100)
            page.files[number] = (f"words {number}".encode(), double.now)
        double.calls.clear()
        assert (await bench.sync()).status == "success"
        assert len(await bench.fetch("select 1 from item where type = 'file'")) == 10
        readings = [call for call in double.calls if double.is_detail(call) and "start" not in call.params]
        assert len(readings) == 1


@BOTH
async def test_a_page_is_read_again_for_what_is_attached_to_it(
    mill: app.Gristmill, kind: type[FakeConfluence]
) -> None:
    """An attachment doesn't change its page's version."""
    with serve_fake(kind()) as double:
        assert isinstance(double, FakeConfluence)
        page = next(one for one in double.contents if one.kind == "page")
        page.files[901] = (b"first words", double.now)
        bench = await ConnectorHarness.create(mill, double)
        run = await bench.sync()
        assert run.documents_processed == len(double.expected_documents())
        double.advance_clock(3600)
        page.files[902] = (b"more words", double.now)
        double.calls.clear()
        await bench.sync()
        files = "select source_key from item where type = 'file' and status <> 'deleting' order by 1"
        assert await bench.fetch(files) == [("attachment:att901:1",), ("attachment:att902:1",)]
        assert len(double.detail_calls()) == 1
        double.calls.clear()
        await bench.sync()
        assert double.detail_calls() == []


@BOTH
async def test_a_page_that_moves_to_another_space_keeps_its_record(
    mill: app.Gristmill, kind: type[FakeConfluence]
) -> None:
    """Moved without a new version: only the lists tell."""
    with serve_fake(kind()) as double:
        assert isinstance(double, FakeConfluence)
        bench = await ConnectorHarness.create(mill, double)
        await bench.sync()
        before = await bench.fetch("select id, source_key from item where type = 'record' order by 1")
        page = next(
            one for one in double.contents if one.kind == "blogpost" and one.space == double.spaces[0].id
        )
        page.space = double.spaces[1].id
        assert (await bench.sync()).status == "success"
        await bench.assert_matches_tool()
        assert await bench.fetch("select id, source_key from item where type = 'record' order by 1") == before


@BOTH
async def test_much_that_changed_in_the_hour_before_hides_nothing(
    mill: app.Gristmill, kind: type[FakeConfluence]
) -> None:
    """The clock is known to the hour alone: older things come first, with empty pages between them."""
    with serve_fake(kind()) as double:
        assert isinstance(double, FakeConfluence)
        for _ in range(60):
            double.add()
            double.advance_clock(40)
        bench = await ConnectorHarness.create(mill, double)
        await bench.sync()
        await bench.assert_matches_tool()


async def test_a_list_of_empty_pages_that_never_ends_does_not_hold_a_run(mill: app.Gristmill) -> None:
    """Zero results, and always a next: the same one."""
    with serve_fake(FakeConfluence()) as double:
        assert isinstance(double, FakeConfluence)
        bench = await ConnectorHarness.create(mill, double)
        path = f"/wiki/api/v2/spaces/{double.spaces[0].id}/pages"
        told: dict[str, Any] = {"results": [], "_links": {"next": f"{path}?cursor=x"}}
        double.add_rule(lambda call: call.path == path, lambda: double.respond(told), times=5000)
        run = await bench.sync()
        assert run.completed_at is not None
        double.rules.clear()
        assert (await bench.sync()).status == "success"
        await bench.assert_matches_tool()


@pytest.mark.parametrize("minutes", [-720, -570, -210, 0, 60, 330, 345, 765, 840])
async def test_the_zone_of_a_clock_that_nobody_tells_is_measured(minutes: int) -> None:
    changed = datetime(2026, 3, 1, 12, 34, 56, tzinfo=UTC)
    local = changed.replace(tzinfo=None) + timedelta(minutes=minutes)

    async def found_from(told: datetime) -> bool:
        return local >= told

    zone = await measure_zone(changed, found_from)
    assert zone.offset == timedelta(minutes=minutes)


def test_the_address_of_a_cloud_site_may_end_with_wiki() -> None:
    assert ConfluenceConfig(base_url="https://x.atlassian.net/wiki").site == "https://x.atlassian.net"
    assert ConfluenceConfig(base_url="https://example.org/wiki").site == "https://example.org/wiki"
