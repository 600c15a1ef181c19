"""The reading order of recognised lines: columns, tables and paragraphs, from where the lines stand."""

from collections.abc import Sequence

import numpy as np

from gristmill.readers.formats.ocr_layout import page_text
from gristmill.readers.formats.ocr_lines import (
    LineStrip,
    OcrLine,
    OcrPage,
    PixelBox,
    divide_at_gutters,
)
from gristmill.readers.formats.ocr_rulings import Ruled, Rulings

HEIGHT, STEP = 30.0, 40.0  # of a line, and from line to line, in pixels
LETTER = 14.0  # wide


def line(text: str, left: float, top: float, width: float | None = None, height: float = HEIGHT) -> OcrLine:
    right = left + (width if width is not None else LETTER * len(text))
    return OcrLine(text, 0.99, PixelBox(left, top, right, top + height))


def column(words: str, left: float, top: float, lines: int = 8) -> list[OcrLine]:
    """A column of prose: every line has the word, its number and enough letters."""
    return [line(f"{words} number {n} goes on and", left, top + n * STEP, 430) for n in range(lines)]


def text_of(
    *lines: OcrLine, across: Sequence[Ruled] = (), down: Sequence[Ruled] = (), width: int = 1000
) -> str:
    shares = np.array([[1 / width, 0, 0], [0, 1 / 1400, 0]])
    return page_text(OcrPage(list(lines), Rulings(across, down), width, 1400, shares))[0]


def test_columns_are_read_one_after_the_other() -> None:
    """A title and a line across the page divide them."""
    text = text_of(
        line("A title that goes across the whole page here", 50, 0, 900),
        *column("wheat", 50, 100, 6),
        *column("barley", 520, 100, 6),
        line("A remark across both columns of the page as well", 50, 400, 900),
        *column("oats", 50, 500, 6),
        *column("rye", 520, 500, 6),
    )
    order = ["title", "wheat number 5", "barley number 0", "remark", "oats number 0", "oats number 5", "rye"]
    places = [text.index(words) for words in order]
    assert places == sorted(places)
    assert "goes on and wheat number 1" in text
    assert "|" not in text


def test_columns_that_stand_close_are_read_one_after_the_other() -> None:
    """Boxes have some paper around their text, so that those of two columns may touch."""
    close = [
        line(f"{grain} line {n} goes on and on and on", left + (n % 3), 50 + n * STEP, 446)
        for left, grain in ((50, "wheat"), (500, "oats"))
        for n in range(9)
    ]
    text = text_of(*sorted(close, key=lambda each: each.box.top))
    places = [text.index(words) for words in ("wheat line 0", "wheat line 8", "oats line 0", "oats line 8")]
    assert places == sorted(places)


def test_boxes_that_reach_over_two_columns_are_cut_between_them() -> None:
    words = [(52.0 + 90 * n, 60.0 + 90 * n) for n in range(4)]  # spaces, of which each line has its own

    def strip(n: int, *gaps: tuple[float, float]) -> LineStrip:
        shifted = [(left + 17 * (n % 5), right + 17 * (n % 5)) for left, right in words]
        return LineStrip(PixelBox(40, STEP * n, 960, STEP * n + HEIGHT), sorted([*shifted, *gaps]))

    boxes = divide_at_gutters([strip(n, (490, 505)) for n in range(8)])
    assert len(boxes) == 16
    assert all(box.right < 500 or box.left > 490 for box in boxes)
    spaces = [strip(n, (400 + 40 * n, 415 + 40 * n)) for n in range(8)]
    assert len(divide_at_gutters(spaces)) == 8


def test_a_line_that_was_stretched_is_no_row_of_a_table() -> None:
    wide = 25.0  # between the words
    stretched = [
        [line(word, 50 + place * (100 + wide), top, 100) for place, word in enumerate(words)]
        for top, words in (
            (250, ("some", "lines", "are", "quite", "wide")),
            (290, ("and", "words", "far", "apart", "here")),
        )
    ]
    prose = [
        line(f"wheat number {n} goes on and on and on here", 50, top, 600)
        for n, top in enumerate((50, 90, 130, 170, 210, 330, 370, 410))
    ]
    text = text_of(*prose, *stretched[0], *stretched[1])
    assert "some lines are quite wide and words far apart here" in text
    assert "|" not in text


def test_three_columns_are_read_one_after_the_other() -> None:
    columns = [
        line(f"{grain} line {n} of the column", left, 50 + n * STEP, 290)
        for left, grain in ((0, "wheat"), (330, "oats"), (660, "rye"))
        for n in range(9)
    ]
    text = text_of(*sorted(columns, key=lambda each: each.box.top))
    places = [
        text.index(words)
        for words in ("wheat line 0", "wheat line 8", "oats line 0", "oats line 8", "rye line 0")
    ]
    assert places == sorted(places)


def test_cells_that_stand_below_each_other_are_a_table() -> None:
    rows = [("corn", "sacks", "price"), ("wheat", "12", "340"), ("rye", "7", "120"), ("oats", "31", "655")]
    cells = [
        line(text, 50 + 300 * place, 200 + n * STEP)
        for n, row in enumerate(rows)
        for place, text in enumerate(row)
    ]
    text = text_of(line("What the mill has taken in this year, by corn.", 50, 40, 800), *cells)
    assert text.startswith("What the mill has taken in this year, by corn.\n\n| corn | sacks | price |")
    assert "| rye | 7 | 120 |" in text


def test_drawn_lines_make_the_cells_of_a_table() -> None:
    """A cell of two lines stays one cell, and an empty one is empty."""
    rows, columns = [100.0, 200.0, 300.0, 400.0], [50.0, 350.0, 650.0, 950.0]
    text = text_of(
        line("corn", 60, 130),
        line("remark", 360, 130),
        line("sacks", 660, 130),
        line("wheat", 60, 230),
        line("from the", 360, 210),
        line("north", 360, 250),
        line("12", 660, 230),
        line("rye", 60, 330),
        line("7", 660, 330),
        line("Below the table.", 50, 450),
        across=[Ruled(at, 50, 950) for at in rows],
        down=[Ruled(at, 100, 400) for at in columns],
    )
    assert "| corn | remark | sacks |" in text
    assert "| wheat | from the north | 12 |" in text
    assert "| rye |  | 7 |" in text
    assert text.endswith("\n\nBelow the table.")


def test_lines_of_a_paragraph_are_joined() -> None:
    """Words that are divided at the end of a line, too; Chinese without spaces. A gap begins a paragraph."""
    text = text_of(
        line("The miller grinds the wheat that the far-", 0, 0),
        line("mers bring.", 0, STEP),
        line("磨坊主研磨小麦，", 0, 3 * STEP),
        line("农民带来小麦。", 0, 4 * STEP),
    )
    assert text == "The miller grinds the wheat that the farmers bring.\n\n磨坊主研磨小麦，农民带来小麦。"


def test_lines_that_are_much_larger_are_headings() -> None:
    text = text_of(line("The mill", 50, 0, 300, height=60), *column("wheat", 50, 100, 9))
    assert text.startswith("# The mill\n\nwheat number 0")


def test_every_line_has_its_rectangle_on_the_picture() -> None:
    """Of a picture that was turned upright: in the picture as it was."""
    turned = np.array([[0, -1 / 1000, 1.0], [1 / 1400, 0, 0]])
    lines = [line("The first line", 140, 100, 700), line("and the second", 140, 140, 700)]
    text, boxes = page_text(OcrPage(lines, Rulings([], []), 1400, 1000, turned))
    assert [text[box.start : box.end] for box in boxes] == ["The first line", "and the second"]
    first = boxes[0]
    assert [round(side, 3) for side in (first.left, first.top, first.right, first.bottom)] == [
        0.87,
        0.1,
        0.9,
        0.6,
    ]


def test_an_empty_picture_has_no_text() -> None:
    assert text_of() == ""
