"""Pages of documents, and their text as safe HTML."""

from typing import Literal
from uuid import UUID

from gristmill.server.api.schemas.common import ApiModel, ErrorBody


class PageOut(ApiModel):
    """A page: its size in points, or in pixels of an image; `label` is its printed number, null if that is its number."""

    width: float
    height: float
    label: str | None


class OutlineOut(ApiModel):
    """A bookmark of the file; the outermost have level 1."""

    level: int
    title: str
    page: int


class PagesOut(ApiModel):
    """The pages of a document. `revision` identifies what was read: with it, pictures can be cached without expiry. `error` is why
    there are none, if that was not refused."""

    item_id: UUID
    revision: str
    count: int
    pages: list[PageOut]
    outline: list[OutlineOut]
    error: ErrorBody | None


class BlockOut(ApiModel):
    """A block of the content (a paragraph, a list, a table …) as sanitised HTML: characters `start` to `end`. `line` is the number
    of its first line if it is code. `rows` are the characters at which the rows of a table begin."""

    start: int
    end: int
    page: int | None
    line: int | None
    rows: list[int]
    html: str


class HeadingOut(ApiModel):
    """A heading of the blocks."""

    level: int
    title: str
    start: int
    page: int | None


class FootnoteOut(ApiModel):
    """A footnote of the blocks: the characters at which its note is written and at which the text refers to it first."""

    label: str
    start: int
    reference: int | None


class TextPageOut(ApiModel):
    """A slide or a sheet: its number, where its text begins, and its first heading; empty if it has none."""

    page: int
    start: int
    title: str


class ImageOut(ApiModel):
    """An image at the character `start`: `GET …/assets/{hash}` returns it. `text` is its caption or its description."""

    hash: str
    start: int
    page: int | None
    text: str


class RenderedOut(ApiModel):
    """Blocks of the content in order. `previous` and `next` are the values of `before` and `after` for more; null at the ends.
    `page_kind` is what the numbers of pages count; `pages` are listed on request. `revision` identifies the text: windows with another
    one are of another text."""

    revision: str
    characters: int
    previous: int | None
    next: int | None
    page_kind: Literal["page", "slide", "sheet"]
    pages: list[TextPageOut]
    blocks: list[BlockOut]
    headings: list[HeadingOut]
    footnotes: list[FootnoteOut]
    images: list[ImageOut]
