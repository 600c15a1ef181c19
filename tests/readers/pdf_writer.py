"""PDF pages as a test wants them: texts at places, and drawn lines."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.readers.samples import pdf_file


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
