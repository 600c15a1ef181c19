"""A site whose server hardly responds delays no other base."""

import threading
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import httpx
import pytest

from gristmill import app, faults
from gristmill.settings import Settings
from tests.api_calls import make_base
from tests.sources.rendering.chromium_here import needs_chromium
from tests.sources.site import Site, SiteRequest, SiteResponse, serve
from tests.wait_until import reached, wait_until

SLOTS = 8  # the crawls of one base have six of them


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """A worker with few places, so that one base could take all of them."""
    few = {
        "allow_private_addresses": True,
        "source_slots": SLOTS,
        "worker_slots": 2,
        "render_slots": 2,
        "crawl_delay": timedelta(0),  # so that all requests of a batch ask for a place at once
        "render_timeout": timedelta(minutes=5),
    }
    return settings.model_copy(update=few)


@dataclass(frozen=True)
class SlowSite:
    """A site that responds when it is released."""

    server: Site
    release: threading.Event = field(default_factory=threading.Event)


@pytest.fixture
def slow_site() -> Generator[SlowSite]:
    """A site of which only the start page and robots.txt are served until the test is over."""
    with serve() as server:
        site = SlowSite(server)
        paths = [f"/{number}" for number in range(60)]
        anchors = "".join(f'<a href="{path}">{path}</a>' for path in paths)
        start = SiteResponse(200, f"<p>Home</p>{anchors}".encode(), {"Content-Type": "text/html"})

        def respond(request: SiteRequest) -> SiteResponse:
            if request.path in ("/robots.txt", "/sitemap.xml"):
                return SiteResponse(404)
            if request.path.startswith("/start"):
                return start
            site.release.wait()
            return SiteResponse(410)

        server.fallback = respond
        yield site
        site.release.set()


async def add_items(http: httpx.AsyncClient, base: str, *items: Mapping[str, str]) -> list[str]:
    """Add items; their ids."""
    response = await http.post(
        f"/api/knowledge-bases/{base}/items", json={"items": [dict(item) for item in items]}
    )
    return [item["id"] for item in response.json()["created"]]


async def wait_for(http: httpx.AsyncClient, item: str, status: str = "completed") -> None:
    """Wait until an item has a status."""

    async def has_it() -> bool:
        return (await http.get(f"/api/knowledge-items/{item}")).json()["status"] == status

    await wait_until(has_it)


async def test_a_note_and_a_page_of_another_base_are_searchable_while_a_crawl_waits_for_its_site(
    mill: app.Gristmill, http: httpx.AsyncClient, slow_site: SlowSite
) -> None:
    """Promise 6. Three crawls of one base have twelve requests under way or waiting, more than the worker has places."""
    large, small = await make_base(http, "large"), await make_base(http, "small")
    sites = [{"type": "site", "url": f"{slow_site.server.url}/start{number}"} for number in range(3)]
    crawls = await add_items(http, large, *sites)
    hanging = 6

    def hanging_requests() -> int:
        return sum(path[1:].isdecimal() for path in slow_site.server.requested_paths())

    async def is_hanging() -> bool:
        return hanging_requests() >= hanging

    await wait_until(is_hanging)
    with serve() as server:
        page = server.add_page(
            "/", "<title>Rye</title><p>Rye is sold by the sack.</p>", Content_Type="text/html"
        )
        note, url = await add_items(
            http,
            small,
            {"type": "note", "title": "Emmer", "content": "Emmer is sold by the sack."},
            {"type": "url", "url": page},
        )
        await wait_for(http, note)
        await wait_for(http, url)
    found = await http.post(f"/api/knowledge-bases/{small}/search", json={"query": "sack", "mode": "text"})
    assert {hit["title"] for hit in found.json()["hits"]} == {"Emmer", "Rye"}
    assert not slow_site.release.is_set()
    assert hanging_requests() == hanging, "one base has no more places, and none was given up meanwhile"
    for crawl in crawls:
        item = (await http.get(f"/api/knowledge-items/{crawl}")).json()
        assert item["status"] in ("preparing", "processing"), "it still waits for its site"


@needs_chromium
async def test_a_page_of_another_base_is_rendered_while_one_base_renders(
    mill: app.Gristmill, http: httpx.AsyncClient
) -> None:
    """Of two places, one base takes one. Its pages say that they are rendered; the other base has it as a setting."""
    large = await make_base(http, "large")
    small = await make_base(http, "small", settings={"render": "auto"})
    with serve() as server:
        release = threading.Event()

        def hold(_: SiteRequest) -> SiteResponse:
            release.wait()
            return SiteResponse(200, b"{}")

        server.pages["/data"] = hold
        script = "<script>fetch('/data').then(() => document.body.append('late'))</script>"
        pages = [server.add_page(f"/{n}", script, Content_Type="text/html") for n in range(3)]
        slow = await add_items(
            http, large, *({"type": "url", "url": page, "render": "always"} for page in pages)
        )

        async def is_held() -> bool:
            return "/data" in server.requested_paths()

        await wait_until(is_held)
        html = "<script>document.write('<p>Rye is sold by the sack.</p>')</script>"
        quick = server.add_page("/quick", html, Content_Type="text/html")
        with faults.watch("render.begun") as renders:
            (item,) = await add_items(http, small, {"type": "url", "url": quick})
            await reached(renders)
            await wait_for(http, item)
        statuses = [(await http.get(f"/api/knowledge-items/{one}")).json()["status"] for one in slow]
        assert "completed" not in statuses
        release.set()
        for one in slow:
            await wait_for(http, one)
