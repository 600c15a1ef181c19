"""PDF pages as a test wants them: texts at places, and drawn lines."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.readers.samples import PLAIN_FONT, pdf_file


@dataclass
class PdfPage:
    """A page of 612 by 792 points. `at` is where the next line is written, from the bottom."""

    operators: list[str] = field(default_factory=list[str])
    at: float = 720.0

    def text(
        self, text: str, *, x: float = 72, y: float | None = None, size: float = 11, bold: bool = False
    ) -> None:
        """Write a line."""
        escaped = text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
        self.operators.append(
            f"BT /F{2 if bold else 1} {size} Tf {x} {self.at if y is None else y} Td ({escaped}) Tj ET"
        )

    def paragraph(self, lines: Sequence[str]) -> None:
        """Write lines below each other, with a gap after them."""
        for line in lines:
            self.text(line)
            self.at -= 14
        self.at -= 10

    def heading(self, text: str, *, size: float = 11, bold: bool = False) -> None:
        """Write a line with a gap above and below."""
        self.at -= 10
        self.text(text, size=size, bold=bold)
        self.at -= size + 12

    def row(self, cells: Sequence[str], *, width: float = 120, height: float = 20) -> None:
        """Write the cells of a row next to each other."""
        for place, cell in enumerate(cells):
            if cell:
                self.text(cell, x=76 + place * width)
        self.at -= height

    def grid(self, rows: int, columns: int, *, width: float = 120, height: float = 20) -> None:
        """Draw the lines around the rows that follow."""
        top, left = self.at + 14, 72
        bottom, right = top - rows * height, left + columns * width
        for row in range(rows + 1):
            self.operators.append(f"0.5 w {left} {top - row * height} m {right} {top - row * height} l S")
        for column in range(columns + 1):
            self.operators.append(
                f"0.5 w {left + column * width} {top} m {left + column * width} {bottom} l S"
            )


def pdf(pages: Sequence[PdfPage]) -> bytes:
    """The file."""
    return pdf_file([" ".join(page.operators) for page in pages])


# A font with numbers of glyphs and no table that says which characters they are.
_UNMAPPED_FONT = (
    b"<</Type/Font/Subtype/Type0/BaseFont/Glyphs/Encoding/Identity-H/DescendantFonts[<</Type/Font/Subtype/CIDFontType2"
    b"/BaseFont/Glyphs/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>/DW 500"
    b"/FontDescriptor<</Type/FontDescriptor/FontName/Glyphs/Flags 4/FontBBox[0 0 500 700]/Ascent 700/Descent 0"
    b"/CapHeight 700/StemV 80/ItalicAngle 0>>>>]>>"
)
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def unmapped_pdf(pages: Sequence[tuple[Sequence[str], Sequence[str]]]) -> bytes:
    """Pages of lines that are readable, and of lines in a font without a table."""
    contents: list[str] = []
    for readable, unmapped in pages:
        page = PdfPage()
        for line in readable:
            page.text(line, bold=True)
            page.at -= 14
        for line in unmapped:
            glyphs = "".join(f"{ord(letter) - 29:04x}" for letter in line)
            page.operators.append(f"BT /F1 11 Tf 72 {page.at} Td <{glyphs}> Tj ET")
            page.at -= 14
        contents.append(" ".join(page.operators))
    return pdf_file(contents, font=_UNMAPPED_FONT)


def mislabelled_pdf(lines: Sequence[str]) -> bytes:
    """A page that shows these lines, with a table that says of each letter that it is the next one of the alphabet."""
    following = str.maketrans(_LETTERS, _LETTERS[1:] + _LETTERS[0])
    page = PdfPage()
    page.paragraph([line.translate(following) for line in lines])
    glyphs = " ".join(f"{ord(letter.translate(following))}/{letter}" for letter in _LETTERS)
    encoding = f"<</Type/Encoding/BaseEncoding/WinAnsiEncoding/Differences[{glyphs}]>>".encode()
    font = PLAIN_FONT.replace(b"/WinAnsiEncoding", encoding).replace(b">>>>", b">>/ToUnicode 5 0 R>>")
    table = (
        b"/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /Wrong def /CMapType 2 def "
        b"1 begincodespacerange <00> <ff> endcodespacerange 1 beginbfrange <20> <7e> <0020> endbfrange endcmap end end"
    )
    return pdf_file([" ".join(page.operators)], font=font, more=table)


def drawn_pdf(page: PdfPage) -> bytes:
    """A file whose plain font has no name and draws its only letter, A, as a square."""
    font = (
        b"<</Type/Font/Subtype/Type3/FontBBox[0 0 700 700]/FontMatrix[.001 0 0 .001 0 0]/FirstChar 32/LastChar 65/Widths["
        + b"300 " * 33
        + b"700]/CharProcs<</A 5 0 R>>/Encoding<</Type/Encoding/Differences[32/space 65/A]>>/Resources<<>>>>"
    )
    return pdf_file([" ".join(page.operators)], font=font, more=b"700 0 0 0 600 700 d1 0 0 600 700 re f")
