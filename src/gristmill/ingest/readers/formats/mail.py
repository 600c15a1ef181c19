"""Mail: one message (eml, mht) or many (mbox). Headers, text, and attachments as embedded documents.

Text is taken from the plain alternative where there is one, else from the HTML. Broken headers and encodings cost
themselves: what can be decoded is.
"""

import email
import email.header
import email.policy
import mimetypes
import re
from collections.abc import Iterator
from email.message import Message
from typing import Any, cast

from gristmill.ingest.readers import encodings
from gristmill.ingest.readers.formats import markup, pictures
from gristmill.ingest.readers.sink import Refused, Sink

_SHOWN = ("Subject", "From", "To", "Cc", "Date")
_MOST_MESSAGE = 256 * 1024 * 1024
_FROM = re.compile(rb"^From \S+.*\d{4}", re.M)


def read(sink: Sink) -> None:
    """Read one message."""
    data = sink.task.path.read_bytes()
    message = _parse(data)
    sink.told.title = _header(message, "Subject")[:500] or None
    _tell(sink, message, 1)
    if not sink.letters and not sink.children:
        raise Refused("The message has no text and no attachment.", code="no_text")


def read_many(sink: Sink) -> None:
    """Read a mailbox, message by message."""
    for number, data in enumerate(_messages(sink), 1):
        if number > 1:
            sink.part("\n---\n\n", number)
        message = _parse(data)
        subject = _header(message, "Subject")
        sink.part(f"## {subject or f'Message {number}'}\n\n", number)
        _tell(sink, message, number)
        sink.told.total = sink.told.read = number


def _parse(data: bytes) -> Message:
    # The old policy keeps broken headers as they are, where the new one raises.
    return email.message_from_bytes(data, policy=email.policy.compat32)


def _messages(sink: Sink) -> Iterator[bytes]:
    held: list[bytes] = []
    size, blank = 0, True
    with sink.task.path.open("rb") as file:
        for line in file:
            if blank and line.startswith(b"From ") and _FROM.match(line):
                if held:
                    yield b"".join(held)
                held, size = [], 0
            else:
                size += len(line)
                if size > _MOST_MESSAGE:
                    raise Refused("It holds a message larger than any mail is.", code="bomb")
                held.append(line[1:] if line.startswith(b">From ") else line)
            blank = not line.strip()
    if held:
        yield b"".join(held)


def _tell(sink: Sink, message: Message, page: int) -> None:
    lines = [f"**{name}:** {text}" for name in _SHOWN if (text := _header(message, name))]
    if lines:
        sink.part("  \n".join(lines) + "\n\n", page)
    if not sink.told.metadata:
        sink.told.metadata |= {name.lower(): _header(message, name)[:1000] for name in _SHOWN}
    body = _body(sink, message)
    if body.strip():
        sink.part(body.strip() + "\n\n", page)
    for number, part in enumerate(_leaves(message), 1):
        _attachment(sink, part, number)


def _leaves(message: Message, depth: int = 0) -> Iterator[Message]:
    """The parts that are documents of their own; a forwarded message is one, and not opened here."""
    if message.is_multipart() and message.get_content_maintype() == "multipart" and depth < 50:
        parts: Any = message.get_payload()
        for part in parts:
            yield from _leaves(part, depth + 1)
    else:
        yield message


def _is_text(part: Message) -> bool:
    return part.get_content_type() in ("text/plain", "text/html", "application/xhtml+xml") and (
        part.get_content_disposition() != "attachment" and part.get_filename() is None
    )


def _body(sink: Sink, message: Message) -> str:
    texts = [part for part in _leaves(message) if _is_text(part)]
    plain = [part for part in texts if part.get_content_type() == "text/plain"]
    written = [_text(part) for part in plain]
    if any(text.strip() for text in written):
        return "\n\n".join(text.strip() for text in written if text.strip())
    pages = [part for part in texts if part.get_content_type() != "text/plain"]
    return "\n\n".join(markup.to_markdown(sink, _text(part)) for part in pages)


def _attachment(sink: Sink, part: Message, number: int) -> None:
    if _is_text(part):
        return
    name = part.get_filename() or ""
    name = _decoded(name)
    if part.get_content_type() == "message/rfc822":
        inner: list[Message] = cast("Any", part.get_payload()) if part.is_multipart() else []
        for message in inner[:1]:
            subject = _header(message, "Subject") or f"message-{number}"
            sink.embedded(name or subject.replace("/", "-") + ".eml", message.as_bytes(), "message/rfc822")
        return
    data = _bytes(part)
    if not data:
        return
    if part.get_content_maintype() == "image" and not name:
        pictures.hand_on(sink, f"image-{number}", data)
    else:
        ending = mimetypes.guess_extension(part.get_content_type()) or ".bin"
        sink.embedded(name or f"attachment-{number}{ending}", data, part.get_content_type())


def _bytes(part: Message) -> bytes:
    try:
        payload: Any = part.get_payload(decode=True)
    except (ValueError, LookupError):
        payload = str(part.get_payload()).encode("utf-8", "surrogateescape")
    return payload if isinstance(payload, bytes) else b""


def _text(part: Message) -> str:
    data = _bytes(part)
    said = part.get_content_charset()
    for encoding in (said, "utf-8"):
        try:
            if encoding:
                return data.decode(encoding)
        except (UnicodeDecodeError, LookupError):
            continue
    return data.decode(encodings.of(data)[0], "replace")


def _header(message: Message, name: str) -> str:
    try:
        value = message.get(name)
    except Exception:  # a header that even the lenient parser stumbles over
        return ""
    return _decoded(str(value)) if value is not None else ""


def _decoded(raw: str) -> str:
    """A header's text, with its encoded words read."""
    try:
        parts = email.header.decode_header(raw)
        text = "".join(
            part if isinstance(part, str) else _known(part, charset or "utf-8") for part, charset in parts
        )
    except (ValueError, LookupError):
        text = raw
    # Bytes that were never encoded, as old programs sent them.
    if any("\udc80" <= sign <= "\udcff" for sign in text):
        data = text.encode("utf-8", "surrogateescape")
        text = data.decode(encodings.of(data)[0], "replace")
    return " ".join(text.split())


def _known(part: bytes, charset: str) -> str:
    try:
        return part.decode(charset, "replace")
    except LookupError:
        return part.decode(encodings.of(part)[0], "replace")
