"""Feeds in their three formats, conditional requests, and what they may not contain."""

from datetime import UTC, datetime

import pytest

from gristmill.connectors import feeds
from gristmill.connectors.feed_entries import parse_entries
from gristmill.connectors.testing import open_kind, open_temporarily, read_all
from gristmill.errors import Unreadable
from tests.sources.site import Site, SiteRequest, SiteResponse, serve

ATOM = """<feed xmlns="http://www.w3.org/2005/Atom"><title>Grain</title>
<entry><id>tag:1</id><title>Rye</title><link href="https://example.org/rye"/><updated>2026-03-01T12:00:00Z</updated>
<content type="html">&lt;p&gt;Rye grows.&lt;/p&gt;</content></entry></feed>"""
RDF = """<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/">
<item rdf:about="x"><title>Oats</title><link>https://example.org/oats</link><description>Oats grow.</description></item></rdf:RDF>"""
RSS = """<rss version="2.0" xmlns:c="http://purl.org/rss/1.0/modules/content/"><channel><item><title>Wheat</title>
<link>{page}</link><description>short</description><c:encoded>&lt;p&gt;Wheat grows.&lt;/p&gt;</c:encoded>
<enclosure url="{file}" type="text/plain"/><enclosure url="{file}" type="audio/mpeg"/>
<pubDate>Sun, 01 Mar 2026 12:00:00 GMT</pubDate></item></channel></rss>"""


def add_feeds(site: Site) -> None:
    page = site.add_page("/page", "<html><body><p>The whole page.</p></body></html>")
    file = site.add_page("/notes.txt", "notes")
    site.add_page("/atom", ATOM)
    site.add_page("/rdf", RDF)
    site.add_page("/rss", RSS.format(page=page, file=file))


async def test_atom_and_both_kinds_of_rss_are_read_with_their_documents() -> None:
    with serve() as site:
        add_feeds(site)
        config = {"feeds": [f"{site.url}/{name}" for name in ("atom", "rdf", "rss")]}
        documents = {
            read.document.title: read for read in (await read_all(open_kind(feeds.KIND, config, {}))).values()
        }
        assert {
            title: read.text.split("<article>")[1].split("</article>")[0] for title, read in documents.items()
        } == {
            "Rye": "<p>Rye grows.</p>",
            "Oats": "Oats grow.",
            "Wheat": "<p>Wheat grows.</p>",
        }
        assert documents["Wheat"].attachments == {"notes.txt": b"notes"}
        assert documents["Rye"].document.url == "https://example.org/rye"
        assert documents["Wheat"].document.updated_at == documents["Rye"].document.updated_at
        full = await read_all(open_kind(feeds.KIND, {"feeds": [f"{site.url}/rss"], "fullText": True}, {}))
        assert "The whole page." in next(iter(full.values())).text


ODD_ATOM = """<feed xmlns="http://www.w3.org/2005/Atom" xml:base="/blog/">
<entry><id>1</id><title type="html">Rye &amp;amp; &lt;b&gt;oats&lt;/b&gt;</title><updated>2026-03-01T12:00:00Z</updated>
<link rel="alternate" type="application/pdf" href="rye.pdf"/><link rel="alternate" type="text/html" href="rye"/>
<link rel="enclosure" href="/notes.txt" type="text/plain"/>
<content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml"><p>one</p><p>two &lt;b&gt;</p></div></content></entry>
<entry><id>2</id><title>a &lt; b</title><link href="javascript:alert(1)"/><published>2026-03-01T12:00:00Z</published>
<content src="elsewhere"/><summary>Use vector&lt;int&gt; and
oats</summary></entry>
<entry><id>3</id><title>x</title><summary>&lt;p&gt;no type&lt;/p&gt;</summary></entry></feed>"""
ODD_RSS = """
<rss version="2.0"><channel>
<item><title>Rye &amp;amp; oats &amp;copy R&amp;times</title><link>
  ../wheat </link><pubDate>Sun, 01 Mar 2026 12:00:00 -0000</pubDate></item>
<item><guid>https://example.org/page</guid><description>first</description><pubDate>soon</pubDate></item>
<item><guid isPermaLink="false">https://example.org/no-page</guid><description>second</description></item>
<item><description>without a name</description></item><item><description>another</description></item>
</channel></rss>"""


def test_addresses_titles_and_texts_of_an_odd_atom_feed() -> None:
    """Words of XHTML were joined, plain text was read as HTML, and relative addresses led nowhere."""
    first, second, third = parse_entries(ODD_ATOM.encode(), "https://example.org/feeds/all")
    assert (first.title, first.url) == ("Rye & oats", "https://example.org/blog/rye")
    assert first.html == "<div><p>one</p><p>two &lt;b&gt;</p></div>"
    assert [file.source_id for file in first.enclosures] == ["https://example.org/notes.txt"]
    assert (second.title, second.url) == ("a < b", None)
    assert second.html == "Use vector&lt;int&gt; and<br>\noats"
    assert second.updated_at == first.updated_at
    assert third.html == "<p>no type</p>"


def test_entries_of_an_odd_rss_feed() -> None:
    """Entries without a name were one; a date without a zone is UTC."""
    entries = parse_entries(ODD_RSS.encode(), "https://example.org/feeds/all")
    assert [(entry.url, entry.html) for entry in entries] == [
        ("https://example.org/wheat", ""),
        ("https://example.org/page", "first"),
        (None, "second"),
        (None, "without a name"),
        (None, "another"),
    ]
    assert entries[0].title == "Rye & oats &copy R&times"
    assert entries[0].updated_at == datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert entries[1].updated_at is None


def test_slips_in_the_xml_of_a_feed_are_tolerated() -> None:
    """One space of HTML, or an `&` in a title, kept the whole feed from being read."""
    item = "<item><title>R&D\x08&nbsp;&copy; &lt;1</title><link><![CDATA[https://a.example/?a=1&b=2]]></link></item>"
    (entry,) = parse_entries(f"<rss><channel>{item}</channel></rss>".encode(), "https://a.example")
    assert (entry.title, entry.url) == ("R&D\xa0© <1", "https://a.example/?a=1&b=2")


async def test_links_count_from_where_a_feed_is_and_files_have_their_names() -> None:
    """They counted from the configured address, whose slash at the end was cut, and names stayed as they are in addresses."""
    item = "<item><title>Rye</title><link>../rye</link><enclosure url='a%20b.pdf'/></item>"
    with serve() as site:
        site.pages["/feed/"] = lambda _: SiteResponse(301, b"", {"Location": "/blog/2026/feed.xml"})
        site.add_page("/blog/2026/feed.xml", f"<rss><channel>{item}</channel></rss>")
        async with open_temporarily(feeds.KIND, {"feeds": [f"{site.url}/feed/"]}, {}) as connector:
            (batch,) = [batch async for batch in connector.sync({})]
        (document,) = batch.documents
        assert document.url == f"{site.url}/blog/rye"
        assert [file.name for file in document.attachments] == ["a b.pdf"]


@pytest.mark.parametrize("encoding", ["gb18030", "GBK", "Shift_JIS", "windows-1252", "utf-16", "utf-8"])
def test_feeds_in_every_encoding_are_read(encoding: str) -> None:
    title = {"windows-1252": "Größe", "Shift_JIS": "水"}.get(encoding, "小麦")
    text = f"<?xml version='1.0' encoding='{encoding}'?><rss><channel><item><title>{title}</title></item></channel></rss>"
    assert [entry.title for entry in parse_entries(text.encode(encoding), "https://a.example")] == [title]


async def test_a_feed_that_did_not_change_costs_one_conditional_request() -> None:
    with serve() as site:

        def respond(request: SiteRequest) -> SiteResponse:
            if request.headers.get("If-None-Match") == '"1"':
                return SiteResponse(304)
            return SiteResponse(200, ATOM.encode(), {"ETag": '"1"'})

        site.pages["/atom"] = respond
        connector = open_kind(feeds.KIND, {"feeds": [f"{site.url}/atom"]}, {})
        (first,) = [batch async for batch in connector.sync({})]
        assert first.checkpoint is not None
        (second,) = [batch async for batch in connector.sync({first.stream: first.checkpoint})]
        await connector.close()
        assert (len(first.documents), list(second.documents), len(site.requests)) == (1, [], 2)
        assert second.checkpoint == first.checkpoint


@pytest.mark.parametrize(
    "body",
    [
        "<html><body>no feed</body></html>",
        "not xml",
        '<!DOCTYPE x [<!ENTITY a "b">]><rss><channel><item><title>&a;</title></item></channel></rss>',
        '<?xml version="1.0" encoding="gbk"?><!DOCTYPE x [<!ENTITY a "b">]><rss/>',
        '<?xml version="1.0" encoding="punycode"?><rss/>',
        '<?xml version="1.0" encoding="no-such"?><rss/>',
    ],
)
async def test_what_is_no_feed_or_declares_entities_is_refused(body: str) -> None:
    with serve() as site:
        connector = open_kind(feeds.KIND, {"feeds": [site.add_page("/feed", body)]}, {})
        with pytest.raises(Unreadable, match="not a feed"):
            await connector.check()
        await connector.close()
