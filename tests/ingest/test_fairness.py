"""One base never waits for another: each case counts the order of events, not seconds."""

import threading
from collections.abc import Generator

import httpx
import pytest

from gristmill import app
from gristmill.settings import Settings
from tests.api_calls import add_items, make_base, search
from tests.readers import samples
from tests.readers.test_formats import text_image
from tests.sources.site import Site, SiteRequest, SiteResponse, serve
from tests.wait_until import wait_until

pytestmark = pytest.mark.slow

NOTE = {"type": "note", "title": "oats", "content": "Oats for the horses."}


class SlowSite:
    """A site whose pages are sent only when the test releases them."""

    def __init__(self, site: Site) -> None:
        self.url, self._released = site.url, threading.Event()
        self._pages: set[str] = set()
        site.fallback = self._respond

    @property
    def waiting(self) -> int:
        """How many pages were asked for."""
        return len(self._pages)

    def _respond(self, request: SiteRequest) -> SiteResponse:
        if request.method == "GET":
            self._pages.add(request.path)  # a page that is asked for again after a time-out counts once
            self._released.wait(120)
        body = f"<html><body><article><p>Emmer of {request.path}.</p></article></body></html>".encode()
        return SiteResponse(200, body, {"Content-Type": "text/html"})

    def release(self) -> None:
        """Send all pages."""
        self._released.set()


@pytest.fixture
def site() -> Generator[SlowSite]:
    with serve() as server:
        slow = SlowSite(server)
        yield slow
        slow.release()


@pytest.fixture
def settings(settings: Settings, request: pytest.FixtureRequest) -> Settings:
    return settings.model_copy(update={"allow_private_addresses": True, **getattr(request, "param", {})})


async def add_pages(http: httpx.AsyncClient, base: str, site: SlowSite, count: int) -> None:
    await add_items(http, base, *({"type": "url", "url": f"{site.url}/{n}"} for n in range(count)))


async def wait_until_searchable(http: httpx.AsyncClient, base: str, query: str, text: str) -> None:
    async def is_found() -> bool:
        return any(text in hit["text"] for hit in await search(http, base, query))

    await wait_until(is_found, every=0.05)


async def add_docx(http: httpx.AsyncClient, base: str, text: str) -> None:
    files = {"files": ("page.docx", samples.docx(samples.paragraph(text)), "application/octet-stream")}
    response = await http.post(f"/api/knowledge-bases/{base}/files", files=files)
    assert response.status_code == 202, response.text


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [{}, {"worker_slots": 4, "source_slots": 8}, {"global_cap": 6}, {"lane_cap": 2}],
    indirect=True,
    ids=["defaults", "few slots", "global cap", "lane cap"],
)
async def test_pages_that_never_answer_do_not_delay_another_base(
    mill: app.Gristmill, http: httpx.AsyncClient, site: SlowSite
) -> None:
    """S4-02, S4-16, S4-17, S4-18, S4-19, S4-24, S4-58, promise 6: with every page of a base still hanging, a note, a Word file and
    a page of another base are searchable. The caps are settings, and reach the workers."""
    slow, quick = await make_base(http, "slow"), await make_base(http, "quick")
    await add_pages(http, slow, site, 60)

    async def is_waiting() -> bool:
        return site.waiting >= 2

    await wait_until(is_waiting)
    await add_items(http, quick, NOTE)
    await wait_until_searchable(http, quick, "oats", "Oats for the horses.")
    await add_docx(http, quick, "Barley in the barn.")
    await wait_until_searchable(http, quick, "barley", "Barley in the barn.")
    limits = mill.settings
    max_hanging = min(
        limits.lane_cap or 48, 4 if limits.global_cap else 48, 6 if limits.source_slots == 8 else 48
    )
    assert 2 <= site.waiting <= max_hanging, (
        "the other base's pages are fetched at once, as far as its share goes"
    )


async def test_a_note_is_searchable_while_pages_of_its_own_base_hang(
    http: httpx.AsyncClient, site: SlowSite
) -> None:
    """S4-17, S4-24."""
    base = await make_base(http, "slow")
    await add_pages(http, base, site, 20)

    async def is_waiting() -> bool:
        return site.waiting >= 2

    await wait_until(is_waiting)
    await add_items(http, base, NOTE)
    await wait_until_searchable(http, base, "oats", "Oats for the horses.")


async def test_a_sitemap_that_never_answers_does_not_delay_another_base(
    http: httpx.AsyncClient, site: SlowSite
) -> None:
    """S4-18, S4-24: more sitemaps than the worker has slots."""
    slow, quick = await make_base(http, "slow"), await make_base(http, "quick")
    for n in range(40):
        await add_items(http, slow, {"type": "sitemap", "url": f"{site.url}/{n}/sitemap.xml"})

    async def is_waiting() -> bool:
        return site.waiting >= 32

    await wait_until(is_waiting)
    await add_items(http, quick, NOTE)
    await wait_until_searchable(http, quick, "oats", "Oats for the horses.")


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"reader_processes": 2}], indirect=True)
async def test_scans_do_not_delay_a_word_file_of_another_base(http: httpx.AsyncClient) -> None:
    """S4-18, S4-19: with scans of a base waiting for OCR, another base's file is searchable first."""
    slow, quick = await make_base(http, "slow"), await make_base(http, "quick")
    names = [f"scan{n}.png" for n in range(12)]
    files = [("files", (name, text_image(name), "image/png")) for name in names]
    response = await http.post(f"/api/knowledge-bases/{slow}/files", files=files)
    assert response.status_code == 202, response.text
    await add_docx(http, quick, "Barley in the barn.")
    await wait_until_searchable(http, quick, "barley", "Barley in the barn.")
    items = (await http.get(f"/api/knowledge-bases/{slow}/items", params={"limit": 100})).json()["items"]
    assert sum(item["status"] == "completed" for item in items) < 6, "the file waited for the scans"
