"""Sitemaps of a real site on loopback."""

import gzip
from collections import Counter
from datetime import timedelta
from itertools import pairwise

import pytest

from gristmill.errors import Permanent, SourceGone, Transient, Unreadable
from gristmill.net import PrivateAddress
from gristmill.sources import SitemapEntry, SitemapListing, SitemapRules, list_sitemap
from gristmill.sources.sitemap_file import MAX_ENTRIES, SitemapFile
from tests.sources.site import Site, SiteResponse

NAMESPACE = "http://www.sitemaps.org/schemas/sitemap/0.9"


def urlset(*urls: str, lastmod: str = "") -> str:
    dated = f"<lastmod>{lastmod}</lastmod>" if lastmod else ""
    return f'<?xml version="1.0"?><urlset xmlns="{NAMESPACE}">{_entries("url", urls, dated)}</urlset>'


def index(*urls: str) -> str:
    return f'<sitemapindex xmlns="{NAMESPACE}">{_entries("sitemap", urls)}</sitemapindex>'


def _entries(tag: str, urls: tuple[str, ...], extra: str = "") -> str:
    return "".join(f"<{tag}><loc>{url}</loc>{extra}</{tag}>" for url in urls)


def listing(url: str, **rules: object) -> SitemapListing:
    return list_sitemap(url, SitemapRules(**{"private": True, **rules}))  # pyright: ignore[reportArgumentType]


async def page_urls(pages: SitemapListing) -> list[str]:
    return [entry.url async for batch in pages for entry in batch]


async def test_the_pages_of_a_sitemap_come_in_its_order_with_their_dates(site: Site) -> None:
    """C8: sitemaps are kept."""
    a, b = f"{site.url}/a", f"{site.url}/b?x=1&amp;y=2"
    url = site.add_page("/sitemap.xml", urlset(a, b, lastmod=" 2026-01-31 "))
    pages = listing(url)
    assert [batch async for batch in pages] == [
        [SitemapEntry(a, "2026-01-31"), SitemapEntry(b.replace("&amp;", "&"), "2026-01-31")]
    ]
    assert +pages.left_out == Counter()


async def test_pages_come_in_batches_of_at_most_500(site: Site) -> None:
    url = site.add_page("/sitemap.xml", urlset(*(f"{site.url}/{number}" for number in range(1201))))
    batches = [batch async for batch in listing(url)]
    assert [len(batch) for batch in batches] == [500, 500, 201]
    assert [entry.url for batch in batches for entry in batch] == [f"{site.url}/{n}" for n in range(1201)]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
async def test_a_sitemap_may_have_any_encoding_that_xml_has(site: Site, encoding: str) -> None:
    text = urlset(f"{site.url}/größe").replace('"1.0"', f'"1.0" encoding="{encoding.removesuffix("-sig")}"')
    url = site.add_page("/sitemap.xml", text.encode(encoding))
    assert await page_urls(listing(url)) == [f"{site.url}/gr%C3%B6%C3%9Fe"]


async def test_other_elements_of_a_sitemap_are_skipped(site: Site) -> None:
    url = site.add_page(
        "/sitemap.xml",
        f"\n\n<urlset xmlns='{NAMESPACE}' xmlns:image='http://www.google.com/schemas/sitemap-image/1.1'>"
        f"<!-- a comment --><url><loc><![CDATA[{site.url}/a]]></loc><priority>1</priority>"
        f"<image:image><image:loc>{site.url}/a.png</image:loc></image:image>"
        f"<image:loc>{site.url}/b.png</image:loc></url><url><lastmod>2026</lastmod></url>"
        f"<other><loc>{site.url}/c</loc></other></urlset>",
    )
    assert await page_urls(listing(url)) == [f"{site.url}/a"]


async def test_an_index_leads_to_its_sitemaps_and_theirs(site: Site) -> None:
    site.add_page("/two.xml", index(f"{site.url}/three.xml", f"{site.url}/top.xml"))
    site.add_page("/three.xml", urlset(f"{site.url}/c"))
    site.add_page("/one.xml", urlset(f"{site.url}/a", f"{site.url}/b"))
    url = site.add_page("/top.xml", index(f"{site.url}/one.xml", f"{site.url}/two.xml"))
    pages = listing(url)
    assert sorted(await page_urls(pages)) == [f"{site.url}/{name}" for name in "abc"]
    assert +pages.left_out == Counter(duplicate=1)  # the index that leads back to the first


async def test_an_index_is_followed_no_deeper_than_three(site: Site) -> None:
    for here, there in pairwise("1234"):
        site.add_page(f"/{here}", index(f"{site.url}/{there}"))
    site.add_page("/4", urlset(f"{site.url}/page"))
    pages = listing(f"{site.url}/1")
    assert await page_urls(pages) == []
    assert +pages.left_out == Counter(too_deep=1)


async def test_an_unreadable_sitemap_of_an_index_does_not_stop_the_others(site: Site) -> None:
    site.add_page("/bad.xml", "<urlset><url>")
    site.add_page("/html", "<!doctype html><p>Not found")
    site.add_page("/closed", "", status=403)
    site.add_page("/good.xml", urlset(f"{site.url}/a"))
    names = ("missing.xml", "bad.xml", "html", "closed", "good.xml")
    pages = listing(site.add_page("/top.xml", index(*(f"{site.url}/{name}" for name in names))))
    assert await page_urls(pages) == [f"{site.url}/a"]
    assert +pages.left_out == Counter(gone_sitemap=1, unreadable_sitemap=3)
    assert not pages.is_complete


async def test_a_busy_sitemap_of_an_index_is_retried_later(site: Site) -> None:
    site.add_page("/busy.xml", "", status=503, Retry_After="60")
    url = site.add_page("/top.xml", index(f"{site.url}/busy.xml"))
    with pytest.raises(Transient) as caught:
        await page_urls(listing(url))
    assert caught.value.retry_after == timedelta(seconds=60)


async def test_pages_of_the_other_sitemaps_come_before_the_error_of_one_that_does_not_respond(
    site: Site,
) -> None:
    site.add_page("/good.xml", urlset(f"{site.url}/a"))
    site.add_page("/busy.xml", "", status=500)
    url = site.add_page("/top.xml", index(f"{site.url}/busy.xml", f"{site.url}/good.xml"))
    pages: list[str] = []

    async def read_pages() -> None:
        async for entries in listing(url):
            pages.extend(entry.url for entry in entries)

    with pytest.raises(Transient) as caught:
        await read_pages()
    assert pages == [f"{site.url}/a"]
    assert caught.value.code == "source_unavailable"
    names = [f"{site.url}/{number}.xml" for number in range(9)]
    for number in range(9):
        site.add_page(f"/{number}.xml", "", status=500)
    count = len(site.requests)
    with pytest.raises(Transient):
        await page_urls(listing(site.add_page("/down.xml", index(*names))))
    assert len(site.requests) == count + 1 + 3, "a site that is down is left alone"


@pytest.mark.parametrize("coding", ["", "gzip"])
async def test_a_sitemap_may_be_compressed_whatever_its_name(site: Site, coding: str) -> None:
    text = urlset(*(f"{site.url}/{number}" for number in range(3000))).encode()
    url = site.add_page("/sitemap.xml", gzip.compress(text), Content_Encoding=coding)
    assert len(await page_urls(listing(url))) == 3000


async def test_a_compressed_sitemap_may_have_several_members(site: Site) -> None:
    text = urlset(f"{site.url}/a", f"{site.url}/b").encode()
    url = site.add_page("/s.gz", gzip.compress(text[:100]) + gzip.compress(text[100:]) + bytes(512))
    assert await page_urls(listing(url)) == [f"{site.url}/a", f"{site.url}/b"]


async def test_a_plain_list_of_addresses_is_a_sitemap(site: Site) -> None:
    url = site.add_page(
        "/list.txt", f"{site.url}/a\r\n\r\n {site.url}/b \n{site.url}/c", Content_Type="text/plain"
    )
    assert await page_urls(listing(url)) == [f"{site.url}/{name}" for name in "abc"]


_BOMB = gzip.compress(b"<urlset>" + b" " * 60 * 2**20)
_LAUGHS = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]><urlset><url><loc>&b;</loc></url></urlset>'
_EXTERNAL = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><urlset><url><loc>&a;</loc></url></urlset>'


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\n \n",
        b"<urlset><url>",
        b"<rss><channel/></rss>",
        b"<!doctype html><html><body>Welcome",
        _LAUGHS.encode(),
        _EXTERNAL.encode(),
        _BOMB,
        gzip.compress(_BOMB),
        gzip.compress(b"<urlset></urlset>")[:-9],
        b"\x1f\x8bnot gzip",
        b"<urlset>" + b"<a>" * 100,
        b"<urlset><url " + b"x" * 3 * 2**20,
        b"\x89PNG\r\n\x1a\n\0\0\0",
        b"one endless line" * 100_000,
    ],
    ids=[
        *("empty", "blank", "cut off", "a feed", "a page", "entities", "external", "bomb", "bomb in a bomb"),
        *("half a gzip", "no gzip", "deep", "endless tag", "an image", "endless line"),
    ],
)
async def test_other_files_are_refused(site: Site, body: bytes) -> None:
    with pytest.raises(Unreadable) as caught:
        await page_urls(listing(site.add_page("/sitemap.xml?key=secret", body)))
    assert caught.value.code == "bad_sitemap"
    assert "secret" not in caught.value.message


async def test_a_sitemap_longer_than_the_protocol_allows_is_refused(site: Site) -> None:
    with pytest.raises(Permanent):
        await page_urls(listing(site.add_page("/sitemap.xml", b"<urlset>" + b" " * 51 * 2**20)))


async def test_a_sitemap_that_is_gone_or_private_says_so(site: Site) -> None:
    with pytest.raises(SourceGone):
        await page_urls(listing(f"{site.url}/missing.xml"))
    with pytest.raises(PrivateAddress):
        await page_urls(listing(site.add_page("/sitemap.xml", urlset(f"{site.url}/a")), private=False))
    with pytest.raises(Permanent) as caught:
        await page_urls(listing("not an address"))
    assert caught.value.code == "invalid_url"


async def test_left_out_addresses_are_counted_by_reason(site: Site) -> None:
    site.add_page("/robots.txt", "User-agent: *\nDisallow: /private\n")
    upper = site.url.replace("http", "HTTP")
    url = site.add_page(
        "/sitemap.xml",
        urlset(
            *(f"{site.url}/a", f"{upper}/a#part", f"{site.elsewhere}/b", "https://example.org/c"),
            *("ftp://127.0.0.1/d", "mailto:x@example.org", "/relative", "http://u:p@127.0.0.1/", "  "),
            *(f"{site.url}/private/e", f"{site.url}/{'x' * 9000}"),
        ),
    )
    pages = listing(url)
    assert await page_urls(pages) == [f"{site.url}/a"]
    assert +pages.left_out == Counter(duplicate=1, other_site=2, not_http=2, bad_url=3, disallowed=1)


async def test_the_host_with_www_is_the_same_site(site: Site) -> None:
    twin = site.elsewhere.replace("//", "//www.")
    url = site.add_page("/sitemap.xml", urlset(f"{twin}/a", f"{site.elsewhere}/b", f"{site.url}/c"))
    pages = listing(url.replace(site.url, site.elsewhere), respect_robots=False)
    assert await page_urls(pages) == [f"{twin}/a", f"{site.elsewhere}/b"]
    assert +pages.left_out == Counter(other_site=1)


async def test_the_target_of_a_redirect_is_the_same_site(site: Site) -> None:
    site.add_page("/old.xml", "", status=301, Location=f"{site.elsewhere}/new.xml")
    site.add_page("/new.xml", urlset(f"{site.elsewhere}/a"))
    assert await page_urls(listing(f"{site.url}/old.xml")) == [f"{site.elsewhere}/a"]


async def test_other_sites_can_be_allowed_and_their_robots_are_respected(site: Site) -> None:
    def robots(_request: object) -> SiteResponse:
        return SiteResponse(200, b"User-agent: gristmill\nDisallow: /no")

    site.pages["/robots.txt"] = robots
    other = (f"{site.elsewhere}/yes", f"{site.elsewhere}/no", "http://does-not-exist.invalid/x")
    pages = listing(site.add_page("/sitemap.xml", urlset(f"{site.url}/a", *other)), same_site=False)
    assert await page_urls(pages) == [f"{site.url}/a", f"{site.elsewhere}/yes"]
    assert +pages.left_out == Counter(disallowed=1, robots_unknown=1)
    assert site.requested_paths().count("/robots.txt") == 2


@pytest.mark.parametrize("status", [404, 403, 410])
async def test_without_robots_all_is_allowed(site: Site, status: int) -> None:
    site.add_page("/robots.txt", "", status=status)
    assert await page_urls(listing(site.add_page("/sitemap.xml", urlset(f"{site.url}/a")))) == [
        f"{site.url}/a"
    ]


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_the_listing_is_retried_when_robots_txt_is_unavailable(site: Site, status: int) -> None:
    site.add_page("/robots.txt", "", status=status)
    url = site.add_page("/sitemap.xml", urlset(f"{site.url}/a"))
    with pytest.raises(Transient):
        await page_urls(listing(url))
    assert await page_urls(listing(url, respect_robots=False)) == [f"{site.url}/a"]


async def test_robots_may_be_long_and_strange(site: Site) -> None:
    rules = b"\xef\xbb\xbfUser-agent: *\nDisallow: /no\n\xff\xfe\n" + b"# padding\n" * 100_000
    site.add_page("/robots.txt", rules)
    url = site.add_page("/sitemap.xml", urlset(f"{site.url}/no", f"{site.url}/yes"))
    assert await page_urls(listing(url)) == [f"{site.url}/yes"]


async def test_the_root_of_a_site_leads_to_the_sitemaps_that_robots_names(site: Site) -> None:
    site.add_page(
        "/robots.txt",
        f"User-agent: *\nDisallow: /no\nSitemap: {site.url}/one.xml\nSitemap: {site.url}/two.xml\n"
        f"Sitemap: {site.url}/missing.xml\nSitemap: {site.url}/one.xml\nSitemap: nonsense\n",
    )
    site.add_page("/one.xml", urlset(f"{site.url}/a", f"{site.url}/no"))
    site.add_page("/two.xml", urlset(f"{site.url}/b"))
    pages = listing(site.url)
    assert await page_urls(pages) == [f"{site.url}/a", f"{site.url}/b"]
    assert +pages.left_out == Counter(disallowed=1, gone_sitemap=1, bad_url=1)
    assert site.requested_paths().count("/robots.txt") == 1


async def test_the_root_of_a_site_that_names_no_sitemap_may_have_one(site: Site) -> None:
    site.add_page("/sitemap.xml", urlset(f"{site.url}/a"))
    assert await page_urls(listing(f"{site.url}/")) == [f"{site.url}/a"]


async def test_the_root_of_a_site_without_a_sitemap_says_so(site: Site) -> None:
    with pytest.raises(SourceGone) as caught:
        await page_urls(listing(site.url))
    assert caught.value.code == "no_sitemap"


async def test_no_more_pages_are_taken_than_the_rules_allow(site: Site) -> None:
    for name in ("one", "two", "three"):
        site.add_page(f"/{name}.xml", urlset(*(f"{site.url}/{name}/{number}" for number in range(10))))
    url = site.add_page("/top.xml", index(*(f"{site.url}/{name}.xml" for name in ("one", "two", "three"))))
    pages = listing(url, limit=15)
    assert len(await page_urls(pages)) == 15
    assert +pages.left_out == Counter(over_limit=5, unread_sitemap=1)
    pages = listing(url, max_sitemaps=2)
    assert len(await page_urls(pages)) == 10
    assert +pages.left_out == Counter(unread_sitemap=2)


def test_a_file_lists_no_more_than_the_protocol_allows() -> None:
    file = SitemapFile("here")
    entries = file.feed(b"http://a/\n" * (MAX_ENTRIES + 7))
    assert (len(entries) + len(file.end()), file.over_limit) == (MAX_ENTRIES, 7)
