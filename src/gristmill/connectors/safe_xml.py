"""Parses XML that a server sent: without entities, which could expand without end or name files.

The parser knows UTF-8, UTF-16 and the encodings with one byte for each character. What declares another one (GBK, Shift_JIS) is
decoded here. Empty lines before the declaration are tolerated.
"""

import codecs
import re
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

# In every encoding that expat reads, a declaration of entities has these bytes, perhaps with zeros between them.
_DECLARATION = b"<!ENTITY"
_ENCODING = re.compile(rb"""\A<\?xml[^>]{1,200}?encoding\s*=\s*["']([\w.:-]{1,40})["'][^>]{0,200}\?>""")

_MULTIBYTE = frozenset(
    (
        *("gb2312", "gbk", "gb18030", "hz", "big5", "big5hkscs", "shift_jis", "cp932"),
        *("euc_jp", "iso2022_jp", "euc_kr", "cp949", "johab"),
    )
)


def parse_xml(data: bytes) -> Element:
    """The root of a document; ValueError when it isn't XML, or declares entities."""
    stripped = data.lstrip(b" \t\r\n")
    data = stripped if stripped.startswith(b"<") else data
    if _DECLARATION in data.replace(b"\0", b""):
        raise ValueError("it declares entities")
    try:
        return ElementTree.fromstring(data)  # noqa: S314  # no entities, see above
    except (ElementTree.ParseError, LookupError) as error:
        raise ValueError(str(error)) from None
    except ValueError:  # an encoding with several bytes for a character
        return _parse_decoded(data)


def _parse_decoded(data: bytes) -> Element:
    declaration = _ENCODING.match(data)
    if declaration is None:
        raise ValueError("its encoding is not known")
    try:
        codec = codecs.lookup(declaration[1].decode())
        if codec.name not in _MULTIBYTE:
            raise ValueError(f"its encoding {codec.name} is not supported")
        text = data[declaration.end() :].decode(codec.name)
    except (LookupError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from None
    if _DECLARATION.decode() in text:
        raise ValueError("it declares entities")
    try:
        return ElementTree.fromstring(text)  # noqa: S314  # no entities, see above
    except ElementTree.ParseError as error:
        raise ValueError(str(error)) from None
