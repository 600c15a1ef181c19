"""Headers of mail as text: encoded words are decoded, and bytes that old programs sent as they were. What is broken stays as it was sent."""

import email.errors
import email.header
from email.message import Message

from gristmill.readers import text_encoding


def header_text(message: Message, name: str) -> str:
    """A header of a message on one line; empty if it has none."""
    # As it was sent: the parser would replace bytes of other encodings than ASCII.
    value = next((value for key, value in message.raw_items() if key.lower() == name.lower()), None)
    return decode_header(str(value)) if value is not None else ""


def decode_header(raw: str) -> str:
    """The text of a header, with its encoded words decoded."""
    try:
        parts = email.header.decode_header(raw)
        text = "".join(
            part if isinstance(part, str) else _decode_word(part, charset or "utf-8")
            for part, charset in parts
        )
    except (ValueError, LookupError, email.errors.MessageError):
        text = raw
    # Old programs sent raw bytes.
    if any("\udc80" <= character <= "\udcff" for character in text):
        data = text.encode("utf-8", "surrogateescape")
        text = data.decode(text_encoding.detect_encoding(data)[0], "replace")
    return " ".join(text.split())


def _decode_word(part: bytes, charset: str) -> str:
    try:
        return part.decode(charset, "replace")
    except LookupError:
        return part.decode(text_encoding.detect_encoding(part)[0], "replace")
