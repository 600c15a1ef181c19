"""HTML to markdown, also for hostile HTML."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.sources import WebPage, to_markdown
from gristmill.sources import page as page_module
from gristmill.sources.page import MAX_CHARACTERS, MAX_CHILDREN, MAX_DEPTH, MAX_ELEMENTS

URL = "https://example.com/docs/page.html"
PROSE = "A mill grinds grain between two stones, and the flour is sifted afterwards for the baker. " * 4

ARTICLE = f"""<!doctype html>
<html><head><title>Mills &amp; stones – Example</title><style>p {{ color: red }}</style></head>
<body>
<nav><ul><li><a href="/">Home</a></li><li><a href="/about">About us</a></li></ul></nav>
<article>
<h1>Mills and stones</h1>
<p>{PROSE}</p>
<h2>Kinds of mills</h2>
<p>Some are driven by <a href="/water">water</a>, others by <b>wind</b>. {PROSE}</p>
<ul><li>water mill</li><li>wind mill</li></ul>
<table><tr><th>Kind</th><th>Stones</th></tr><tr><td>Water</td><td>four</td></tr></table>
<pre><code>grind(grain)</code></pre>
</article>
<script>track("everything")</script>
<footer>Copyright, imprint, cookies</footer>
</body></html>"""


def page(html: str | bytes, charset: str | None = None) -> WebPage:
    return to_markdown(html.encode() if isinstance(html, str) else html, URL, charset)


def test_the_main_content_becomes_markdown_without_navigation() -> None:
    text = page(ARTICLE).text
    assert "## Kinds of mills" in text
    assert "[water](https://example.com/water)" in text
    assert "**wind**" in text
    assert "- water mill" in text
    assert "| Water | four |" in text
    assert "grind(grain)" in text
    for frame in ("About us", "imprint", "track", "color"):
        assert frame not in text


@pytest.mark.parametrize(
    ("head", "body", "title"),
    [
        (
            "<meta property='og:title' content='From og'><title>From title</title>",
            "<h1>From h1</h1>",
            "From og",
        ),
        ("<title>From\n  title &amp; more</title>", "<h1>From h1</h1>", "From title & more"),
        ("<title> </title>", "<h1>From <i>h1</i></h1><h1>Second</h1>", "From h1"),
        ("", "<svg><title>A drawing</title></svg><p>text", ""),
        ("<title>" + "long " * 500 + "</title>", "", ("long " * 100)),
    ],
)
def test_the_title_is_the_best_that_the_page_gives(head: str, body: str, title: str) -> None:
    assert page(f"<html><head>{head}</head><body>{body}</body></html>").title == title


def test_a_page_without_an_article_gives_the_text_of_its_body() -> None:
    text = page(
        "<html><body><div>one<div>two <b>and</b>\nthree</div><script>x()</script></div></body></html>"
    ).text
    assert text.split() == ["one", "two", "and", "three"] or "two **and** three" in text


def test_a_page_without_text_is_empty() -> None:
    """C7: the caller decides what an empty page means."""
    for nothing in (
        "",
        " \n",
        "<html></html>",
        "<body><script>x()</script><style>p{}</style></body>",
        "<!-- x -->",
    ):
        assert page(nothing).text == ""


@pytest.mark.parametrize("charset", ["utf-8", "windows-1252", "utf-16"])
def test_the_character_set_that_is_given_wins_over_the_pages_own(charset: str) -> None:
    html = f"<html><head><meta charset=koi8-r><title>Größe</title></head><body><p>{PROSE} Müller</p></body></html>"
    converted = page(html.encode(charset), charset)
    assert converted.title == "Größe"
    assert "Müller" in converted.text


@pytest.mark.parametrize(
    ("text", "charset"),
    [
        ("Gürteltiere sind grün und laufen am Abend über die Straße, häufig mit ihren Jungen.", "latin-1"),
        ("Пшеница растёт на этом поле, и к осени её собирают в большие мешки.", "cp1251"),
        ("東京の動物園にはパンダがいます。毎日たくさんの人が見に来ます。", "shift_jis"),
        ("Emmer – 100 % wie früher, in UTF-8.", "utf-8"),
    ],
)
def test_a_page_that_declares_no_character_set_is_read_in_the_one_of_its_letters(
    text: str, charset: str
) -> None:
    html = f'<html><head><title>{text[:9]}</title></head><body><p><a href="/a">{text}</a></p></body></html>'
    data = html.encode(charset)
    page = to_markdown(data, "http://x/", None)
    assert text in page.text
    assert page.title == text[:9].strip()


def test_invalid_bytes_lose_only_themselves() -> None:
    assert "before" in page(b"<p>before \xff\xfe \x00 after</p>", "utf-8").text
    assert "after" in page(b"<p>before \xff\xfe \x00 after</p>", "utf-8").text


@pytest.mark.parametrize(
    "html",
    [
        "<html><body>" + "<div>" * (MAX_DEPTH + 1) + "deep down" + "</div>" * (MAX_DEPTH + 1) + "after",
        "<html><body>" + "<div>" * 100_000 + "deep down" + "</div>" * 100_000 + "after",
        "<html><body>" + "<p>deep down" * (MAX_ELEMENTS + 1) + "<p>after",
        "<html><body><p>" + "<span>deep down</span> " * (MAX_CHILDREN + 1) + "</p>after",
        "<html><body><p>" + "deep down " * (MAX_CHARACTERS // 9) + "</p>after",
        "<html><body><p>deep down<p>" + "x" * 11_000_000 + "<p>after",
        "<html><body>deep down" + "<b>" * 300_000 + "after",
    ],
    ids=["deep", "very deep", "many", "wide", "long", "one word", "never closed"],
)
def test_a_page_beyond_the_limits_yields_its_text_without_a_tree(
    html: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Building a tree and extracting its main content is what takes time without bound."""

    def refuse(*_: object) -> str:
        raise AssertionError("a tree was built")

    monkeypatch.setattr(page_module, "_main_content", refuse)
    text = page(html).text
    assert "deep down" in text
    assert text.endswith("after")


def test_a_page_beyond_the_limits_keeps_its_lines_and_code() -> None:
    filler = "<i></i>" * (MAX_CHILDREN + 1)
    html = (
        f"<h1>Head\nline</h1><p>one <b>two</b>\nthree<br>four<pre>a = 1\nb = 2</pre><style>no</style>{filler}"
    )
    assert page(html) == WebPage("Head line", "Head line\none two three\nfour\na = 1\nb = 2")


_TAGS = (
    *(
        "<div>",
        "</div>",
        "<p>",
        "<table>",
        "<tr>",
        "<td>",
        "</table>",
        "<a href='x'>",
        "<b>",
        "</b>",
        "<svg>",
    ),
    *(
        "<title>",
        "<script>",
        "</script>",
        "<!--",
        "-->",
        "<![CDATA[",
        "&#0;",
        "&",
        "<",
        "text ",
        "\0",
        "<pre>",
    ),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(_TAGS) | st.text(max_size=5), max_size=40).map("".join))
def test_any_soup_of_tags_gives_a_page(soup: str) -> None:
    converted = page(soup)
    assert "\0" not in converted.text + converted.title
