"""What stands around the text of office documents: headers, notes, comments, boxes, charts, equations, merged cells, hidden sheets."""

import struct

import pytest

from gristmill.readers.formats.equations import latex
from gristmill.readers.formats.rtf_text import parse_rtf
from gristmill.readers.formats.xls_charts import separate_charts
from gristmill.readers.libraries import etree
from tests.readers import office_samples
from tests.readers.conftest import ReadSample
from tests.readers.module_pool import pool as pool
from tests.readers.office_samples import CHART_TABLE, EQUATION_LATEX

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_word_document_is_read_with_all_that_is_around_its_text(read_sample: ReadSample) -> None:
    reading = await read_sample(office_samples.word_with_everything(), "a.docx")
    assert reading.report.warnings == []
    assert reading.text.split("\n\n") == [
        "The Miller's Handbook",
        "## The stones",
        "Burr[^1] and granite[^2]",
        "[^1]: From France.",
        "[^2]: From the Alps.",
        "> Ada: Which quarry?",
        f"${EQUATION_LATEX}$",
        "Words in a box",
        *CHART_TABLE.split("\n\n"),
        "Hopper",
        "Damsel",
        "| across | across | c1 |\n| --- | --- | --- |\n| down | b2 | c2 |\n| down | b3 | c3 |",
        "1. first",
        "  1a) inner",
        "2. second",
        "put in",
        "For millers only",
        "",
    ]


async def test_slides_are_read_with_charts_equations_notes_and_comments(read_sample: ReadSample) -> None:
    reading = await read_sample(office_samples.slides_with_everything(), "a.pptx")
    assert reading.text.split("\n\n") == [
        *CHART_TABLE.split("\n\n"),
        "Hopper",
        "Damsel",
        "| across | across |\n| --- | --- |\n| a2 | b2 |",
        f"${EQUATION_LATEX}$",
        "> Speak slowly",
        "> An old remark",
        "> A new remark",
        "",
    ]


async def test_a_workbook_is_read_with_comments_boxes_charts_and_hidden_sheets_marked(
    read_sample: ReadSample,
) -> None:
    reading = await read_sample(office_samples.workbook_with_everything(), "a.xlsx")
    stock, prices = (part.text for part in reading.parts)
    assert stock.split("\n\n") == [
        "## Stock",
        "| stones | stones | weight |\n| --- | --- | --- |\n| runner | burr | 1200 |",
        "Stock of the mill",
        "> E4: Ada: weighed in spring",
        "Words in a box",
        *CHART_TABLE.split("\n\n"),
        "",
    ]
    assert prices == "## Prices (hidden sheet)\n\n| secret |\n| --- |\n\n"
    assert [part.page for part in reading.parts] == [1, 2]


async def test_opendocument_is_read_with_all_that_is_around_its_text(read_sample: ReadSample) -> None:
    chart = ["Grain by year", "| Year | Rye |\n| --- | --- |\n| 2024 | 12 |"]
    formula = r"$$\frac{a}{\beta}=x^{2}$$"
    table = "| across | across | down |\n| --- | --- | --- |\n| a2 | b2 | down |"
    text = (await read_sample(office_samples.opendocument_with_everything("text"), "a.odt")).text
    assert text.split("\n\n") == [
        "The Miller's Handbook",
        "## The stones",
        "Burr (From France.)",
        "> Ada: Which quarry?",
        "Words in a box",
        "In a rectangle",
        *chart,
        formula,
        table,
        "For millers",
        "",
    ]
    reading = await read_sample(office_samples.opendocument_with_everything("spreadsheet"), "a.ods")
    assert reading.text.split("\n\n") == [
        "The Miller's Handbook",
        "## Stock",
        table.replace("b2", "> Ada: Which quarry? b2"),
        "Words in a box",
        "In a rectangle",
        *chart,
        formula,
        "## Prices (hidden sheet)",
        "| secret |\n| --- |",
        "For millers",
        "",
    ]
    assert not reading.attachments, "charts and formulas are text"


async def test_rich_text_is_decoded_by_its_fonts_and_read_with_notes_and_boxes(
    read_sample: ReadSample,
) -> None:
    data = (
        rb"{\rtf1\ansi\ansicpg1252\deff0{\fonttbl{\f0\fcharset0 Arial;}{\f1\fcharset204 Arial CYR;}{\f2\fcharset128 MS Mincho;}}"
        rb"{\stylesheet{\s1 heading 1;}}{\info{\title The stones}{\author Ada}}{\header The Handbook\par}{\footer For millers\par}"
        rb"\pard\s1 A heading\par\pard Plain \f1\'cf\'f0\'e8\'e2\'e5\'f2\f2 \'93\'fa\'96\'7b\f0 \u8364?{\footnote A note.}\par"
        rb"{\field{\*\fldinst HYPERLINK x}{\fldrslt a link}} pic{\pict 89504e47}\par\trowd\intbl one\cell two\cell\row"
        rb"\pard end{\*\atnauthor Ada}{\*\annotation A remark}{\shp{\*\shpinst{\shptxt In a box\par}}}\par}"
    )
    reading = await read_sample(data, "a.rtf")
    assert reading.document["title"] == "The stones"
    assert reading.document["authors"] == ["Ada"]
    assert reading.text.split("\n\n") == [
        "The Handbook",
        "# A heading",
        "Plain Привет日本€[^1]",
        "[^1]: A note.",
        "a link pic",
        "| one | two |\n| --- | --- |",
        "end",
        "> Ada: A remark",
        "In a box",
        "For millers",
        "",
    ]


async def test_broken_rich_text_gives_what_precedes_the_break() -> None:
    assert parse_rtf(rb"{\rtf1 whole\par and {\b half").text == "whole\n\nand half"
    assert parse_rtf(rb"{\rtf1 a\bin5 {{{{{b}").text == "ab", "binary data is skipped by its length"
    assert parse_rtf(b"{\\rtf1 " + b"{" * 50_000 + b"deep").text == "deep"


async def test_the_values_of_an_old_chart_are_not_taken_for_cells() -> None:
    def record(kind: int, body: bytes = b"") -> bytes:
        return struct.pack("<HH", kind, len(body)) + body

    def number(row: int, column: int, value: float) -> bytes:
        return record(0x203, struct.pack("<HHHd", row, column, 0, value))

    def text(value: str) -> bytes:
        return record(0x100D, b"\0\0" + bytes((len(value), 0)) + value.encode("latin-1"))

    def part(kind: int, inside: bytes) -> bytes:
        return record(0x809, struct.pack("<HH", 0x600, kind) + bytes(12)) + inside + record(0x0A)

    chart = (
        record(0x1003) + text("Rye") + text("Grain by year") + record(0x1065, b"\1\0") + number(0, 0, 12.5)
    )
    stream = part(5, b"") + part(0x10, number(0, 0, 7) + part(0x20, chart))
    patched, charts = separate_charts(stream)
    assert charts == [(1, "Grain by year\n\n|  | Rye |\n| --- | --- |\n|  | 12.5 |")]
    assert len(patched) == len(stream)
    assert patched.count(struct.pack("<HH", 0x203, 14)) == 1, "the cell of the sheet is still there"


async def test_equations_of_every_kind_are_latex() -> None:
    def math(inside: str) -> str:
        return latex(etree.fromstring(f'<m:oMath xmlns:m="{office_samples.M}">{inside}</m:oMath>'))

    def run(text: str) -> str:
        return f"<m:r><m:t>{text}</m:t></m:r>"

    def base(text: str) -> str:
        return f"<m:e>{run(text)}</m:e>"

    assert math(f"<m:sSub>{base('x')}<m:sub>{run('1')}</m:sub></m:sSub>") == "x_{1}"
    assert (
        math(f"<m:d><m:dPr><m:begChr m:val='['/><m:endChr m:val=']'/></m:dPr>{base('a')}</m:d>")
        == r"\left[a\right]"
    )
    assert math(f"<m:func><m:fName>{run('sin')}</m:fName>{base('x')}</m:func>") == r"\sin x"
    matrix = f"<m:m><m:mr>{base('a')}{base('b')}</m:mr><m:mr>{base('c')}{base('d')}</m:mr></m:m>"
    assert math(matrix) == r"\begin{matrix}a & b \\ c & d\end{matrix}"
    assert math(f"<m:acc><m:accPr><m:chr m:val='\u20d7'/></m:accPr>{base('v')}</m:acc>") == r"\vec{v}"
    assert math("<m:unknown>" * 100 + run("deep") + "</m:unknown>" * 100) == "", "not without end"
