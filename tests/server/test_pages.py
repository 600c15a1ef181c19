"""The pages of documents as pictures, and their text as HTML that is safe to show."""

import io
import os
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from gristmill.server.api.footnotes import find_footnotes, find_labels
from gristmill.server.api.rendered_text import TextStyle, first_heading, outline, render, sanitise
from gristmill.server.api.text_windows import (
    MAX_WINDOW,
    TextRun,
    TextWindow,
    choose_windows,
    cut_window,
    find_table_head,
    join_parts,
)
from tests.readers import samples
from tests.wait_until import wait_until

MARKDOWN = "# Stones\n\nDress *them* in [spring](https://example.org/a) & autumn.\n\n```py\nx = 1\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg><script>alert(1)</script><foreignObject><iframe src=//evil.test></iframe></foreignObject></svg>",
    "<style>@import url(//evil.test/a.css)</style>",
    '<p style="background:url(//evil.test/b.png)" id=location name=body class=toast onclick=alert(1)>text</p>',
    '<meta http-equiv="refresh" content="0;url=//evil.test"><base href="//evil.test/">',
    '<form action="//evil.test"><input name=attributes><button formaction=javascript:alert(1)>x</button></form>',
    "<iframe srcdoc='<script>alert(1)</script>'></iframe><object data=//evil.test></object><embed src=//evil.test>",
    "[a](javascript:alert(1)) [b](data:text/html,x) [c](//evil.test) [d](/api/keys) <a href=vbscript:x>e</a>",
    "![alt](https://evil.test/c.png) <video src=//evil.test poster=//evil.test></video>",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
]


def test_blocks_know_their_characters_their_code_and_their_headings() -> None:
    blocks, headings = render(cut_window(TextRun(MARKDOWN, 100, 7), 100))
    assert [MARKDOWN[block.start - 100 : block.end - 100].strip().split("\n")[0] for block in blocks] == [
        "# Stones",
        "Dress *them* in [spring](https://example.org/a) & autumn.",
        "```py",
        "| a | b |",
    ]
    assert [block.line for block in blocks] == [None, None, 1, None]
    assert [(heading.level, heading.title, heading.start, heading.page) for heading in headings] == [
        (1, "Stones", 100, 7)
    ]
    assert (
        '<a href="https://example.org/a" target="_blank" rel="noopener noreferrer nofollow">spring</a>'
        in (blocks[1].html)
    )


def test_task_lists_have_boxes() -> None:
    blocks, _ = render(
        TextWindow("- [ ] dress *stones*\n- [x] clean\n- [a] no task\n\n1. [X] done\n\n[ ] text", 0)
    )
    markup = "".join(block.html for block in blocks)
    assert "<li>☐ dress <em>stones</em></li>\n<li>☑ clean</li>\n<li>[a] no task</li>" in markup
    assert "<li>☑ done</li>" in markup
    assert "<p>[ ] text</p>" in markup


NOTES = """# Weights[^1]

A sack[^1] weighs more when wet[^wet]. The pattern `[^1]` and [^a-z] stay, [^9] has no note.

| sack | pounds |
|---|---|
| rye[^1] | 60 |

[^1]: Dry
[^wet]: After *rain*
    and in fog.

    Ask <b id=fn-1 onclick=alert(1)>him</b> [there](#fn-1) [nowhere](#fn-2) [elsewhere](#top)

The end.
"""


def test_footnotes_stay_where_they_are_with_links_to_their_notes_and_back() -> None:
    """A note can be in another window than its reference, so both are known by their characters in the whole text."""
    cut = NOTES.index("| sack")
    labels = find_labels(NOTES[cut:])
    footnotes = find_footnotes(labels, [(0, NOTES[:cut]), (cut, NOTES[cut:])])
    assert [(note.label, NOTES[note.start :][:5]) for note in footnotes] == [("1", "[^1]:"), ("wet", "[^wet")]
    assert [note.reference for note in footnotes] == [NOTES.index("[^1]"), NOTES.index("[^wet]")]
    known = [note.label for note in footnotes]
    (heading, paragraph), titles = render(TextWindow(NOTES[:cut], 0), known)
    assert titles[0].title == "Weights"
    assert '<sup><a href="#fn-1" target="_blank"' in heading.html
    assert paragraph.html.count('href="#fn-wet"') == paragraph.html.count('href="#fn-1"') == 1
    assert "The pattern <code>[^1]</code> and [^a-z] stay, [^9] has no note." in paragraph.html
    (table, first, second, end), _ = render(TextWindow(NOTES[cut:], cut), known)
    assert 'rye<sup><a href="#fn-1"' in table.html
    assert first.html.startswith('<div><p><sup>1</sup> Dry <a href="#fnref-1"')
    assert "<em>rain</em>\nand in fog.</p>" in second.html
    assert second.html.count("href") == 2  # a link to a note, and the one back
    assert not any(word in second.html for word in ("id=", "onclick", "#top", "#fn-2"))
    assert end.html == "<p>The end.</p>\n"
    assert "<sup>" not in sanitise("[^1]")


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_of_a_hostile_text_runs_or_loads(text: str) -> None:
    blocks, _ = render(TextWindow(f"# Before\n\n{text}\n\nAfter it.", 0))
    markup = "".join(block.html for block in blocks).lower()
    assert "after it." in markup
    for word in (
        "<script",
        "<img",
        "<svg",
        "<style",
        "<iframe",
        "<form",
        "<meta",
        "<base",
        "onerror",
        "onclick",
    ):
        assert word not in markup
    assert not any(word in markup for word in ("src=", "style=", "class=", " id=", "name=", "href", "]("))


def test_code_that_begins_before_the_window_is_still_code_with_its_line_numbers() -> None:
    text = "```py\n" + "".join(f"line_{number} = {number}\n\n" for number in range(4_000)) + "```\n"
    window = cut_window(TextRun(text, 0, None), 30_000)
    assert window.start > 0
    (block, *_), _ = render(window)
    first = int(block.html.split("line_")[1].split(" ")[0])
    assert block.html.startswith("<pre><code>")
    assert block.line == 2 * first + 1
    assert text[block.start :].startswith(f"line_{first} ")
    assert sanitise("<b>x</b>") == "<b>x</b>"


def sheet(rows: int) -> str:
    """A sheet as its reader gives it."""
    lines = "".join(f"| {number} | {'rye' * (number % 7)} |\n" for number in range(rows))
    return f"## Grain\n\n| Number | Kind |\n| --- | --- |\n{lines}\n"


def follow(runs: list[TextRun], characters: int) -> list[TextWindow]:
    """All windows of a text, one after the other."""
    windows = choose_windows(runs, 0, "around")
    while windows[-1].end < characters:
        windows += choose_windows(runs, windows[-1].end, "after")
    return windows


def precede(runs: list[TextRun], characters: int) -> list[TextWindow]:
    """All windows of a text, from its end on."""
    windows = choose_windows(runs, characters, "before")
    while windows[0].start > 0:
        windows = [*choose_windows(runs, windows[0].start, "before"), *windows]
    return windows


def test_windows_that_follow_each_other_have_every_row_of_a_table_once_and_its_head() -> None:
    first, second = sheet(6_000), sheet(40)
    cut = 70_001  # in the middle of a row: stored parts end anywhere
    parts = [(0, first[:cut], 1), (cut, first[cut:], 1), (len(first), second, 2)]
    runs = join_parts(parts)
    assert [(run.start, run.page) for run in runs] == [(0, 1), (len(first), 2)]
    for windows in (follow(runs, len(first + second)), precede(runs, len(first + second))):
        assert "".join(window.text for window in windows) == first + second
        assert all(len(window.text) <= 2 * MAX_WINDOW for window in windows)
        assert len({window.start for window in windows if window.page == 1}) >= 3
        for window in windows:
            blocks, _ = render(window)
            table = blocks[-1].html
            assert table.count("<th>") == 2, table[:200]
            assert "|" not in table
            rows = window.text.count("\n| ") + window.text.startswith("| ")
            assert table.count("<tr>") == rows + (
                1 if window.table_head else -1
            )  # the line below a head is no row
            assert len(blocks[-1].rows) == table.count("<tr>")
            text = (first + second)[blocks[-1].rows[-1] :]
            assert text.split("|")[1].strip() == table.rsplit("<tr>", 1)[1].split("<td>")[1].split("<")[0]
    # A run that begins within a table knows its head from elsewhere.
    tail = TextRun(first[first.index("| 5000 |") :], first.index("| 5000 |"), 1, find_table_head(first[:400]))
    (block, *_), _ = render(cut_window(tail, tail.start, "after"))
    assert block.html.startswith("<table>\n<thead>\n<tr>\n<th>Number</th>")
    assert block.start == tail.start


TYPED = """# Map<K, V> *here*

A List<String> in <main>, by <bob@x.test>; 1 <2, 2*3*4 = 24 of __init__ in C:\\_a &lt; b
next line

<Upstream id=1>

| a\\|b | <T> |
|---|---|
| *c* | d |

<b>bold</b> <!-- note -->"""


def test_signs_of_a_document_stay_where_its_reader_writes_no_markup() -> None:
    """A PDF, an Office file and a plain text have neither tags nor emphasis: what looks like them are words of the document."""
    markup: dict[TextStyle, str] = {}
    styles: tuple[TextStyle, ...] = ("authored", "generated", "literal", "lines")
    for style in styles:
        blocks, (heading,) = render(TextWindow(TYPED, 0), style=style)
        assert heading.title.startswith("Map<K, V> ")
        assert outline([TextRun(TYPED, 0, None)], limit=9, style=style)[0].title == heading.title
        text = markup[style] = "".join(block.html for block in blocks)
        assert "A List&lt;String&gt; in" in text
        assert "&lt;Upstream id=1&gt;" in text
        assert '<a href="mailto:bob@x.test"' in text
        assert "<th>a|b</th>\n<th>&lt;T&gt;</th>" in text
        assert (
            ("main" in text)
            == ("&lt;b&gt;bold&lt;/b&gt; &lt;!-- note --&gt;" in text)
            == (style != "authored")
        )
    for style in ("authored", "generated"):
        assert "2<em>3</em>4 = 24 of <strong>init</strong> in C:_a &lt; b\nnext" in markup[style]
    assert "2*3*4 = 24 of __init__ in C:\\_a &amp;lt; b\nnext" in markup["literal"]
    assert "2*3*4 = 24 of __init__ in C:\\_a &amp;lt; b<br>\nnext" in markup["lines"]
    assert "<td>*c*</td>" in markup["literal"]
    assert first_heading("## Deck of List<Card> & 2*3*4") == "Deck of List<Card> & 2*3*4"


@pytest.mark.parametrize("style", ["authored", "generated", "literal", "lines"])
@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_of_a_hostile_text_becomes_an_element(text: str, style: TextStyle) -> None:
    blocks, _ = render(TextWindow(f"A <T {text} b", 0), style=style)
    markup = "".join(block.html for block in blocks)
    elements = set(re.findall(r"<([a-z0-9]+)", markup))
    assert elements <= {"p", "a", "small", "table", "tbody", "tr", "td", "em", "pre", "code", "div", "h1"}
    assert not re.search(r"<[^>]*(?:on\w+|style|src|id|class|name)=", markup)


def test_a_page_is_named_by_its_first_heading() -> None:
    assert first_heading("Header of the slide\n\n## Rye & oats\n\n# Later") == "Rye & oats"
    assert first_heading("No heading here") == ""


def test_the_outline_has_the_headings_of_the_whole_text_but_for_those_in_code() -> None:
    text = "# Stones\n\n```py\n# a comment\n```\n\n## *Wet* grain\n\n~~~~\n# no\n~~~\n# no\n~~~~\n#\n####### seven\n### End\n"
    cut = text.index("# no")
    runs = [TextRun(text[:cut], 100, 1), TextRun(text[cut:], 100 + cut, 2)]
    found = [
        (heading.level, heading.title, text[heading.start - 100 :][:5], heading.page)
        for heading in outline(runs, limit=9)
    ]
    assert found == [(1, "Stones", "# Sto", 1), (2, "Wet grain", "## *W", 1), (3, "End", "### E", 2)]
    assert len(outline(runs, limit=2)) == 2


@pytest.mark.parametrize("rule", ["---", "+++"])
def test_front_matter_is_shown_as_it_is_and_is_no_heading(rule: str) -> None:
    entries = f"# <b>as we <i>sort</i> them\ntitle{':' if rule == '---' else ' ='} '<b>Stones'\n"
    text = f"{rule}\n{entries}{rule}\n\n# Dressing\n\nIt takes a day.\n"
    (matter, heading, _), headings = render(TextWindow(text, 0))
    assert matter.html.startswith(f"<pre><code>{rule}\n# &lt;b&gt;as we")
    assert (text[matter.start : matter.end], matter.line) == (f"{rule}\n{entries}{rule}\n", 1)
    assert text[heading.start : heading.end] == "# Dressing\n"
    assert [found.title for found in (*headings, *outline([TextRun(text, 0, None)], limit=9))] == [
        "Dressing",
        "Dressing",
    ]
    ruled = "---\n\nNo entry: between rules there is text, and there can be a colon in it.\n\n---\n"
    assert render(TextWindow(ruled, 0))[0][0].html == "<hr>\n"


@pytest.mark.parametrize(
    "code",
    ["```ls```", "- ```sh\n  ls\n  ```", "1. First:\n\n    ```\n    ls\n    ```", "~~~\n- ```\n~~~"],
)
def test_what_follows_code_of_any_form_is_no_code(code: str) -> None:
    text = f"# Stones\n\n{code}\n\n## Grain\n\n" + "The miller grinds *rye*.\n\n" * 2_000
    assert [heading.title for heading in outline([TextRun(text, 0, None)], limit=9)] == ["Stones", "Grain"]
    window = cut_window(TextRun(text, 0, None), 40_000)
    assert window.start > 20_000
    assert render(window)[0][0].html == "<p>The miller grinds <em>rye</em>.</p>\n"


@pytest.mark.slow
async def test_pages_are_drawn_cached_by_what_was_read_and_refused_once_the_file_has_changed(
    http: httpx.AsyncClient, tmp_path: Path
) -> None:
    base = (await http.post("/api/knowledge-bases", json={"name": "pages"})).json()["id"]
    path = tmp_path / "two.pdf"
    path.write_bytes(samples.pdf(["The miller grinds rye.", "The baker buys oats."]))
    answer = await http.post(
        f"/api/knowledge-bases/{base}/items",
        json={"items": [{"type": "file", "path": str(path)}, {"type": "note", "content": "# A note"}]},
    )
    item, note = (created["id"] for created in answer.json()["created"])

    async def are_completed() -> bool:
        items = (await http.get(f"/api/knowledge-bases/{base}/items")).json()["items"]
        return all(item["status"] == "completed" for item in items)

    await wait_until(are_completed, limit=60)
    pages: dict[str, Any] = (await http.get(f"/api/knowledge-items/{item}/pages")).json()
    assert (pages["count"], pages["pages"][1]) == (2, {"width": 612.0, "height": 792.0, "label": None})
    image_path, parameters = (
        f"/api/knowledge-items/{item}/pages/2",
        {"width": 350, "revision": pages["revision"]},
    )
    image = await http.get(image_path, params=parameters)
    assert image.headers["content-type"] == "image/jpeg"
    assert "immutable" in image.headers["cache-control"]
    with Image.open(io.BytesIO(image.content)) as picture:
        assert picture.size == (400, 518)
        darkest = min(picture.convert("L").crop((40, 30, 200, 60)).tobytes())
    assert darkest < 100  # the text is there
    unchanged = await http.get(
        image_path, params=parameters, headers={"If-None-Match": image.headers["etag"]}
    )
    assert unchanged.status_code == 304
    assert (await http.get(f"/api/knowledge-items/{item}/pages/3")).json()["code"] == "page_not_found"
    assert (await http.get(f"/api/knowledge-items/{note}/pages")).json()["code"] == "no_pages"
    none = await http.get(f"/api/knowledge-items/{note}/pages", params={"required": False})
    assert (none.status_code, none.json()["count"], none.json()["error"]["code"]) == (200, 0, "no_pages")
    rendered = (await http.get(f"/api/knowledge-items/{note}/rendered")).json()
    assert rendered["blocks"][0]["html"].strip() == "<h1>A note</h1>"
    assert (rendered["previous"], rendered["next"]) == (None, None)
    os.utime(path, (2_000_000_000, 2_000_000_000))
    changed = await http.get(f"/api/knowledge-items/{item}/pages/1")
    assert (changed.status_code, changed.json()["code"]) == (409, "original_changed")
    path.unlink()
    gone = await http.get(f"/api/knowledge-items/{item}/pages/1")
    assert (gone.status_code, gone.json()["code"]) == (409, "original_gone")
