"""The peculiarities of Confluence, and how the connector copes with them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gristmill import app
from gristmill.connectors.confluence.connector import ConfluenceConfig
from gristmill.connectors.listing.by_minute import measure_zone
from tests.connectors.fakes.confluence import Content, FakeConfluence, FakeConfluenceDataCenter
from tests.connectors.fakes.tool import serve_fake
from tests.connectors.harness import ConnectorHarness

pytestmark = pytest.mark.slow

BOTH = pytest.mark.parametrize("kind", [FakeConfluence, FakeConfluenceDataCenter])


def add_page_family(fake: FakeConfluence) -> tuple[Content, Content, Content]:
    """Add a page, a child page, and a comment on the child."""
    space = fake.spaces[0].id
    pages = [
        Content(
            fake.new_id(),
            "page",
            f"Title {fake.new_word()}",
            f"Text {fake.new_word()}",
            fake.now,
            space,
        )
        for _ in range(2)
    ]
    fake.contents += pages
    pages[1].parent = pages[0].id
    return pages[0], pages[1], fake.add_comment(pages[1])


async def test_a_restriction_of_a_page_holds_for_all_below_it_and_for_comments(mill: app.Gristmill) -> None:
    """A user sees a page only if its space and every restricted page above allow it."""
    with serve_fake(FakeConfluence()) as fake:
        assert isinstance(fake, FakeConfluence)
        above, below, comment = add_page_family(fake)
        above.restricted_to, below.restricted_to = ["@all", "c:3"], ["a:1", "c:3"]
        harness = await ConnectorHarness.create(mill, fake)
        assert (await harness.sync()).status == "success"
        await harness.assert_matches_tool()
        acls = {key: document.acl for key, document in (await harness.indexed_documents()).items()}
        assert acls[f"comment:{comment.id}"] == {"user_email:ann@example.org"}  # the space does not admit cat
        assert acls[f"page:{above.id}"] == {"user_email:ann@example.org", "user_email:bob@example.org"}


@BOTH
async def test_a_comment_on_an_attachment_is_visible_with_its_page(
    mill: app.Gristmill, kind: type[FakeConfluence]
) -> None:
    """Its container is the attachment, which has no restrictions of its own."""
    with serve_fake(kind()) as fake:
        fake.spaces[0].readers = ["@devs"] if fake.cloud else ["*"]
        above, below, comment = add_page_family(fake)
        above.restricted_to = ["b:2"]
        comment.on_file = fake.new_id()
        below.files[comment.on_file] = (b"words of a file", fake.now)
        harness = await ConnectorHarness.create(mill, fake)
        assert (await harness.sync()).status == "success"
        await harness.assert_matches_tool()
        above.restricted_to, below.restricted_to = [], ["a:1"]
        await harness.refresh_permissions()
        await harness.assert_matches_tool()


@BOTH
async def test_what_the_index_has_lost_is_not_pruned(mill: app.Gristmill, kind: type[FakeConfluence]) -> None:
    """While an index is rebuilt, neither the listing finds a document nor does a search for its id; what is gone is pruned."""
    with serve_fake(kind()) as fake:
        harness = await ConnectorHarness.create(mill, fake)
        await harness.sync()
        comments = [content.id for content in fake.contents if content.kind == "comment"]
        fake.contents.remove(next(content for content in fake.contents if content.id == comments[0]))
        fake.unindexed_ids = {comments[1], *([] if fake.cloud else [fake.contents[0].id])}
        run = await harness.sync()
        assert run.documents_pruned == 1, await harness.log_text(run)
        assert run.status == ("completed_with_errors" if fake.cloud else "success")
        await harness.assert_matches_tool()


async def test_changed_restrictions_apply_without_a_run(mill: app.Gristmill) -> None:
    """A restriction does not change the page's version, so only a request for restrictions finds it."""
    with serve_fake(FakeConfluence()) as fake:
        assert isinstance(fake, FakeConfluence)
        above, below, _ = add_page_family(fake)
        harness = await ConnectorHarness.create(mill, fake)
        await harness.sync()
        above.restricted_to = ["b:2"]
        await harness.refresh_permissions()
        await harness.assert_matches_tool()
        above.restricted_to, below.restricted_to = [], ["@all"]
        await harness.refresh_permissions()
        await harness.assert_matches_tool()
        below.restricted_to = []
        await harness.refresh_permissions()
        await harness.assert_matches_tool()


async def test_restrictions_that_can_not_be_read_hide_the_page(mill: app.Gristmill) -> None:
    with serve_fake(FakeConfluence()) as fake:
        assert isinstance(fake, FakeConfluence)
        above, below, comment = add_page_family(fake)
        fake.add_rule(
            lambda call: call.path.endswith(f"/{above.id}/restriction/byOperation/read"),
            lambda: fake.respond({}, 403),
            times=99,
        )
        harness = await ConnectorHarness.create(mill, fake)
        await harness.sync()
        documents = await harness.indexed_documents()
        hidden = {f"page:{above.id}", f"page:{below.id}", f"comment:{comment.id}"}
        assert {key for key, document in documents.items() if not document.acl} == hidden


@BOTH
async def test_a_space_whose_permissions_can_not_be_read_is_hidden(
    mill: app.Gristmill, kind: type[FakeConfluence]
) -> None:
    with serve_fake(kind()) as fake:
        assert isinstance(fake, FakeConfluence)
        fake.spaces[1].secret = True
        harness = await ConnectorHarness.create(mill, fake)
        await harness.sync()
        await harness.assert_matches_tool()


@BOTH
async def test_a_page_is_read_once_for_all_that_was_attached_to_it(
    mill: app.Gristmill, kind: type[FakeConfluence]
) -> None:
    with serve_fake(kind()) as fake:
        fake.has_whole_index = True
        page, _, _ = add_page_family(fake)
        harness = await ConnectorHarness.create(mill, fake)
        assert (await harness.sync()).status == "success"
        for number in range(950, 960):
            fake.advance_clock(100)
            page.files[number] = (f"words {number}".encode(), fake.now)
        fake.calls.clear()
        assert (await harness.sync()).status == "success"
        assert len(await harness.fetch("select 1 from item where type = 'file'")) == 10
        assert len(fake.reads(page)) == 1


@BOTH
async def test_a_page_is_read_again_for_what_is_attached_to_it(
    mill: app.Gristmill, kind: type[FakeConfluence]
) -> None:
    """An attachment doesn't change its page's version."""
    with serve_fake(kind()) as fake:
        assert isinstance(fake, FakeConfluence)
        fake.has_whole_index = True
        page = next(content for content in fake.contents if content.kind == "page")
        page.files[901] = (b"first words", fake.now)
        harness = await ConnectorHarness.create(mill, fake)
        run = await harness.sync()
        assert run.documents_processed == len(fake.expected_documents())
        fake.advance_clock(3600)
        page.files[902] = (b"more words", fake.now)
        fake.calls.clear()
        await harness.sync()
        files = "select source_key from item where type = 'file' and status <> 'deleting' order by 1"
        assert await harness.fetch(files) == [("attachment:att901:1",), ("attachment:att902:1",)]
        assert len(fake.reads(page)) == 1
        fake.calls.clear()
        await harness.sync()
        assert fake.reads(page) == []


@BOTH
async def test_a_page_that_moves_to_another_space_keeps_its_record(
    mill: app.Gristmill, kind: type[FakeConfluence]
) -> None:
    """A move creates no new version: only the lists show it; S2-26."""
    with serve_fake(kind()) as fake:
        assert isinstance(fake, FakeConfluence)
        harness = await ConnectorHarness.create(mill, fake)
        await harness.sync()
        before = await harness.fetch("select id, source_key from item where type = 'record' order by 1")
        page = next(
            content
            for content in fake.contents
            if content.kind == "blogpost" and content.space == fake.spaces[0].id
        )
        page.space = fake.spaces[1].id
        assert (await harness.sync()).status == "success"
        await harness.assert_matches_tool()
        assert (
            await harness.fetch("select id, source_key from item where type = 'record' order by 1") == before
        )


@BOTH
async def test_many_changes_in_the_last_hour_hide_nothing(
    mill: app.Gristmill, kind: type[FakeConfluence]
) -> None:
    """The time zone is known only to the hour: older pages come first, with empty pages between them."""
    with serve_fake(kind()) as fake:
        assert isinstance(fake, FakeConfluence)
        for _ in range(60):
            fake.add()
            fake.advance_clock(40)
        harness = await ConnectorHarness.create(mill, fake)
        await harness.sync()
        await harness.assert_matches_tool()


async def test_an_endless_list_of_empty_pages_does_not_hold_up_a_run(mill: app.Gristmill) -> None:
    """Every page has no results and the same link to a next page."""
    with serve_fake(FakeConfluence()) as fake:
        assert isinstance(fake, FakeConfluence)
        harness = await ConnectorHarness.create(mill, fake)
        path = f"/wiki/api/v2/spaces/{fake.spaces[0].id}/pages"
        page: dict[str, Any] = {"results": [], "_links": {"next": f"{path}?cursor=x"}}
        fake.add_rule(lambda call: call.path == path, lambda: fake.respond(page), times=5000)
        run = await harness.sync()
        assert run.completed_at is not None
        fake.rules.clear()
        assert (await harness.sync()).status == "success"
        await harness.assert_matches_tool()


@pytest.mark.parametrize("minutes", [-720, -570, -210, 0, 60, 330, 345, 765, 840])
async def test_an_unknown_time_zone_is_measured(minutes: int) -> None:
    changed_at = datetime(2026, 3, 1, 12, 34, 56, tzinfo=UTC)
    local = changed_at.replace(tzinfo=None) + timedelta(minutes=minutes)

    async def is_found_from(local_time: datetime) -> bool:
        return local >= local_time

    zone = await measure_zone(changed_at, is_found_from)
    assert zone.offset == timedelta(minutes=minutes)


def test_the_address_of_a_cloud_site_may_end_with_wiki() -> None:
    assert ConfluenceConfig(base_url="https://x.atlassian.net/wiki").site == "https://x.atlassian.net"
    assert ConfluenceConfig(base_url="https://example.org/wiki").site == "https://example.org/wiki"
