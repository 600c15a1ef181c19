"""What a git server sends: lines and packs."""

import hashlib
import struct
import zlib


def packet(line: bytes) -> bytes:
    """A line as git sends it."""
    return b"%04x%s" % (len(line) + 4, line)


def pack_files(files: dict[str, str]) -> tuple[str, bytes]:
    """The id of a commit with these files, and its pack."""
    objects: list[bytes] = []

    def add_object(kind: int, name: bytes, data: bytes) -> bytes:
        size, head = len(data) >> 4, [kind << 4 | len(data) & 15]
        while size:
            head[-1] |= 128
            head.append(size & 127)
            size >>= 7
        objects.append(bytes(head) + zlib.compress(data))
        return hashlib.sha1(b"%s %d\0" % (name, len(data)) + data, usedforsecurity=False).digest()

    tree = b"".join(
        b"100644 %s\0%s" % (path.encode(), add_object(3, b"blob", text.encode()))
        for path, text in sorted(files.items())
    )
    commit = add_object(1, b"commit", b"tree %s\n\nchanged\n" % add_object(2, b"tree", tree).hex().encode())
    pack = b"PACK" + struct.pack(">II", 2, len(objects)) + b"".join(objects)
    return commit.hex(), pack + hashlib.sha1(pack, usedforsecurity=False).digest()
