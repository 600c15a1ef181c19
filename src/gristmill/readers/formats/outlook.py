"""Outlook messages (msg): compound files whose streams are properties of the message, named by their numbers."""

import struct
from datetime import UTC, datetime, timedelta
from typing import Any

from gristmill.readers import text_encoding
from gristmill.readers.document_metadata import DocumentMetadata, split_names
from gristmill.readers.formats import compound, compound_writer, markup
from gristmill.readers.libraries import olefile
from gristmill.readers.sink import DocumentRefused, Sink

_SUBJECT, _BODY, _HTML, _FROM, _FROM_MAIL, _TO, _CC = "0037", "1000", "1013", "0C1A", "5D01", "0E04", "0E03"
_SENT, _DELIVERED = 0x0039, 0x0E06
_DATA, _LONG_NAME, _SHORT_NAME, _TYPE, _DISPLAY_NAME = "3701", "3707", "3704", "370E", "3001"
_TICKS = 10_000_000  # a second, counted from 1601


def read(sink: Sink) -> None:
    """Read a message with its attachments."""
    try:
        with olefile.OleFileIO(str(sink.task.path)) as ole:
            if ole.parsing_issues:
                sink.warn("damaged")
            _add_message(sink, ole)
            _add_attachments(sink, ole)
    except (DocumentRefused, MemoryError):
        raise
    except Exception as error:
        raise DocumentRefused(f"It can't be read: {error}"[:300], code="corrupt") from error
    if not sink.text_length and not sink.attachment_count:
        raise DocumentRefused("The message has no text and no attachment.", code="no_text")


def _add_message(sink: Sink, ole: Any) -> None:
    subject = _text_property(ole, (), _SUBJECT)
    sender = " ".join(
        filter(
            None, (_text_property(ole, (), _FROM), _in_angle_brackets(_text_property(ole, (), _FROM_MAIL)))
        )
    )
    sent = _date_sent(ole)
    headers = {
        "Subject": subject,
        "From": sender,
        "To": _text_property(ole, (), _TO),
        "Cc": _text_property(ole, (), _CC),
        "Date": sent,
    }
    recipients = f"{headers['To']}; {headers['Cc']}"
    sink.describe(
        DocumentMetadata(
            title=subject,
            authors=[sender] if sender else (),
            recipients=split_names(recipients),
            created=sent,
        )
    )
    lines = [f"**{name}:** {text}" for name, text in headers.items() if text]
    if lines:
        sink.add_text("  \n".join(lines) + "\n\n")
    body = _text_property(ole, (), _BODY)
    if not body.strip() and (html := _binary_property(ole, (), _HTML)):
        body = markup.to_markdown(sink, html.decode(text_encoding.detect_encoding(html)[0], "replace"))
    if body.strip():
        sink.add_text(body.strip() + "\n\n")


def _add_attachments(sink: Sink, ole: Any) -> None:
    for number, storage_path in enumerate(compound.storages(ole), 1):
        if not storage_path[0].startswith("__attach_version1.0_"):
            continue
        name = (
            _text_property(ole, storage_path, _LONG_NAME)
            or _text_property(ole, storage_path, _SHORT_NAME)
            or _text_property(ole, storage_path, _DISPLAY_NAME)
        )
        data = _binary_property(ole, storage_path, _DATA)
        if data:
            sink.add_attachment(
                name or f"attachment-{number}", data, _text_property(ole, storage_path, _TYPE) or None
            )
        elif ole.exists([*storage_path, "__substg1.0_3701000D"]):
            _add_object(sink, ole, (*storage_path, "__substg1.0_3701000D"), name or f"attachment-{number}")


def _add_object(sink: Sink, ole: Any, storage_path: tuple[str, ...], name: str) -> None:
    """A message inside the message, or a document of another program."""
    properties = "__properties_version1.0"
    if not ole.exists([*storage_path, properties]):
        if not compound.add_storage(sink, ole, storage_path, name):
            sink.add_attachment(name + ".ole", compound.repack_storage(ole, storage_path))
        return
    streams: compound.Streams = {}
    for entry in ole.listdir(streams=True, storages=False):
        path = tuple(str(part) for part in entry)
        if path[: len(storage_path)] == storage_path:
            streams[path[len(storage_path) :]] = ole.openstream(entry).read()
    # The properties of a separate message have eight more bytes in their header.
    head = streams[(properties,)]
    streams[(properties,)] = head[:24] + bytes(8) + head[24:]
    sink.add_attachment(name + ".msg", compound_writer.write(streams), "application/vnd.ms-outlook")


def _binary_property(ole: Any, storage_path: tuple[str, ...], number: str) -> bytes:
    entry = [*storage_path, f"__substg1.0_{number}0102"]
    return bytes(ole.openstream(entry).read()) if ole.exists(entry) else b""


def _text_property(ole: Any, storage_path: tuple[str, ...], number: str) -> str:
    utf16_entry, ansi_entry = ([*storage_path, f"__substg1.0_{number}{kind}"] for kind in ("001F", "001E"))
    if ole.exists(utf16_entry):
        text = ole.openstream(utf16_entry).read().decode("utf-16-le", "replace")
    elif ole.exists(ansi_entry):
        data = bytes(ole.openstream(ansi_entry).read())
        text = data.decode(text_encoding.detect_encoding(data)[0], "replace")
    else:
        return ""
    return str(text).strip("\0").strip() if number == _BODY else " ".join(str(text).strip("\0").split())


def _in_angle_brackets(address: str) -> str:
    return f"<{address}>" if "@" in address else ""


def _date_sent(ole: Any) -> str:
    if not ole.exists("__properties_version1.0"):
        return ""
    data = ole.openstream("__properties_version1.0").read()
    for position in range(32, len(data) - 15, 16):
        kind, number, _, ticks = struct.unpack_from("<HHIQ", data, position)
        if kind == 0x40 and number in (_SENT, _DELIVERED) and ticks < 1 << 62:
            when = datetime(1601, 1, 1, tzinfo=UTC) + timedelta(seconds=ticks // _TICKS)
            return when.isoformat()
    return ""
