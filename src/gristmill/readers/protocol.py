"""The messages between a reader's child process and its parent: JSON, each behind its length, over a socket.

A child that is ahead of its parent blocks in `send`: the socket's buffer is all that lies between them. Both sides
refuse a message longer than `MAX_MESSAGE_BYTES`, so that neither can fill the other's memory.
"""

import json
import socket
import struct
from typing import Any

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
MAX_TEXT_LENGTH = 128 * 1024  # characters of a text in one message
_LENGTH = struct.Struct("!I")
HEADER_BYTES = _LENGTH.size

Message = dict[str, Any]


class ProtocolError(Exception):
    """The other side sent something that is not a message."""


def encode(message: Message) -> bytes:
    """The bytes of `message` on the wire."""
    body = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
    if len(body) > MAX_MESSAGE_BYTES:
        raise ProtocolError(f"A message of {len(body):,} bytes is too long.")
    return _LENGTH.pack(len(body)) + body


def decode(body: bytes) -> Message:
    """The message in `body`."""
    try:
        message = json.loads(body)
    except ValueError as error:
        raise ProtocolError("Not a message.") from error
    if not isinstance(message, dict):
        raise ProtocolError("Not a message.")
    return message  # pyright: ignore[reportUnknownVariableType]  -- the keys of a JSON object are strings


def body_length(header: bytes) -> int:
    """How many bytes follow `header`."""
    (length,) = _LENGTH.unpack(header)
    if length > MAX_MESSAGE_BYTES:
        raise ProtocolError(f"A message of {length:,} bytes is too long.")
    return length


class Channel:
    """The child's end of the connection: blocking."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    def send(self, message: Message) -> None:
        """Send `message`; waits while the parent is behind."""
        self._socket.sendall(encode(message))

    def receive(self) -> Message | None:
        """The next message, or None when the parent is gone."""
        header = self._receive_exactly(HEADER_BYTES)
        if header is None:
            return None
        body = self._receive_exactly(body_length(header))
        return None if body is None else decode(body)

    def _receive_exactly(self, count: int) -> bytes | None:
        data = bytearray()
        while len(data) < count:
            block = self._socket.recv(min(count - len(data), 65_536))
            if not block:
                return None
            data += block
        return bytes(data)
