"""A web site is crawled from its start page, once for each page, and only where it may be."""

from datetime import timedelta

import pytest

from gristmill.catalog import Base, crawls
from gristmill.errors import Transient
from gristmill.ingest.crawl.host_turns import HostTurns
from tests.ingest.crawl.linked_site import LinkedSite, add_site, left_out, page_paths
from tests.operations.manual_worker import ManualWorker
from tests.sources.site import SiteRequest, SiteResponse


async def test_a_site_is_crawled_by_links_and_sitemaps_and_each_page_is_fetched_once(
    worker: ManualWorker, base: Base, site: LinkedSite
) -> None:
    site.publish(
        "/",
        "Home",
        ["/b?utm_source=mail&y=2&x=1", "/a.html#part", "a.html", site.server.elsewhere + "/a.html"],
    )
    site.publish("/a.html", "Emmer", ["/moved", "/logo.png", "mailto:us@example.org", "//"])
    site.publish("/b?x=1&y=2", "Rye", ["/?gclid=7"])
    site.redirect("/moved", "/new.html")
    site.publish("/new.html", "Spelt")
    site.publish("/listed.html", "Oats")
    site.list_in_sitemap("/listed.html")
    await add_site(worker, base, site.url + "/")
    assert await page_paths(worker, site) == dict.fromkeys(
        ["/", "/a.html", "/b?x=1&y=2", "/listed.html", "/new.html"], "completed"
    )
    assert site.requests_since(0) == ["/", "/a.html", "/b?x=1&y=2", "/listed.html", "/moved", "/new.html"]
    assert len(await worker.search_texts(base, "Emmer Rye Spelt Oats")) == 4
    assert await worker.value("select status from item where type = 'site'") == "completed"
    assert await left_out(worker) == {"not_a_document": 1}
    assert await worker.value("select count(*) from job") == 0


async def test_a_page_is_filed_under_its_canonical_address_and_left_out_where_it_asks_for_that(
    worker: ManualWorker, base: Base, site: LinkedSite
) -> None:
    canonical = '<link rel="canonical" href="{}">'
    site.publish("/", "Home", ["/print", "/header", "/alone", "/noindex", "/tag", "/secret", "/nofollow"])
    site.publish("/print", "Emmer", head=canonical.format("/emmer"))
    site.publish("/header", "Emmer", Link=f'<{site.url}/emmer>; rel="canonical"')
    site.publish("/emmer", "Emmer", head=canonical.format(site.url + "/emmer"))
    site.publish("/alone", "Spelt", head=canonical.format("/missing"))
    site.publish("/noindex", "Hidden", ["/behind"], head='<meta name="robots" content="noindex">')
    site.publish("/behind", "Oats", head=canonical.format("https://copies.example.org/oats"))
    site.publish("/tag", "Hidden", X_Robots_Tag="gristmill: noindex, nofollow")
    site.publish("/nofollow", "Barley", ["/unfollowed"], head='<meta name="ROBOTS" content="nofollow">')
    site.publish("/unfollowed", "Hidden")
    site.publish("/secret", "Hidden")
    site.server.add_page("/robots.txt", "User-agent: *\nDisallow: /secret\n")
    await add_site(worker, base, site.url)
    assert await page_paths(worker, site) == dict.fromkeys(
        ["/", "/alone", "/behind", "/emmer", "/nofollow"], "completed"
    )
    assert await left_out(worker) == {"noindex": 2, "disallowed": 1}
    requested = site.requests_since(0)
    assert "/secret" not in requested
    assert "/unfollowed" not in requested
    assert await worker.search_texts(base, "Hidden") == []


async def test_a_crawl_follows_redirects_to_sessions_and_goes_past_broken_ones(
    worker: ManualWorker, base: Base, site: LinkedSite
) -> None:
    """Servers add a session to the first address, or order its parameters. Some redirects do not say where they lead."""
    site.publish("/", "Home", ["/session", "/broken", "/choices", "/circle"])
    site.redirect("/session", "/session;jsessionid=1F?b=2&a=1&utm_source=us")
    site.redirect("/session?a=1&b=2", "/session;jsessionid=1F?b=2&a=1")
    site.publish("/session;jsessionid=1F?b=2&a=1", "Emmer")
    site.redirect("/circle", "/circle?sid=1")
    site.redirect("/circle?sid=1", "/circle")
    site.fail("/broken", 302)
    site.fail("/choices", 300)
    await add_site(worker, base, site.url + "/")
    assert await page_paths(worker, site) == dict.fromkeys(["/", "/session?a=1&b=2"], "completed")
    assert await left_out(worker) == {"unreachable": 3}
    assert len(await worker.search_texts(base, "Emmer")) == 1


async def test_a_page_that_only_leads_to_another_is_followed(
    worker: ManualWorker, base: Base, site: LinkedSite
) -> None:
    """Documentation often begins with one. One that can be read meanwhile is a page of its own."""
    site.publish("/", "Moved", head='<meta http-equiv="refresh" content="0; url=docs/">')
    site.publish("/docs/", "Home", ["/later"])
    site.publish("/later", "Rye", Refresh="30; url=/spelt")
    site.publish("/spelt", "Spelt")
    await add_site(worker, base, site.url + "/")
    assert await page_paths(worker, site) == dict.fromkeys(["/docs/", "/later", "/spelt"], "completed")


async def test_robots_txt_may_be_behind_redirects(worker: ManualWorker, base: Base, site: LinkedSite) -> None:
    """RFC 9309, 2.3.1.2: its rules and its delay are those of the host that redirects."""
    site.redirect("/robots.txt", "/robots/1")
    for number in range(1, 5):
        site.redirect(f"/robots/{number}", f"{site.server.elsewhere}/robots/{number + 1}")
    site.server.add_page("/robots/5", "User-agent: *\nCrawl-delay: 0.01\nDisallow: /secret\n")
    site.publish("/", "Home", ["/secret"])
    site.publish("/secret", "Hidden")
    await add_site(worker, base, site.url + "/")
    assert await page_paths(worker, site) == {"/": "completed"}
    assert await left_out(worker) == {"disallowed": 1}
    assert await worker.rows("select host, delay from web_host") == [
        (site.server.host, timedelta(seconds=0.01))
    ]


async def test_depth_pages_and_patterns_bound_a_crawl_and_so_do_pages_without_end(
    worker: ManualWorker, base: Base, site: LinkedSite
) -> None:
    def calendar(request: SiteRequest) -> SiteResponse:
        """A page for every month, by query and by path, and a link that grows."""
        number = int("".join(letter for letter in request.path if letter.isdecimal()) or 0)
        links = [f"/month?n={number % 100 * 60 + step}" for step in range(1, 60)]
        links += [f"/next/{number + 1}", request.path.partition("?")[0].rstrip("/") + "/more"]
        anchors = "".join(f'<a href="{link}">{link}</a>' for link in links)
        is_indexed = (
            "?" not in request.path and "more" not in request.path
        )  # what is not indexed costs the test less
        headers = {"Content-Type": "text/html", "X-Robots-Tag": "all" if is_indexed else "noindex"}
        return SiteResponse(200, f"<p>Month {number}</p>{anchors}".encode(), headers)

    site.server.fallback = lambda request: (
        SiteResponse(404) if request.path in ("/robots.txt", "/sitemap.xml") else calendar(request)
    )
    await add_site(worker, base, site.url, maxDepth=3, exclude=["/next/3*"])
    pages = await page_paths(worker, site)
    months = {path for path in site.requests_since(0) if path.startswith("/month?")}
    assert len(months) == 100
    assert "/next/2" in pages
    assert "/next/3" not in pages
    assert not any("/more/more/more/more" in path for path in site.requests_since(0))
    assert {"trap", "excluded", "too_deep", "noindex"} <= (await left_out(worker)).keys()

    site.server.requests.clear()
    await add_site(worker, base, site.url + "/other", maxPages=7, maxDepth=9, include=["/next/?"])
    filed = await worker.value(
        "select count(*) from item i join item p on p.id = i.parent_id where p.source_key = %s",
        site.url + "/other",
    )
    assert filed == 7
    assert len(site.requests_since(0)) <= 8, "the start page is fetched for its links"


async def error_code(worker: ManualWorker, url: str) -> str:
    """The error of the site that was added with this address."""
    return await worker.value("select error_code from item where type = 'site' and source_key = %s", url)


async def test_only_the_site_itself_is_crawled_and_private_addresses_are_refused(
    worker: ManualWorker, base: Base, site: LinkedSite
) -> None:
    site.publish("/", "Home", ["/out", "/in"])
    site.redirect("/out", site.server.elsewhere + "/elsewhere")
    site.publish("/elsewhere", "Emmer")
    site.publish("/in", "Rye")
    await add_site(worker, base, site.url)
    assert sorted(await page_paths(worker, site)) == ["/", "/in"]
    assert "/elsewhere" not in site.requests_since(0)

    # A start page may lead to its site's other host, but not to a page that robots.txt disallows.
    site.redirect("/start", site.server.elsewhere + "/")
    site.server.add_page("/robots.txt", "User-agent: *\nDisallow: /in\n")
    await add_site(worker, base, site.url + "/start", maxPages=3)
    other_start = site.server.elsewhere + "/"
    assert await worker.value("select count(*) from item where source_key = %s", other_start) == 1
    await add_site(worker, base, site.url + "/in")
    assert await error_code(worker, site.url + "/in") == "disallowed_by_robots"

    object.__setattr__(worker.originals, "allow_private", False)
    site.server.requests.clear()
    await add_site(worker, base, site.url + "/private")
    assert await error_code(worker, site.url + "/private") == "private_address"
    assert site.server.requests == []


async def test_the_turns_of_a_host_are_shared_by_crawls_and_single_pages(
    worker: ManualWorker, base: Base, site: LinkedSite, clock: object
) -> None:
    """The database's clock stands still, so the turns can be counted."""
    del clock, base
    host = site.server.host
    async with worker.db.transaction() as tx:
        assert await crawls.take_turn(tx, host, timedelta(seconds=20)) is None
        await crawls.set_host_delay(tx, host, timedelta(seconds=15))
        waits = [await crawls.take_turn(tx, host, timedelta(seconds=20)) for _ in range(3)]
    assert waits == [timedelta(0), timedelta(seconds=15), timedelta(seconds=-30)]
    with pytest.raises(Transient) as caught:
        await HostTurns(worker.db).wait(site.url + "/page")
    assert caught.value.retry_after == timedelta(seconds=30)
