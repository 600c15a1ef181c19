"""The pages of an open PDF document. Those from which its look was taken are loaded once."""

import contextlib
from dataclasses import dataclass, field
from typing import Any

from gristmill.readers.formats.pdf_lines import FontCache, TextLine, read_lines
from gristmill.readers.formats.pdf_profile import PdfProfile, make_profile
from gristmill.readers.libraries import pdfium, pdfium_c

_MIN_SAMPLE, _MAX_SAMPLE = 8, 16  # pages whose look is taken for that of the document


@dataclass
class PageObjects:
    """What is on a page apart from text: drawn paths, and whether there may be images."""

    paths: list[Any] = field(default_factory=list[Any])
    has_images: bool = False


@dataclass
class LoadedPage:
    """A page with its text."""

    page: Any
    textpage: Any
    lines: list[TextLine]
    width: float
    height: float
    _objects: PageObjects | None = None

    @property
    def objects(self) -> PageObjects:
        """Looked at once: a page may have an object for each letter."""
        if self._objects is None:
            self._objects = PageObjects()
            raw, get_object, get_type = (
                self.page.raw,
                pdfium_c.FPDFPage_GetObject,
                pdfium_c.FPDFPageObj_GetType,
            )
            text, path = pdfium_c.FPDF_PAGEOBJ_TEXT, pdfium_c.FPDF_PAGEOBJ_PATH
            for index in range(pdfium_c.FPDFPage_CountObjects(raw)):
                item = get_object(raw, index)
                kind = get_type(item)
                if kind == path:
                    self._objects.paths.append(item)
                elif kind != text:
                    self._objects.has_images = True
        return self._objects

    def close(self) -> None:
        """Release its memory."""
        self.textpage.close()
        self.page.close()


class PdfPages:
    """The pages of an open document."""

    def __init__(self, document: Any) -> None:
        self.document = document
        self._fonts = FontCache()
        self._loaded: dict[int, LoadedPage] = {}

    def profile(self) -> PdfProfile:
        """What the document looks like, from an even sample of its pages; the same whichever page reading begins with."""
        total = len(self.document)
        sampled = min(total, max(_MIN_SAMPLE, min(_MAX_SAMPLE, total // 4)))
        for place in range(sampled):
            index = place * total // sampled
            with contextlib.suppress(pdfium.PdfiumError):
                self._loaded[index] = self._load(index)
        return make_profile([(page.lines, page.height) for page in self._loaded.values()])

    def take(self, index: int) -> LoadedPage:
        """A page, which the caller closes."""
        return self._loaded.pop(index, None) or self._load(index)

    def close(self) -> None:
        """Close the pages that were not taken."""
        for page in self._loaded.values():
            page.close()
        self._loaded.clear()

    def _load(self, index: int) -> LoadedPage:
        page = self.document[index]
        textpage = page.get_textpage()
        return LoadedPage(page, textpage, read_lines(textpage, self._fonts), *page.get_size())
