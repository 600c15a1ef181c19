"""Confluence's storage format becomes markdown, and no word is lost."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.connectors import markup

pytestmark = pytest.mark.slow

_WORD = st.text("abcdefgz", min_size=3, max_size=8)


STORAGE = [
    ("<p>a &nbsp;&amp; <b>b </b>c</p>", "a & **b** c"),
    ("<p>one<p>two", "one\n\ntwo"),
    ("<ul><li>a<ul><li>b</ul><li>c</ul>", "- a\n  - b\n- c"),
    ("<ol start='3'><li><p>x</p><p>y</p></li></ol>", "3. x\n\n   y"),
    ("<td>no table", "no table"),
    ("a < b <c and d", "a < b <c and d"),
    ("<p>half <strong>bold</p><p>after</p>", "half **bold**\n\nafter"),
    ("<blockquote><p>said</p></blockquote><hr/>x", "> said\n\n---\n\nx"),
    ("<pre>x\n  y</pre>", "```\nx\n  y\n```"),
    ("<p><code>f(x)</code><br/>next</p>", "`f(x)`\nnext"),
    ("<p># no heading</p>", "\\# no heading"),
    ('<p><a href="javascript:x()">click</a></p>', "click"),
    ('<p><a href="/wiki/x y">go</a></p>', "[go](/wiki/x%20y)"),
    ("<ac:structured-macro ac:name='toc'/><p>x</p>", "x"),
    ("<ac:structured-macro ac:name='unheard'><ac:rich-text-body><p>kept</p></ac:rich-text-body></ac:structured-macro>", "kept"),
    ("<ac:structured-macro ac:name='unheard'><ac:plain-text-body><![CDATA[kept <b>]]></ac:plain-text-body></ac:structured-macro>", "```\nkept <b>\n```"),
    ("<ac:structured-macro ac:name='noformat'><ac:plain-text-body><![CDATA[x ``` y]]></ac:plain-text-body></ac:structured-macro>", "````\nx ``` y\n````"),
    ("<ac:structured-macro ac:name='code'><ac:parameter ac:name='language'>sql</ac:parameter><ac:plain-text-body><![CDATA[select ']]]]><![CDATA[>']]></ac:plain-text-body></ac:structured-macro>", "```sql\nselect ']]>'\n```"),
    ("<ac:structured-macro ac:name='code'><ac:plain-text-body><![CDATA[never closed", "```\nnever closed\n```"),
    ("<ac:structured-macro ac:name='expand'><ac:parameter ac:name='title'>More</ac:parameter><ac:rich-text-body><p>in</p></ac:rich-text-body></ac:structured-macro>", "> **More**\n>\n> in"),
    ("<ac:structured-macro ac:name='include'><ac:parameter ac:name=''><ac:link><ri:page ri:content-title='Other'/></ac:link></ac:parameter></ac:structured-macro>", "Other"),
    ("<p><ac:structured-macro ac:name='status'><ac:parameter ac:name='title'>DONE</ac:parameter></ac:structured-macro></p>", "DONE"),
    ("<p><ac:structured-macro ac:name='jira'><ac:parameter ac:name='server'>S</ac:parameter><ac:parameter ac:name='key'>AB-1</ac:parameter></ac:structured-macro></p>", "AB-1"),
    ("<p><ac:link><ri:user ri:account-id='1:a'/></ac:link> <ac:link><ri:user ri:userkey='k'/></ac:link></p>", "@Ann @k"),
    ("<p><ac:link><ri:page ri:content-title='T'/><ac:plain-text-link-body><![CDATA[shown]]></ac:plain-text-link-body></ac:link></p>", "shown"),
    ("<p><ac:link><ri:attachment ri:filename='a.pdf'/></ac:link></p>", "a.pdf"),
    ("<p><ac:image ac:alt='plan'><ri:attachment ri:filename='a b.png'/></ac:image></p>", "![plan](a%20b.png)"),
    ("<ac:task-list><ac:task><ac:task-id>1</ac:task-id><ac:task-status>complete</ac:task-status><ac:task-body>did</ac:task-body></ac:task></ac:task-list>", "- [x] did"),
    ("<ac:adf-extension><ac:adf-node type='panel'><ac:adf-attribute key='panel-type'>note</ac:adf-attribute><ac:adf-content><p>n</p></ac:adf-content></ac:adf-node><ac:adf-fallback><p>n</p></ac:adf-fallback></ac:adf-extension>", "> **Note**\n>\n> n"),
    ("<ac:layout><ac:layout-section><ac:layout-cell><p>l</p></ac:layout-cell><ac:layout-cell><p>r</p></ac:layout-cell></ac:layout-section></ac:layout>", "l\n\nr"),
    ("<p>Due <time datetime='2026-01-02'/></p>", "Due 2026-01-02"),
    ("<!-- hidden --><?xml?><!DOCTYPE x>seen", "seen"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "markdown"), STORAGE)
def test_storage_format_as_markdown(body: str, markdown: str) -> None:
    """Unclosed tags, entities, CDATA and macros."""
    assert markup.storage(body, {"1:a": "Ann"}) == markdown


def test_a_table_with_merged_cells_lists_and_tables_inside_stays_one_table() -> None:
    table = (
        "<table><tbody><tr><th rowspan='2'>Who</th><th colspan='2'>When</th></tr>"
        "<tr><th>from</th><th>to</th></tr>"
        "<tr><td>Ann</td><td><ul><li>1</li><li>2</li></ul></td><td><table><tr><td>x<td>y</tr></table></td></tr></table>"
    )
    assert markup.storage(table) == (
        "| Who | When |  |\n| --- | --- | --- |\n| Who | from | to |\n| Ann | - 1 - 2 | x, y |"
    )


_TAGS = st.sampled_from(
    [
        "p",
        "b",
        "ul",
        "li",
        "table",
        "tr",
        "td",
        "div",
        "a",
        "ac:rich-text-body",
        "h1",
        "blockquote",
        "pre",
        "code",
    ]
)
_PIECES = st.one_of(
    _WORD.map(lambda word: f" {word} "),
    _TAGS.map(lambda tag: f"<{tag}>"),
    _TAGS.map(lambda tag: f"</{tag}>"),
    st.sampled_from(["<br/>", "<", ">", "&amp;", "<ac:structured-macro ac:name='info'>", "<td rowspan='2'>"]),
)


@settings(deadline=None, max_examples=300)
@given(st.lists(_PIECES, max_size=30))
def test_no_word_of_a_broken_storage_body_is_lost(pieces: list[str]) -> None:
    markdown = markup.storage("".join(pieces))
    for piece in pieces:
        if piece.strip().isalpha():
            assert piece.strip() in markdown


def test_a_number_of_thousands_of_digits_is_no_error() -> None:
    assert markup.storage("&#" + "1" * 10_000 + "; x").endswith("x")
