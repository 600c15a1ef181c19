"""What a PDF has apart from the text of its pages, and text whose letters are not those that the page shows."""

import pytest

from gristmill.readers.formats.pdf_repair import compounds_in, fold_ligatures, is_unreadable, join_hyphens
from tests.readers import samples
from tests.readers.conftest import ReadSample
from tests.readers.module_pool import pool as pool

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
    page = "\n".join(_shifted(PROSE)[start : start + 70] for start in range(0, len(PROSE), 70))
    assert "unreadable_text" in (await read_sample(samples.pdf([page]), "a.pdf", ocr=False)).report.warnings
    readable = "\n".join(PROSE[start : start + 70] for start in range(0, len(PROSE), 70))
    assert (await read_sample(samples.pdf([readable]), "a.pdf", ocr=False)).report.warnings == []


async def test_text_is_unreadable_if_no_language_has_its_letters() -> None:
    assert is_unreadable(_shifted(PROSE))
    assert is_unreadable("\x01\x02\x03\x04\x05 " * 20)
    assert is_unreadable("\ue001\ue002\ue003" * 40)
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
        "Старая мельница мелет рожь каждую осень, когда зерно собрано и вода течёт по каналу к колесу." * 3,
    ]
    assert [is_unreadable(text) for text in languages] == [False] * len(languages)


async def test_a_hyphen_of_a_word_is_kept_and_one_of_a_line_is_not() -> None:
    text = "a dual-encoder, a dual\x02encoder, a wind\x02mill, COVID\x0219, Jean\x02Paul"
    joined = "a dual-encoder, a dual-encoder, a windmill, COVID-19, Jean-Paul"
    assert join_hyphens(text, compounds_in(text)) == joined


async def test_ligatures_and_presentation_forms_become_their_letters() -> None:
    assert fold_ligatures("ﬁnal oﬃce \ufefb \ufe8e") == "final office \u0644\u0627 \u0627"
