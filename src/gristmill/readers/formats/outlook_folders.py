"""Outlook's data files (pst, ost): each message becomes a document of its own, in the folder where it is; the content is the list.

libpff reads them item by item, so a file of any size takes little memory. Appointments, contacts and notes are handed over as
messages with their text. An item that is broken costs only itself.
"""

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Any

from gristmill.readers import text_encoding
from gristmill.readers.formats.mail import Mailbox
from gristmill.readers.libraries import pypff
from gristmill.readers.sink import DocumentRefused, Sink, clean_text

_MAX_DEPTH = 50  # folders in folders
_MAX_FOLDERS = 100_000
_MAX_ATTACHMENT_BYTES = 256 * 1024 * 1024
_HEADERS = ("From", "To", "Cc", "Date", "Message-ID", "In-Reply-To")


def read(sink: Sink) -> None:
    """Read a data file."""
    file = pypff.file()
    try:
        file.open(str(sink.task.path))
    except OSError:
        raise DocumentRefused("The data file is damaged or cut off.", code="corrupt") from None
    mailbox = Mailbox(sink)
    try:
        for path, folder in _folders(sink, file.get_root_folder()):
            for number in range(_count(sink, folder, "number_of_sub_messages")):
                message = _get(sink, folder, "get_sub_message", number)
                if message is not None and hasattr(message, "subject"):
                    mailbox.add(as_mail(sink, message), path)
    finally:
        file.close()
    mailbox.finish()
    if not mailbox.count:
        if "damaged" in sink.report.warnings:
            raise DocumentRefused("Its folders are damaged, and nothing in them can be read.", code="corrupt")
        sink.warn("empty")


def _folders(sink: Sink, root: Any) -> Iterator[tuple[str, Any]]:
    """The folders with their paths, each before those in it."""
    waiting: list[tuple[str, int, Any]] = [("", 0, root)]
    for _ in range(_MAX_FOLDERS):
        if not waiting:
            return
        path, depth, folder = waiting.pop()
        yield path, folder
        if depth < _MAX_DEPTH:
            numbers = range(_count(sink, folder, "number_of_sub_folders"))
            inner = [_get(sink, folder, "get_sub_folder", number) for number in numbers]
            for child in reversed([child for child in inner if child is not None]):
                name = str(_value(sink, child, "name") or "").replace("/", "-")
                waiting.append((f"{path}/{name}" if path and name else path or name, depth + 1, child))


def as_mail(sink: Sink, message: Any) -> bytes:
    """The message as a file of mail: the same bytes whenever it is read, so that it is not indexed again."""
    mail = EmailMessage(policy=SMTP.clone(raise_on_defect=False, utf8=True))
    headers = _transport_headers(str(_value(sink, message, "transport_headers") or ""))
    subject = headers.get("Subject") or str(_value(sink, message, "subject") or "")
    mail["Subject"] = _one_line(subject)
    sender = str(_value(sink, message, "sender_name") or "")
    if "From" not in headers and sender != "Unknown":
        headers["From"] = sender
    if "Date" not in headers:
        sent = _value(sink, message, "client_submit_time") or _value(sink, message, "delivery_time")
        if isinstance(sent, datetime):
            headers["Date"] = format_datetime(sent.replace(tzinfo=UTC))
    lines = [f"{name}: {_one_line(headers[name])}" for name in _HEADERS if headers.get(name)]
    _add_bodies(sink, message, mail)
    for number in range(_count(sink, message, "number_of_attachments")):
        _add_attachment(sink, _get(sink, message, "get_attachment", number), mail, number + 1)
    if mail.is_multipart():
        mail.set_boundary(
            "=_" + hashlib.sha256("\n".join((subject, *lines)).encode("utf-8", "replace")).hexdigest()[:32]
        )
    # The headers of strangers go in front as they are: the standard library would refuse some of them.
    return "".join(line + "\r\n" for line in lines).encode("utf-8", "replace") + mail.as_bytes()


def _add_bodies(sink: Sink, message: Any, mail: EmailMessage) -> None:
    plain = _body_text(_value(sink, message, "plain_text_body"))
    html = _body_text(_value(sink, message, "html_body"))
    rich = _value(sink, message, "rtf_body")
    if plain.strip() or not html.strip():
        mail.set_content(plain)
    else:
        mail.set_content(html, subtype="html")
    if not plain.strip() and not html.strip() and isinstance(rich, bytes) and rich:
        mail.add_attachment(rich.rstrip(b"\0"), maintype="application", subtype="rtf", filename="message.rtf")


def _add_attachment(sink: Sink, attachment: Any, mail: EmailMessage, number: int) -> None:
    if attachment is None:
        return
    size = _value(sink, attachment, "size")
    if not isinstance(size, int) or not 0 < size <= _MAX_ATTACHMENT_BYTES:
        return
    try:
        data = attachment.read_buffer(size)
    except (OSError, RuntimeError):
        sink.warn("damaged")
        return
    name = _one_line(str(_value(sink, attachment, "long_filename") or f"attachment-{number}"))
    mail.add_attachment(data, maintype="application", subtype="octet-stream", filename=name)


def _transport_headers(text: str) -> dict[str, str]:
    """The headers that a message came with, with continued lines joined."""
    headers: dict[str, str] = {}
    name = ""
    for line in text[:200_000].splitlines():
        if line[:1] in (" ", "\t") and name:
            headers[name] += " " + line.strip()
        else:
            name, _, value = line.partition(":")
            name = name.strip().title().replace("Message-Id", "Message-ID")
            headers.setdefault(name, value.strip())
    return headers


def _body_text(data: Any) -> str:
    if not isinstance(data, bytes) or not data:
        return data if isinstance(data, str) else ""
    return clean_text(data.decode(text_encoding.detect_encoding(data)[0], "replace"))


def _one_line(text: str) -> str:
    return " ".join(clean_text(text).split())


def _count(sink: Sink, item: Any, name: str) -> int:
    value = _value(sink, item, name)
    return value if isinstance(value, int) else 0


def _value(sink: Sink, item: Any, name: str) -> Any:
    """A property; None where it is missing or broken."""
    try:
        return getattr(item, name, None)
    except (OSError, RuntimeError, ValueError, OverflowError):
        sink.warn("damaged")
        return None


def _get(sink: Sink, item: Any, method: str, number: int) -> Any:
    sink.report_progress()
    try:
        return getattr(item, method)(number)
    except (OSError, RuntimeError, ValueError):
        sink.warn("damaged")
        return None
