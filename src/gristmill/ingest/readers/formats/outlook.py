"""Outlook messages (msg): compound files whose streams are the message's properties, named by their numbers."""

import struct
from datetime import UTC, datetime, timedelta
from typing import Any

from gristmill.ingest.readers import encodings
from gristmill.ingest.readers.formats import compound, compound_writer, markup
from gristmill.ingest.readers.sink import Refused, Sink
from gristmill.ingest.readers.untyped import olefile

_SUBJECT, _BODY, _HTML, _FROM, _FROM_MAIL, _TO, _CC = "0037", "1000", "1013", "0C1A", "5D01", "0E04", "0E03"
_SENT, _DELIVERED = 0x0039, 0x0E06
_DATA, _LONG_NAME, _SHORT_NAME, _TYPE, _SHOWN_NAME = "3701", "3707", "3704", "370E", "3001"
_TICKS = 10_000_000  # a second, counted from 1601


def read(sink: Sink) -> None:
    """Read a message with its attachments."""
    try:
        with olefile.OleFileIO(str(sink.task.path)) as ole:
            if ole.parsing_issues:
                sink.warn("damaged")
            _message(sink, ole)
            _attachments(sink, ole)
    except (Refused, MemoryError):
        raise
    except Exception as error:
        raise Refused(f"It can't be read: {error}"[:300], code="corrupt") from error
    if not sink.letters and not sink.children:
        raise Refused("The message has no text and no attachment.", code="no_text")


def _message(sink: Sink, ole: Any) -> None:
    subject = _text(ole, (), _SUBJECT)
    sender = " ".join(filter(None, (_text(ole, (), _FROM), _angle(_text(ole, (), _FROM_MAIL)))))
    sent = _date(ole)
    told = {
        "Subject": subject,
        "From": sender,
        "To": _text(ole, (), _TO),
        "Cc": _text(ole, (), _CC),
        "Date": sent,
    }
    sink.told.title = subject[:500] or None
    sink.told.metadata |= {name.lower(): text[:1000] for name, text in told.items() if text}
    lines = [f"**{name}:** {text}" for name, text in told.items() if text]
    if lines:
        sink.part("  \n".join(lines) + "\n\n")
    body = _text(ole, (), _BODY)
    if not body.strip() and (page := _raw(ole, (), _HTML)):
        body = markup.to_markdown(sink, page.decode(encodings.of(page)[0], "replace"))
    if body.strip():
        sink.part(body.strip() + "\n\n")


def _attachments(sink: Sink, ole: Any) -> None:
    for number, place in enumerate(compound.storages(ole), 1):
        if not place[0].startswith("__attach_version1.0_"):
            continue
        name = (
            _text(ole, place, _LONG_NAME) or _text(ole, place, _SHORT_NAME) or _text(ole, place, _SHOWN_NAME)
        )
        data = _raw(ole, place, _DATA)
        if data:
            sink.embedded(name or f"attachment-{number}", data, _text(ole, place, _TYPE) or None)
        elif ole.exists([*place, "__substg1.0_3701000D"]):
            _object(sink, ole, (*place, "__substg1.0_3701000D"), name or f"attachment-{number}")


def _object(sink: Sink, ole: Any, place: tuple[str, ...], name: str) -> None:
    """A message inside the message, or a document of another program."""
    properties = "__properties_version1.0"
    if not ole.exists([*place, properties]):
        if not compound.storage(sink, ole, place, name):
            sink.embedded(name + ".ole", compound.extract(ole, place))
        return
    streams: compound.Streams = {}
    for entry in ole.listdir(streams=True, storages=False):
        path = tuple(str(part) for part in entry)
        if path[: len(place)] == place:
            streams[path[len(place) :]] = ole.openstream(entry).read()
    # A message of its own has eight more bytes in the head of its properties.
    head = streams[(properties,)]
    streams[(properties,)] = head[:24] + bytes(8) + head[24:]
    sink.embedded(name + ".msg", compound_writer.write(streams), "application/vnd.ms-outlook")


def _raw(ole: Any, place: tuple[str, ...], number: str) -> bytes:
    entry = [*place, f"__substg1.0_{number}0102"]
    return bytes(ole.openstream(entry).read()) if ole.exists(entry) else b""


def _text(ole: Any, place: tuple[str, ...], number: str) -> str:
    wide, narrow = ([*place, f"__substg1.0_{number}{kind}"] for kind in ("001F", "001E"))
    if ole.exists(wide):
        text = ole.openstream(wide).read().decode("utf-16-le", "replace")
    elif ole.exists(narrow):
        data = bytes(ole.openstream(narrow).read())
        text = data.decode(encodings.of(data)[0], "replace")
    else:
        return ""
    return str(text).strip("\0").strip() if number == _BODY else " ".join(str(text).strip("\0").split())


def _angle(address: str) -> str:
    return f"<{address}>" if "@" in address else ""


def _date(ole: Any) -> str:
    if not ole.exists("__properties_version1.0"):
        return ""
    data = ole.openstream("__properties_version1.0").read()
    for position in range(32, len(data) - 15, 16):
        kind, number, _, ticks = struct.unpack_from("<HHIQ", data, position)
        if kind == 0x40 and number in (_SENT, _DELIVERED) and ticks < 1 << 62:
            when = datetime(1601, 1, 1, tzinfo=UTC) + timedelta(seconds=ticks // _TICKS)
            return when.isoformat()
    return ""
