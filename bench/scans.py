"""Text of scans: `uv run python -m bench.scans FOLDER [--files N] [--keep FOLDER] [--font FILE] [--only NAME]`, with Chromium.

The beginnings of markdown files of FOLDER are printed in several layouts, each with a ruled and an unruled table, drawn as pictures with noise,
turned or slanted, and recognised. What was printed is the truth:

    order           the share of runs of twelve words of paragraphs that are in the text in this order; a letter of Chinese, Japanese
                    or Korean counts as a word
    words           the share of words that are in the text
    cells           the share of cells that stand in a table of ours, in a row with other cells of their row
    confidence      of the recognition, and how many pages are marked as doubtful
"""

import argparse
import html
import io
import random
import re
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from PIL import Image

from bench.structure import make_table, print_pdf, table_rows
from gristmill.readers.formats import ocr
from gristmill.readers.libraries import numpy, pdfium

_GRAM = 12
_WORD = re.compile("[\u2e80-\u9fff\uac00-\ud7af]|[^\\W\u2e80-\u9fff\uac00-\ud7af]+")
_CSS = """@page{size:A4;margin:18mm} table{margin:1em 0} p{margin:.5em 0;text-align:justify} td{text-align:left;overflow-wrap:anywhere}
.ruled{border-collapse:collapse} .ruled td{border:1px solid black;padding:3px 8px}
.unruled td{padding:3px 16px 3px 0;vertical-align:top}"""


@dataclass(frozen=True)
class _Layout:
    css: str
    dpi: int = 200
    turn: int = 0  # degrees to the left
    slant: float = 0.0  # degrees
    noise: float = 8.0  # of 255, standard deviation


_LAYOUTS = {
    "one column": _Layout("body{font-size:11pt;line-height:1.4}"),
    "150 dpi, noisy": _Layout("body{font-size:11pt;line-height:1.4}", 150, noise=18.0),
    "two columns": _Layout("body{font-size:9.5pt;line-height:1.25;columns:2;column-gap:8mm}"),
    "three columns": _Layout(
        "body{font-size:8.5pt;line-height:1.2;columns:3;column-gap:6mm} table{width:100%;font-size:7pt}"
    ),
    "slanted 2°": _Layout("body{font-size:11pt;line-height:1.4}", slant=2.0),
    "two, slanted -1.5°": _Layout("body{font-size:9.5pt;line-height:1.25;columns:2}", slant=-1.5),
    "turned 90°": _Layout("body{font-size:11pt;line-height:1.4}", turn=90),
    "upside down": _Layout("body{font-size:11pt;line-height:1.4}", turn=180),
    "two, turned 270°": _Layout("body{font-size:9.5pt;line-height:1.25;columns:2}", turn=270),
}


@dataclass
class _Score:
    grams: int = 0
    same_grams: int = 0
    words: int = 0
    same_words: int = 0
    cells: Counter[str] = field(default_factory=Counter[str])
    same_cells: Counter[str] = field(default_factory=Counter[str])
    pages: int = 0
    doubtful: int = 0
    confidence: float = 0.0
    seconds: float = 0.0

    def __str__(self) -> str:
        cells = ", ".join(f"{kind} {self.same_cells[kind] / count:.3f}" for kind, count in self.cells.items())
        pages = max(1, self.pages)
        return (
            f"order {self.same_grams / max(1, self.grams):.3f}; words {self.same_words / max(1, self.words):.3f}; cells {cells};"
            f" confidence {self.confidence / pages:.2f}, {self.doubtful} of {self.pages} doubtful; {self.seconds / pages:.1f} CPU-s a page"
        )

    def compare(self, text: str, tables: dict[str, list[list[str]]], prose: Sequence[str]) -> None:
        """Add what was read of a document to the counts."""
        ours = set(_grams(text))
        for paragraph in prose:
            wanted = _grams(paragraph)
            self.grams += len(wanted)
            self.same_grams += sum(gram in ours for gram in wanted)
        truth, found = Counter(_words(" ".join(prose))), Counter(_words(text))
        self.words += truth.total()
        self.same_words += (truth & found).total()
        our_rows = [Counter(row) for row in table_rows(text)]
        for kind, rows in tables.items():
            for row in rows:
                cells = Counter(" ".join(re.findall(r"\w+", cell.casefold())) for cell in row)
                best = max(((cells & our_row).total() for our_row in our_rows), default=0)
                self.cells[kind] += len(row)
                self.same_cells[kind] += best if best > 1 else 0


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _grams(text: str) -> list[tuple[str, ...]]:
    words = _words(text)
    return [tuple(words[at : at + _GRAM]) for at in range(len(words) - _GRAM + 1)]


def _paragraphs(path: Path, letters: int) -> list[str]:
    """The first paragraphs of a markdown file, of about so many letters in all."""
    text = re.sub(r"<!--.*?-->|\A---\n.*?\n---\n", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    tokens = MarkdownIt("commonmark").parse(text)
    paragraphs: list[str] = []
    for at, token in enumerate(tokens):
        if token.type != "paragraph_open" or sum(map(len, paragraphs)) > letters:
            continue
        children = tokens[at + 1].children or []
        plain = " ".join(
            "".join(
                child.content if child.type in ("text", "code_inline") else " " for child in children
            ).split()
        )
        if len(plain) > 60 and "{{" not in plain:
            paragraphs.append(plain)
    return paragraphs


def _scan(page: Any, layout: _Layout, generator: random.Random) -> Any:
    """The pixels of a printed page as a scanner would have them."""
    picture = Image.fromarray(page.render(scale=layout.dpi / 72).to_numpy()[:, :, :3]).convert("L")
    picture = picture.rotate(layout.slant, Image.Resampling.BICUBIC, fillcolor=255)
    if layout.turn:
        picture = picture.rotate(layout.turn, expand=True)
    pixels = numpy.asarray(picture, dtype=numpy.float32)
    noise = numpy.random.default_rng(generator.randrange(2**32)).normal(0, layout.noise, pixels.shape)
    pixels = numpy.clip(20 + pixels * 0.86 + noise, 0, 255).astype(numpy.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=80)
    return ocr.open_image(file.getvalue())


def _measure(
    name: str, layout: _Layout, files: Sequence[Path], top: Path, font: Path | None, letters: int
) -> _Score:
    score = _Score()
    face = (
        f"@font-face{{font-family:given;src:url({font.as_uri()})}} body{{font-family:given}}" if font else ""
    )
    for number, path in enumerate(files):
        generator = random.Random(f"{number} {name}")
        prose = _paragraphs(path, letters)
        vocabulary = sorted({word for word in re.findall(r"\w{3,8}", " ".join(prose)) if not word.isdigit()})
        if len(vocabulary) < 20:
            continue
        half = len(prose) // 2
        blocks, tables = [f"<p>{html.escape(text)}</p>" for text in prose], dict[str, list[list[str]]]()
        for kind, place in (("unruled", len(prose)), ("ruled", half)):
            table, tables[kind] = make_table(vocabulary, generator, kind)
            blocks.insert(place, table)
        target = top / f"{re.sub(r'[^a-z0-9]+', '-', name)}-{path.stem}-{letters}.pdf"
        if not target.exists():
            style = f"<style>{layout.css}{_CSS}{face}</style>"
            print_pdf(f"<!doctype html><meta charset=utf-8>{style}{''.join(blocks)}", target)
        document: Any = pdfium.PdfDocument(str(target))
        texts: list[str] = []
        for page in document:
            picture = _scan(page, layout, generator)
            began = time.process_time()
            recognised = ocr.recognise(picture)
            score.seconds += time.process_time() - began
            score.pages += 1
            score.confidence += recognised.confidence
            score.doubtful += recognised.is_doubtful
            texts.append(recognised.text)
        document.close()
        target.with_suffix(".md").write_text("\n\n".join(texts), encoding="utf-8")
        score.compare("\n\n".join(texts), tables, prose)
    return score


def main() -> None:
    """Print, scan, recognise and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", type=int, default=3, help="number of files, evenly chosen")
    parser.add_argument("--letters", type=int, default=2500, help="letters of each file that are printed")
    parser.add_argument(
        "--keep", type=Path, help="a folder for what is printed and read, used again in the next run"
    )
    parser.add_argument(
        "--font", type=Path, help="a font file, for scripts that the fonts of this machine lack"
    )
    parser.add_argument("--only", help="layouts whose names contain this")
    options = parser.parse_args()
    paths = sorted(options.folder.rglob("*.md"), key=lambda path: (-path.stat().st_size, path))
    paths = paths[: 4 * options.files : 4]
    with tempfile.TemporaryDirectory() as name:
        top = options.keep or Path(name)
        top.mkdir(parents=True, exist_ok=True)
        for layout_name, layout in _LAYOUTS.items():
            if options.only is None or options.only in layout_name:
                font = options.font.absolute() if options.font else None
                score = _measure(layout_name, layout, paths, top, font, options.letters)
                print(f"{layout_name:20} {score}", flush=True)


if __name__ == "__main__":
    main()
