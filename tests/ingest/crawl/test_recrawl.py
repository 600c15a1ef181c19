"""Later crawls of a site: conditional requests, changed and new pages, pages that are gone, outages, interruptions."""

from gristmill import faults
from gristmill.catalog import Base
from gristmill.operations import bases, delete, freshness, guards
from tests.embedding.hashed import HashedEmbedder
from tests.ingest.crawl.linked_site import LinkedSite, add_site, left_out, page_paths
from tests.ingest.refresh.test_pages import check_due, untouched_tables
from tests.operations.manual_worker import ManualWorker
from tests.sources.site import SiteRequest, SiteResponse


async def test_a_later_crawl_costs_one_conditional_request_a_page_and_finds_what_differs(
    worker: ManualWorker, site: LinkedSite
) -> None:
    base = await bases.create(worker.db, "pages", HashedEmbedder(), {}, refresh={"every": "1w"})
    site.publish("/", "Home", ["/a", "/b", "/print"])
    site.publish("/a", "Emmer", ["/c"])
    site.publish("/b", "Rye")
    site.publish("/c", "Spelt")
    site.publish("/print", "Emmer", head='<link rel="canonical" href="/a">')
    await add_site(worker, base, site.url)
    assert await worker.value("select count(*) from item_refresh") == 1, "the site is checked, not each page"

    before, count = await untouched_tables(worker), len(site.server.requests)
    await check_due(worker)
    assert await untouched_tables(worker) == before
    assert site.requests_since(count) == ["/", "/a", "/b", "/c", "/print"]
    assert {tuple(statuses) for statuses in site.statuses.values()} == {(200, 304)}
    assert await worker.value("select unchanged from item_refresh") == 1

    # /a has changed and links to /d instead of /c; /b is gone; /d is new.
    site.publish("/a", "Emmer wheat", ["/d"])
    site.publish("/d", "Oats")
    site.fail("/b", 410)
    count = len(site.server.requests)
    await check_due(worker)
    assert await page_paths(worker, site) == dict.fromkeys(["/", "/a", "/d"], "completed")
    assert site.requests_since(count) == ["/", "/a", "/b", "/d", "/print"], "fetched once, by the crawl"
    assert await worker.search_texts(base, "Rye Spelt") == []
    assert len(await worker.search_texts(base, "wheat Oats")) == 2

    # A page that someone deletes stays deleted; a page that is checked by itself is fetched from the site.
    page = await worker.value("select id from item where source_key = %s", site.url + "/d")
    await delete.delete(worker.db, base.id, [page])
    await worker.work()
    site.publish("/a", "Emmer flour", ["/d"])
    page = await worker.value("select id from item where source_key = %s", site.url + "/a")
    await freshness.check_now(worker.db, page)
    await worker.work()
    assert len(await worker.search_texts(base, "flour")) == 1
    await check_due(worker)
    assert sorted(await page_paths(worker, site)) == ["/", "/a"]
    assert site.statuses["/d"] == [200, 304], "what is left out costs a conditional request, too"
    await freshness.take_back(worker.db, base.id, None)
    await worker.work()
    assert sorted(await page_paths(worker, site)) == ["/", "/a", "/d"]

    # A page that had a rule of its own is the crawls' again, and not fetched twice.
    async with worker.db.transaction() as tx:
        item = await guards.require_item(tx, page)
        for rule in ({"every": "1h"}, None):
            await freshness.set_item_rule(tx, await guards.lock_base(tx, base.id), item, rule)
    assert await worker.value("select count(*) from item_refresh") == 1


async def test_an_outage_removes_nothing_and_many_removals_at_once_need_a_person(
    worker: ManualWorker, site: LinkedSite
) -> None:
    base = await bases.create(worker.db, "pages", HashedEmbedder(), {}, refresh={"every": "1w"})
    paths = [f"/{number}" for number in range(30)]
    site.publish("/", "Home", paths)
    for path in paths:
        site.publish(path, f"Emmer {path}")
    await add_site(worker, base, site.url, useSitemaps=False)
    before = await untouched_tables(worker)

    async def check_error() -> str | None:
        await check_due(worker)
        await worker.make_due()
        await worker.work()
        return await worker.value("select error_code from item_refresh")

    pages = dict(site.server.pages)
    site.server.fallback = lambda _: SiteResponse(503)
    assert await check_error() == "source_busy"
    assert await untouched_tables(worker) == before
    site.server.fallback = None
    for path in paths[:5]:  # some pages fail: they stay, and so does what only they link to
        site.fail(path, 500)
    assert await check_error() is None
    assert await untouched_tables(worker) == before
    for path in paths:
        site.fail(path, 404)
    assert await check_error() == "mass_removal"
    assert await untouched_tables(worker) == before
    site.server.pages.update(pages)
    site.publish("/", "Home", paths[:20])
    assert await check_error() is None
    assert len(await page_paths(worker, site)) == 21
    site.publish("/", "Home", [])
    (item,) = await worker.rows("select id from item where type = 'site'")
    await worker.reindex(base, item[0])
    await worker.work()
    assert await page_paths(worker, site) == {"/": "completed"}, "a reindex is a person's word"


async def test_a_notice_of_maintenance_does_not_remove_a_small_site(
    worker: ManualWorker, site: LinkedSite
) -> None:
    """The start page responds, but leads nowhere, or to a log-in."""
    base = await bases.create(worker.db, "pages", HashedEmbedder(), {}, refresh={"every": "1w"})
    paths = ["/a", "/b", "/c", "/d"]
    site.publish("/", "Home", paths)
    for path in paths:
        site.publish(path, f"Emmer {path}")
    await add_site(worker, base, site.url, useSitemaps=False)
    site.publish("/login", "Sign in")
    for away in (lambda: site.publish("/", "Maintenance"), lambda: site.redirect("/", "/login")):
        away()
        await check_due(worker)
        assert set(paths) <= set(await page_paths(worker, site))
        assert await worker.value("select error_code from item_refresh") == "mass_removal"
    site.publish("/", "Home", paths[:2])
    await check_due(worker)
    assert set(await page_paths(worker, site)) == {"/", "/a", "/b"}
    assert await worker.value("select error_code from item_refresh") is None


async def test_pages_that_only_an_unreadable_sitemap_lists_are_not_gone(
    worker: ManualWorker, site: LinkedSite
) -> None:
    """If robots.txt names it. Many sites that have none respond with a page or forbid access at /sitemap.xml."""
    base = await bases.create(worker.db, "pages", HashedEmbedder(), {}, refresh={"every": "1w"})
    site.publish("/", "Home", ["/linked"])
    site.publish("/linked", "Emmer")
    site.publish("/listed", "Rye")
    site.list_in_sitemap("/listed")
    robots = f"Sitemap: {site.url}/sitemap.xml\nSitemap: {site.url}/old.xml\n"
    site.server.add_page("/robots.txt", robots)
    await add_site(worker, base, site.url)
    assert set(await page_paths(worker, site)) == {"/", "/linked", "/listed"}
    site.server.add_page("/sitemap.xml", "<!doctype html><p>Under maintenance")
    site.publish("/", "Home", [])
    await check_due(worker)
    assert set(await page_paths(worker, site)) == {"/", "/linked", "/listed"}
    site.server.add_page("/robots.txt", "")
    await check_due(worker)
    assert set(await page_paths(worker, site)) == {"/"}


async def test_a_page_that_is_again_as_before_it_failed_is_completed_again(
    worker: ManualWorker, site: LinkedSite
) -> None:
    base = await bases.create(worker.db, "pages", HashedEmbedder(), {}, refresh={"every": "1w"})
    site.publish("/", "Home", ["/a"])
    site.publish("/a", "Emmer")
    await add_site(worker, base, site.url, useSitemaps=False)
    site.server.add_page("/a", "<html><body></body></html>", Content_Type="text/html")
    await check_due(worker)
    assert await page_paths(worker, site) == {"/": "completed", "/a": "failed"}
    site.publish("/a", "Emmer")
    await check_due(worker)
    assert await page_paths(worker, site) == {"/": "completed", "/a": "completed"}


async def test_a_site_that_limits_requests_is_crawled_completely_with_pauses(
    worker: ManualWorker, base: Base, site: LinkedSite
) -> None:
    """Five pages are sent, then 429 until the crawl has paused. No page is given up for it."""
    paths = [f"/{number}" for number in range(40)]
    site.publish("/", "Home", paths)
    for path in paths:
        site.publish(path, f"Emmer {path}")
    answers = {path: site.server.pages[path] for path in paths}
    left = 5

    def limited(request: SiteRequest) -> SiteResponse:
        nonlocal left
        left -= 1
        answer = answers[request.path]
        if left < 0:
            return SiteResponse(429, b"", {"Retry-After": "77"})
        return answer(request) if callable(answer) else answer

    site.server.pages.update(dict.fromkeys(paths, limited))
    await add_site(worker, base, site.url, useSitemaps=False)
    pauses = 0
    while delays := await worker.rows(
        "select round(extract(epoch from run_at - clock_now())) from job where state = 'delayed'"
    ):
        assert 60 <= delays[0][0] <= 77
        pauses, left = pauses + 1, 5
        await worker.make_due()
        await worker.work()
    assert pauses == 7
    assert await page_paths(worker, site) == dict.fromkeys(["/", *paths], "completed")
    assert await left_out(worker) == {}


async def test_an_interrupted_crawl_goes_on_where_it_was(
    worker: ManualWorker, base: Base, site: LinkedSite
) -> None:
    paths = [f"/{number}" for number in range(40)]
    site.publish("/", "Home", paths)
    for path in paths:
        site.publish(path, f"Emmer {path}")
    faults.arm("crawl.before_commit=fail@3")
    await add_site(worker, base, site.url)
    filed = await worker.value("select count(*) from item where type = 'url'")
    assert filed == 17, "the start page and one batch are filed, and indexed already"
    assert len(await worker.search_texts(base, "Emmer")) == 16
    await worker.make_due()
    await worker.work()
    assert len(await page_paths(worker, site)) == 41
    assert len(site.requests_since(0)) == 41 + 16, "one batch was fetched a second time"
