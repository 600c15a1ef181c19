"""Crawls and pages whose text is made by scripts, with the real Chromium."""

import json
from typing import Any

from gristmill import catalog, faults
from gristmill.catalog import Base, NewItem
from gristmill.operations import add, bases
from tests.embedding.hashed import HashedEmbedder
from tests.ingest.crawl.linked_site import LinkedSite, add_site, left_out, page_paths
from tests.ingest.refresh.test_pages import check_due, untouched_tables
from tests.operations.manual_worker import UNLIMITED, ManualWorker
from tests.sources.rendering.chromium_here import needs_chromium
from tests.sources.site import SiteResponse

SCRIPT = """fetch("/data" + location.pathname).then((response) => response.json()).then((data) => {
  document.title = data.word;
  document.body.innerHTML = `<main data-time="${performance.now()}"><h1>${data.word}</h1><p>${data.word} is sold by the sack.</p>`
    + data.links.map((link) => `<p><a href="${link}">more about ${link}</a></p>`).join("") + "</main>";
});"""


class ScriptedSite:
    """A site all of whose pages are made by one script."""

    def __init__(self, site: LinkedSite) -> None:
        self.site = site
        site.server.add_page("/app.js", SCRIPT, Content_Type="text/javascript")

    def publish(self, path: str, word: str, links: tuple[str, ...] = ()) -> str:
        """A page about `word`."""
        self.site.server.add_page("/data" + path, json.dumps({"word": word, "links": links}))
        headers = {"Content-Type": "text/html", "ETag": '"never changes"'}
        self.site.server.pages[path] = SiteResponse(200, b"<body><script src=/app.js></script>", headers)
        return self.site.url + path


async def words_of(worker: ManualWorker) -> dict[str, str]:
    """The title of every page, by its path."""
    rows = await worker.rows("select source ->> 'url', title from item where type = 'url' order by 1")
    return {"/" + url.split("/", 3)[3]: title for url, title in rows}


async def add_rendered(worker: ManualWorker, base: Base, url: str) -> None:
    """Add a page that is rendered in any case, and read it."""
    item = NewItem("url", url, url, source={"url": url, "render": "always"})
    await add.add(worker.db, base.id, [add.ItemToAdd(item, None)], UNLIMITED)
    await worker.work()


@needs_chromium
async def test_a_crawl_renders_what_scripts_make_follows_its_links_and_checks_the_text(
    worker: ManualWorker, site: LinkedSite
) -> None:
    """`auto`: a page with text is not rendered. A later crawl writes nothing if the text is the same, though the server calls the
    page unchanged in any case, and a script writes another number each time."""
    settings: dict[str, Any] = {"render": "auto"}
    base = await bases.create(
        worker.db, "pages", HashedEmbedder(), {}, settings=settings, refresh={"every": "1w"}
    )
    scripted = ScriptedSite(site)
    scripted.publish("/", "Home", ("/a", "/plain"))
    scripted.publish("/a", "Emmer")
    site.publish("/plain", "Rye, which is sold by the sack on Tuesdays and Thursdays, " * 5)
    with faults.watch("render.begun") as renders:
        await add_site(worker, base, site.url, useSitemaps=False)
        assert renders.count == 2
        pages = await words_of(worker)
        assert (pages["/"], pages["/a"]) == ("Home", "Emmer")
        assert sorted(pages) == ["/", "/a", "/plain"]
        assert len(await worker.search_texts(base, "Emmer")) >= 1

        before = await untouched_tables(worker)
        await check_due(worker)
        assert renders.count == 4
        assert await untouched_tables(worker) == before

    site.server.add_page("/data/a", json.dumps({"word": "Spelt", "links": []}))
    await check_due(worker)
    assert (await words_of(worker))["/a"] == "Spelt"
    assert len(await worker.search_texts(base, "Spelt")) == 1
    assert site.server.requested_paths().count("/a") == 3, "each crawl has fetched it once"


@needs_chromium
async def test_a_single_page_is_rendered_if_it_says_so_and_checked_by_its_text(
    worker: ManualWorker, site: LinkedSite
) -> None:
    base = await bases.create(worker.db, "pages", HashedEmbedder(), {}, refresh={"every": "1w"})
    url = ScriptedSite(site).publish("/a", "Emmer")
    await add_rendered(worker, base, url)
    assert len(await worker.search_texts(base, "Emmer")) == 1
    before = await untouched_tables(worker)
    await check_due(worker)
    assert await untouched_tables(worker) == before
    site.server.add_page("/data/a", json.dumps({"word": "Spelt", "links": []}))
    await check_due(worker)
    assert len(await worker.search_texts(base, "Spelt")) == 1


@needs_chromium
async def test_a_page_that_leads_to_another_by_script_has_the_text_of_the_other(
    worker: ManualWorker, base: Base, site: LinkedSite
) -> None:
    ScriptedSite(site).publish("/a", "Emmer")
    start = site.server.add_page("/start", "<script>location.href = '/a'</script>", Content_Type="text/html")
    await add_rendered(worker, base, start)
    assert len(await worker.search_texts(base, "Emmer")) == 1


async def test_without_a_chromium_pages_that_need_it_fail_with_a_reason(
    worker: ManualWorker, base: Base, site: LinkedSite, tmp_path: Any
) -> None:
    """Never as empty pages, and never by waiting."""
    object.__setattr__(worker.originals.rendering, "chromium", tmp_path / "no-chromium")
    scripted = ScriptedSite(site)
    url = scripted.publish("/a", "Emmer")
    page = NewItem("url", url, url, source={"url": url, "render": "auto"})
    await add.add(worker.db, base.id, [add.ItemToAdd(page, None)], UNLIMITED)
    await worker.work()
    assert await worker.value("select error_code from item where type = 'url'") == "render_unavailable"
    site.publish("/", "Home, where the mill is, and the miller, and the sacks " * 6, ["/a", "/b"])
    site.publish("/b", "Rye, which is sold by the sack on Tuesdays " * 8)
    await add_site(worker, base, site.url, useSitemaps=False, render="auto")
    async with worker.db.connection() as tx:
        items = await catalog.list_items(tx, base.id, catalog.ItemFilter(), limit=10)
    assert [item.status for item in items if item.type == "site"] == ["completed"]
    assert await left_out(worker) == {"not_rendered": 1}
    assert (await page_paths(worker, site))["/b"] == "completed"
