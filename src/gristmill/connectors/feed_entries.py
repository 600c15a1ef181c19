"""The entries of a feed: RSS 2.0, RSS 1.0 and Atom.

addresses     relative ones count from `xml:base`, else from the feed; only http and https are kept
texts         HTML. Atom says what a text is: plain text is escaped, XHTML is written out. What claims to be plain text and has
              closing tags of HTML is HTML all the same: many feeds forget to say so
slips         entities of HTML, a `&` by itself and control characters are tolerated
titles        plain text: entities that were escaped twice, and tags in titles of Atom that are HTML, are resolved
ids           `guid` or `id`, else the link, else the title, else a hash of the text
"""

import hashlib
import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from html import entities
from urllib.parse import unquote, urljoin, urlsplit
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from gristmill.connectors.port import Attachment
from gristmill.connectors.safe_xml import parse_xml

_ATOM = "{http://www.w3.org/2005/Atom}"
_CONTENT = "{http://purl.org/rss/1.0/modules/content/}encoded"
_RSS1 = "{http://purl.org/rss/1.0/}"
_DUBLIN_CORE_DATE = "{http://purl.org/dc/elements/1.1/}date"
_BASE = "{http://www.w3.org/XML/1998/namespace}base"
_CLOSING_TAG = re.compile(
    r"</(p|div|a|b|i|em|strong|span|ul|ol|li|h\d|blockquote|table|code|pre)>", re.IGNORECASE
)
_TAG = re.compile(r"<[^<>]*>")
_CDATA = re.compile(rb"(<!\[CDATA\[.*?\]\]>)", re.DOTALL)
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_AMPERSAND = re.compile(rb"&(?:(#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|\w{2,31});)?")
_XML_ENTITIES = ("amp", "lt", "gt", "quot", "apos")
_ENTITY = re.compile(r"&(#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|\w{2,31});")


@dataclass(frozen=True)
class FeedEntry:
    """An entry of a feed; `html` is its text."""

    id: str
    title: str
    url: str | None
    html: str
    updated_at: datetime | None
    enclosures: tuple[Attachment, ...] = ()


def parse_entries(data: bytes, address: str) -> list[FeedEntry]:
    """The entries of the feed at an address; ValueError when it is no feed. Of two with one id the first counts: in nearly all
    feeds it is the newer one."""
    try:
        root = parse_xml(data)
    except ValueError:
        root = parse_xml(_without_slips(data))
    base = _base_of(root, address)
    if root.tag == f"{_ATOM}feed":
        entries_read = (_atom_entry(element, base) for element in root.iterfind(f"{_ATOM}entry"))
    elif root.tag in ("rss", "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}RDF"):
        prefix = "" if root.tag == "rss" else _RSS1
        entries_read = (_rss_entry(element, prefix, base) for element in root.iter(f"{prefix}item"))
    else:
        raise ValueError(f"its outermost element is {root.tag.rpartition('}')[2]}")
    entries: dict[str, FeedEntry] = {}
    for entry in entries_read:
        entries.setdefault(entry.id, entry)
    return list(entries.values())


def _without_slips(data: bytes) -> bytes:
    """A feed without what generators of HTML leave in XML: entities that only HTML has, a `&` by itself, control characters."""
    pieces = _CDATA.split(_CONTROL.sub(b"", data))
    return b"".join(
        piece if number % 2 else _AMPERSAND.sub(_escape_ampersand, piece)
        for number, piece in enumerate(pieces)
    )


def _escape_ampersand(match: re.Match[bytes]) -> bytes:
    name = (match[1] or b"").decode("ascii", "replace")
    if name in _XML_ENTITIES or name.startswith("#"):
        return match[0]
    text = entities.html5.get(f"{name};")
    return b"&amp;" + match[0][1:] if text is None else "".join(f"&#{ord(each)};" for each in text).encode()


# ── Atom ─────────────────────────────────────────────────────────────────────────────────────────────────


def _atom_entry(element: Element, base: str) -> FeedEntry:
    base = _base_of(element, base)
    links = list(element.iterfind(f"{_ATOM}link"))
    pages = [link for link in links if link.get("rel", "alternate") == "alternate" and link.get("href")]
    pages.sort(key=lambda link: "html" not in link.get("type", "html"))
    link = pages[0].get("href") if pages else None
    texts = (_atom_html(element.find(f"{_ATOM}{name}")) for name in ("content", "summary"))
    text = next((each for each in texts if each.strip()), "")
    title = _atom_title(element.find(f"{_ATOM}title"))
    updated = element.findtext(f"{_ATOM}updated") or element.findtext(f"{_ATOM}published")
    return FeedEntry(
        element.findtext(f"{_ATOM}id") or link or _id_of(title, text),
        title,
        _resolve(link, base),
        text,
        _parse_time(updated),
        tuple(
            enclosure
            for link in links
            if link.get("rel") == "enclosure"
            for enclosure in _enclosures(link.get("href"), link.get("type"), base)
        ),
    )


def _atom_html(element: Element | None) -> str:
    if element is None:
        return ""
    kind, text = element.get("type", "text"), "".join(element.itertext())
    if kind == "xhtml":
        for each in element.iter():
            each.tag = str(each.tag).rpartition("}")[2]
        return "".join(ElementTree.tostring(child, encoding="unicode", method="html") for child in element)
    if kind in ("html", "text/html") or (kind == "text" and _CLOSING_TAG.search(text)):
        return text
    is_text = kind == "text" or (kind.startswith("text/") and element.get("src") is None)
    return html.escape(text, quote=False).replace("\n", "<br>\n") if is_text else ""


def _atom_title(element: Element | None) -> str:
    if element is None:
        return ""
    text = "".join(element.itertext())
    return _unescape(_TAG.sub("", text)) if element.get("type") in ("html", "text/html") else text


# ── RSS ──────────────────────────────────────────────────────────────────────────────────────────────────


def _rss_entry(element: Element, prefix: str, base: str) -> FeedEntry:
    base = _base_of(element, base)
    link, guid = element.findtext(f"{prefix}link"), element.find("guid")
    title = element.findtext(f"{prefix}title") or ""
    text = element.findtext(_CONTENT) or element.findtext(f"{prefix}description") or ""
    guid_text = "" if guid is None else guid.text or ""
    page = link or (guid_text if guid is not None and guid.get("isPermaLink", "true") != "false" else None)
    return FeedEntry(
        guid_text or link or _id_of(title, text),
        _unescape(title),
        _resolve(page, base) if page == link or "://" in (page or "") else None,
        text,
        _parse_time(element.findtext("pubDate") or element.findtext(_DUBLIN_CORE_DATE)),
        tuple(
            enclosure
            for each in element.iterfind("enclosure")
            for enclosure in _enclosures(each.get("url"), each.get("type"), base)
        ),
    )


# ── both ─────────────────────────────────────────────────────────────────────────────────────────────────


def _id_of(title: str, text: str) -> str:
    return title or hashlib.sha256(text.encode()).hexdigest()


def _unescape(text: str) -> str:
    return _ENTITY.sub(lambda match: html.unescape(match[0]), text)


def _base_of(element: Element, outer: str) -> str:
    """The address that relative ones within an element count from."""
    return _resolve(element.get(_BASE), outer) or outer


def _resolve(link: str | None, base: str) -> str | None:
    try:
        address = urljoin(base, (link or "").strip()) if link else ""
    except ValueError:
        return None
    return address if address.startswith(("http://", "https://")) else None


def _enclosures(link: str | None, media_type: str | None, base: str) -> Iterator[Attachment]:
    """A document that comes with an entry; sound and video stay links."""
    url = _resolve(link, base)
    if url is not None and not (media_type or "").startswith(("audio/", "video/")):
        name = unquote(urlsplit(url).path.rpartition("/")[2]) or "enclosure"
        yield Attachment(url, name, None, media_type or None, {"url": url})


def _parse_time(text: str | None) -> datetime | None:
    if not text:
        return None
    for parse in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            time = parse(text.strip())
            return time if time.tzinfo else time.replace(tzinfo=UTC)
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
    return None
