"""Where text stands on its page: packed, cut to a passage, and taken from PDF pages."""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.readers import TextPart, text_boxes
from gristmill.readers.text_boxes import PageBox, TextBox
from tests.readers.conftest import ReadSample
from tests.readers.pdf_writer import PdfPage, pdf

WIDTH, HEIGHT = 612, 792
FIRST, SECOND = "The miller dresses both stones every", "spring, and again in the autumn."


def box_of(part: TextPart, text: str) -> list[PageBox]:
    """The rectangles of a text in a part."""
    start = part.text.index(text)
    return text_boxes.boxes_between(part.boxes, part.page or 0, start, start + len(text))


shares = st.floats(0, 1)
boxes = st.builds(
    TextBox,
    st.integers(0, 60_000),
    st.integers(0, 60_000),
    shares,
    shares,
    shares,
    shares,
    st.booleans(),
)


@given(st.lists(boxes, max_size=20), st.integers(0, 70_000))
def test_packed_boxes_are_in_order_apart_and_on_the_page(drawn: list[TextBox], offset: int) -> None:
    packed = list(text_boxes.unpack(text_boxes.pack(drawn)))
    assert [box.start for box in packed] == sorted(box.start for box in packed)
    assert all(before.end <= after.start < after.end for before, after in itertools.pairwise(packed))
    assert all(0 <= box.left < box.right <= 1 and 0 <= box.top < box.bottom <= 1 for box in packed)
    rest = list(text_boxes.unpack(text_boxes.after(text_boxes.pack(drawn), offset)))
    assert [box.end for box in rest] == [box.end - offset for box in packed if box.end > offset]


def test_a_line_that_is_only_partly_in_a_passage_is_cut_and_a_table_is_not() -> None:
    line = TextBox(0, 10, 0.2, 0.5, 0.4, 0.52)
    table = TextBox(12, 22, 0.2, 0.6, 0.8, 0.9, is_block=True)
    packed = text_boxes.pack([line, table])
    assert len(packed) == 24
    (cut,) = text_boxes.boxes_between(packed, 7, 5, 12)
    assert (cut.page, cut.left, cut.right) == (7, pytest.approx(0.3, abs=1e-3), pytest.approx(0.4, abs=1e-3))
    (block,) = text_boxes.boxes_between(packed, 7, 14, 15)
    assert (block.top, block.bottom) == (pytest.approx(0.6, abs=1e-3), pytest.approx(0.9, abs=1e-3))


async def test_lines_of_a_page_and_cells_of_a_table_have_boxes_where_they_are_drawn(
    read_sample: ReadSample,
) -> None:
    page = PdfPage()
    page.paragraph([FIRST, SECOND])
    page.grid(3, 2)
    for row in (("Grain", "Price"), ("Rye", "21"), ("Oats", "34")):
        page.row(row)
    (part,) = (await read_sample(pdf([page]), "a.pdf")).parts
    above, below = box_of(part, f"{FIRST} {SECOND}")
    assert above.left == pytest.approx(72 / WIDTH, abs=0.005)
    # The letters stand on a line at 720 points from the bottom, and are 11 points high.
    assert 1 - (720 + 11) / HEIGHT < above.top < 1 - 720 / HEIGHT < above.bottom < 1 - (720 - 6) / HEIGHT
    assert below.top - above.top == pytest.approx(14 / HEIGHT, abs=0.002)
    (price,) = box_of(part, "34")
    assert price.left == pytest.approx(196 / WIDTH, abs=0.01)
    assert price.right < 215 / WIDTH
    word = box_of(part, "stones")[0]
    assert above.left < word.left < word.right < above.right


async def test_boxes_are_those_of_the_page_as_it_is_displayed(read_sample: ReadSample) -> None:
    """Turned to the right by its /Rotate, the first line of a page stands upright at its right edge."""
    page = PdfPage()
    page.paragraph([FIRST, SECOND])
    turned = pdf([page]).replace(b"/MediaBox[0 0 612 792]", b"/Rotate 90/MediaBox[0 0 612 792]")
    (part,) = (await read_sample(turned, "a.pdf")).parts
    above = box_of(part, FIRST)[0]
    assert above.right == pytest.approx((720 + 0.72 * 11) / HEIGHT, abs=0.01)
    assert above.top == pytest.approx(72 / WIDTH, abs=0.005)
    assert above.bottom - above.top > 5 * (above.right - above.left)


async def test_every_word_of_columns_and_of_repeated_lines_has_its_own_place(read_sample: ReadSample) -> None:
    page = PdfPage()
    for column in (72, 330):
        for row in range(12):
            page.text(f"the same words in column {column} and row {row}", x=column, y=700 - 14 * row, size=8)
    parts = (await read_sample(pdf([page] * 3), "a.pdf")).parts
    assert [part.page for part in parts] == [1, 2, 3]
    for part in parts:
        for match in re.finditer(r"column (\d+) and row (\d+)", part.text):
            column, row = int(match[1]), int(match[2])
            (box,) = text_boxes.boxes_between(part.boxes, part.page or 0, match.start(), match.end())
            assert column / WIDTH < box.left < (column + 150) / WIDTH
            assert 1 - (700 - 14 * row + 8) / HEIGHT < box.top < 1 - (700 - 14 * row) / HEIGHT
