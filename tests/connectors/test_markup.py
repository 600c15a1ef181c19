"""The converters: vendor markup becomes markdown, no word is lost, and nothing raises or takes long."""

import json
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.connectors import markup

pytestmark = pytest.mark.slow

_WORD = st.text("abcdefgz", min_size=3, max_size=8)


def adf(*content: dict[str, Any]) -> str:
    return markup.adf({"version": 1, "type": "doc", "content": list(content)})


def node(kind: str, *content: Any, **attributes: Any) -> dict[str, Any]:
    children = [{"type": "text", "text": part} if isinstance(part, str) else part for part in content]
    return {"type": kind, "attrs": attributes, "content": children}


def test_adf_has_all_published_blocks() -> None:
    """S2-08: Jira Cloud's and Confluence's bodies."""
    cell = node("tableCell", node("paragraph", "one"), rowspan=2)
    markdown = adf(
        node("heading", "Head", level=2),
        node("bulletList", node("listItem", node("paragraph", "a"), node("orderedList", node("listItem", "b")))),
        node("taskList", node("taskItem", "done", state="DONE"), node("taskItem", "open", state="TODO")),
        node("decisionList", node("decisionItem", "go")),
        node("codeBlock", "x = 1\ny = 2", language="python"),
        node("panel", node("paragraph", "mind"), panelType="warning"),
        node("expand", node("paragraph", "more"), title="Details"),
        node("table", node("tableRow", node("tableHeader", "h1"), node("tableHeader", "h2")),
             node("tableRow", cell, node("tableCell", "a|b")), node("tableRow", node("tableCell", "two"))),
        node("layoutSection", node("layoutColumn", node("paragraph", "column"))),
        {"type": "mediaSingle", "content": [{"type": "media", "attrs": {"alt": "plan", "type": "file", "id": "7"}}]},
        {"type": "rule"},
        {"type": "blockCard", "attrs": {"url": "https://e.org/card"}},
        node("bodiedExtension", node("paragraph", "extended"), extensionKey="x"),
    )  # fmt: skip
    for part in (
        "## Head",
        "- a\n  1. b",
        "- [x] done\n- [ ] open",
        "- Decision: go",
        "```python\nx = 1\ny = 2\n```",
        "> **Warning**\n>\n> mind",
        "> **Details**\n>\n> more",
        "| h1 | h2 |\n| --- | --- |\n| one | a\\|b |\n| one | two |",
        "column",
        "![plan](plan)",
        "\n---\n",
        "https://e.org/card",
        "extended",
    ):
        assert part in markdown


def test_adf_has_all_published_marks_and_inline_nodes() -> None:
    def text(value: str, *marks: str, **attributes: Any) -> dict[str, Any]:
        return {
            "type": "text",
            "text": value,
            "marks": [{"type": mark, "attrs": attributes} for mark in marks],
        }

    line = [
        text("bold", "strong"),
        text("er", "strong", "underline"),
        text(" lean", "em"),
        text(" gone", "strike"),
        text(" f()", "code"),
        text(" there", "link", href="https://e.org/a b"),
        text(" H2", "subsup", type="sub"),
        text(" red", "textColor", color="#f00"),
        {"type": "hardBreak"},
        {"type": "mention", "attrs": {"id": "5", "text": "@Ann"}},
        {"type": "emoji", "attrs": {"shortName": ":smile:", "text": "😀"}},
        {"type": "date", "attrs": {"timestamp": "1582152559000"}},
        {"type": "status", "attrs": {"text": "LATE", "color": "red"}},
        {"type": "inlineCard", "attrs": {"url": "https://e.org/c"}},
        {"type": "placeholder", "attrs": {"text": "fill in"}},
        {"type": "inlineExtension", "attrs": {"text": "macro"}},
    ]
    markdown = adf({"type": "paragraph", "content": line})
    assert markdown == (
        "**bolder** *lean* ~~gone~~ `f()` [there](https://e.org/a%20b) H2 red\n"
        "@Ann😀2020-02-19LATEhttps://e.org/cfill inmacro"
    ), markdown


def test_nodes_that_adf_does_not_know_keep_their_text_and_words_stay_apart() -> None:
    markdown = adf(
        node("hologram", "first"),
        node("hologram", node("sparkle", "second")),
        {"type": "chart", "attrs": {"title": "third"}},
        node("paragraph", "in ", node("glitter", "a line")),
        {"no": "type"},
    )
    assert markdown == "first\n\nsecond\n\nthird\n\nin a line"


def test_a_document_that_is_a_string_is_read_and_a_broken_one_keeps_its_texts() -> None:
    whole = json.dumps({"type": "doc", "content": [node("paragraph", 'say "hi"')]})
    assert markup.adf(whole) == 'say "hi"'
    assert markup.adf(whole[:-3]) == 'say "hi"'
    nothings: list[object] = [None, 7, [], {}, "", "[]", "null"]
    for nothing in nothings:
        assert markup.adf(nothing) == ""


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


WIKI = [
    ("h2. Head\ntext\nmore", "## Head\n\ntext\nmore"),
    ("*b* _i_ -s- +u+ ??c?? {{m}}", "**b** *i* ~~s~~ u *c* `m`"),
    ("snake_case_name 2-3-4 a - b - c 5*3*2", "snake_case_name 2-3-4 a - b - c 5*3*2"),
    ("[t|https://e.org/a_b_] [https://e.org] [~ann] [~accountid:1:a] [^f.pdf] [plain]", "[t](https://e.org/a_b_) https://e.org @ann @Ann f.pdf [plain]"),
    ("!pic.png|width=300! wow! really!", "![pic.png](pic.png) wow! really!"),
    ("* a\n** b\n## c\n# d", "- a\n  - b\n  1. c\n\n1. d"),
    ("* a\ngoes on", "- a\n  goes on"),
    ("||a||b||\n|c|[x|http://y]|\n|two\nlines|d|", "| a | b |\n| --- | --- |\n| c | [x](http://y) |\n| two lines | d |"),
    ("{quote}\nq\n{quote}\nafter", "> q\n\nafter"),
    ("{panel:title=T|borderStyle=solid}p{panel}", "> **T**\n>\n> p"),
    ("{code:java|title=A.java}\nint *x*;\n{code}", "**A.java**\n\n```java\nint *x*;\n```"),
    ("{noformat}a{code}b{noformat}", "```\na{code}b\n```"),
    ("{code}never closed", "never closed"),
    ("{color:red}red{color} {unknown}", "red {unknown}"),
    ("bq. said\n----\n\\*no\\*", "> said\n\n---\n\n*no*"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "markdown"), WIKI)
def test_wiki_markup_as_markdown(text: str, markdown: str) -> None:
    """Jira Server's and Data Center's descriptions."""
    assert markup.wiki(text, {"1:a": "Ann"}) == markdown


_ADF_KINDS = ["paragraph", "heading", "bulletList", "orderedList", "listItem", "panel", "expand", "table", "tableRow",
              "tableCell", "blockquote", "codeBlock", "taskItem", "mediaSingle", "layoutColumn", "unheard", "text"]  # fmt: skip


def _tree(kind: str, content: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": kind, "content": content}


def _leaf(word: str) -> dict[str, Any]:
    return {"type": "text", "text": word}


def _grown(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(_tree, st.sampled_from(_ADF_KINDS[:-1]), st.lists(inner, max_size=4))


_TREES = st.recursive(st.builds(_leaf, _WORD), _grown, max_leaves=20)


def _adf_words(tree: Any) -> list[str]:
    own = [tree["text"]] if "text" in tree else []
    return own + [word for part in tree.get("content", []) for word in _adf_words(part)]


@settings(deadline=None, max_examples=150)
@given(_TREES)
def test_no_word_of_an_adf_tree_is_lost(tree: Any) -> None:
    markdown = re.sub(r"[^a-z]", "", markup.adf(tree).replace("```", ""))
    assert sum(map(len, _adf_words(tree))) <= len(markdown)
    for word in _adf_words(tree):
        assert word in markdown


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


_SIGNS = st.sampled_from(
    ["*", "_", "-", "|", "||", "\n", "{quote}", "{code}", "{{", "}}", "[", "]", "* ", "h1. ", "!"]
)


@settings(deadline=None, max_examples=300)
@given(st.lists(_WORD.map(lambda word: f" {word} ") | _SIGNS, max_size=30))
def test_no_word_of_broken_wiki_markup_is_lost(pieces: list[str]) -> None:
    markdown = markup.wiki("".join(pieces))
    for piece in pieces:
        if piece.strip().isalpha():
            assert piece.strip() in markdown


_ANY = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["type", "text", "content", "attrs", "marks", "x"]), inner, max_size=4
        )
    ),
)


@settings(deadline=None, max_examples=200)
@given(_ANY, st.text())
def test_no_converter_raises_and_all_give_what_a_database_takes(anything: Any, text: str) -> None:
    for markdown in (markup.adf(anything), markup.adf(text), markup.storage(text), markup.wiki(text)):
        assert "\0" not in markdown
        markdown.encode()


def _nested(kind: str) -> dict[str, Any]:
    tree: dict[str, Any] = {"type": "text", "text": "core"}
    for _ in range(20_000):
        tree = {"type": kind, "content": [tree]}
    return tree


@pytest.mark.parametrize("kind", ["paragraph", "bulletList", "blockquote", "tableCell", "unheard"])
def test_deep_adf_keeps_its_innermost_word(kind: str) -> None:
    assert "core" in markup.adf(_nested(kind))


HOSTILE: list[tuple[Callable[[str], str], str]] = [
    *((markup.storage, unit) for unit in ("<b>", "<ul><li>", "<a b=\"", "<", "<a ", "<!--", "<td rowspan=9 colspan=9>a", "<p>x", "</p>", "&#1")),
    *((markup.wiki, unit) for unit in ("*a ", "{{", "[a|", "!a.png", "|a", "{quote}x", "a\n", "*_-a-_* ", "??a")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("convert", "unit"), HOSTILE, ids=lambda value: value if isinstance(value, str) else ""
)
def test_hostile_input_takes_linear_time(convert: Callable[[str], str], unit: str) -> None:
    """Four times as long takes about four times as long; a quadratic converter takes sixteen."""

    def seconds(length: int) -> float:
        text = unit * (length // len(unit))
        best = 1e9
        for _ in range(2):
            begun = time.process_time()
            convert(text)
            best = min(best, time.process_time() - begun)
        return best

    assert seconds(48_000) < 9 * seconds(12_000) + 0.03


def test_a_number_of_thousands_of_digits_is_no_error() -> None:
    assert markup.storage("&#" + "1" * 10_000 + "; x").endswith("x")
