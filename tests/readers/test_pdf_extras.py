"""What a PDF has apart from the text of its pages, and text whose letters are not those that the page shows."""

import pytest

from gristmill.readers.formats import pdf_layout
from gristmill.readers.formats.pdf_pages import PdfPages
from gristmill.readers.formats.pdf_readability import Readability, is_unreadable, readability
from gristmill.readers.formats.pdf_repair import compounds_in, fold_ligatures, join_hyphens
from gristmill.readers.libraries import pdfium
from tests.readers import samples
from tests.readers.conftest import ReadSample
from tests.readers.module_pool import pool as pool
from tests.readers.pdf_writer import mislabelled_pdf, unmapped_pdf

pytestmark = pytest.mark.asyncio(loop_scope="module")

PROSE = (
    "The miller dresses both stones every spring, before the first of the harvest comes to the mill, and again in the autumn when "
    "it is done. The wheel turns the shaft, the shaft turns the runner stone, and the grain is ground between it and the bed stone."
)


def _shifted(text: str) -> str:
    """The text as numbers of glyphs that are taken for letters: what fonts without a table give."""
    return "".join(chr(ord(letter) - 29) if letter.isalpha() else letter for letter in text)


def _with_annotations() -> bytes:
    """A PDF with metadata, two fields, a free text and a comment."""
    data = samples.pdf([PROSE[:60]])
    objects = (
        b"900 0 obj<</Title(The stones)/Author(Ada; Bo)/Keywords(mill, rye)/CreationDate(D:20240301123000Z)>>\nendobj\n"
        b"901 0 obj<</Type/Annot/Subtype/Widget/FT/Tx/T(weight)/TU(Weight of the stone)/V(1,200)/Rect[72 600 200 620]>>\nendobj\n"
        b"902 0 obj<</Type/Annot/Subtype/Widget/FT/Tx/T(empty)/Rect[72 570 200 590]>>\nendobj\n"
        b"903 0 obj<</Type/Annot/Subtype/FreeText/Contents(Written on the page)/Rect[72 500 200 520]/DA(/Helv 9 Tf)>>\nendobj\n"
        b"904 0 obj<</Type/Annot/Subtype/Text/T(Ada)/Contents(Which quarry?)/Rect[72 400 90 420]>>\nendobj\n"
    )
    data = data.replace(b"/MediaBox", b"/Annots[901 0 R 902 0 R 903 0 R 904 0 R]/MediaBox")
    data = data.replace(
        b"<</Type/Catalog", b"<</Type/Catalog/Lang(de-DE)/AcroForm<</Fields[901 0 R 902 0 R]>>"
    )
    data = data.replace(b"xref\n", objects + b"xref\n", 1).replace(
        b"/Root 1 0 R", b"/Root 1 0 R/Info 900 0 R"
    )
    return data.replace(b"startxref", b"startxref ")  # PDFium finds the objects by itself


async def test_fields_free_texts_comments_and_metadata_of_a_pdf_are_read(read_sample: ReadSample) -> None:
    reading = await read_sample(_with_annotations(), "a.pdf")
    assert reading.text.split("\n\n")[1:] == [
        "Weight of the stone: 1,200",
        "Written on the page",
        "> Ada: Which quarry?",
        "",
    ]
    assert reading.document["title"] == "The stones"
    assert reading.document["authors"] == ["Ada", "Bo"]
    assert reading.document["keywords"] == ["mill", "rye"]
    assert reading.document["created"] == "2024-03-01T12:30:00Z"


async def test_a_page_whose_letters_are_wrong_has_a_warning_where_ocr_is_off(read_sample: ReadSample) -> None:
    """Whether PDFium knows that they are (a font without a table) or not (a wrong table)."""
    lines = [PROSE[start : start + 70] for start in range(0, len(PROSE), 70)]
    for wrong in (
        unmapped_pdf([((), lines)]),
        mislabelled_pdf(lines),
        unmapped_pdf([(6 * lines, lines[:1])]),
    ):
        assert (await read_sample(wrong, "a.pdf", ocr=False)).report.warnings == ["unreadable_text"]
    assert (await read_sample(unmapped_pdf([(lines, ())]), "a.pdf", ocr=False)).report.warnings == []


async def test_each_page_is_judged_by_the_characters_that_have_no_table() -> None:
    lines = [PROSE[start : start + 70] for start in range(0, len(PROSE), 70)]
    pages = PdfPages(
        pdfium.PdfDocument(
            unmapped_pdf(
                [(lines, ()), (lines, lines), (8 * lines, lines[:1]), (lines, ["•••• ••••"]), ((), lines)]
            )
        )
    )
    profile = pages.profile()
    judgements: list[Readability] = []
    for index in range(5):
        page = pages.take(index)
        judgements.append(readability(page.textpage, pdf_layout.markdown(page, profile)))
        page.close()
    pages.document.close()
    readable, partly, unreadable = Readability.READABLE, Readability.PARTLY, Readability.UNREADABLE
    assert judgements == [readable, unreadable, partly, readable, unreadable]


async def test_text_is_unreadable_if_no_language_has_its_letters() -> None:
    assert is_unreadable(_shifted(PROSE))
    assert is_unreadable("\x01\x02\x03\x04\x05 " * 20)
    assert is_unreadable("\ue001\ue002\ue003" * 40)
    cyrillic = (
        "Старая мельница мелет рожь каждую осень, когда зерно собрано и вода течёт по каналу к колесу. " * 3
    )
    assert is_unreadable(cyrillic.encode("cp1251").decode("latin-1"))
    assert is_unreadable(cyrillic.translate({code: code + 9 for code in range(0x430, 0x440)}))
    assert is_unreadable("".join(chr(0x7000 + 37 * number % 4000) for number in range(200)))
    languages = [
        PROSE,
        (
            "Vanhassa myllyssä jauhetaan ruista joka syksy, kun sato on korjattu ja vesi virtaa kanavaan. Kivet teroitetaan keväällä, "
            "ennen kuin ensimmäiset jyvät tuodaan myllylle, ja mylläri tarkistaa rattaat, akselin sekä hihnat huolellisesti."
        ),
        (
            "Stary młyn mieli żyto każdej jesieni, gdy zboże zostało zebrane, a woda płynie kanałem. Kamienie ostrzy się wiosną, zanim "
            "pierwsze ziarno trafi do młyna, a młynarz sprawdza koła, wał oraz pasy bardzo dokładnie przed rozpoczęciem pracy."
        ),
        (
            "Eski değirmen her sonbaharda çavdar öğütür, tahıl toplandığında su kanaldan akar. Taşlar ilkbaharda bilenir, ilk taneler "
            "değirmene gelmeden önce değirmenci çarkları, mili ve kayışları dikkatle denetler, sonra işine başlar."
        ),
        "1,200 3,400 5,600 " * 30,
        "def main(argv): return parse_args(argv).folder if argv else default_folder_of(environment)\n" * 5,
        cyrillic,
        "Ο παλιός μύλος αλέθει σίκαλη κάθε φθινόπωρο, όταν το σιτάρι έχει μαζευτεί και το νερό τρέχει στο κανάλι. "
        * 2,
        "الطاحونة القديمة تطحن الحبوب كل خريف عندما يجمع القمح ويجري الماء في القناة إلى الدولاب الكبير. "
        * 2,
        "老磨坊每年秋天都要磨黑麦，那时粮食已经收完，水从水渠流到水轮。春天，在第一批粮食送来之前，磨坊主会把石头凿好，检查轮子、轴和皮带。"
        * 3,
        "古い水車小屋は毎年秋にライ麦を挽く。石は春に刻まれる。" * 6,
    ]
    assert [is_unreadable(text) for text in languages] == [False] * len(languages)


async def test_a_hyphen_of_a_word_is_kept_and_one_of_a_line_is_not() -> None:
    text = (
        "a dual-encoder, a dual\ufffeencoder, a wind\ufffemill, COVID\ufffe19, Jean\ufffePaul, a load-balancer-class, a balancer\ufffeclass,"
        " mill.example/wind\ufffewheel, self-regu\ufffelating"
    )
    joined = (
        "a dual-encoder, a dual-encoder, a windmill, COVID-19, Jean-Paul, a load-balancer-class, a balancer-class,"
        " mill.example/wind-wheel, self-regulating"
    )
    assert join_hyphens(text, compounds_in(text)) == joined


async def test_ligatures_and_presentation_forms_become_their_letters() -> None:
    assert fold_ligatures("ﬁnal oﬃce \ufefb \ufe8e") == "final office \u0644\u0627 \u0627"
