"""Web pages: conditional requests before they are fetched again, and originals as they were fetched."""

from collections.abc import Generator

import httpx
import pytest

from gristmill import app
from gristmill.catalog import Base, NewItem
from gristmill.operations import add, bases, delete
from gristmill.operations.source_factory import SourceFactory
from tests.operations.manual_worker import UNLIMITED, ManualWorker
from tests.sources.site import Site, SiteRequest, SiteResponse, serve
from tests.wait_until import wait_until

pytestmark = pytest.mark.slow

PAGE = (
    "<html><body><article><h1>Corn</h1><p>Emmer is sold by the sack on Tuesdays.</p></article></body></html>"
)


@pytest.fixture
def site() -> Generator[Site]:
    with serve() as server:
        yield server


class ChangingPage:
    """A page with an ETag, which its server compares."""

    def __init__(self, site: Site) -> None:
        self.body, self.mark, self.status = PAGE, '"v1"', list[int]()
        site.pages["/corn.html"] = self.answer
        self.url = f"{site.url}/corn.html"

    def answer(self, request: SiteRequest) -> SiteResponse:
        if request.method == "HEAD":
            return SiteResponse(200)
        same = request.headers.get("If-None-Match") == self.mark
        self.status.append(304 if same else 200)
        headers = {"Content-Type": "text/html", "ETag": self.mark}
        return SiteResponse(304, b"", headers) if same else SiteResponse(200, self.body.encode(), headers)


async def add_page(worker: ManualWorker, base: Base, url: str) -> None:
    new = NewItem("url", url, url, source={"url": url})
    await add.add(worker.db, base.id, [add.ItemToAdd(new, None)], UNLIMITED)
    await worker.work()


async def reindex_item(worker: ManualWorker, base: Base) -> None:
    ((item,),) = await worker.rows("select id from item")
    await worker.reindex(base, item)
    await worker.work()
    assert await worker.value("select status from item") == "completed"


async def test_a_page_that_did_not_change_is_neither_sent_nor_made_again(
    worker: ManualWorker, base: Base, site: Site
) -> None:
    pages = ChangingPage(site)
    await add_page(worker, base, pages.url)
    before = await worker.rows("select no from chunk")
    await reindex_item(worker, base)
    assert pages.status == [200, 304]
    assert await worker.rows("select no from chunk") == before
    pages.body, pages.mark = PAGE.replace("Emmer", "Spelt"), '"v2"'
    await reindex_item(worker, base)
    await reindex_item(worker, base)
    assert pages.status == [200, 304, 200, 304]
    assert "Spelt" in await worker.value("select text from chunk")
    assert await worker.value("select count(*) from blob") == 1
    await worker.assert_healthy()


async def test_a_base_with_changed_chunking_fetches_its_pages_again(
    worker: ManualWorker, base: Base, site: Site
) -> None:
    """The chunks will differ, so the server is not asked whether the page has changed."""
    pages = ChangingPage(site)
    await add_page(worker, base, pages.url)
    await bases.patch(worker.db, base.id, chunking={"maxTokens": 64})
    await reindex_item(worker, base)
    assert pages.status == [200, 200]


async def test_nothing_is_left_of_a_page_that_is_deleted(
    worker: ManualWorker, base: Base, site: Site
) -> None:
    """Promise 3."""
    await add_page(worker, base, ChangingPage(site).url)
    ((item,),) = await worker.rows("select id from item")
    await delete.delete(worker.db, base.id, [item])
    await worker.work()
    assert await worker.remaining_rows() == {}
    assert [blob async for blob in worker.originals.blobs.list()] == []
    await worker.assert_healthy()


async def test_the_original_of_a_page_is_what_was_fetched(
    http: httpx.AsyncClient, mill: app.Gristmill, site: Site
) -> None:
    """Not what its address returns now."""
    assert isinstance(mill.sources, SourceFactory)
    object.__setattr__(mill.sources, "allow_private", True)
    pages = ChangingPage(site)
    base = (await http.post("/api/knowledge-bases", json={"name": "pages"})).json()["id"]
    body = {"items": [{"type": "url", "url": pages.url}]}
    response = await http.post(f"/api/knowledge-bases/{base}/items", json=body)
    item = f"/api/knowledge-items/{response.json()['created'][0]['id']}"
    early = await http.get(f"{item}/original")

    async def is_completed() -> bool:
        return (await http.get(item)).json()["status"] == "completed"

    await wait_until(is_completed)
    pages.body = "<p>Gone.</p>"
    answer = await http.get(f"{item}/original")
    assert (answer.status_code, answer.text) == (200, PAGE)
    assert early.status_code in (200, 409)
