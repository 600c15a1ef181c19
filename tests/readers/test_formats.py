"""Every format yields its text in order, with its pages (S3-16, S3-23)."""

import io
import json
import struct
from email.message import EmailMessage

import pytest
from PIL import Image, ImageDraw, ImageFont

from gristmill.errors import NoText
from gristmill.readers import text_boxes
from tests.readers import samples
from tests.readers.conftest import ReadSample
from tests.readers.module_pool import pool as pool
from tests.readers.pdf_writer import mislabelled_pdf

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_pdf_yields_headings_paragraphs_and_pages(read_sample: ReadSample) -> None:
    first = "The first line of a paragraph that goes on and on until\nit ends on the second line of it, which is long.\n\u2022 one"
    reading = await read_sample(samples.pdf([first, "Second page (with brackets)"]), "a.pdf")
    assert reading.text == (
        "The first line of a paragraph that goes on and on until it ends on the second line of it, which is long.\n"
        "- one\n\nSecond page (with brackets)\n\n"
    )
    assert [part.page for part in reading.parts] == [1, 2]
    assert (reading.report.kind, reading.report.pages_total, reading.report.pages_read) == ("pdf", 2, 2)


async def test_the_format_is_detected_by_content_not_by_name(read_sample: ReadSample) -> None:
    for data, kind in (
        (samples.pdf(["A page of text, whatever it is called"]), "pdf"),
        (samples.docx(samples.paragraph("Hello")), "docx"),
        (samples.xlsx({"One": [["a"]]}), "xlsx"),
        (samples.pptx([("T", "x")]), "pptx"),
        (samples.outlook("S", "body", {}), "msg"),
        (b"{\\rtf1\\ansi Hello}", "rtf"),
        (samples.mail("Hi").as_bytes(), "eml"),
    ):
        assert (await read_sample(data, "file.txt")).report.kind == kind


async def test_a_word_document_yields_its_text_and_attachments(read_sample: ReadSample) -> None:
    body = samples.paragraph("Grüße 知识库") + samples.paragraph("Second")
    reading = await read_sample(
        samples.docx(
            body,
            {
                "word/media/image1.png": samples.PNG,
                "word/embeddings/oleObject1.bin": samples.ole_package("notes.txt", b"inside"),
                "word/embeddings/Sheet.xlsx": samples.xlsx({"One": [["cell"]]}),
            },
        ),
        "a.docx",
    )
    assert reading.text == "Grüße 知识库\n\nSecond\n\n"
    assert reading.files["notes.txt"] == b"inside"
    assert set(reading.files) == {"notes.txt", "Sheet.xlsx"}
    (asset,) = reading.assets
    assert (asset.media_type, asset.path.read_bytes(), asset.kind) == ("image/png", samples.PNG, "image")


async def test_a_presentation_yields_each_slide_its_page(read_sample: ReadSample) -> None:
    reading = await read_sample(samples.pptx([("First", "one"), ("Second", "two")]), "a.pptx")
    assert [(part.text, part.page) for part in reading.parts] == [
        ("## First\n\none\n\n", 1),
        ("## Second\n\ntwo\n\n", 2),
    ]


async def test_a_workbook_yields_each_sheet_its_page(read_sample: ReadSample) -> None:
    reading = await read_sample(
        samples.xlsx({"One": [["name", "size"], ["a", "1"]], "Two": [["x", "y"]]}), "a.xlsx"
    )
    assert [part.page for part in reading.parts] == [1, 2]
    assert "| name | size |\n| --- | --- |\n| a | 1 |" in reading.parts[0].text
    assert "## Two" in reading.parts[1].text


async def test_an_empty_workbook_has_the_warning_empty(read_sample: ReadSample) -> None:
    """C7."""
    reading = await read_sample(samples.xlsx({"One": []}), "a.xlsx")
    assert (reading.text, reading.report.warnings) == ("", ["empty"])
    assert (await read_sample(b"", "a.pdf")).report.warnings == ["empty"]


async def test_opendocument_texts_tables_and_slides(read_sample: ReadSample) -> None:
    text = '<text:h text:outline-level="2">Head</text:h><text:p>One<text:s/>two</text:p><text:list><text:list-item><text:p>item</text:p></text:list-item></text:list>'
    assert (
        await read_sample(samples.opendocument("text", text), "a.odt")
    ).text == "## Head\n\nOne two\n\n- item\n\n"
    sheet = (
        '<table:table table:name="S"><table:table-row><table:table-cell><text:p>a</text:p></table:table-cell>'
        '<table:table-cell table:number-columns-repeated="16384"/></table:table-row>'
        '<table:table-row table:number-rows-repeated="1048576"><table:table-cell/></table:table-row></table:table>'
    )
    reading = await read_sample(samples.opendocument("spreadsheet", sheet), "a.ods")
    assert [(part.text, part.page) for part in reading.parts] == [("## S\n\n| a |\n| --- |\n\n", 1)]
    slides = "".join(
        f'<draw:page><draw:frame presentation:class="title"><draw:text-box><text:p>T{n}</text:p></draw:text-box></draw:frame>'
        f"<draw:frame><draw:text-box><text:p>body {n}</text:p></draw:text-box></draw:frame></draw:page>"
        for n in (1, 2)
    )
    reading = await read_sample(samples.opendocument("presentation", slides), "a.odp")
    assert [(part.text, part.page) for part in reading.parts] == [
        ("## T1\n\nbody 1\n\n", 1),
        ("## T2\n\nbody 2\n\n", 2),
    ]


async def test_a_mail_yields_headers_text_and_attachments(read_sample: ReadSample) -> None:
    inner = samples.mail("The forwarded text")
    reading = await read_sample(samples.mail("Hallo Jörg", {"a.bin": b"\1\2\3"}, inner).as_bytes(), "a.eml")
    assert "**Subject:** Größe der 知识库" in reading.text
    assert "Hallo Jörg" in reading.text
    assert reading.files["a.bin"] == b"\1\2\3"
    (forwarded,) = [data for name, data in reading.files.items() if name.endswith(".eml")]
    assert "The forwarded text" in (await read_sample(forwarded, "inner.eml")).text


async def test_a_mail_with_a_broken_header_is_read(read_sample: ReadSample) -> None:
    """An encoded word that is no base64 kept the whole mail from being read."""
    reading = await read_sample(b"Subject: =?utf-8?B?a?=\r\nFrom: M\xfcller <a@b>\r\n\r\nrye", "a.eml")
    assert "**Subject:** =?utf-8?B?a?=" in reading.text
    assert "**From:** Müller <a@b>" in reading.text
    assert "rye" in reading.text


async def test_a_mail_of_html_alone_yields_its_text(read_sample: ReadSample) -> None:
    message = EmailMessage()
    message["Subject"], message["From"], message["Message-ID"] = "S", "a@example.com", "<1@x>"
    message.set_content("<html><body><h1>Head</h1><p>Text <b>bold</b></p></body></html>", subtype="html")
    reading = await read_sample(message.as_bytes(), "a.eml")
    assert "# Head\n\nText **bold**" in reading.text


async def test_a_mailbox_yields_each_message_as_a_document(read_sample: ReadSample) -> None:
    box = b"".join(
        b"From a@example.com Mon Jun 01 10:00:00 2026\n" + samples.mail(text).as_bytes() + b"\n"
        for text in ("one", "two\n>From here on")
    )
    reading = await read_sample(box, "a.mbox")
    assert reading.report.pages_total == 2
    assert (
        reading.text.splitlines()
        == ["- Größe der 知识库 (a@example.com · Mon, 01 Jun 2026 10:00:00 +0000)"] * 2
    )
    assert list(reading.files) == ["00001 Größe der 知识库.eml", "00002 Größe der 知识库.eml"]
    second = await read_sample(reading.files["00002 Größe der 知识库.eml"], "a.eml")
    assert "two\nFrom here on" in second.text
    inline = await read_sample(box, "a.mbox", depth=0)
    assert inline.text.index("one") < inline.text.index("two")


async def test_an_outlook_message_yields_its_text_and_attachments(read_sample: ReadSample) -> None:
    reading = await read_sample(samples.outlook("主题", "Body text", {"größe.txt": b"data" * 2000}), "a.msg")
    assert "**Subject:** 主题" in reading.text
    assert "**From:** Jörg" in reading.text
    assert "Body text" in reading.text
    assert reading.files == {"größe.txt": b"data" * 2000}


async def test_html_is_read_whole_in_the_encoding_it_names(read_sample: ReadSample) -> None:
    page = '<html><head><meta charset="gbk"><title>标题</title></head><body><h1>你好</h1><p>世界</p><script>no()</script></body></html>'
    reading = await read_sample(page.encode("gbk"), "a.html")
    assert reading.text == "# 你好\n\n世界\n"


async def test_icons_in_a_page_are_no_text(read_sample: ReadSample) -> None:
    """Vector graphics in the page, also those that end themselves or never do, leave the text around them whole."""
    icon = '<svg viewBox="0 0 8 8"><title>Clock</title><path d="M0 0h8"/><text>12</text></svg>'
    page = f"<body><h1>{icon}Opening hours</h1><p>From {icon} nine<svg/> to <svg class='x' /> five.</p>{icon}<p>Daily.</p></body>"
    assert (await read_sample(page, "a.html")).text == "# Opening hours\n\nFrom nine to five.\n\nDaily.\n"
    for broken in ("<p>Open</p><svg><path", "<p>Open</p><svg /x", "<svg</svg<p>Open</p>"):
        assert "Open" in (await read_sample(broken, "a.html")).text


async def test_xml_yields_the_texts_of_its_elements(read_sample: ReadSample) -> None:
    xml = '<?xml version="1.0" encoding="utf-8"?><a name="Thing"><b>First <i>inline</i> words</b><c>Second</c></a>'
    assert (await read_sample(xml, "a.xml")).text == "name: Thing\n\nFirst inline words\n\nSecond\n\n"


async def test_a_notebook_yields_cells_code_and_output(read_sample: ReadSample) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "text"]},
        {"cell_type": "code", "source": "print(1)", "outputs": [{"output_type": "stream", "text": ["1\n"]}]},
    ]
    reading = await read_sample(json.dumps({"cells": cells, "metadata": {}}), "a.ipynb")
    assert reading.text == "# Title\ntext\n\n```python\nprint(1)\n```\n\n```\n1\n```\n\n"


async def test_rich_text_yields_its_text_and_objects(read_sample: ReadSample) -> None:
    native = samples.ole_package("inside.txt", b"hello")
    names = b"".join(struct.pack("<I", len(name)) + name for name in (b"Package\0", b"", b""))
    body = struct.pack("<II", 0x501, 2) + names + struct.pack("<I", len(native)) + native
    rtf = b"{\\rtf1\\ansi Gr\\'fc\\'dfe{\\object\\objemb{\\*\\objdata " + body.hex().encode() + b"}}}"
    reading = await read_sample(rtf, "a.rtf")
    assert "Grüße" in reading.text
    assert reading.files == {"inside.txt": b"hello"}


async def test_a_pdf_yields_its_attachments(read_sample: ReadSample) -> None:
    reading = await read_sample(
        samples.pdf(["See the attachment of this page"], {"data.csv": b"a,b\n1,2\n"}), "a.pdf"
    )
    assert reading.files == {"data.csv": b"a,b\n1,2\n"}


async def test_archives_yields_their_entries(read_sample: ReadSample) -> None:
    members = {"a.txt": b"one", "folder/b.txt": b"two"}
    for name, data in (
        ("a.zip", samples.zipped(members)),
        ("a.tar", samples.tarred(members)),
        ("a.tar.gz", samples.tarred(members, "gz")),
        ("a.tgz", samples.tarred(members, "xz")),
    ):
        reading = await read_sample(data, name)
        assert reading.files == members, name
        assert reading.text == "- a.txt\n- folder/b.txt\n", name


async def test_a_zip_without_its_central_directory_still_yields_its_entries(read_sample: ReadSample) -> None:
    archive = samples.zipped({"a.txt": b"one" * 100, "b.txt": b"two" * 100})
    reading = await read_sample(archive[: archive.index(b"PK\x01\x02")], "a.zip")
    assert reading.files == {"a.txt": b"one" * 100, "b.txt": b"two" * 100}
    assert reading.report.warnings == ["damaged"]


async def test_attachments_below_the_allowed_depth_are_left_out(read_sample: ReadSample) -> None:
    reading = await read_sample(samples.zipped({"a.txt": b"one"}), "a.zip", depth=0)
    assert (reading.files, reading.report.warnings) == ({}, ["too_deep"])


async def test_a_page_without_text_is_refused(read_sample: ReadSample) -> None:
    """C7."""
    with pytest.raises(NoText):
        await read_sample(samples.pdf([""]), "a.pdf")


def text_image(text: str, rotation: int = 0) -> bytes:
    picture = Image.new("RGB", (400, 320), "white")
    ImageDraw.Draw(picture).text((20, 140), text, fill="black", font=ImageFont.load_default(30))
    file = io.BytesIO()
    picture.rotate(rotation, expand=True).save(file, "PNG")
    return file.getvalue()


SHOWN_LINES = (
    "the miller dresses both stones every spring before the harvest comes to the mill",
    "and again in autumn when all the rye is ground and the water is low in the channel",
)


async def test_images_and_scanned_pages_are_recognised_by_ocr(read_sample: ReadSample) -> None:
    reading = await read_sample(text_image("Gristmill read_sample scans"), "a.png")
    assert "Gristmill read_sample scans" in reading.text
    assert reading.report.warnings == ["ocr_used:1"]
    (box,) = text_boxes.unpack(reading.parts[0].boxes)
    assert "read_sample" in reading.text[box.start : box.end]
    assert box.left < 0.1 < 0.3 < box.right
    # In the same child: an image that is upside down, and a presentation that consists of an image.
    assert "stands on its head" in (await read_sample(text_image("stands on its head", 180), "b.png")).text
    reading = await read_sample(
        samples.pptx([("", "")], {"ppt/media/i.png": text_image("Only an image")}), "c.pptx"
    )
    assert "Only an image" in reading.text
    assert reading.report.warnings == ["ocr_used:1"]
    # A page whose font has a wrong table shows other letters than its text has.
    reading = await read_sample(mislabelled_pdf(SHOWN_LINES), "d.pdf")
    assert "the miller dresses both stones" in reading.text
    assert reading.report.warnings == ["ocr_used:1"]
    with pytest.raises(NoText):
        await read_sample(text_image("not read"), "d.png", ocr=False)
