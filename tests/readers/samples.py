"""Small documents of every format, made for the tests."""

import gzip
import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from email.message import EmailMessage
from pathlib import Path

from gristmill.readers.formats import compound_writer

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
A = "http://schemas.openxmlformats.org/drawingml/2006/main"
P = "http://schemas.openxmlformats.org/presentationml/2006/main"
S = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
R = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
RELS = "http://schemas.openxmlformats.org/package/2006/relationships"
TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"
ODF = "urn:oasis:names:tc:opendocument:xmlns:"


def png(shade: int = 0, side: int = 80) -> bytes:
    """A square of one shade of grey."""

    def block(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + bytes([shade]) * side) * side)
    return b"\x89PNG\r\n\x1a\n" + block(b"IHDR", head) + block(b"IDAT", rows) + block(b"IEND", b"")


PNG = png()


def zipped(members: Mapping[str, bytes | str]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def tarred(
    members: Mapping[str, bytes], compression: str = "", links: Mapping[str, str] | None = None
) -> bytes:
    file = io.BytesIO()
    with tarfile.TarFile(fileobj=file, mode="w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for name, target in (links or {}).items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            archive.addfile(info)
    compress = {"gz": gzip.compress, "xz": lzma.compress}
    return compress[compression](file.getvalue()) if compression else file.getvalue()


def pdf(pages: Sequence[str], attachments: Mapping[str, bytes] | None = None) -> bytes:
    """A PDF with a line of text for each line of each page."""
    contents: list[str] = []
    for page in pages:
        lines = (
            line.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)") for line in page.split("\n")
        )
        operators = " T* ".join(f"({line}) Tj" for line in lines)
        contents.append(f"BT /F1 12 Tf 14 TL 72 720 Td {operators} ET")
    return pdf_file(contents, attachments)


PLAIN_FONT = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>"


def pdf_file(
    contents: Sequence[str],
    attachments: Mapping[str, bytes] | None = None,
    *,
    font: bytes = PLAIN_FONT,
    more: bytes = b"",
) -> bytes:
    """A PDF whose pages have these contents; /F1 is a plain font, /F2 a bold one, object 5 the stream `more`."""
    objects: list[bytes] = []

    def add(body: bytes) -> int:
        objects.append(body)
        return len(objects)

    catalog, tree = add(b""), add(b"")
    plain, bold = add(font), add(PLAIN_FONT.replace(b"Helvetica", b"Helvetica-Bold"))
    add(b"<</Length %d>>stream\n%s\nendstream" % (len(more), more))
    kids: list[int] = []
    for page in contents:
        stream = page.encode("cp1252")
        content = add(b"<</Length %d>>stream\n%s\nendstream" % (len(stream), stream))
        kids.append(
            add(
                b"<</Type/Page/Parent %d 0 R/MediaBox[0 0 612 792]/Contents %d 0 R"
                b"/Resources<</Font<</F1 %d 0 R/F2 %d 0 R>>>>>>" % (tree, content, plain, bold)
            )
        )
    names = b""
    for name, data in (attachments or {}).items():
        stream_ref = add(b"<</Type/EmbeddedFile/Length %d>>stream\n%s\nendstream" % (len(data), data))
        spec = add(b"<</Type/Filespec/F(%s)/EF<</F %d 0 R>>>>" % (name.encode(), stream_ref))
        names += b"(%s) %d 0 R " % (name.encode(), spec)
    objects[catalog - 1] = b"<</Type/Catalog/Pages %d 0 R/Names<</EmbeddedFiles<</Names[%s]>>>>>>" % (
        tree,
        names,
    )
    refs = b" ".join(b"%d 0 R" % kid for kid in kids)
    objects[tree - 1] = b"<</Type/Pages/Count %d/Kids[%s]>>" % (len(kids), refs)
    out, offsets = bytearray(b"%PDF-1.5\n"), list[int]()
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj%s\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    out += b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
    return bytes(out)


def docx(body: str, more: Mapping[str, bytes | str] | None = None) -> bytes:
    """A Word document; `body` is the XML between <w:body> and </w:body>."""
    return zipped(
        {
            "[Content_Types].xml": f'<Types xmlns="{TYPES}"><Default Extension="rels" '
            'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
            '<Default Extension="xml" ContentType="application/xml"/><Override PartName="/word/document.xml" '
            'ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>',
            "_rels/.rels": f'<Relationships xmlns="{RELS}"><Relationship Id="r1" Target="word/document.xml" '
            f'Type="{R}/officeDocument"/></Relationships>',
            "word/document.xml": f'<w:document xmlns:w="{W}"><w:body>{body}</w:body></w:document>',
            **(more or {}),
        }
    )


def paragraph(text: str) -> str:
    return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"


def pptx(slides: Sequence[tuple[str, str]], more: Mapping[str, bytes | str] | None = None) -> bytes:
    """A presentation of slides with a title and a text."""

    def shape(text: str, kind: str) -> str:
        placeholder = f'<p:nvPr><p:ph type="{kind}"/></p:nvPr>' if kind else "<p:nvPr/>"
        return (
            f'<p:sp><p:nvSpPr><p:cNvPr id="2" name="x"/><p:cNvSpPr/>{placeholder}</p:nvSpPr>'
            f"<p:txBody><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody></p:sp>"
        )

    members: dict[str, bytes | str] = {"[Content_Types].xml": f'<Types xmlns="{TYPES}"/>'}
    ids = "".join(f'<p:sldId id="{256 + n}" r:id="r{n}"/>' for n in range(len(slides)))
    members["ppt/presentation.xml"] = (
        f'<p:presentation xmlns:p="{P}" xmlns:r="{R}"><p:sldIdLst>{ids}</p:sldIdLst></p:presentation>'
    )
    relations = "".join(
        f'<Relationship Id="r{n}" Target="slides/slide{n}.xml" Type="{R}/slide"/>' for n in range(len(slides))
    )
    members["ppt/_rels/presentation.xml.rels"] = f'<Relationships xmlns="{RELS}">{relations}</Relationships>'
    for number, (title, text) in enumerate(slides):
        members[f"ppt/slides/slide{number}.xml"] = (
            f'<p:sld xmlns:p="{P}" xmlns:a="{A}"><p:cSld><p:spTree>{shape(title, "title")}{shape(text, "")}'
            "</p:spTree></p:cSld></p:sld>"
        )
    return zipped(members | dict(more or {}))


def xlsx(sheets: Mapping[str, Sequence[Sequence[str]]]) -> bytes:
    """A workbook with inline texts."""
    sheet_list = "".join(
        f'<sheet name="{name}" sheetId="{n}" r:id="r{n}"/>' for n, name in enumerate(sheets, 1)
    )
    relations = "".join(
        f'<Relationship Id="r{n}" Target="worksheets/sheet{n}.xml" Type="{R}/worksheet"/>'
        for n in range(1, len(sheets) + 1)
    )
    members: dict[str, bytes | str] = {
        "[Content_Types].xml": f'<Types xmlns="{TYPES}"/>',
        "_rels/.rels": f'<Relationships xmlns="{RELS}"><Relationship Id="r1" Target="xl/workbook.xml" '
        f'Type="{R}/officeDocument"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{S}" xmlns:r="{R}"><sheets>{sheet_list}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{RELS}">{relations}</Relationships>',
    }
    for number, rows in enumerate(sheets.values(), 1):
        cells = "".join(
            f'<row r="{y}">'
            + "".join(
                f'<c r="{chr(65 + x)}{y}" t="inlineStr"><is><t>{text}</t></is></c>'
                for x, text in enumerate(row)
            )
            + "</row>"
            for y, row in enumerate(rows, 1)
        )
        members[f"xl/worksheets/sheet{number}.xml"] = (
            f'<worksheet xmlns="{S}"><sheetData>{cells}</sheetData></worksheet>'
        )
    return zipped(members)


def opendocument(kind: str, body: str, more: Mapping[str, bytes | str] | None = None) -> bytes:
    """An OpenDocument file of `kind` text, spreadsheet or presentation."""
    names = {
        "office": "office",
        "text": "text",
        "table": "table",
        "draw": "drawing",
        "presentation": "presentation",
    }
    spaces = " ".join(f'xmlns:{short}="{ODF}{long}:1.0"' for short, long in names.items())
    return zipped(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "content.xml": f"<office:document-content {spaces}><office:body><office:{kind}>{body}</office:{kind}>"
            "</office:body></office:document-content>",
            "META-INF/manifest.xml": "<manifest/>",
            **(more or {}),
        }
    )


def mail(
    text: str, attachments: Mapping[str, bytes] | None = None, inner: EmailMessage | None = None
) -> EmailMessage:
    message = EmailMessage()
    message["Subject"], message["From"], message["To"] = "Größe der 知识库", "a@example.com", "b@example.com"
    message["Date"], message["MIME-Version"] = "Mon, 01 Jun 2026 10:00:00 +0000", "1.0"
    message.set_content(text)
    for name, data in (attachments or {}).items():
        message.add_attachment(data, maintype="application", subtype="octet-stream", filename=name)
    if inner is not None:
        message.add_attachment(inner)
    return message


def outlook(subject: str, body: str, attachments: Mapping[str, bytes]) -> bytes:
    """An Outlook message, by the numbers of its properties."""
    streams: dict[tuple[str, ...], bytes] = {
        ("__properties_version1.0",): bytes(32),
        ("__substg1.0_0037001F",): subject.encode("utf-16-le"),
        ("__substg1.0_1000001F",): body.encode("utf-16-le"),
        ("__substg1.0_0C1A001E",): "Jörg".encode("cp1252"),
    }
    for number, (name, data) in enumerate(attachments.items()):
        storage = f"__attach_version1.0_#{number:08X}"
        streams[storage, "__substg1.0_3707001F"] = name.encode("utf-16-le")
        streams[storage, "__substg1.0_37010102"] = data
    return compound_writer.write(streams)


def ole_package(name: str, data: bytes) -> bytes:
    """A file as Office wraps one that was dropped into a document."""
    body = b"\2\0" + name.encode() + b"\0" + name.encode() + b"\0" + b"\0\0\3\0"
    body += len(name.encode() + b"\0").to_bytes(4, "little") + name.encode() + b"\0"
    body += len(data).to_bytes(4, "little") + data
    native = len(body).to_bytes(4, "little") + body
    return compound_writer.write({("\x01Ole10Native",): native})


def save(folder: Path, name: str, data: bytes | str) -> Path:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path
