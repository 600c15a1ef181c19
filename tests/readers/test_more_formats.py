"""Formats that keep their structure or their times: subtitles, DocBook, JATS, OPML, Visio, XPS, Zstandard; and plain refusals."""

import io
import random
from collections.abc import Sequence
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest
import zstandard
from PIL import Image

from gristmill.errors import Unreadable, Unsupported
from gristmill.readers import iwa
from gristmill.readers.formats.image import image_metadata
from gristmill.readers.formats.onenote import section_texts
from gristmill.readers.formats.outlook_folders import as_mail
from gristmill.readers.formats.subtitles import cues
from gristmill.readers.timed_text import Speech, paragraphs, time_code
from tests.readers import samples
from tests.readers.conftest import ReadSample
from tests.readers.module_pool import pool

__all__ = ["pool"]
pytestmark = pytest.mark.asyncio(loop_scope="module")

SRT = """1
00:00:01,000 --> 00:00:03,000
<i>The miller</i> grinds

2
00:00:03,100 --> 00:00:05,000
{\\an8}rye &amp; oats.

3
00:01:10,000 --> 00:01:12,000
The baker buys bread.
"""
VTT = """WEBVTT - A title

STYLE
::cue { color: red }

NOTE nobody says this

first
00:12:30.500 --> 00:12:33.000 align:start
<v Ada>Stones are <00:12:31.000>dressed</v>

00:12:33.000 --> 00:12:35.000
on Tuesday

00:12:35.000 --> 00:12:37.000
on Tuesday
by hand
"""


def speak(*pieces: tuple[float, str]) -> Sequence[tuple[str, str]]:
    speech = (Speech(start, start + 2, text) for start, text in pieces)
    return [(paragraph.time_code, paragraph.text) for paragraph in paragraphs(speech)]


async def test_speech_becomes_paragraphs_at_pauses_and_ends_of_sentences() -> None:
    assert time_code(45_150.9) == "12:32:30"
    assert speak((0, "one"), (2, "two"), (9, "three")) == [("00:00:00", "one two"), ("00:00:09", "three")]
    long = [(second, f"s{second}." if second % 10 == 0 else f"w{second}") for second in range(0, 80, 2)]
    assert [start for start, _ in speak(*long)] == ["00:00:00", "00:00:32", "00:01:12"]
    assert speak((0, "石磨"), (2, "每週")) == [("00:00:00", "石磨每週")]


async def test_subtitles_are_joined_without_times_tags_and_repetitions() -> None:
    spoken = [(paragraph.time_code, paragraph.text) for paragraph in paragraphs(cues(SRT.splitlines()))]
    assert spoken == [("00:00:01", "The miller grinds rye & oats."), ("00:01:10", "The baker buys bread.")]
    spoken = [(paragraph.time_code, paragraph.text) for paragraph in paragraphs(cues(VTT.splitlines()))]
    assert spoken == [("00:12:30", "Ada: Stones are dressed on Tuesday by hand")]


async def test_subtitles_have_a_page_for_each_paragraph(read_sample: ReadSample) -> None:
    reading = await read_sample(SRT, "a.srt")
    assert [(part.text, part.page) for part in reading.parts] == [
        ("[00:00:01] The miller grinds rye & oats.\n\n", 1),
        ("[00:01:10] The baker buys bread.\n\n", 2),
    ]
    assert (await read_sample(VTT.encode("utf-16"), "a.vtt")).text.startswith("[00:12:30] Ada: Stones")


DOCBOOK = """<?xml version="1.0"?>
<!DOCTYPE book [<!ENTITY mill "the mill">]>
<book xmlns="http://docbook.org/ns/docbook" xml:lang="en"><info><title>Stones</title>
<author><personname><firstname>Ada</firstname><surname>Lovelace</surname></personname></author>
<pubdate>2024-03-01</pubdate><keywordset><keyword>basalt</keyword></keywordset></info>
<chapter><title>Dressing</title><para>How <emphasis>&mill;</emphasis> is
 kept<indexterm><primary>x</primary></indexterm>.</para>
<section><title>Tools</title><itemizedlist><listitem><para>Pick</para><orderedlist><listitem><para>steel</para></listitem>
</orderedlist></listitem><listitem><para>Brush</para></listitem></itemizedlist>
<programlisting>a = 1
  b = 2</programlisting>
<table><title>Grain</title><tgroup cols="2"><thead><row><entry>kind</entry><entry>kg</entry></row></thead>
<tbody><row><entry>rye</entry><entry>7</entry></row></tbody></tgroup></table></section></chapter></book>"""

JATS = """<?xml version="1.0"?><!DOCTYPE article PUBLIC "-//NLM//DTD JATS" "JATS-archivearticle1.dtd">
<article xml:lang="en"><front><journal-meta><journal-title>J. Mills</journal-title></journal-meta><article-meta>
<article-id>10.1/x</article-id><title-group><article-title>On <italic>querns</italic></article-title></title-group>
<contrib-group><contrib contrib-type="author"><name><surname>Lovelace</surname><given-names>Ada</given-names></name></contrib>
<contrib contrib-type="editor"><name><surname>Eve</surname></name></contrib></contrib-group>
<pub-date><day>1</day><month>3</month><year>2024</year></pub-date><abstract><p>We grind.</p></abstract>
<kwd-group><kwd>basalt</kwd></kwd-group></article-meta></front>
<body><sec><title>Methods</title><p>Rye was ground<xref>1</xref>.</p><sec><title>Stones</title><p>Two.</p></sec></sec>
<table-wrap><label>Table 1</label><caption><p>Yield</p></caption><table><tr><th>grain</th><th>kg</th></tr>
<tr><td>rye</td><td>7</td></tr></table></table-wrap></body>
<back><ref-list><title>References</title><ref id="r1"><mixed-citation><name><surname>Smith</surname></name>.
<article-title>Old mills</article-title>. <year>1786</year></mixed-citation></ref></ref-list></back></article>"""

OPML = """<?xml version="1.0"?><opml version="2.0"><head><title>Feeds</title><ownerName>Ada</ownerName>
<dateCreated>Fri, 01 Mar 2024 12:00:00 GMT</dateCreated></head><body><outline text="Mills">
<outline text="Stones" xmlUrl="https://example.org/feed"/><outline text="A note" _note="of two words"/></outline></body></opml>"""


async def test_docbook_keeps_its_structure(read_sample: ReadSample) -> None:
    reading = await read_sample(DOCBOOK, "a.xml")
    assert reading.text == (
        "# Stones\n\n## Dressing\n\nHow the mill is kept.\n\n### Tools\n\n- Pick\n  1. steel\n- Brush\n\n"
        "```\na = 1\n  b = 2\n```\n\n**Grain**\n\n| kind | kg |\n| --- | --- |\n| rye | 7 |\n\n"
    )
    assert reading.document == {
        "title": "Stones",
        "authors": ["Ada Lovelace"],
        "created": "2024-03-01",
        "language": "en",
        "keywords": ["basalt"],
    }


async def test_jats_keeps_its_structure_and_lists_its_references(read_sample: ReadSample) -> None:
    reading = await read_sample(JATS, "a.nxml")
    assert reading.text == (
        "# On querns\n\nWe grind.\n\n## Methods\n\nRye was ground1.\n\n### Stones\n\nTwo.\n\nTable 1\n\nYield\n\n"
        "| grain | kg |\n| --- | --- |\n| rye | 7 |\n\n## References\n\n- Smith. Old mills. 1786\n\n"
    )
    assert reading.document == {
        "title": "On querns",
        "authors": ["Ada Lovelace"],
        "created": "2024-03-01",
        "language": "en",
        "keywords": ["basalt"],
    }


async def test_an_outline_of_opml_becomes_nested_lists(read_sample: ReadSample) -> None:
    reading = await read_sample(OPML, "a.opml")
    assert reading.text == "- Mills\n  - [Stones](https://example.org/feed)\n  - A note: of two words\n"
    assert reading.document == {"title": "Feeds", "authors": ["Ada"], "created": "2024-03-01T12:00:00Z"}


async def test_xml_with_a_known_structure_is_bounded_too(read_sample: ReadSample) -> None:
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 20 if n else "x" * 100}">' for n in range(8))
    bomb = f"<?xml version='1.0'?><!DOCTYPE book [{entities}]><book><para>&e7;</para></book>"
    with pytest.raises(Unreadable) as refusal:
        await read_sample(bomb, "a.xml")
    assert refusal.value.code == "bomb"
    with pytest.raises(Unreadable) as refusal:
        await read_sample("<?xml version='1.0'?><article>" + "<sec>" * 5_000, "a.xml")
    assert refusal.value.code == "bomb"
    local = '<?xml version="1.0"?><!DOCTYPE article [<!ENTITY e SYSTEM "file:///etc/passwd">]><article>&e;</article>'
    with pytest.raises(Unreadable) as refusal:
        await read_sample(local, "a.xml")
    assert refusal.value.code == "unsafe_xml"
    cut = await read_sample(DOCBOOK[:-90], "a.xml")
    assert "damaged" in cut.report.warnings
    assert "How the mill is kept." in cut.text


VISIO_PAGE = '<PageContents xmlns="v"><Shapes><Shape><Text><cp IX="0"/>Grind</Text><Shapes><Shape><Text>Sieve\n</Text></Shape></Shapes></Shape></Shapes></PageContents>'
XPS_PAGE = (
    '<FixedPage xmlns="x"><Glyphs OriginX="10" OriginY="20" FontRenderingEmSize="10" UnicodeString="The miller"/>'
    '<Glyphs OriginX="70" OriginY="20" FontRenderingEmSize="10" UnicodeString="grinds"/>'
    '<Glyphs OriginX="10" OriginY="32" FontRenderingEmSize="10" UnicodeString="{}{rye}."/>'
    '<Glyphs OriginX="10" OriginY="90" FontRenderingEmSize="10" UnicodeString="Next."/></FixedPage>'
)
CORE = '<c xmlns:dc="d"><dc:title>Flow</dc:title><dc:creator>Ada</dc:creator></c>'


async def test_visio_and_xps_give_the_text_of_their_pages(read_sample: ReadSample) -> None:
    names = '<Pages xmlns="v"><Page Name="Milling"/><Page Name="Baking"/></Pages>'
    members = {"visio/document.xml": "<a/>", "visio/pages/pages.xml": names, "docProps/core.xml": CORE}
    pages = {
        "visio/pages/page1.xml": VISIO_PAGE,
        "visio/pages/page2.xml": VISIO_PAGE.replace("Grind", "Bake"),
    }
    drawing = await read_sample(samples.zipped(members | pages), "a.vsdx")
    assert [(part.text, part.page) for part in drawing.parts] == [
        ("## Milling\n\nGrind\n\nSieve\n\n", 1),
        ("## Baking\n\nBake\n\nSieve\n\n", 2),
    ]
    assert drawing.document == {"title": "Flow", "authors": ["Ada"]}
    fixed = {"FixedDocumentSequence.fdseq": "<a/>", "docProps/core.xml": CORE}
    fixed |= {f"Documents/1/Pages/{n}.fpage": XPS_PAGE.replace("Next", f"Page {n}") for n in (10, 9)}
    printed = await read_sample(samples.zipped(fixed), "a.xps")
    assert [(part.text, part.page) for part in printed.parts] == [
        ("The miller grinds\n{rye}.\n\nPage 9.\n\n", 1),
        ("The miller grinds\n{rye}.\n\nPage 10.\n\n", 2),
    ]


async def test_zstandard_is_unpacked_and_bounded(read_sample: ReadSample) -> None:
    packed = zstandard.compress(b"The miller grinds rye.")
    assert (await read_sample(packed, "a.txt.zst")).files == {"a.txt": b"The miller grinds rye."}
    tarred = zstandard.compress(samples.tarred({"b.txt": b"Oats."}))
    assert (await read_sample(tarred, "a.tar.zst")).files == {"b.txt": b"Oats."}
    with pytest.raises(Unreadable) as refusal:
        await read_sample(zstandard.compress(bytes(200 << 20)), "a.zst")
    assert refusal.value.code == "bomb"
    with pytest.raises(Unreadable) as refusal:
        await read_sample(packed[:4] + b"\xff" * 30, "a.zst")
    assert refusal.value.code == "corrupt"


async def test_what_can_not_be_read_is_refused_by_its_name_with_advice(read_sample: ReadSample) -> None:
    given = {
        b"Rar!\x1a\x07\x01\0": "Unpack",
        b"ITSF\3\0": "Decompile",
        b"AT&TFORM\0\1DJVM": "PDF",
    }
    for data, advice in given.items():
        with pytest.raises(Unsupported) as refusal:
            await read_sample(data + bytes(100), "a.bin")
        assert advice in refusal.value.message


async def test_books_mails_and_photographs_say_what_they_are(read_sample: ReadSample) -> None:
    mail = await read_sample(samples.mail("Hi", {}).as_bytes(), "a.eml")
    assert mail.document == {
        "title": "Größe der 知识库",
        "authors": ["a@example.com"],
        "recipients": ["b@example.com"],
        "created": "2026-06-01T10:00:00Z",
    }
    message = await read_sample(samples.outlook("主题", "Body text", {}), "a.msg")
    assert message.document["title"] == "主题"
    document = await read_sample(
        samples.docx(samples.paragraph("Rye."), {"docProps/core.xml": CORE}), "a.docx"
    )
    assert document.document == {"title": "Flow", "authors": ["Ada"]}
    picture = io.BytesIO()
    exif = Image.Exif()
    exif[270], exif[315], exif[306] = "A quern", "Ada", "2024:03:01 12:00:00"
    Image.new("RGB", (60, 40), "white").save(picture, "JPEG", exif=exif)
    assert image_metadata(picture.getvalue()).to_json() == {
        "title": "A quern",
        "authors": ["Ada"],
        "created": "2024-03-01T12:00:00",
    }


def varint(value: int) -> bytes:
    return bytes([value]) if value < 0x80 else bytes([value & 0x7F | 0x80]) + varint(value >> 7)


def field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def iwa_archive(*messages: tuple[int, bytes]) -> bytes:
    """An archive with these messages by their types, in blocks of Snappy without compression."""
    data = b""
    for kind, message in messages:
        info = field(1, 7) + field(2, field(1, kind) + field(3, len(message)))
        data += varint(len(info)) + info + message
    blocks = b""
    for start in range(0, len(data), 50):
        piece = data[start : start + 50]
        snappy = varint(len(piece)) + bytes([(len(piece) - 1) << 2]) + piece
        blocks += b"\0" + len(snappy).to_bytes(3, "little") + snappy
    return blocks


async def test_snappy_copies_what_came_before() -> None:
    packed = b"\x0f" + b"\x08abc" + b"\x19\x03" + bytes([1 << 2 | 2]) + b"\x01\0"
    assert iwa.decompress(packed, 100) == b"abcabcabcabcaaa"
    for broken in (b"\x05\x08ab", b"\x05\x01\x09", b"\xff\xff\xff\xff\x0f", b"", b"\x03\x09\x05"):
        with pytest.raises(ValueError, match=r".+"):
            iwa.decompress(broken, 1000)


async def test_iwork_gives_its_texts_and_old_documents_their_xml_or_preview(read_sample: ReadSample) -> None:
    body = field(1, 0) + field(3, "The miller\u2028grinds\n\ufffc石磨".encode())
    cells = field(1, 1) + field(3, field(1, 1) + field(3, b"rye"))
    members = {
        "Index/Document.iwa": iwa_archive((1, b""), (2001, body)),
        "Index/Tables/DataList-2.iwa": iwa_archive((6005, cells)),
        "Index/MasterSlide-1.iwa": iwa_archive((2001, field(3, b"Double-click to edit"))),
    }
    new = await read_sample(samples.zipped(members), "a.pages")
    assert new.text == "The miller\n\ngrinds\n\n石磨\n\nrye\n\n"
    assert new.report.warnings == ["partial_text"]
    packed = await read_sample(samples.zipped({"Index.zip": samples.zipped(members)}), "a.key")
    assert packed.text == new.text
    old = '<sl:document xmlns:sl="a" xmlns:sf="b" xmlns:sfa="c"><sf:p>Rye<sf:br/>bread</sf:p><sf:ct sfa:s="7 kg"/></sl:document>'
    assert (
        await read_sample(samples.zipped({"index.xml": old}), "a.numbers")
    ).text == "Rye bread\n\n7 kg\n\n"
    preview = {"QuickLook/Preview.pdf": samples.pdf(["Oats by boat."]), "index.xml": "<a/>"}
    assert "Oats by boat." in (await read_sample(samples.zipped(preview), "a.pages")).text
    with pytest.raises(Unsupported, match="Export it"):
        await read_sample(samples.zipped({"Index/Document.iwa": b"\1garbage"}), "a.pages")


async def test_onenote_texts_are_found_in_any_language() -> None:
    def string(text: str) -> bytes:
        data = text.encode("utf-16-le") + b"\0\0"
        return len(data).to_bytes(4, "little") + data

    noise = bytes(random.Random(7).randbytes(20_000))
    texts = ["Мельница мелет рожь", "石磨每週打磨", "الطاحونة", "粉をひく", "Grinding rye"]
    section = b"".join(noise[n * 4000 : n * 4000 + 4000] + string(text) for n, text in enumerate(texts))
    ascii_text = b"\x10\0\0\0Spelt on Tuesday"
    section += string("Grinding") + ascii_text + string("Calibri Light") + string("PageTitle")
    assert list(section_texts(section)) == [*texts, "Spelt on Tuesday"]


async def test_a_message_of_outlooks_data_file_becomes_mail(read_sample: ReadSample) -> None:
    attachment = SimpleNamespace(long_filename="list.txt", size=4, read_buffer={4: b"oats"}.__getitem__)
    message = SimpleNamespace(
        subject="\x01\x05RE: Größe",
        transport_headers="From: Ada <ada@example.com>\r\nTo: b@example.com,\r\n c@example.com\r\nX-Other: no\r\n",
        sender_name="Unknown",
        client_submit_time=datetime(2024, 3, 1, 12),
        plain_text_body="Rye on Tuesday, für Größe.".encode("cp1252"),
        html_body=None,
        rtf_body=None,
        number_of_attachments=1,
        get_attachment=[attachment].__getitem__,
    )
    sink: Any = SimpleNamespace(warn=print, report_progress=lambda: None)
    mail = as_mail(sink, message)
    assert mail == as_mail(sink, message)
    reading = await read_sample(mail, "a.eml")
    assert reading.document == {
        "title": "RE: Größe",
        "authors": ["Ada <ada@example.com>"],
        "recipients": ["b@example.com", "c@example.com"],
        "created": "2024-03-01T12:00:00Z",
    }
    assert "Rye on Tuesday, für Größe." in reading.text
    assert reading.files == {"list.txt": b"oats"}
    with pytest.raises(Unreadable) as refusal:
        await read_sample(b"!BDN" + bytes(2_000), "a.pst")
    assert refusal.value.code == "corrupt"
