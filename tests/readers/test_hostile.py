"""Broken, encrypted and malicious documents are refused with a code that says why, within their limits (S4-41)."""

import gzip
import io
import struct
import tarfile
import zipfile
import zlib
from pathlib import Path

import pytest

from gristmill.errors import GristmillError
from gristmill.readers.formats import compound_writer
from gristmill.readers.sink import safe_path
from tests.readers import samples
from tests.readers.conftest import ReadSample
from tests.readers.module_pool import pool as pool

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def refusal_code(read_sample: ReadSample, data: bytes | str, name: str, **limits: object) -> str:
    with pytest.raises(GristmillError) as caught:
        await read_sample(data, name, **limits)
    assert caught.value.message.startswith(name)
    return caught.value.code


def mark_encrypted(archive: bytes) -> bytes:
    """The archive, with the flag for encryption set on its entries."""
    data = bytearray(archive)
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = data.find(mark)
        while place >= 0:
            data[place + offset] |= 1
            place = data.find(mark, place + 4)
    return bytes(data)


async def test_encrypted_documents_are_refused(read_sample: ReadSample) -> None:
    package = compound_writer.write({("EncryptedPackage",): b"x" * 5000, ("EncryptionInfo",): b"y"})
    assert await refusal_code(read_sample, package, "a.docx") == "encrypted"
    assert (
        await refusal_code(read_sample, mark_encrypted(samples.zipped({"a.txt": b"x"})), "a.zip")
        == "encrypted"
    )
    manifest = "<manifest><encryption-data/></manifest>"
    odt = samples.opendocument("text", "", {"META-INF/manifest.xml": manifest})
    assert await refusal_code(read_sample, odt, "a.odt") == "encrypted"
    word = compound_writer.write(
        {("WordDocument",): bytes(10) + b"\0\1" + bytes(5000), ("1Table",): b"z" * 5000}
    )
    assert await refusal_code(read_sample, word, "a.doc") == "encrypted"


async def test_broken_documents_are_refused(read_sample: ReadSample) -> None:
    document = samples.docx(samples.paragraph("Hello"))
    assert await refusal_code(read_sample, document[: len(document) // 2], "a.docx") == "corrupt"
    assert await refusal_code(read_sample, samples.pdf(["x"])[:40], "a.pdf") == "corrupt"
    assert (
        await refusal_code(read_sample, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\7" * 600, "a.xls")
        == "corrupt"
    )
    assert await refusal_code(read_sample, b"\x89PNG\r\n\x1a\n" + b"\0" * 100, "a.png") == "corrupt"
    assert await refusal_code(read_sample, gzip.compress(b"x" * 1000)[:10], "a.gz") == "corrupt"
    assert await refusal_code(read_sample, "{", "a.ipynb") == "corrupt"
    assert await refusal_code(read_sample, bytes(range(256)) * 40, "a.pdf") == "corrupt"


async def test_unsupported_formats_are_refused(read_sample: ReadSample) -> None:
    for data in (b"\x7fELF" + bytes(100), b"ITSF" + bytes(100), bytes(range(256)) * 40):
        assert await refusal_code(read_sample, data, "a.dat") == "unsupported_type"


async def test_a_damaged_document_is_read_with_a_warning(read_sample: ReadSample) -> None:
    data = bytearray(samples.docx(samples.paragraph("Hello"), {"word/media/i.png": samples.PNG * 20}))
    info = zipfile.ZipFile(io.BytesIO(data)).getinfo("word/media/i.png")
    data[info.header_offset + 14] ^= 0xFF  # its checksum
    central = data.rfind(b"word/media/i.png") - 46
    data[central + 16] ^= 0xFF
    reading = await read_sample(bytes(data), "a.docx")
    assert reading.text == "Hello\n\n"
    assert reading.report.warnings == ["damaged"]
    pdf = samples.pdf(["A page of a file whose table is lost"]).replace(b"startxref\n", b"startxref\n9")
    reading = await read_sample(pdf, "a.pdf")
    assert reading.text
    assert reading.report.warnings == ["damaged"]


BOMB = '<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">%s]><a>&%s;</a>'


async def test_entity_bombs_are_refused(read_sample: ReadSample) -> None:
    entities = "".join(f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(1, 10))
    xml = BOMB % (entities, "j")
    assert await refusal_code(read_sample, '<?xml version="1.0"?>' + xml, "a.xml") == "bomb"
    document = samples.docx("", {"word/document.xml": '<?xml version="1.0"?>' + xml})
    assert await refusal_code(read_sample, document, "a.docx") == "unsafe_xml"
    sheet = samples.pptx([("a", "b")], {"ppt/slides/slide0.xml": xml})
    assert await refusal_code(read_sample, sheet, "a.pptx") == "unsafe_xml"


async def test_xml_with_external_entities_is_refused(read_sample: ReadSample) -> None:
    for outside in ("file:///etc/passwd", "http://169.254.169.254/x", "/etc/passwd"):
        xml = f'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY x SYSTEM "{outside}">]><a>&x;</a>'
        assert await refusal_code(read_sample, xml, "a.xml") == "unsafe_xml"
    assert (
        await refusal_code(
            read_sample, '<?xml version="1.0"?><!DOCTYPE a SYSTEM "file:///x"><a>b</a>', "a.xml"
        )
        == "unsafe_xml"
    )
    fine = '<?xml version="1.0"?><!DOCTYPE a SYSTEM "a.dtd" [<!ENTITY p SYSTEM "p.tif" NDATA t>]><a>text</a>'
    assert (await read_sample(fine, "a.xml")).text == "text\n\n"


async def test_decompression_bombs_are_refused(read_sample: ReadSample) -> None:
    zeros = bytes(40 * 1024 * 1024)
    assert await refusal_code(read_sample, samples.zipped({"a.bin": zeros}), "a.zip") == "bomb"
    assert await refusal_code(read_sample, gzip.compress(zeros), "a.gz") == "bomb"
    assert await refusal_code(read_sample, samples.docx("", {"word/media/x.bmp": zeros}), "a.docx") == "bomb"
    many = samples.zipped({f"{number}.txt": b"x" for number in range(50)})
    assert await refusal_code(read_sample, many, "a.zip", max_attachments=20) == "bomb"
    assert (
        await refusal_code(
            read_sample, samples.zipped({"a": zlib.compress(zeros) * 50}), "a.zip", attachments_mb=1
        )
        == "bomb"
    )


async def test_a_sparse_archive_is_refused_before_it_is_written_out(read_sample: ReadSample) -> None:
    """Ten gigabytes of zeros, in a kilobyte."""
    member = tarfile.TarInfo("sparse.bin")
    member.size, member.type = 512, tarfile.GNUTYPE_SPARSE
    head = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    head[386:410] = b"%011o\0%011o\0" % (0, 512)
    head[483:495] = b"\x80" + (10 * 2**30).to_bytes(11, "big")
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    assert await refusal_code(read_sample, bytes(head) + b"x" * 512 + bytes(1024), "a.tar") == "bomb"


async def test_text_in_escape_sequences_is_not_taken_for_ascii(read_sample: ReadSample) -> None:
    text = "粉屋は毎日穀物を挽きます。" * 5
    assert (await read_sample(text.encode("iso2022_jp"), "a.txt")).text.strip() == text


async def test_an_image_of_too_many_pixels_is_refused(read_sample: ReadSample) -> None:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 30_000, 30_000, 8, 2, 0, 0, 0))
    png = b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(bytes(1_000_000))) + chunk(b"IEND", b"")
    assert await refusal_code(read_sample, png, "a.png") == "bomb"


async def test_endless_nesting_does_not_crash_the_reader(read_sample: ReadSample) -> None:
    assert await refusal_code(read_sample, '<?xml version="1.0"?>' + "<a>" * 100_000, "a.xml") == "bomb"
    deep = "<text:section>" * 2_000 + "<text:p>x</text:p>" + "</text:section>" * 2_000
    assert await refusal_code(read_sample, samples.opendocument("text", deep), "a.odt") == "corrupt"
    assert await refusal_code(read_sample, '{"cells":' + "[" * 100_000, "a.ipynb") == "corrupt"
    reading = await read_sample("<html><body>" + "<div>" * 100_000 + "the words</body></html>", "a.html")
    assert "the words" in reading.text


async def test_a_workbook_that_repeats_one_long_text_is_refused(read_sample: ReadSample) -> None:
    text = "f" * 1_000_000
    cells = "".join(f'<c r="A{n}" t="s"><v>0</v></c>' for n in range(1, 2_000))
    workbook = zipfile.ZipFile(io.BytesIO(samples.xlsx({"One": []})))
    members: dict[str, bytes | str] = {name: workbook.read(name) for name in workbook.namelist()}
    members["xl/sharedStrings.xml"] = f'<sst xmlns="{samples.S}"><si><t>{text}</t></si></sst>'
    members["xl/worksheets/sheet1.xml"] = (
        f'<worksheet xmlns="{samples.S}"><sheetData><row r="1">{cells}</row></sheetData></worksheet>'
    )
    assert await refusal_code(read_sample, samples.zipped(members), "a.xlsx") == "bomb"


async def test_endless_text_is_refused(read_sample: ReadSample) -> None:
    xml = f'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY x "{"long " * 1_000}">]><a>{"&x; " * 1_000}</a>'
    assert await refusal_code(read_sample, xml, "a.xml", output_mb=0) == "bomb"
    cell = '<table:table-cell table:number-columns-repeated="90"><text:p>again and again</text:p></table:table-cell>'
    row = f'<table:table-row table:number-rows-repeated="90">{cell}</table:table-row>'
    sheet = f'<table:table table:name="S">{row}</table:table>'
    assert (
        await refusal_code(read_sample, samples.opendocument("spreadsheet", sheet), "a.ods", output_mb=0)
        == "bomb"
    )


async def test_names_and_links_in_archives_stay_in_the_scratch_folder(
    read_sample: ReadSample, tmp_path: Path
) -> None:
    data = samples.tarred({"../../etc/passwd": b"x", "/abs": b"y"}, links={"link": "/etc/passwd"})
    reading = await read_sample(data, "a.tar")
    assert reading.files == {"etc/passwd": b"x", "abs": b"y"}
    assert all(attachment.path.parent == tmp_path / "scratch" for attachment in reading.attachments)
    assert reading.report.warnings == ["unsafe_entries:1"]
    assert safe_path("..\\..\\C:\\a\u202ex\0.txt") == "C:/ax.txt"
    assert safe_path("../..") == ""
