"""Pages that the entries of a feed link to: dead ones leave the entry its own text, and few of them are in memory at a time."""

from collections.abc import Callable
from typing import Any

import pytest

from gristmill.connectors import feeds, kept_pages, transport
from gristmill.connectors.kept_pages import KeptPages
from gristmill.connectors.mediawiki import KIND
from gristmill.connectors.model import ConnectorRun
from gristmill.connectors.port import Attachment, Document
from gristmill.connectors.testing import open_temporarily
from tests.connectors.fakes.pages import FakeFeed, FakeMediaWiki
from tests.connectors.fakes.tool import FakeCall, failing, fake_tool_fixture, rate_limited, serve_fake
from tests.connectors.harness import ConnectorHarness
from tests.sources.site import SiteResponse
from tests.wait_until import wait_until


class FakeBlog(FakeFeed):
    """A feed whose entries have a short text and link to pages, which have another one."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 5
        self.route("GET", "/blog.xml", self._blog)
        self.route("GET", "/page/{number}", self._page)

    def config(self) -> dict[str, Any]:
        assert self.site is not None
        return {"feeds": [f"{self.site.url}/blog.xml"], "fullText": True}

    def requested_pages(self) -> list[int]:
        """The numbers of the pages that were requested, in order."""
        paths = [call.path for call in self.calls if call.path.startswith("/page/")]
        return [int(path.removeprefix("/page/")) for path in paths]

    def break_page(self, number: int, act: Callable[[], SiteResponse], times: int = 1) -> None:
        """Let a page respond otherwise."""
        self.add_rule(lambda call: call.path == f"/page/{number}", act, times=times)

    def _blog(self, call: FakeCall) -> SiteResponse:
        assert self.site is not None
        items = "".join(
            f"<item><title>Entry</title><guid>tag:{number}</guid><link>{self.site.url}/page/{number}</link>"
            f"<description>w9{number}x summary</description></item>"
            for number in range(self.count)
        )
        if call.headers.get("if-none-match") == f'"{self.count}"':
            return SiteResponse(304)
        body = f"<rss version='2.0'><channel><title>Grain</title>{items}</channel></rss>".encode()
        return SiteResponse(200, body, {"ETag": f'"{self.count}"', "Content-Type": "application/rss+xml"})

    def _page(self, call: FakeCall, number: str) -> SiteResponse:
        del call
        return SiteResponse(
            200, f"<html><body><article><p>w1{number}x page</p></article></body></html>".encode()
        )


tool = fake_tool_fixture(FakeBlog)


async def texts(harness: ConnectorHarness) -> list[str]:
    """Which text each entry has, by its number: that of its page, or the feed's own."""
    words = [word for each in (await harness.indexed_documents()).values() for word in each.words]
    return [
        "page" if word.startswith("w1") else "own" for word in sorted(words, key=lambda word: int(word[2:-1]))
    ]


async def test_entries_whose_pages_can_not_be_read_have_the_text_of_the_feed(
    harness: ConnectorHarness, tool: FakeBlog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "_MAX_PAGE_BYTES", 1000)
    tool.count = 6
    for number, status in ((1, 404), (2, 403), (3, 401)):
        tool.break_page(number, failing(tool, status))
    tool.break_page(4, lambda: SiteResponse(200, b"x" * 2000))
    run = await harness.sync()
    assert (run.status, run.documents_ingested) == ("success", 6)
    assert await texts(harness) == ["page", "own", "own", "own", "own", "page"]
    log = await harness.log_text(run)
    assert "4 entries have the feed's own text" in log
    assert "/page/1 does not exist" in log
    assert (await harness.sync()).documents_processed == 0


async def test_a_page_that_did_not_respond_is_tried_again_by_the_next_run(
    harness: ConnectorHarness, tool: FakeBlog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the feed did not change. Three of them in a row are no outage of the feed: they may be of other hosts."""
    monkeypatch.setattr(transport, "_MAX_DELAY", 0)
    for number in (1, 2, 3):
        tool.break_page(number, failing(tool), times=8)
    for _ in range(2):
        run = await harness.sync()
        assert (run.status, run.item_errors) == ("completed_with_errors", 3), await harness.log_text(run)
        assert await texts(harness) == ["page", "own", "own", "own", "page"]
    assert (await harness.sync()).status == "success"
    assert await texts(harness) == ["page"] * 5


async def test_after_a_rate_limit_a_feed_is_read_from_where_it_was(
    harness: ConnectorHarness, tool: FakeBlog
) -> None:
    tool.count = 50
    tool.break_page(33, rate_limited(tool))
    run = await wait_for_limit(harness)
    assert len(await harness.fetch("select 1 from item where type = 'record'")) == 33
    await harness.run_delayed_jobs()
    assert (await harness.wait_until_ended(run)).status == "success"
    assert await texts(harness) == ["page"] * 50
    assert sorted(tool.requested_pages()) == sorted([*range(50), 33])


async def test_a_feed_that_changed_during_a_rate_limit_is_read_from_its_beginning(
    harness: ConnectorHarness, tool: FakeBlog
) -> None:
    tool.count = 30
    tool.break_page(25, rate_limited(tool))
    run = await wait_for_limit(harness)
    tool.count = 31
    await harness.run_delayed_jobs()
    assert (await harness.wait_until_ended(run)).status == "success"
    assert await texts(harness) == ["page"] * 31
    assert tool.requested_pages() == [*range(26), *range(31)]


async def wait_for_limit(harness: ConnectorHarness) -> ConnectorRun:
    """A new run that waits for the end of a rate limit."""
    run = await harness.start()

    async def is_waiting() -> bool:
        rows = await harness.fetch("select 1 from job where id = %s and state = 'delayed'", run.job_id)
        return rows != [] and (await harness.reload_run(run)).rate_limited_until is not None

    await wait_until(is_waiting)
    return run


# ── memory ───────────────────────────────────────────────────────────────────────────────────────────────


def test_pages_are_kept_up_to_a_limit_and_the_oldest_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_pages, "MAX_KEPT_BYTES", 10)
    pages = KeptPages()
    for key in "abc":
        pages.keep(key, b"12345")
    pages.keep("b", b"123")
    assert [pages.take(key) for key in "abcb"] == [None, b"123", b"12345", None]
    pages.keep("large", b"x" * 20)
    assert pages.take("large") == b"x" * 20
    pages.keep("d", b"1")
    pages.clear()
    assert pages.take("d") is None


async def download(connector: Any, file: Attachment) -> bytes:
    return b"".join([piece async for piece in connector.download(file)])


async def test_a_batch_of_a_feed_has_few_entries_and_nothing_of_the_last_one_is_kept(tool: FakeBlog) -> None:
    """A page that is no longer kept is read again when it is downloaded after all."""
    tool.count = 45
    async with open_temporarily(feeds.KIND, tool.config(), {}) as connector:
        documents: list[Document] = []
        sizes: list[int] = []
        async for batch in connector.sync({}):
            sizes.append(len(batch.documents))
            documents += batch.documents
        assert sizes == [20, 20, 5]
        first, last = documents[0].file, documents[-1].file
        assert first is not None
        assert last is not None
        tool.calls.clear()
        assert b"w10x page" in await download(connector, first)
        assert tool.requested_pages() == [0]
        assert b"w144x page" in await download(connector, last)
        assert tool.requested_pages() == [0, 44]


async def test_pages_of_a_wiki_that_are_not_downloaded_do_not_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a forced run, in which no page changed."""
    monkeypatch.setattr(kept_pages, "MAX_KEPT_BYTES", 1000)
    with serve_fake(FakeMediaWiki()) as wiki:
        for number in wiki.texts:
            wiki.texts[number] += "x" * 200
        async with open_temporarily(KIND, wiki.config(), {}) as connector:
            listed = [entry async for batch in connector.sync({}) for entry in batch.present]
            documents = [await connector.fetch(entry.ref) for entry in listed]
            wiki.calls.clear()
            for document, requests in ((documents[-1], 0), (documents[0], 2)):
                assert document.file is not None
                text = await download(connector, document.file)
                assert len(text) == document.file.size
                assert len(wiki.detail_calls()) == requests


async def test_of_two_entries_with_one_id_the_first_counts(harness: ConnectorHarness, tool: FakeBlog) -> None:
    """Within a batch, and beyond it."""

    def repeat_ids(call: FakeCall) -> SiteResponse:
        del call
        numbers = [1, 2, 1, *range(3, 30), 2]
        items = "".join(
            f"<item><title>Entry</title><guid>tag:{number}</guid><description>w9{place}x text</description></item>"
            for place, number in enumerate(numbers)
        )
        return SiteResponse(200, f"<rss version='2.0'><channel>{items}</channel></rss>".encode())

    tool.route("GET", "/repeated.xml", repeat_ids)
    feed = tool.config()["feeds"][0].replace("blog", "repeated")
    await harness.change(config={"feeds": [feed]})
    run = await harness.sync()
    assert (run.status, run.documents_ingested) == ("success", 29)
    words = {word for each in (await harness.indexed_documents()).values() for word in each.words}
    assert words == {f"w9{place}x" for place in range(30) if place != 2}
