"""The newest state of a git repository, over git's own smart HTTP and without git: one question, one pack.

    head        what HEAD points to                     GET  …/info/refs
    snapshot    the files of that commit, no history    POST …/git-upload-pack, `deepen 1`

Nothing is written anywhere. What a pack holds is checked as it is read: sizes are bounded before anything is inflated, an
object that is cut short or refers to what isn't there makes the whole unreadable. Files that are too large are left out,
by the server where it can.
"""

import asyncio
import base64
import hashlib
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gristmill.connectors.transport import Transport
from gristmill.errors import SourceGone, Unreadable

LARGEST_PACK = 64 << 20
_LARGEST_WHOLE = 128 << 20  # bytes of all objects, which are held while they are read
_ASKED = "application/x-git-upload-pack-request"
_STEP = 1 << 16
_PLAIN = {1: b"commit", 2: b"tree", 3: b"blob", 4: b"tag"}
_BY_PLACE, _BY_NAME = 6, 7  # differences from an object further up, or by its name


@dataclass(frozen=True)
class File:
    """A file of a commit."""

    digest: str
    data: bytes


@dataclass(frozen=True)
class Head:
    """What HEAD points to, and what the server can do."""

    commit: str
    abilities: frozenset[str]


def authorisation(token: str) -> str:
    """The header's value for a token: git takes names and passwords alone."""
    return f"Basic {base64.b64encode(f'x-access-token:{token}'.encode()).decode()}"


async def head(http: Transport, path: str) -> Head:
    """What HEAD of the repository at `path` points to; Gone when there is no repository, or nothing in it."""
    told = await http.raw("GET", f"{path}/info/refs", {"service": "git-upload-pack"}, limit=_STEP * 64)
    for line in _lines(told):
        name, _, abilities = line.rstrip(b"\n").partition(b"\0")
        commit, _, ref = name.partition(b" ")
        if ref == b"HEAD" and len(commit) == 40:
            return Head(commit.decode(), frozenset(abilities.decode("utf-8", "replace").split()))
    raise SourceGone("The repository has no commits.")


async def snapshot(http: Transport, path: str, of: Head, largest: int) -> dict[str, File]:
    """The files of a commit by their paths, without links, and without those of more than `largest` bytes."""
    wants = f"want {of.commit} no-progress ofs-delta\n"
    left_out = f"filter blob:limit={largest}\n" if "filter" in of.abilities else None
    if left_out:
        wants = wants.replace("\n", " filter\n")
    asked = _packet(wants) + _packet("deepen 1\n") + (_packet(left_out) if left_out else b"")
    told = await http.raw(
        "POST",
        f"{path}/git-upload-pack",
        body=asked + b"0000" + _packet("done\n"),
        limit=LARGEST_PACK,
        Content_Type=_ASKED,
    )
    return await asyncio.to_thread(_files, told, of.commit, largest)


def _files(told: bytes, commit: str, largest: int) -> dict[str, File]:
    try:
        objects = unpacked(told[_pack_at(told) :])
        tree = objects[commit][1].split(b"\n", 1)[0].removeprefix(b"tree ").decode()
        found = _walk(objects, tree, "", set())
        return {path: file for path, file in found if len(file.data) <= largest}
    except (KeyError, IndexError, ValueError, struct.error, zlib.error) as error:
        raise Unreadable(
            f"What git answered can't be read ({type(error).__name__}).", code="connector_refused"
        ) from None


def _walk(
    objects: Mapping[str, tuple[bytes, bytes]], tree: str, above: str, seen: set[str]
) -> Iterator[tuple[str, File]]:
    if (key := f"{tree} {above}") in seen or above.count("/") > 64:
        raise ValueError(tree)
    seen.add(key)
    data = objects[tree][1]
    at = 0
    while at < len(data):
        space, end = data.index(b" ", at), data.index(b"\0", at)
        mode, name = data[at:space], data[space + 1 : end].decode("utf-8", "replace")
        digest = data[end + 1 : end + 21].hex()
        at = end + 21
        if mode == b"40000":
            yield from _walk(objects, digest, f"{above}{name}/", seen)
        elif mode.startswith(b"100") and digest in objects:  # one that isn't there was too large to be sent
            yield f"{above}{name}", File(digest, objects[digest][1])


# ── the wire ─────────────────────────────────────────────────────────────────────────────────────────────


def _packet(line: str) -> bytes:
    return f"{len(line) + 4:04x}{line}".encode()


def _lines(told: bytes) -> Iterator[bytes]:
    at = 0
    while at + 4 <= len(told):
        try:
            size = int(told[at : at + 4], 16)
        except ValueError:
            raise Unreadable(
                "What answered is no git server: is the address right?", code="connector_refused"
            ) from None
        yield told[at + 4 : at + size] if size > 4 else b""
        at += max(size, 4)


def _pack_at(told: bytes) -> int:
    """Where the pack begins, behind what the server says of itself."""
    at = 0
    while told[at : at + 4] != b"PACK":
        at += max(int(told[at : at + 4], 16), 4)
    return at


# ── the pack ─────────────────────────────────────────────────────────────────────────────────────────────


def unpacked(pack: bytes) -> dict[str, tuple[bytes, bytes]]:
    """The objects of a pack by their names: each with its type."""
    if pack[:4] != b"PACK":
        raise ValueError("no pack")
    count = struct.unpack(">I", pack[8:12])[0]
    found: dict[str, tuple[bytes, bytes]] = {}
    placed: dict[int, tuple[bytes, bytes]] = {}
    waiting: list[tuple[int, int | str, bytes]] = []  # differences whose base has not come yet
    at, whole = 12, 0
    for _ in range(count):
        start = at
        kind, size, at = _entry(pack, at)
        whole += size
        if whole > _LARGEST_WHOLE:
            raise Unreadable("The repository is too large to be read.", code="connector_refused")
        base: int | str | None = None
        if kind == _BY_PLACE:
            back, at = _back(pack, at)
            base = start - back
        elif kind == _BY_NAME:
            base, at = pack[at : at + 20].hex(), at + 20
        data, at = _inflated(pack, at, size)
        if base is None:
            _keep(placed, found, start, _PLAIN[kind], data)
        else:
            waiting.append((start, base, data))
    while waiting:
        left: list[tuple[int, int | str, bytes]] = []
        for start, base, data in waiting:
            known = placed.get(base) if isinstance(base, int) else found.get(base)
            if known is None:
                left.append((start, base, data))
            else:
                made = _applied(known[1], data)
                whole += len(made)
                if whole > _LARGEST_WHOLE:
                    raise Unreadable("The repository is too large to be read.", code="connector_refused")
                _keep(placed, found, start, known[0], made)
        if len(left) == len(waiting):
            raise ValueError("a difference from what isn't there")
        waiting = left
    return found


def _keep(
    placed: dict[int, tuple[bytes, bytes]],
    found: dict[str, tuple[bytes, bytes]],
    start: int,
    kind: bytes,
    data: bytes,
) -> None:
    name = hashlib.sha1(b"%s %d\0" % (kind, len(data)) + data, usedforsecurity=False).hexdigest()
    placed[start] = found[name] = (kind, data)


def _entry(pack: bytes, at: int) -> tuple[int, int, int]:
    """Type, size and where it goes on."""
    byte = pack[at]
    kind, size, shift = byte >> 4 & 7, byte & 15, 4
    while byte & 128:
        at += 1
        byte = pack[at]
        size |= (byte & 127) << shift
        shift += 7
    return kind, size, at + 1


def _back(pack: bytes, at: int) -> tuple[int, int]:
    """How far up the base is."""
    byte = pack[at]
    far = byte & 127
    while byte & 128:
        at += 1
        byte = pack[at]
        far = (far + 1) << 7 | byte & 127
    return far, at + 1


def _inflated(pack: bytes, at: int, size: int) -> tuple[bytes, int]:
    inflater, made = zlib.decompressobj(), bytearray()
    while not inflater.eof:
        part = pack[at : at + _STEP]
        if not part:
            raise ValueError("cut short")
        made += inflater.decompress(part, size - len(made) + 1)
        if len(made) > size:
            raise ValueError("longer than told")
        at += len(part) - len(inflater.unused_data) - len(inflater.unconsumed_tail)
    if len(made) != size:
        raise ValueError("shorter than told")
    return bytes(made), at


def _applied(base: bytes, delta: bytes) -> bytes:
    """What a difference makes of its base: copies of parts of it, and new bytes."""
    size, at = _length(delta, 0)
    whole, at = _length(delta, at)
    if size != len(base) or whole > _LARGEST_WHOLE:
        raise ValueError("a difference from something else")
    made = bytearray()
    while at < len(delta):
        order = delta[at]
        at += 1
        if order & 128:
            places = [0] * 7
            for number in range(7):
                if order >> number & 1:
                    places[number] = delta[at]
                    at += 1
            start = int.from_bytes(bytes(places[:4]), "little")
            length = int.from_bytes(bytes(places[4:]), "little") or 0x10000
            made += base[start : start + length]
        else:
            made += delta[at : at + order]
            at += order
        if len(made) > whole or not order:
            raise ValueError("a difference that makes too much")
    if len(made) != whole:
        raise ValueError("a difference that makes too little")
    return bytes(made)


def _length(delta: bytes, at: int) -> tuple[int, int]:
    size = shift = 0
    while True:
        byte = delta[at]
        at += 1
        size |= (byte & 127) << shift
        shift += 7
        if not byte & 128:
            return size, at
