"""Jira's wiki markup becomes markdown, and no word is lost."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.connectors import markup

pytestmark = pytest.mark.slow

_WORD = st.text("abcdefgz", min_size=3, max_size=8)


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
