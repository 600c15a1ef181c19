"""Addresses of a crawl: their normal form, which are left out, and what a page says to crawlers."""

import pytest

from gristmill.sources.site_links import MAX_LINKS, page_directives
from gristmill.sources.site_rules import SiteRules, crawl_address

PAGE = "https://example.org/docs/index.html"


@pytest.mark.parametrize(
    ("link", "address"),
    [
        ("a.html#part", "https://example.org/docs/a.html"),
        ("/B/../c?b=2&a=1&utm_source=x&&UTM_medium=y", "https://example.org/c?a=1&b=2"),
        ("?", "https://example.org/docs/index.html"),
        ("//Example.org:443", "https://example.org/"),
        ("/a;jsessionid=1f2e?sid=7", "https://example.org/a"),
        ("?side=left", "https://example.org/docs/index.html?side=left"),
        (" http://other.example/x ", "http://other.example/x"),
        ("mailto:us@example.org", None),
        ("javascript:void(0)", None),
        ("http://[broken", None),
    ],
)
def test_addresses_of_one_page_have_one_normal_form(link: str, address: str | None) -> None:
    assert crawl_address(link, PAGE) == address


@pytest.mark.parametrize(
    ("url", "depth", "reason"),
    [
        ("https://example.org/docs/a", 2, None),
        ("https://www.example.org/docs/a", 2, None),
        ("https://docs.example.org/docs/a", 2, "other_site"),
        ("https://example.org:8443/docs/a", 2, "other_site"),
        ("https://example.org/docs/a", 3, "too_deep"),
        ("https://example.org/blog/a", 1, "excluded"),
        ("https://example.org/docs/a?print=1", 1, "excluded"),
        ("https://example.org/docs/logo.SVG?v=2", 1, "not_a_document"),
        ("https://example.org/docs/x/x/x/x", 1, "trap"),
        (f"https://example.org/docs/{'a' * 1000}", 1, "trap"),
    ],
)
def test_an_address_is_left_out_with_its_reason(url: str, depth: int, reason: str | None) -> None:
    rules = SiteRules(PAGE, max_depth=2, include=("/docs/*",), exclude=("*[?]print=*",))
    assert rules.reason_to_leave_out(url, depth, {"example.org"}) == reason


def test_a_page_says_what_crawlers_may_do() -> None:
    page = (
        '<html><head><base href="/base/"><link rel="canonical" href="self"><meta name="Robots" content="NoIndex, follow">'
        '</head><body><a href="a">a</a><a href="b" rel="external nofollow">b</a><area href="c"><a>no address</a>'
        "<a href='a#again'>a</a>" + "<a href='x'>x</a>" * 2 * MAX_LINKS
    ).encode()
    directives = page_directives(page, None, PAGE, {})
    assert directives.links == (
        "https://example.org/base/a",
        "https://example.org/base/c",
        "https://example.org/base/x",
    )
    assert directives.canonical == "https://example.org/base/self"
    assert directives.must_not_index
    header = page_directives(b"<a href=a>", None, PAGE, {"x-robots-tag": "other: noindex, nofollow"})
    assert (header.links, header.must_not_index) == ((), False)
    assert (
        page_directives(b"", None, PAGE, {"link": "</c>; rel=canonical"}).canonical == "https://example.org/c"
    )
    own = page_directives(b"<a href=a>", None, PAGE, {"x-robots-tag": "gristmill: none"})
    assert (own.links, own.must_not_index) == ((), True)
    target = "https://example.org/docs/docs/"
    moved = page_directives(
        b'<meta http-equiv="Refresh" content="0; URL=\'docs/\'"><a href=a>', None, PAGE, {}
    )
    assert (moved.links, moved.canonical) == (("https://example.org/docs/a", target), target)
    later = page_directives(b"<p>text", None, PAGE, {"refresh": "5;url=/next"})
    assert (later.links, later.canonical) == (("https://example.org/next",), None)
    assert page_directives(b'<meta http-equiv=refresh content="0">', None, PAGE, {}).canonical is None
