"""The Atlassian Document Format becomes markdown, and no word is lost."""

import json
import re
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
    document = json.dumps({"type": "doc", "content": [node("paragraph", 'say "hi"')]})
    assert markup.adf(document) == 'say "hi"'
    assert markup.adf(document[:-3]) == 'say "hi"'
    nothings: list[object] = [None, 7, [], {}, "", "[]", "null"]
    for nothing in nothings:
        assert markup.adf(nothing) == ""


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


def _deeply_nested(kind: str) -> dict[str, Any]:
    tree: dict[str, Any] = {"type": "text", "text": "core"}
    for _ in range(20_000):
        tree = {"type": kind, "content": [tree]}
    return tree


@pytest.mark.parametrize("kind", ["paragraph", "bulletList", "blockquote", "tableCell", "unheard"])
def test_deep_adf_keeps_its_innermost_word(kind: str) -> None:
    assert "core" in markup.adf(_deeply_nested(kind))
