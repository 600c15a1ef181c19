"""Parses XML that a server sent: without entities, which could expand without end or name files."""

from xml.etree import ElementTree
from xml.etree.ElementTree import Element

# In every encoding that expat reads, a declaration of entities has these bytes, perhaps with zeros between them.
_DECLARATION = b"<!ENTITY"


def parse_xml(data: bytes) -> Element:
    """The root of a document; ValueError when it isn't XML, or declares entities."""
    if _DECLARATION in data.replace(b"\0", b""):
        raise ValueError("entities")
    try:
        return ElementTree.fromstring(data)  # noqa: S314  # no entities, see above
    except ElementTree.ParseError as error:
        raise ValueError(str(error)) from None
