"""Office documents with everything that can be around their text."""

import io
import zipfile

from tests.readers.samples import ODF, RELS, TYPES, A, P, R, S, W, docx, opendocument, paragraph, zipped

M = "http://schemas.openxmlformats.org/officeDocument/2006/math"
C = "http://schemas.openxmlformats.org/drawingml/2006/chart"
D = "http://schemas.openxmlformats.org/drawingml/2006/diagram"
MC = "http://schemas.openxmlformats.org/markup-compatibility/2006"
WPS = "http://schemas.microsoft.com/office/word/2010/wordprocessingShape"

_ACROSS, _DOWN = '<w:gridSpan w:val="2"/>', '<w:vMerge w:val="restart"/>'
EQUATION = (
    f'<m:oMath xmlns:m="{M}"><m:f><m:num><m:r><m:t>a</m:t></m:r></m:num><m:den><m:rad><m:radPr><m:degHide m:val="1"/></m:radPr>'
    "<m:deg/><m:e><m:r><m:t>β</m:t></m:r></m:e></m:rad></m:den></m:f><m:r><m:t>=</m:t></m:r><m:nary><m:naryPr>"
    '<m:chr m:val="∑"/></m:naryPr><m:sub><m:r><m:t>i</m:t></m:r></m:sub><m:sup><m:r><m:t>n</m:t></m:r></m:sup><m:e><m:sSup><m:e>'
    "<m:r><m:t>x</m:t></m:r></m:e><m:sup><m:r><m:t>2</m:t></m:r></m:sup></m:sSup></m:e></m:nary></m:oMath>"
)
EQUATION_LATEX = r"\frac{a}{\sqrt{\beta}}=\sum_{i}^{n} x^{2}"
CHART = (
    f'<c:chartSpace xmlns:c="{C}" xmlns:a="{A}"><c:chart><c:title><c:tx><c:rich><a:p><a:r><a:t>Grain by year</a:t></a:r></a:p></c:rich>'
    "</c:tx></c:title><c:plotArea><c:barChart><c:ser><c:tx><c:strRef><c:strCache><c:pt idx='0'><c:v>Rye</c:v></c:pt></c:strCache>"
    "</c:strRef></c:tx><c:cat><c:strRef><c:strCache><c:pt idx='0'><c:v>2024</c:v></c:pt><c:pt idx='1'><c:v>2025</c:v></c:pt>"
    "</c:strCache></c:strRef></c:cat><c:val><c:numRef><c:numCache><c:pt idx='0'><c:v>12</c:v></c:pt><c:pt idx='1'><c:v>30</c:v></c:pt>"
    "</c:numCache></c:numRef></c:val></c:ser></c:barChart><c:valAx><c:title><c:tx><c:rich><a:p><a:r><a:t>Tonnes</a:t></a:r></a:p>"
    "</c:rich></c:tx></c:title></c:valAx></c:plotArea></c:chart></c:chartSpace>"
)
CHART_TABLE = "Tonnes\n\n| Grain by year | Rye |\n| --- | --- |\n| 2024 | 12 |\n| 2025 | 30 |"
DIAGRAM = (
    f'<d:dataModel xmlns:d="{D}" xmlns:a="{A}"><d:ptLst><d:pt><d:t><a:p><a:r><a:t>Hopper</a:t></a:r></a:p></d:t></d:pt>'
    "<d:pt><d:t><a:p><a:r><a:t>Damsel</a:t></a:r></a:p></d:t></d:pt></d:ptLst></d:dataModel>"
)


def relations(targets: dict[str, tuple[str, str]]) -> str:
    """A part of relationships: target and type by id."""
    entries = "".join(
        f'<Relationship Id="{name}" Target="{target}" Type="{R}/{kind}"/>'
        for name, (target, kind) in targets.items()
    )
    return f'<Relationships xmlns="{RELS}">{entries}</Relationships>'


def word_with_everything() -> bytes:
    """A Word document with headers, notes, a comment, a text box, a chart, a SmartArt, an equation, lists and merged cells."""

    def part(tag: str, inside: str) -> str:
        return f'<w:{tag} xmlns:w="{W}">{inside}</w:{tag}>'

    def cell(text: str, properties: str = "") -> str:
        return f"<w:tc><w:tcPr>{properties}</w:tcPr>{paragraph(text) if text else '<w:p/>'}</w:tc>"

    def item(text: str, level: int) -> str:
        numbering = f'<w:pPr><w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="1"/></w:numPr></w:pPr>'
        return f"<w:p>{numbering}<w:r><w:t>{text}</w:t></w:r></w:p>"

    box = f"<w:txbxContent>{paragraph('Words in a box')}</w:txbxContent>"
    body = (
        '<w:p><w:pPr><w:pStyle w:val="Chapter"/></w:pPr><w:r><w:t>The stones</w:t></w:r></w:p>'
        '<w:p><w:r><w:t>Burr</w:t></w:r><w:r><w:footnoteReference w:id="2"/></w:r><w:r><w:t> and granite</w:t></w:r><w:r>'
        '<w:endnoteReference w:id="2"/></w:r><w:r><w:commentReference w:id="0"/></w:r></w:p>'
        f"<w:p>{EQUATION}</w:p>"
        f'<w:p><w:r><mc:AlternateContent xmlns:mc="{MC}"><mc:Choice Requires="wps"><w:drawing><wps:wsp xmlns:wps="{WPS}"><wps:txbx>{box}'
        f"</wps:txbx></wps:wsp></w:drawing></mc:Choice><mc:Fallback><w:pict>{box}</w:pict></mc:Fallback></mc:AlternateContent></w:r></w:p>"
        f'<w:p><w:r><w:drawing><c:chart xmlns:c="{C}" xmlns:r="{R}" r:id="chart"/></w:drawing></w:r></w:p>'
        f'<w:p><w:r><w:drawing><d:relIds xmlns:d="{D}" xmlns:r="{R}" r:dm="diagram"/></w:drawing></w:r></w:p>'
        f"<w:tbl><w:tr>{cell('across', _ACROSS)}{cell('c1')}</w:tr><w:tr>{cell('down', _DOWN)}{cell('b2')}{cell('c2')}</w:tr>"
        f"<w:tr>{cell('', '<w:vMerge/>')}{cell('b3')}{cell('c3')}</w:tr></w:tbl>"
        f"{item('first', 0)}{item('inner', 1)}{item('second', 0)}"
        "<w:p><w:del><w:r><w:delText>struck out</w:delText></w:r></w:del><w:ins><w:r><w:t>put in</w:t></w:r></w:ins></w:p>"
        f'<w:sectPr xmlns:r="{R}"><w:headerReference r:id="header"/><w:footerReference r:id="footer"/></w:sectPr>'
    )
    level = '<w:lvl w:ilvl="{0}"><w:start w:val="1"/><w:numFmt w:val="{1}"/><w:lvlText w:val="{2}"/></w:lvl>'
    return docx(
        body,
        {
            "word/_rels/document.xml.rels": relations(
                {
                    "header": ("header1.xml", "header"),
                    "footer": ("footer1.xml", "footer"),
                    "chart": ("charts/chart1.xml", "chart"),
                    "diagram": ("diagrams/data1.xml", "diagramData"),
                    **{
                        name: (f"{name}.xml", name)
                        for name in ("styles", "numbering", "footnotes", "endnotes", "comments")
                    },
                }
            ),
            "word/styles.xml": part(
                "styles",
                '<w:style w:styleId="Base"><w:name w:val="heading 2"/></w:style>'
                '<w:style w:styleId="Chapter"><w:name w:val="Chapter"/><w:basedOn w:val="Base"/></w:style>',
            ),
            "word/numbering.xml": part(
                "numbering",
                f'<w:abstractNum w:abstractNumId="7">{level.format(0, "decimal", "%1.")}{level.format(1, "lowerLetter", "%1%2)")}'
                '</w:abstractNum><w:num w:numId="1"><w:abstractNumId w:val="7"/></w:num>',
            ),
            "word/header1.xml": part("hdr", paragraph("The Miller's Handbook")),
            "word/footer1.xml": part("ftr", paragraph("For millers only")),
            "word/footnotes.xml": part(
                "footnotes", f'<w:footnote w:id="2">{paragraph("From France.")}</w:footnote>'
            ),
            "word/endnotes.xml": part(
                "endnotes", f'<w:endnote w:id="2">{paragraph("From the Alps.")}</w:endnote>'
            ),
            "word/comments.xml": part(
                "comments", f'<w:comment w:id="0" w:author="Ada">{paragraph("Which quarry?")}</w:comment>'
            ),
            "word/charts/chart1.xml": CHART,
            "word/diagrams/data1.xml": DIAGRAM,
        },
    )


def slides_with_everything() -> bytes:
    """A presentation with a chart, a SmartArt, an equation, merged cells, notes and two kinds of comments."""

    def cell(text: str, attributes: str = "") -> str:
        return f"<a:tc {attributes}><a:txBody><a:p><a:r><a:t>{text}</a:t></a:r></a:p></a:txBody></a:tc>"

    def shape(text: str) -> str:
        return f"<p:sp><p:nvSpPr><p:nvPr/></p:nvSpPr><p:txBody><a:p>{text}</a:p></p:txBody></p:sp>"

    first, covered = cell("across", 'gridSpan="2"'), cell("", 'hMerge="1"')
    slide = (
        f'<p:sld xmlns:p="{P}" xmlns:a="{A}" xmlns:r="{R}"><p:cSld><p:spTree>'
        f"<p:graphicFrame><c:chart xmlns:c='{C}' r:id='chart'/></p:graphicFrame>"
        f"<p:graphicFrame><d:relIds xmlns:d='{D}' r:dm='diagram'/></p:graphicFrame>"
        f"<p:graphicFrame><a:tbl><a:tr>{first}{covered}</a:tr><a:tr>{cell('a2')}{cell('b2')}</a:tr></a:tbl></p:graphicFrame>"
        f'<mc:AlternateContent xmlns:mc="{MC}"><mc:Choice Requires="a14">{shape(EQUATION)}</mc:Choice>'
        f"<mc:Fallback>{shape('<a:r><a:t>a picture of it</a:t></a:r>')}</mc:Fallback></mc:AlternateContent>"
        "</p:spTree></p:cSld></p:sld>"
    )
    notes = f'<p:notes xmlns:p="{P}" xmlns:a="{A}"><p:cSld><p:spTree>{shape("<a:r><a:t>Speak slowly</a:t></a:r>")}</p:spTree></p:cSld></p:notes>'
    return zipped(
        {
            "[Content_Types].xml": f'<Types xmlns="{TYPES}"/>',
            "ppt/presentation.xml": f'<p:presentation xmlns:p="{P}" xmlns:r="{R}"><p:sldIdLst><p:sldId id="256" r:id="r1"/></p:sldIdLst></p:presentation>',
            "ppt/_rels/presentation.xml.rels": relations({"r1": ("slides/slide1.xml", "slide")}),
            "ppt/slides/slide1.xml": slide,
            "ppt/slides/_rels/slide1.xml.rels": relations(
                {
                    "chart": ("../charts/chart1.xml", "chart"),
                    "diagram": ("../diagrams/data1.xml", "diagramData"),
                    "notes": ("../notesSlides/notesSlide1.xml", "notesSlide"),
                    "old": ("../comments/comment1.xml", "comments"),
                    "new": ("../comments/modernComment_1.xml", "comments"),
                }
            ),
            "ppt/charts/chart1.xml": CHART,
            "ppt/diagrams/data1.xml": DIAGRAM,
            "ppt/notesSlides/notesSlide1.xml": notes,
            "ppt/comments/comment1.xml": f'<p:cmLst xmlns:p="{P}"><p:cm><p:text>An old remark</p:text></p:cm></p:cmLst>',
            "ppt/comments/modernComment_1.xml": f'<x:cmLst xmlns:x="urn:x" xmlns:a="{A}"><x:cm><x:txBody><a:p><a:r><a:t>A new remark</a:t></a:r></a:p></x:txBody></x:cm></x:cmLst>',
        }
    )


def workbook_with_everything() -> bytes:
    """A workbook with merged cells, a comment, a text box, a chart, a printed header and a hidden sheet."""

    def cell(place: str, text: str) -> str:
        return f'<c r="{place}" t="inlineStr"><is><t>{text}</t></is></c>'

    sheet = (
        f'<worksheet xmlns="{S}"><sheetData><row r="3">{cell("C3", "stones")}{cell("E3", "weight")}</row><row r="4">{cell("C4", "runner")}'
        f'{cell("D4", "burr")}{cell("E4", "1200")}</row></sheetData><mergeCells count="1"><mergeCell ref="C3:D3"/></mergeCells>'
        "<headerFooter><oddHeader>&amp;C&amp;&quot;Arial,Bold&quot;Stock of the mill</oddHeader></headerFooter></worksheet>"
    )
    drawing = (
        f'<xdr:wsDr xmlns:xdr="urn:xdr" xmlns:a="{A}"><xdr:sp><xdr:txBody><a:p><a:r><a:t>Words in a box</a:t></a:r></a:p></xdr:txBody></xdr:sp>'
        f'<c:chart xmlns:c="{C}" xmlns:r="{R}" r:id="chart"/></xdr:wsDr>'
    )
    comments = (
        f'<comments xmlns="{S}"><authors><author>Ada</author></authors><commentList><comment ref="E4" authorId="0">'
        "<text><r><t>weighed in spring</t></r></text></comment></commentList></comments>"
    )
    return zipped(
        {
            "[Content_Types].xml": f'<Types xmlns="{TYPES}"/>',
            "_rels/.rels": relations({"r1": ("xl/workbook.xml", "officeDocument")}),
            "xl/workbook.xml": f'<workbook xmlns="{S}" xmlns:r="{R}"><sheets><sheet name="Stock" sheetId="1" r:id="r1"/>'
            '<sheet name="Prices" sheetId="2" r:id="r2" state="veryHidden"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": relations(
                {"r1": ("worksheets/sheet1.xml", "worksheet"), "r2": ("worksheets/sheet2.xml", "worksheet")}
            ),
            "xl/worksheets/sheet1.xml": sheet,
            "xl/worksheets/sheet2.xml": f'<worksheet xmlns="{S}"><sheetData><row r="1">{cell("A1", "secret")}</row></sheetData></worksheet>',
            "xl/worksheets/_rels/sheet1.xml.rels": relations(
                {"c": ("../comments1.xml", "comments"), "d": ("../drawings/drawing1.xml", "drawing")}
            ),
            "xl/comments1.xml": comments,
            "xl/drawings/drawing1.xml": drawing,
            "xl/drawings/_rels/drawing1.xml.rels": relations({"chart": ("../charts/chart1.xml", "chart")}),
            "xl/charts/chart1.xml": CHART,
        }
    )


def opendocument_with_everything(kind: str) -> bytes:
    """A text or a spreadsheet with a header, a footer, a comment, a text box, a chart, a formula, merged cells and a hidden sheet."""
    spaces = " ".join(
        f'xmlns:{name}="{ODF}{name}:1.0"' for name in ("office", "style", "text", "table", "chart")
    )
    dc, xlink = 'xmlns:dc="http://purl.org/dc/elements/1.1/"', 'xmlns:xlink="http://www.w3.org/1999/xlink"'
    comment = f"<office:annotation {dc}><dc:creator>Ada</dc:creator><dc:date>2026-01-01</dc:date><text:p>Which quarry?</text:p></office:annotation>"
    shapes = (
        "<draw:custom-shape><text:p>Words in a box</text:p></draw:custom-shape><draw:rect><text:p>In a rectangle</text:p></draw:rect>"
        f'<draw:frame><draw:object {xlink} xlink:href="./Object 1"/></draw:frame><draw:frame><draw:object {xlink} xlink:href="./Object 2"/></draw:frame>'
    )
    rows = (
        '<table:table-row><table:table-cell table:number-columns-spanned="2"><text:p>across</text:p></table:table-cell><table:covered-table-cell/>'
        '<table:table-cell table:number-rows-spanned="2"><text:p>down</text:p></table:table-cell></table:table-row>'
        f"<table:table-row><table:table-cell><text:p>a2</text:p></table:table-cell><table:table-cell>{comment if kind != 'text' else ''}<text:p>b2</text:p></table:table-cell>"
        "<table:covered-table-cell/></table:table-row>"
    )
    if kind == "text":
        body = f'<text:h text:outline-level="2">The stones</text:h><text:p>Burr<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>From France.</text:p></text:note-body></text:note>{comment}{shapes}</text:p><table:table>{rows}</table:table>'
    else:
        body = f'<table:table table:name="Stock"><table:shapes>{shapes}</table:shapes>{rows}</table:table><table:table table:name="Prices" table:style-name="hidden"><table:table-row><table:table-cell><text:p>secret</text:p></table:table-cell></table:table-row></table:table>'
    styles = (
        f'<office:document-styles {spaces}><office:master-styles><style:master-page style:name="Standard"><style:header><text:p>The Miller\'s Handbook</text:p>'
        "</style:header><style:footer><text:p>For millers <text:page-number>3</text:page-number></text:p></style:footer></style:master-page></office:master-styles></office:document-styles>"
    )
    chart = (
        f"<office:document-content {spaces}><office:body><office:chart><chart:chart><chart:title><text:p>Grain by year</text:p></chart:title><table:table>"
        "<table:table-row><table:table-cell><text:p>Year</text:p></table:table-cell><table:table-cell><text:p>Rye</text:p></table:table-cell></table:table-row>"
        "<table:table-row><table:table-cell><text:p>2024</text:p></table:table-cell><table:table-cell><text:p>12</text:p></table:table-cell></table:table-row>"
        "</table:table></chart:chart></office:chart></office:body></office:document-content>"
    )
    formula = '<math xmlns="http://www.w3.org/1998/Math/MathML"><semantics><mrow><mfrac><mi>a</mi><mi>β</mi></mfrac><mo>=</mo><msup><mi>x</mi><mn>2</mn></msup></mrow><annotation>{a} over {%beta}</annotation></semantics></math>'
    data = opendocument(
        kind, body, {"styles.xml": styles, "Object 1/content.xml": chart, "Object 2/content.xml": formula}
    )
    hidden = '<office:automatic-styles><style:style style:name="hidden"><style:table-properties table:display="false"/></style:style></office:automatic-styles><office:body>'
    return _replace_member(
        data,
        "content.xml",
        {
            "<office:body>": hidden,
            "<office:document-content": f'<office:document-content xmlns:style="{ODF}style:1.0"',
        },
    )


def _replace_member(data: bytes, name: str, changes: dict[str, str]) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {member: archive.read(member).decode() for member in archive.namelist()}
    for old, new in changes.items():
        members[name] = members[name].replace(old, new, 1)
    return zipped(members)
