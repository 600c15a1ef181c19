"""Structure of PDF pages: `uv run python -m bench.structure FOLDER [--files N] [--keep FOLDER] [--peer] [--writer]`, with Chromium.

Markdown files of FOLDER are printed to PDF in several styles (one and two columns, headings by size or by weight, running
headers and footers), each with a ruled and an unruled table, and read again. What was printed is the truth:

    headings        precision, recall and F1 of whole headings
    cells           the share of cells that stand in a table of ours, in a row with other cells of their row
    order           the share of runs of twelve words of paragraphs that are in the text in this order
    pages/CPU-s     of reading, in this process

`--peer` reads the same files with kreuzberg, in the same run. `--writer` also prints with LibreOffice (`soffice`), which sets pages in
another way than Chromium. docling needs models that no package brings, and can't be compared where no model hub is reachable.
"""

import argparse
import html
import random
import re
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from gristmill.readers.formats import pdf
from gristmill.readers.libraries import kreuzberg, pdfium

GRAM = 12
_WORD = re.compile(
    "[\u2e80-\u9fff\uac00-\ud7af]|[^\\W\u2e80-\u9fff\uac00-\ud7af]+"
)  # a letter of Chinese is a word
_TABLE_ROW = re.compile(r"^\s*\|(.+)\|\s*$")
_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*$")
_STYLES = {
    "one column": "body{font:11pt/1.4 serif} h1{font-size:22pt} h2{font-size:16pt} h3{font-size:13pt}",
    "two columns": "body{font:9pt/1.25 sans-serif;columns:2} h1{font-size:14pt} h2{font-size:11pt} h3{font-size:10pt}",
    "bold headings": "body{font:11pt/1.4 sans-serif} h1,h2,h3{font-size:11pt;font-weight:bold}",
    "small steps": "body{font:10pt/1.35 serif} h1{font-size:15pt} h2{font-size:12pt} h3{font:italic bold 10.5pt serif}",
}
_WRITER = "LibreOffice"
_STYLES[_WRITER] = "body{font:11pt serif} h1{font-size:20pt} h2{font-size:15pt} h3{font-size:12.5pt}"
_CSS = """pre,code{font-family:monospace;font-size:85%} pre{white-space:pre-wrap} table{margin:1em 0}
.ruled{border-collapse:collapse} .ruled td{border:1px solid black;padding:3px 8px;text-align:left}
.unruled td{padding:3px 16px 3px 0;text-align:left;vertical-align:top}"""


@dataclass
class StructureScore:
    """Counts over documents."""

    headings: int = 0
    our_headings: int = 0
    same_headings: int = 0
    cells: Counter[str] = field(default_factory=Counter[str])
    same_cells: Counter[str] = field(default_factory=Counter[str])
    grams: int = 0
    same_grams: int = 0
    pages: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        precision = self.same_headings / max(1, self.our_headings)
        recall = self.same_headings / max(1, self.headings)
        f1 = 2 * precision * recall / max(1e-9, precision + recall)
        cells = ", ".join(f"{kind} {self.same_cells[kind] / count:.3f}" for kind, count in self.cells.items())
        return (
            f"headings F1 {f1:.3f} (precision {precision:.3f}, recall {recall:.3f} of {self.headings}); cells {cells};"
            f" order {self.same_grams / max(1, self.grams):.3f}; {self.pages / max(1e-9, self.seconds):,.0f} pages/CPU-s"
        )

    def compare(
        self, markdown: str, headings: list[str], tables: dict[str, list[list[str]]], prose: list[str]
    ) -> None:
        """Add what was read to the counts."""
        ours = Counter(
            normal(match.group(1)) for line in markdown.splitlines() if (match := _HEADING.match(line))
        )
        truth = Counter(heading for heading in map(normal, headings) if heading)
        self.headings += truth.total()
        self.our_headings += ours.total()
        self.same_headings += (ours & truth).total()
        our_rows = [Counter(row) for row in table_rows(markdown)]
        for kind, rows in tables.items():
            for row in rows:
                cells = Counter(map(normal, row))
                best = max(((cells & our_row).total() for our_row in our_rows), default=0)
                self.cells[kind] += len(row)
                self.same_cells[kind] += best if best > 1 else 0
        our_grams = set(grams(markdown))
        for paragraph in prose:
            wanted = grams(paragraph)
            self.grams += len(wanted)
            self.same_grams += sum(gram in our_grams for gram in wanted)


def words(text: str) -> list[str]:
    """The words, without markup."""
    return _WORD.findall(text.casefold())


def normal(text: str) -> str:
    """A heading or cell, for comparison."""
    return " ".join(words(text))


def grams(text: str) -> list[tuple[str, ...]]:
    """All runs of twelve words."""
    all_words = words(text)
    return [tuple(all_words[at : at + GRAM]) for at in range(len(all_words) - GRAM + 1)]


def table_rows(markdown: str) -> list[list[str]]:
    """The rows of all tables."""
    rows: list[list[str]] = []
    for line in markdown.splitlines():
        match = _TABLE_ROW.match(line)
        if match and not re.fullmatch(r"[\s|:-]+", line):
            rows.append([normal(cell) for cell in match.group(1).split("|")])
    return rows


def make_table(vocabulary: Sequence[str], generator: random.Random, kind: str) -> tuple[str, list[list[str]]]:
    """A table in HTML, and its rows."""
    columns = generator.randint(3, 4)
    rows = [
        [" ".join(generator.sample(vocabulary, generator.randint(1, 3))) for _ in range(columns)]
        for _ in range(generator.randint(5, 9))
    ]
    for row in rows[1:]:
        row[-1] = f"{generator.randint(1, 9999):,}"
    cells = ("".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows)
    border = (
        ' border="1" cellspacing="0"' if kind == "ruled" else ""
    )  # LibreOffice knows no borders of classes
    return f'<table class="{kind}"{border}>{"".join(f"<tr>{row}</tr>" for row in cells)}</table>', rows


def print_pdf(page: str, target: Path) -> None:
    """Print HTML with Chromium, with its own header and footer."""
    source = target.with_suffix(".html")
    source.write_text(page, encoding="utf-8")
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--print-to-pdf={target}"]
    subprocess.run([*command, source.as_uri()], check=True, capture_output=True, timeout=120)


def print_with_writer(page: str, target: Path) -> None:
    """Print HTML with LibreOffice."""
    source = target.with_suffix(".html")
    source.write_text(page, encoding="utf-8")
    command = [
        "soffice",
        "--headless",
        "--infilter=HTML (StarWriter)",
        "--convert-to",
        "pdf:writer_pdf_Export",
    ]
    subprocess.run(
        [*command, "--outdir", str(target.parent), str(source)], check=True, capture_output=True, timeout=300
    )


def read_with_peer(path: Path, score: StructureScore) -> str:
    """The text of a PDF by kreuzberg alone."""
    config = kreuzberg.ExtractionConfig(use_cache=False, output_format="markdown", disable_ocr=True)
    began = time.process_time()
    text = str(kreuzberg.extract_file_sync(str(path), "application/pdf", config=config).content)
    score.seconds += time.process_time() - began
    document: Any = pdfium.PdfDocument(str(path))
    score.pages += len(document)
    document.close()
    return text


def read_pdf(path: Path, score: StructureScore) -> str:
    """The text of a PDF; its pages and the CPU time are added to the score."""
    document: Any = pdfium.PdfDocument(str(path))
    began = time.process_time()
    texts = pdf.page_texts(document)
    score.seconds += time.process_time() - began
    score.pages += len(texts)
    document.close()
    return "\n\n".join(texts)


def measure_style(
    style: str, files: Sequence[Path], top: Path, peer: StructureScore | None = None
) -> StructureScore:
    """Print each file in one style, and read it again; with `peer`, by kreuzberg too."""
    parser, score = MarkdownIt("commonmark"), StructureScore()
    for number, path in enumerate(files):
        generator = random.Random(f"{number} {style}")
        text = re.sub(r"<!--.*?-->|\A---\n.*?\n---\n", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        tokens = parser.parse(text)
        headings = _contents(tokens, "heading_open")
        prose = _contents(tokens, "paragraph_open")
        runs = re.findall(r"\w+", " ".join(prose).casefold())
        vocabulary = sorted({word for word in runs if word.isalpha() and 3 < len(word) < 20})
        if len(vocabulary) < 60:
            continue
        blocks, tables = [str(parser.render(text))], dict[str, list[list[str]]]()
        for kind in ("ruled", "unruled"):
            table, tables[kind] = make_table(vocabulary, generator, kind)
            blocks.append(f"<p>{html.escape(' '.join(generator.sample(vocabulary, 30)))}.</p>{table}")
        blocks.append(f"<p>{html.escape(' '.join(generator.sample(vocabulary, 30)))}.</p>")
        target = top / f"{style.replace(' ', '-')}-{number}.pdf"
        if not target.exists():
            page = (
                f"<!doctype html><meta charset=utf-8><style>{_STYLES[style]}{_CSS}</style>{''.join(blocks)}"
            )
            (print_with_writer if style == _WRITER else print_pdf)(page, target)
        markdown = read_pdf(target, score)
        target.with_suffix(".out.md").write_text(markdown, encoding="utf-8")
        score.compare(markdown, headings, tables, prose)
        if peer is not None:
            peer.compare(read_with_peer(target, peer), headings, tables, prose)
    return score


def _contents(tokens: Sequence[Token], kind: str) -> list[str]:
    return [_plain(tokens[at + 1]) for at, token in enumerate(tokens) if token.type == kind]


def _plain(inline: Token) -> str:
    parts = [
        child.content if child.type in ("text", "code_inline") else " " for child in inline.children or []
    ]
    return re.sub(r"\s+", " ", "".join(parts)).strip()


def main() -> None:
    """Print, read and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", type=int, default=12, help="number of files, evenly chosen")
    parser.add_argument("--keep", type=Path, help="a folder for the PDF files, used again in the next run")
    parser.add_argument("--peer", action="store_true", help="read with kreuzberg too")
    parser.add_argument("--writer", action="store_true", help="print with LibreOffice too")
    options = parser.parse_args()
    paths = sorted(options.folder.rglob("*.md"), key=lambda path: (-path.stat().st_size, path))[
        : 4 * options.files : 4
    ]
    with tempfile.TemporaryDirectory() as name:
        top = options.keep or Path(name)
        top.mkdir(parents=True, exist_ok=True)
        for style in _STYLES:
            if style == _WRITER and not options.writer:
                continue
            peer = StructureScore() if options.peer else None
            print(f"{style:14} {measure_style(style, paths, top, peer)}", flush=True)
            if peer is not None:
                print(f"{'':14} kreuzberg: {peer}", flush=True)


if __name__ == "__main__":
    main()
