"""Mail: one message (eml, mht) or many (mbox; pst in `outlook_folders.py`). Headers and text become content, attachments are handed over. A mailbox is read
message by message: each becomes a document of its own, and the content is the list of them; of a very large mailbox, the
messages past the first 5,000 are read into the content.

The text is the plain alternative where there is one, else the HTML. A broken header or encoding loses nothing but
itself.
"""

import email
import email.policy
import email.utils
import mimetypes
import re
from collections.abc import Iterator
from email.message import Message
from typing import Any, cast

from gristmill.readers import text_encoding
from gristmill.readers.document_metadata import DocumentMetadata, split_keywords
from gristmill.readers.formats import markup, media
from gristmill.readers.mail_headers import decode_header, header_text
from gristmill.readers.sink import DocumentRefused, Sink

_SHOWN_HEADERS = ("Subject", "From", "To", "Cc", "Date")
_MAX_MAILS = (
    5_000  # of a mailbox that become documents: their attachments need room below the limit of 10,000 too
)
_MAX_MESSAGE_BYTES = 256 * 1024 * 1024
_MBOX_SEPARATOR = re.compile(rb"^From \S+.*\d{4}", re.M)


def read(sink: Sink) -> None:
    """Read one message."""
    data = sink.task.path.read_bytes()
    message = _parse(data)
    sink.describe(_metadata(message))
    _add_message(sink, message, 1)
    if not sink.text_length and not sink.attachment_count:
        raise DocumentRefused("The message has no text and no attachment.", code="no_text")


def read_mbox(sink: Sink) -> None:
    """Read a mailbox, message by message."""
    mailbox = Mailbox(sink)
    for data in _messages(sink):
        mailbox.add(data)
    mailbox.finish()


class Mailbox:
    """Hands over the messages of a mailbox, and lists them in the content."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.count = 0

    def add(self, data: bytes, folder: str = "") -> None:
        """Hand over a message that is in `folder`; past the limit, read it into the content."""
        self.count += 1
        sink, number, message = self._sink, self.count, _parse(data)
        subject = header_text(message, "Subject") or f"Message {number}"
        if not _has_content(message):
            sink.add_text(f"- {subject}" + (f" ({folder})" if folder else "") + "\n", number)
        elif number <= _MAX_MAILS and sink.task.depth > 0:
            facts = " · ".join(
                filter(None, (folder, header_text(message, "From"), header_text(message, "Date")))
            )
            sink.add_text(f"- {subject}" + (f" ({facts})" if facts else "") + "\n", number)
            name = f"{number:05} {subject.replace('/', '-')[:100]}.eml"
            sink.add_attachment(f"{folder}/{name}" if folder else name, data, "message/rfc822")
        else:
            sink.add_text(f"\n---\n\n## {subject}\n\n", number)
            _add_message(sink, message, number)

    def finish(self) -> None:
        """Report how many messages there were."""
        self._sink.report.pages_total = self._sink.report.pages_read = self.count
        if self.count > _MAX_MAILS:
            self._sink.warn(f"mails_in_text:{self.count - _MAX_MAILS}")


def _metadata(message: Message) -> DocumentMetadata:
    recipients = email.utils.getaddresses([header_text(message, name) for name in ("To", "Cc")])
    return DocumentMetadata(
        title=header_text(message, "Subject"),
        authors=[_person(*pair) for pair in email.utils.getaddresses([header_text(message, "From")])],
        recipients=[_person(*pair) for pair in recipients],
        created=header_text(message, "Date"),
        language=header_text(message, "Content-Language"),
        keywords=split_keywords(header_text(message, "Keywords")),
    )


def _person(name: str, address: str) -> str:
    return f"{name} <{address}>" if name and address else name or address


def _parse(data: bytes) -> Message:
    # The old policy keeps broken headers; the new one raises.
    return email.message_from_bytes(data, policy=email.policy.compat32)


def _messages(sink: Sink) -> Iterator[bytes]:
    lines: list[bytes] = []
    size, after_blank = 0, True
    with sink.task.path.open("rb") as file:
        for line in file:
            if after_blank and line.startswith(b"From ") and _MBOX_SEPARATOR.match(line):
                if lines:
                    yield b"".join(lines)
                lines, size = [], 0
            else:
                size += len(line)
                if size > _MAX_MESSAGE_BYTES:
                    raise DocumentRefused("It contains a message that is too large for mail.", code="bomb")
                lines.append(line[1:] if line.startswith(b">From ") else line)
            after_blank = not line.strip()
    if lines:
        yield b"".join(lines)


def _add_message(sink: Sink, message: Message, page: int) -> None:
    lines = [f"**{name}:** {text}" for name in _SHOWN_HEADERS if (text := header_text(message, name))]
    if lines:
        sink.add_text("  \n".join(lines) + "\n\n", page)
    body = _body_text(sink, message)
    if body.strip():
        sink.add_text(body.strip() + "\n\n", page)
    for number, part in enumerate(_leaf_parts(message), 1):
        _add_attachment(sink, part, number)


def _has_content(message: Message) -> bool:
    """Whether there is something to read in a message besides its header."""
    return message.is_multipart() or bool(_payload_bytes(message).strip())


def _leaf_parts(message: Message, depth: int = 0) -> Iterator[Message]:
    """The parts that are not multipart; a forwarded message is one of them, and not opened."""
    if message.is_multipart() and message.get_content_maintype() == "multipart" and depth < 50:
        parts: Any = message.get_payload()
        for part in parts:
            yield from _leaf_parts(part, depth + 1)
    else:
        yield message


def _is_text(part: Message) -> bool:
    return part.get_content_type() in ("text/plain", "text/html", "application/xhtml+xml") and (
        part.get_content_disposition() != "attachment" and part.get_filename() is None
    )


def _body_text(sink: Sink, message: Message) -> str:
    text_parts = [part for part in _leaf_parts(message) if _is_text(part)]
    plain_parts = [part for part in text_parts if part.get_content_type() == "text/plain"]
    plain_texts = [_part_text(part) for part in plain_parts]
    if any(text.strip() for text in plain_texts):
        return "\n\n".join(text.strip() for text in plain_texts if text.strip())
    html_parts = [part for part in text_parts if part.get_content_type() != "text/plain"]
    return "\n\n".join(markup.to_markdown(sink, _part_text(part)) for part in html_parts)


def _add_attachment(sink: Sink, part: Message, number: int) -> None:
    if _is_text(part):
        return
    name = part.get_filename() or ""
    name = decode_header(name)
    if part.get_content_type() == "message/rfc822":
        inner: list[Message] = cast("Any", part.get_payload()) if part.is_multipart() else []
        for message in inner[:1]:
            subject = header_text(message, "Subject") or f"message-{number}"
            sink.add_attachment(
                name or subject.replace("/", "-") + ".eml", message.as_bytes(), "message/rfc822"
            )
        return
    data = _payload_bytes(part)
    if not data:
        return
    if part.get_content_maintype() == "image" and not name:
        media.add_media(sink, f"image-{number}", data)
    else:
        suffix = mimetypes.guess_extension(part.get_content_type()) or ".bin"
        sink.add_attachment(name or f"attachment-{number}{suffix}", data, part.get_content_type())


def _payload_bytes(part: Message) -> bytes:
    try:
        payload: Any = part.get_payload(decode=True)
    except (ValueError, LookupError):
        payload = str(part.get_payload()).encode("utf-8", "surrogateescape")
    return payload if isinstance(payload, bytes) else b""


def _part_text(part: Message) -> str:
    data = _payload_bytes(part)
    declared = part.get_content_charset()
    for encoding in (declared, "utf-8"):
        try:
            if encoding:
                return data.decode(encoding)
        except (UnicodeDecodeError, LookupError):
            continue
    return data.decode(text_encoding.detect_encoding(data)[0], "replace")
