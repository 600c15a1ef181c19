"""What is broken, locked or made to harm ends with a code that says which, inside its limits (S4-41)."""

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
from tests.readers.conftest import Reader
from tests.readers.shared import pool as pool

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def code_of(reads: Reader, data: bytes | str, name: str, **limits: object) -> str:
    with pytest.raises(GristmillError) as caught:
        await reads(data, name, **limits)
    assert caught.value.message.startswith(name)
    return caught.value.code


def locked(archive: bytes) -> bytes:
    """The archive, saying that its entries need a password."""
    data = bytearray(archive)
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = data.find(mark)
        while place >= 0:
            data[place + offset] |= 1
            place = data.find(mark, place + 4)
    return bytes(data)


async def test_what_needs_a_password_says_so(reads: Reader) -> None:
    package = compound_writer.write({("EncryptedPackage",): b"x" * 5000, ("EncryptionInfo",): b"y"})
    assert await code_of(reads, package, "a.docx") == "encrypted"
    assert await code_of(reads, locked(samples.zipped({"a.txt": b"x"})), "a.zip") == "encrypted"
    manifest = "<manifest><encryption-data/></manifest>"
    odt = samples.opendocument("text", "", {"META-INF/manifest.xml": manifest})
    assert await code_of(reads, odt, "a.odt") == "encrypted"
    word = compound_writer.write(
        {("WordDocument",): bytes(10) + b"\0\1" + bytes(5000), ("1Table",): b"z" * 5000}
    )
    assert await code_of(reads, word, "a.doc") == "encrypted"


async def test_what_is_broken_says_so(reads: Reader) -> None:
    whole = samples.docx(samples.paragraph("Hello"))
    assert await code_of(reads, whole[: len(whole) // 2], "a.docx") == "corrupt"
    assert await code_of(reads, samples.pdf(["x"])[:40], "a.pdf") == "corrupt"
    assert await code_of(reads, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\7" * 600, "a.xls") == "corrupt"
    assert await code_of(reads, b"\x89PNG\r\n\x1a\n" + b"\0" * 100, "a.png") == "corrupt"
    assert await code_of(reads, gzip.compress(b"x" * 1000)[:10], "a.gz") == "corrupt"
    assert await code_of(reads, "{", "a.ipynb") == "corrupt"
    assert await code_of(reads, bytes(range(256)) * 40, "a.pdf") == "corrupt"


async def test_what_nobody_reads_says_so(reads: Reader) -> None:
    for data in (b"\x7fELF" + bytes(100), b"ITSF" + bytes(100), bytes(range(256)) * 40):
        assert await code_of(reads, data, "a.dat") == "unsupported_type"


async def test_a_damaged_document_gives_what_it_can_and_says_so(reads: Reader) -> None:
    data = bytearray(samples.docx(samples.paragraph("Hello"), {"word/media/i.png": samples.PNG * 20}))
    info = zipfile.ZipFile(io.BytesIO(data)).getinfo("word/media/i.png")
    data[info.header_offset + 14] ^= 0xFF  # its checksum
    central = data.rfind(b"word/media/i.png") - 46
    data[central + 16] ^= 0xFF
    reading = await reads(bytes(data), "a.docx")
    assert reading.text == "Hello\n\n"
    assert reading.report.warnings == ["damaged"]
    pdf = samples.pdf(["A page of a file whose table is lost"]).replace(b"startxref\n", b"startxref\n9")
    reading = await reads(pdf, "a.pdf")
    assert reading.text
    assert reading.report.warnings == ["damaged"]


BOMB = '<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">%s]><a>&%s;</a>'


async def test_bombs_of_entities_are_refused(reads: Reader) -> None:
    nested = "".join(f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(1, 10))
    xml = BOMB % (nested, "j")
    assert await code_of(reads, '<?xml version="1.0"?>' + xml, "a.xml") == "bomb"
    document = samples.docx("", {"word/document.xml": '<?xml version="1.0"?>' + xml})
    assert await code_of(reads, document, "a.docx") == "unsafe_xml"
    sheet = samples.pptx([("a", "b")], {"ppt/slides/slide0.xml": xml})
    assert await code_of(reads, sheet, "a.pptx") == "unsafe_xml"


async def test_xml_that_points_at_files_or_hosts_is_refused(reads: Reader) -> None:
    for outside in ("file:///etc/passwd", "http://169.254.169.254/x", "/etc/passwd"):
        xml = f'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY x SYSTEM "{outside}">]><a>&x;</a>'
        assert await code_of(reads, xml, "a.xml") == "unsafe_xml"
    assert (
        await code_of(reads, '<?xml version="1.0"?><!DOCTYPE a SYSTEM "file:///x"><a>b</a>', "a.xml")
        == "unsafe_xml"
    )
    fine = '<?xml version="1.0"?><!DOCTYPE a SYSTEM "a.dtd" [<!ENTITY p SYSTEM "p.tif" NDATA t>]><a>text</a>'
    assert (await reads(fine, "a.xml")).text == "text\n\n"


async def test_archives_that_unfold_without_end_are_refused(reads: Reader) -> None:
    zeros = bytes(40 * 1024 * 1024)
    assert await code_of(reads, samples.zipped({"a.bin": zeros}), "a.zip") == "bomb"
    assert await code_of(reads, gzip.compress(zeros), "a.gz") == "bomb"
    assert await code_of(reads, samples.docx("", {"word/media/x.bmp": zeros}), "a.docx") == "bomb"
    many = samples.zipped({f"{number}.txt": b"x" for number in range(50)})
    assert await code_of(reads, many, "a.zip", embedded_files=20) == "bomb"
    assert (
        await code_of(reads, samples.zipped({"a": zlib.compress(zeros) * 50}), "a.zip", embedded_mb=1)
        == "bomb"
    )


async def test_a_sparse_archive_is_refused_before_it_is_written_out(reads: Reader) -> None:
    """Ten gigabytes of nothing, in a kilobyte."""
    member = tarfile.TarInfo("sparse.bin")
    member.size, member.type = 512, tarfile.GNUTYPE_SPARSE
    head = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    head[386:410] = b"%011o\0%011o\0" % (0, 512)
    head[483:495] = b"\x80" + (10 * 2**30).to_bytes(11, "big")
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    assert await code_of(reads, bytes(head) + b"x" * 512 + bytes(1024), "a.tar") == "bomb"


async def test_text_in_escape_sequences_is_not_taken_for_ascii(reads: Reader) -> None:
    text = "粉屋は毎日穀物を挽きます。" * 5
    assert (await reads(text.encode("iso2022_jp"), "a.txt")).text.strip() == text


async def test_an_image_of_too_many_pixels_is_refused(reads: Reader) -> None:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 30_000, 30_000, 8, 2, 0, 0, 0))
    png = b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(bytes(1_000_000))) + chunk(b"IEND", b"")
    assert await code_of(reads, png, "a.png") == "bomb"


async def test_what_is_nested_without_end_costs_no_crash(reads: Reader) -> None:
    assert await code_of(reads, '<?xml version="1.0"?>' + "<a>" * 100_000, "a.xml") == "bomb"
    deep = "<text:section>" * 2_000 + "<text:p>x</text:p>" + "</text:section>" * 2_000
    assert await code_of(reads, samples.opendocument("text", deep), "a.odt") == "corrupt"
    assert await code_of(reads, '{"cells":' + "[" * 100_000, "a.ipynb") == "corrupt"
    reading = await reads("<html><body>" + "<div>" * 100_000 + "the words</body></html>", "a.html")
    assert "the words" in reading.text


async def test_a_workbook_that_repeats_one_long_text_is_refused(reads: Reader) -> None:
    text = "f" * 1_000_000
    cells = "".join(f'<c r="A{n}" t="s"><v>0</v></c>' for n in range(1, 2_000))
    workbook = zipfile.ZipFile(io.BytesIO(samples.xlsx({"One": []})))
    members: dict[str, bytes | str] = {name: workbook.read(name) for name in workbook.namelist()}
    members["xl/sharedStrings.xml"] = f'<sst xmlns="{samples.S}"><si><t>{text}</t></si></sst>'
    members["xl/worksheets/sheet1.xml"] = (
        f'<worksheet xmlns="{samples.S}"><sheetData><row r="1">{cells}</row></sheetData></worksheet>'
    )
    assert await code_of(reads, samples.zipped(members), "a.xlsx") == "bomb"


async def test_text_without_end_is_refused(reads: Reader) -> None:
    xml = f'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY x "{"long " * 1_000}">]><a>{"&x; " * 1_000}</a>'
    assert await code_of(reads, xml, "a.xml", output_mb=0) == "bomb"
    cell = '<table:table-cell table:number-columns-repeated="90"><text:p>again and again</text:p></table:table-cell>'
    row = f'<table:table-row table:number-rows-repeated="90">{cell}</table:table-row>'
    sheet = f'<table:table table:name="S">{row}</table:table>'
    assert await code_of(reads, samples.opendocument("spreadsheet", sheet), "a.ods", output_mb=0) == "bomb"


async def test_names_and_links_of_archives_lead_nowhere(reads: Reader, tmp_path: Path) -> None:
    data = samples.tarred({"../../etc/passwd": b"x", "/abs": b"y"}, links={"link": "/etc/passwd"})
    reading = await reads(data, "a.tar")
    assert reading.files == {"etc/passwd": b"x", "abs": b"y"}
    assert all(one.path.parent == tmp_path / "scratch" for one in reading.attachments)
    assert reading.report.warnings == ["unsafe_entries:1"]
    assert safe_path("..\\..\\C:\\a\u202ex\0.txt") == "C:/ax.txt"
    assert safe_path("../..") == ""
