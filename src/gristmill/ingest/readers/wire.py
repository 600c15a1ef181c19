"""How a reader's child speaks with its parent: JSON messages, each behind its length, over a socket.

A child that is ahead of its parent blocks in `send`: the socket's buffer is all that lies between them. A message
longer than `LONGEST` is refused by either side, so that neither can fill the other's memory.
"""

import json
import socket
import struct
from typing import Any

LONGEST = 4 * 1024 * 1024
PIECE = 128 * 1024  # characters of a text in one message
_LENGTH = struct.Struct("!I")

Message = dict[str, Any]


class Broken(Exception):
    """The other side is gone, or says what nobody can say."""


def encode(message: Message) -> bytes:
    """The bytes of `message` on the wire."""
    body = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
    if len(body) > LONGEST:
        raise Broken(f"A message of {len(body):,} bytes is too long.")
    return _LENGTH.pack(len(body)) + body


def decode(body: bytes) -> Message:
    """The message in `body`."""
    try:
        message = json.loads(body)
    except ValueError as error:
        raise Broken("Not a message.") from error
    if not isinstance(message, dict):
        raise Broken("Not a message.")
    return message  # pyright: ignore[reportUnknownVariableType]  -- JSON's objects have strings for keys


def length(head: bytes) -> int:
    """How many bytes follow `head`."""
    (found,) = _LENGTH.unpack(head)
    if found > LONGEST:
        raise Broken(f"A message of {found:,} bytes is too long.")
    return found


HEAD = _LENGTH.size


class Line:
    """The child's end: blocking."""

    def __init__(self, line: socket.socket) -> None:
        self._socket = line

    def send(self, message: Message) -> None:
        """Say `message`; waits while the parent is behind."""
        self._socket.sendall(encode(message))

    def receive(self) -> Message | None:
        """The next message, or None when the parent is gone."""
        head = self._exactly(HEAD)
        if head is None:
            return None
        body = self._exactly(length(head))
        return None if body is None else decode(body)

    def _exactly(self, count: int) -> bytes | None:
        data = bytearray()
        while len(data) < count:
            piece = self._socket.recv(min(count - len(data), 65_536))
            if not piece:
                return None
            data += piece
        return bytes(data)
