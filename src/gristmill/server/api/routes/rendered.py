"""`/api/knowledge-items/{id}/rendered`: the text of a document as HTML that is safe to show, with its slides or sheets and its images."""

import asyncio
import re
from dataclasses import dataclass, replace
from typing import Annotated, Literal
from urllib.parse import urlsplit

from fastapi import Query

from gristmill import contents
from gristmill.catalog import Item
from gristmill.contents import ContentPart, PageOpening, PlacedImage
from gristmill.db import Tx
from gristmill.operations import guards
from gristmill.readers.text_format import detect_format
from gristmill.server.api.context import CurrentContext, CurrentViewer, PathItem
from gristmill.server.api.footnotes import Footnote, find_footnotes, find_labels
from gristmill.server.api.rendered_text import (
    RenderedBlock,
    RenderedHeading,
    TextStyle,
    first_heading,
    outline,
    render,
    render_code,
)
from gristmill.server.api.router import ApiRouter
from gristmill.server.api.schemas.pages import (
    BlockOut,
    FootnoteOut,
    HeadingOut,
    ImageOut,
    RenderedOut,
    TextPageOut,
)
from gristmill.server.api.text_windows import (
    CONTEXT,
    MAX_WINDOW,
    Edge,
    TextRun,
    TextWindow,
    begins_in_table,
    choose_windows,
    find_table_head,
    join_parts,
)

router = ApiRouter("/api/knowledge-items", tag="items")

PageKind = Literal["page", "slide", "sheet"]
_MAX_PARTS = 2_000  # of a text, in one response; they are bounded by their characters too
_MAX_CODE_PARTS = 64  # of a file of code, whose lines are counted
_MAX_PAGES = 2_000
_OPENING_LENGTH = 400  # characters of a page, for its title
_TABLE_OPENING_LENGTH = 8_000  # characters of a sheet, for the head of its table
_HEAD_STEP, _HEAD_STEPS = 64_000, 16  # characters before a text, in which the head of its table is looked for
_MAX_IMAGES = 200
_MAX_OUTLINED, _MAX_HEADINGS = 2_000_000, 2_000  # characters of a text whose headings are listed
_MAX_FOOTNOTE_PARTS = 500  # of a text, in which notes are looked for
# What browsers show. An SVG in an <img> runs no script and loads nothing.
_IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp", "image/svg+xml")
_SLIDES = re.compile(r"\.(pptx?|pps[xm]?|potx?|odp|key)$", re.IGNORECASE)
_PLAIN_NAME = re.compile(r"\.(txt|text|log|rst|adoc|org)$|(?:^|/)[^./]+$", re.IGNORECASE)
# Whose readers keep no emphasis, so that every sign is the document's own.
_LITERAL = re.compile(r"\.(pdf|doc[xm]|xls[xm]|ppt[xm]|od[tsp]|png|jpe?g|gif|tiff?|bmp|webp)$", re.IGNORECASE)
_SHEETS = re.compile(r"\.(xls[xmb]?|xltx?|ods|numbers)$", re.IGNORECASE)

At = Annotated[int, Query(ge=0, le=1 << 40)]
_Rendered = tuple[list[RenderedBlock], list[RenderedHeading]]


@dataclass(frozen=True)
class _TextPlace:
    """The character that a request names, and what it wants of the text there."""

    at: int
    edge: Edge


@dataclass(frozen=True)
class _WindowText:
    """What the database has of the text that a response shows."""

    revision: str  # identifies the whole text
    characters: int  # of it
    start: int
    end: int
    is_last: bool  # nothing follows
    kind: PageKind
    style: TextStyle
    windows: list[TextWindow]
    code: list[ContentPart]  # of a file of code: its text from the beginning
    footnotes: list[Footnote]
    images: list[PlacedImage]
    openings: list[PageOpening]
    outlined: list[TextRun]  # the text whose headings are listed


def _file_name(item: Item) -> str:
    return str(item.source.get("name") or item.source.get("path") or item.title)


def _page_kind(item: Item) -> PageKind:
    name = _file_name(item)
    if _SLIDES.search(name):
        return "slide"
    return "sheet" if _SHEETS.search(name) else "page"


def _text_style(item: Item) -> TextStyle:
    """What is markup in the text of an item: by the name of its file, as its reader was chosen."""
    if item.type not in ("file", "url"):
        return "authored"
    name = _file_name(item) if item.type == "file" else urlsplit(str(item.source.get("url", ""))).path
    kind = detect_format(b"", name, None).kind
    if kind == "markdown":
        return "authored"
    if item.type == "file" and _PLAIN_NAME.search(name):
        return "lines"
    return "literal" if kind == "csv" or _LITERAL.search(name) else "generated"


def _is_code(item: Item, text: str) -> bool:
    """Whether the content is the text of a file of code, as it is."""
    return _text_kind(item, text) == "code"


def _text_kind(item: Item, text: str) -> str:
    """The kind of a text file; empty for other items."""
    return detect_format(text[:4096].encode(), _file_name(item), None).kind if item.type == "file" else ""


@router.get("/{item_id}/rendered")
async def get_rendered(
    item_id: PathItem,
    context: CurrentContext,
    viewer: CurrentViewer,
    at: At = 0,
    after: At | None = None,
    before: At | None = None,
    pages: bool = False,
) -> RenderedOut:
    """Read the content around the character at `at` as HTML that is safe to show: nothing in it runs or loads. With `after` or
    `before`, read what follows or precedes a window. With `pages`, list the pages, slides or sheets, and all headings."""
    place = _TextPlace(at, "around")
    if after is not None:
        place = _TextPlace(after, "after")
    elif before is not None:
        place = _TextPlace(before, "before")
    async with context.db.snapshot() as tx:  # another version may be published meanwhile
        item = await guards.require_item(tx, item_id, viewer)
        text = await _read_text(tx, item, place, with_pages=pages)
    rendered = await asyncio.to_thread(_render_all, text)
    titles = await asyncio.to_thread(lambda: [first_heading(page.opening) for page in text.openings])
    headings = await asyncio.to_thread(_list_headings, text, rendered)
    return _response(text, rendered, titles, headings)


async def _read_text(tx: Tx, item: Item, place: _TextPlace, *, with_pages: bool) -> _WindowText:
    """Read what is shown of the text near a place."""
    live = await contents.live_content(tx, item.id)
    if live is None:
        raise guards.not_ready_error(item)
    runs = await _find_runs(tx, item, place)
    is_code = bool(runs) and _is_code(item, runs[0].text)
    code = await contents.live_parts(tx, item.id, limit=_MAX_CODE_PARTS) if is_code else []
    windows = choose_windows(runs, place.at, place.edge)
    footnotes = [] if is_code else await _find_footnotes(tx, item, windows)
    start, end = (windows[0].start, windows[-1].end) if windows else (0, 0)
    is_last = live.characters is None or end >= live.characters
    images = await contents.live_images_between(
        tx, item.id, start, None if is_last else end, _IMAGE_TYPES, limit=_MAX_IMAGES
    )
    kind = _page_kind(item)
    length = 0 if kind == "page" else _OPENING_LENGTH  # pages have no titles
    openings = await contents.live_pages(tx, item.id, length=length, limit=_MAX_PAGES) if with_pages else []
    outlined = await _read_whole(tx, item) if with_pages and kind == "page" and not is_code else []
    characters = live.characters or end
    return _WindowText(
        live.revision,
        characters,
        start,
        end,
        is_last,
        kind,
        _text_style(item),
        windows,
        code,
        footnotes,
        images,
        openings,
        outlined,
    )


async def _read_whole(tx: Tx, item: Item) -> list[TextRun]:
    """The text from its beginning on, as far as its headings are listed."""
    parts = await contents.live_parts_between(tx, item.id, 0, _MAX_OUTLINED, limit=_MAX_PARTS)
    return join_parts([(part.start, part.text, part.page) for part in parts])


async def _find_runs(tx: Tx, item: Item, place: _TextPlace) -> list[TextRun]:
    """The text near a place, by pages. If it begins within a table, the head of that table is looked up."""
    first = max(0, place.at - CONTEXT)
    last = place.at if place.edge == "before" else place.at + 2 * MAX_WINDOW
    parts = await contents.live_parts_between(tx, item.id, first, max(1, last), limit=_MAX_PARTS)
    runs = join_parts([(part.start, part.text, part.page) for part in parts])
    if not runs or runs[0].start == 0:
        return runs
    if runs[0].page is None:
        runs[0] = replace(runs[0], table_head=await _find_head_before(tx, item, runs[0]))
        return runs
    opening, *_ = await contents.live_pages(
        tx, item.id, length=_TABLE_OPENING_LENGTH, limit=1, page=runs[0].page
    )
    if opening.start < runs[0].start:
        runs[0] = replace(runs[0], table_head=find_table_head(opening.opening))
    return runs


async def _find_head_before(tx: Tx, item: Item, run: TextRun) -> str:
    """The head of the table that a text without pages begins within. That of a CSV file opens the content; others are looked for
    backwards, to the last blank line."""
    if not begins_in_table(run.text):
        return ""
    if _text_kind(item, run.text) == "csv":
        parts = await contents.live_parts_between(tx, item.id, 0, _TABLE_OPENING_LENGTH, limit=_MAX_PARTS)
        return find_table_head("".join(part.text for part in parts))
    text, start = "", run.start
    for _ in range(_HEAD_STEPS):
        parts = await contents.live_parts_between(
            tx, item.id, max(0, start - _HEAD_STEP), start, limit=_MAX_PARTS
        )
        text, start = "".join(part.text for part in parts) + text, parts[0].start
        if "\n\n" in text or start == 0:
            break
    return find_table_head(text.rpartition("\n\n")[2])


async def _find_footnotes(tx: Tx, item: Item, windows: list[TextWindow]) -> list[Footnote]:
    """The footnotes of windows; their notes and references may be anywhere in the text."""
    labels = {label for window in windows for label in find_labels(window.text)}
    if not labels:
        return []
    parts = await contents.live_parts_with(tx, item.id, "[^", limit=_MAX_FOOTNOTE_PARTS)
    return await asyncio.to_thread(find_footnotes, labels, [(part.start, part.text) for part in parts])


def _render_all(text: _WindowText) -> list[_Rendered]:
    if not text.code:
        labels = [footnote.label for footnote in text.footnotes]
        return [render(window, labels, text.style) for window in text.windows]
    content = "".join(part.text for part in text.code)
    return [(render_code(window, content), []) for window in text.windows]


def _list_headings(text: _WindowText, rendered: list[_Rendered]) -> list[RenderedHeading]:
    """The headings of the whole text, if they are listed, and those of the blocks."""
    listed = outline(text.outlined, limit=_MAX_HEADINGS, style=text.style)
    of_blocks = [heading for _, headings in rendered for heading in headings]
    by_start = {heading.start: heading for heading in [*listed, *of_blocks]}
    return [by_start[start] for start in sorted(by_start)]


def _response(
    text: _WindowText, rendered: list[_Rendered], titles: list[str], headings: list[RenderedHeading]
) -> RenderedOut:
    return RenderedOut(
        revision=text.revision,
        characters=text.characters,
        previous=text.start if text.start > 0 else None,
        next=None if text.is_last or not text.end else text.end,
        page_kind=text.kind,
        pages=[
            TextPageOut(page=page.page, start=page.start, title=title)
            for page, title in zip(text.openings, titles, strict=True)
        ],
        blocks=[_block_out(block) for blocks, _ in rendered for block in blocks],
        headings=[
            HeadingOut(level=heading.level, title=heading.title, start=heading.start, page=heading.page)
            for heading in headings
        ],
        footnotes=[
            FootnoteOut(label=footnote.label, start=footnote.start, reference=footnote.reference)
            for footnote in text.footnotes
        ],
        images=[_image_out(image) for image in text.images],
    )


def _block_out(block: RenderedBlock) -> BlockOut:
    return BlockOut(
        start=block.start,
        end=block.end,
        page=block.page,
        line=block.line,
        rows=[*block.rows],
        html=block.html,
    )


def _image_out(image: PlacedImage) -> ImageOut:
    return ImageOut(hash=image.hash.hex(), start=image.start, page=image.page, text=image.text)
