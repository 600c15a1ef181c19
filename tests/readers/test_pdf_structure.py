"""What a person sees on the pages of a PDF: headings, paragraphs, tables, columns, and what repeats on every page."""

import pytest

from tests.readers.conftest import ReadSample
from tests.readers.pdf_writer import PdfPage, drawn_pdf, pdf

STONES = [
    "The miller dresses both stones every spring, before the first of the",
    "harvest comes to the mill, and again in the autumn when it is done.",
]
WHEEL = [
    "The wheel turns the shaft, the shaft turns the runner stone, and the",
    "grain is ground between it and the bed stone, which does not move.",
]


def page(heading: str = "", *, size: float = 11, bold: bool = False) -> PdfPage:
    """A page with a heading between two paragraphs."""
    new = PdfPage()
    new.paragraph(STONES)
    if heading:
        new.heading(heading, size=size, bold=bold)
    new.paragraph(WHEEL)
    return new


@pytest.mark.parametrize(("size", "bold"), [(20, False), (13, False), (11, True), (13, True)])
async def test_larger_or_bold_lines_by_themselves_are_headings(
    read_sample: ReadSample, size: float, bold: bool
) -> None:
    reading = await read_sample(pdf([page("How stones wear", size=size, bold=bold)]), "a.pdf")
    assert reading.text == f"{' '.join(STONES)}\n\n# How stones wear\n\n{' '.join(WHEEL)}\n\n"


async def test_levels_follow_the_sizes_of_the_whole_document(read_sample: ReadSample) -> None:
    pages = [page("The mill", size=20), page("The stones", size=15), page("The bed stone", bold=True)]
    text = (await read_sample(pdf(pages), "a.pdf")).text
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        "# The mill",
        "## The stones",
        "### The bed stone",
    ]


async def test_a_font_without_a_name_leaves_it_to_the_others_whether_a_line_is_bold(
    read_sample: ReadSample,
) -> None:
    """Chromium prints Chinese letters by fonts without names; of a heading, other letters may say that it is bold."""
    first = PdfPage()
    first.paragraph(["AAAA AAAA AAAA AAAA AAAA"] * 4)
    first.operators.append(f"BT /F1 11 Tf 72 {first.at - 10} Td (AAAA) Tj /F2 11 Tf ( of stones) Tj ET")
    first.at -= 33
    first.paragraph(["AAAA AAAA AAAA AAAA AAAA"] * 4)
    reading = await read_sample(drawn_pdf(first), "a.pdf")
    body = " ".join(["AAAA"] * 20)
    assert reading.text == f"{body}\n\n# AAAA of stones\n\n{body}\n\n"


async def test_bold_words_in_a_paragraph_and_bold_paragraphs_are_no_headings(read_sample: ReadSample) -> None:
    first = PdfPage()
    first.paragraph(STONES)
    first.text("Note well:", bold=True)
    first.text("that the stones are worn.", x=140)
    first.at -= 24
    for line in [*STONES, *WHEEL]:
        first.text(line, bold=True)
        first.at -= 14
    first.at -= 10
    first.paragraph(WHEEL * 4)
    text = (await read_sample(pdf([first]), "a.pdf")).text
    assert "#" not in text
    assert "Note well:" in text


async def test_lines_that_run_along_the_edges_are_left_out(read_sample: ReadSample) -> None:
    pages: list[PdfPage] = []
    for number in range(1, 6):
        new = page(f"Part {number} of it", size=16)
        new.text("The Miller's Handbook", y=770, size=9)
        new.text(f"Page {number} of 5", y=20, size=9)
        pages.append(new)
    text = (await read_sample(pdf(pages), "a.pdf")).text
    assert "Handbook" not in text
    assert "Page" not in text
    assert text.count("# Part") == 5
    alone = page()
    alone.text("The Miller's Handbook", y=770, size=9)
    assert "Handbook" in (await read_sample(pdf([alone]), "a.pdf")).text, "one page repeats nothing"


@pytest.mark.parametrize("ruled", [True, False])
async def test_a_table_is_a_table(read_sample: ReadSample, ruled: bool) -> None:
    rows = [["stone", "made of", "weight"], ["runner", "French burr", "1,200"], ["bed", "granite", "900"]]
    rows.append(["spare", "", "850"])
    new = PdfPage()
    new.paragraph(STONES)
    new.at -= 20
    if ruled:
        new.grid(len(rows), 3)
    for row in rows:
        new.row(row)
    new.at -= 20
    new.paragraph(WHEEL)
    text = (await read_sample(pdf([new]), "a.pdf")).text
    table = "| stone | made of | weight |\n| --- | --- | --- |\n" + "".join(
        f"| {' | '.join(row)} |\n" for row in rows[1:]
    )
    assert text == f"{' '.join(STONES)}\n\n{table}\n\n{' '.join(WHEEL)}\n\n"


async def test_columns_of_prose_are_read_one_after_the_other(read_sample: ReadSample) -> None:
    new = PdfPage()
    left = ["the runner stone turns above", "the bed stone, which is fixed", "to the floor of the old mill"]
    right = ["grain falls into the eye and", "leaves as flour at the skirt", "where a broom sweeps it away"]
    for first, second in zip(left, right, strict=True):
        new.text(first, x=72)
        new.text(second, x=320)
        new.at -= 14
    text = (await read_sample(pdf([new]), "a.pdf")).text
    assert " ".join(text.split()) == " ".join([*left, *right])


async def test_a_box_around_text_is_no_table(read_sample: ReadSample) -> None:
    new = PdfPage()
    new.paragraph(STONES)
    new.grid(1, 1, width=480, height=60)
    new.paragraph(WHEEL)
    assert "|" not in (await read_sample(pdf([new]), "a.pdf")).text


async def test_titles_of_the_outline_are_headings_at_its_levels(read_sample: ReadSample) -> None:
    page = PdfPage()
    page.text("1.2 Dressing the stones")  # looks like the text around it
    page.at -= 24
    page.paragraph(
        ["Both stones are dressed every spring, before the first of", "the harvest comes to the mill."]
    )
    page.text("Dressing the stones")
    data = pdf([page, page])
    data = data.replace(b"/Type/Catalog", b"/Type/Catalog/Outlines 90 0 R", 1)
    entries = (
        b"90 0 obj<</Type/Outlines/First 91 0 R/Last 91 0 R/Count 1>>\nendobj\n"
        b"91 0 obj<</Title(The mill)/Parent 90 0 R/Dest[7 0 R/Fit]/First 92 0 R/Last 92 0 R/Count 1>>\nendobj\n"
        b"92 0 obj<</Title(Dressing the stones)/Parent 91 0 R/Dest[7 0 R/Fit]>>\nendobj\n"
    )
    data = data.replace(b"xref\n", entries + b"xref\n", 1)
    reading = await read_sample(data.replace(b"startxref", b"startxref "), "a.pdf")
    headings = [line for line in reading.text.splitlines() if line.startswith("#")]
    assert headings == ["## 1.2 Dressing the stones"], "on the page of the entry alone, and once"


async def test_cells_of_several_lines_that_are_centred_in_their_row_stay_one_cell(
    read_sample: ReadSample,
) -> None:
    page = PdfPage()
    page.paragraph(
        ["The stones of the mill, by the quarry that they come from:", "so much is known of them."]
    )
    for row in (
        ("Stone", "Quarry", "Weight"),
        ("runner stone/of basalt", "Mayen", "900"),
        ("bed stone", "the river/at Brohl", "1,200"),
        ("spare", "Andernach", "700/or less"),
    ):
        for column, cell in enumerate(row):
            lines = cell.split("/")
            for place, line in enumerate(lines):
                page.text(line, x=76 + 160 * column, y=page.at + 6.5 * (len(lines) - 1) - 13 * place)
        page.at -= 29
    page.at -= 30
    page.paragraph(["The miller dresses them every spring, before the first rye", "comes to the mill."])
    text = (await read_sample(pdf([page]), "a.pdf")).text
    rows = [line for line in text.splitlines() if line.startswith("|") and "---" not in line]
    assert rows == [
        "| Stone | Quarry | Weight |",
        "| runner stone of basalt | Mayen | 900 |",
        "| bed stone | the river at Brohl | 1,200 |",
        "| spare | Andernach | 700 or less |",
    ]


async def test_a_bold_line_between_tables_and_above_paragraphs_of_one_line_is_a_heading(
    read_sample: ReadSample,
) -> None:
    page = PdfPage()
    for title in ("Weights", "Ages"):
        page.heading(title, bold=True)
        for row in (("Stone", "Measure"), ("runner", "900"), ("bed", "1,200"), ("spare", "700")):
            page.row(row)
        page.at -= 14
    page.paragraph(
        [
            "The miller dresses them every spring, before the first rye",
            "comes to the mill, and in autumn",
            "once more.",
        ]
    )
    for number in range(8):
        page.heading(f"Stone number {number}", bold=True)
        page.text("It is of basalt.")
        page.at -= 10
    text = (await read_sample(pdf([page]), "a.pdf")).text
    headings = [line.lstrip("# ") for line in text.splitlines() if line.startswith("#")]
    assert headings == ["Weights", "Ages", *(f"Stone number {number}" for number in range(8))]
