"""The latest files of a git repository, fetched over git's smart HTTP protocol without a git binary.

    fetch_head     what HEAD or a branch points to         GET  …/info/refs
    fetch_files    the files of that commit, no history    POST …/git-upload-pack with `deepen 1`, where the refs came from

`dulwich` decodes packet lines, pack entries, deltas and trees; the requests go through our own transport, so that the
guard against private addresses and the size limits hold. Nothing is written to disk. Sizes are checked before anything is
decompressed or rebuilt from a delta. A pack that is cut short, fails its checksum or refers to a missing object is
Unreadable as a whole. Files over the limit are left out, by the server where it supports filters.
"""

import asyncio
import base64
import hashlib
import io
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from stat import S_ISDIR, S_ISREG
from typing import cast

from dulwich.errors import ApplyDeltaError, GitProtocolError, HangupException, ObjectFormatException
from dulwich.objects import parse_tree
from dulwich.pack import (
    apply_delta,  # pyright: ignore[reportUnknownVariableType]
    read_pack_header_at,
    take_msb_bytes_at,
    unpack_object_at,
)
from dulwich.protocol import Protocol, pkt_line

from gristmill.connectors.transport import Transport
from gristmill.errors import SourceGone, Unreadable

MAX_PACK_BYTES = 64 << 20
_MAX_REFS_BYTES = 4 << 20
_MAX_OBJECT_BYTES = 128 << 20  # of all objects together: they are in memory at the same time
_MAX_DEPTH = 64
_HEADER_BYTES = 12
_CHECKSUM_BYTES = 20
_UPLOAD_PACK = "application/x-git-upload-pack-request"
_TYPES = {1: b"commit", 2: b"tree", 3: b"blob", 4: b"tag"}
# What a malformed response makes dulwich raise; it asserts where a pack ends too early.
_MALFORMED = (
    *(ApplyDeltaError, GitProtocolError, HangupException, ObjectFormatException),
    *(AssertionError, IndexError, KeyError, ValueError, zlib.error),
)


@dataclass(frozen=True)
class GitFile:
    """A file of a commit."""

    digest: str
    data: bytes


@dataclass(frozen=True)
class GitHead:
    """The commit that HEAD points to, the server's capabilities, and the repository's address after redirects."""

    commit: str
    capabilities: frozenset[str]
    address: str


@dataclass(frozen=True)
class _Object:
    type: bytes
    data: bytes

    @property
    def digest(self) -> str:
        header = b"%s %d\0" % (self.type, len(self.data))
        return hashlib.sha1(header + self.data, usedforsecurity=False).hexdigest()


def basic_authorization(token: str) -> str:
    """The Authorization header for a token: git servers take a user name and a password, no bearer token."""
    return f"Basic {base64.b64encode(f'x-access-token:{token}'.encode()).decode()}"


async def fetch_head(http: Transport, path: str, branch: str | None = None) -> GitHead:
    """What a branch of the repository at `path` points to, or else HEAD; SourceGone when there is no repository, or no such
    branch, or no commit."""
    wanted = b"HEAD" if branch is None else f"refs/heads/{branch}".encode()
    capabilities, has_branches = b"", False
    params = {"service": "git-upload-pack"}
    response = await http.get_if_changed(f"{path}/info/refs", {}, params, limit=_MAX_REFS_BYTES)
    assert response is not None, "no condition was sent"
    try:
        for line in _packet_lines(io.BytesIO(response.data)):
            name, _, more = line.rstrip(b"\n").partition(b"\0")
            capabilities = more or capabilities  # on the first ref
            commit, _, ref = name.partition(b" ")
            has_branches |= ref.startswith(b"refs/heads/")
            if ref == wanted and len(commit) == 40:
                words = frozenset(capabilities.decode("utf-8", "replace").split())
                return GitHead(commit.decode(), words, _address_of(response.url, path))
    except (GitProtocolError, ValueError):
        raise Unreadable(
            "The response is not from a git server: is the address right?", code="connector_refused"
        ) from None
    if b"object-format=sha256" in capabilities:
        raise Unreadable(
            "The repository names its objects by SHA-256, which is not supported.", code="connector_refused"
        )
    if branch is not None:
        raise SourceGone(f"The repository has no branch named {branch}.")
    raise SourceGone(
        "The repository's main branch has no commits. Set branch to another one."
        if has_branches
        else "The repository has no commits."
    )


def _address_of(refs_url: str, path: str) -> str:
    """Where the repository is whose refs came from this address: servers redirect to another name (`docs.git` for `docs`), and
    only for the refs."""
    address, suffix, _ = refs_url.partition("?")[0].rpartition("/info/refs")
    return address if suffix else path


async def fetch_files(http: Transport, head: GitHead, max_bytes: int) -> dict[str, GitFile]:
    """The files of a commit by path, without links and without files of more than `max_bytes`."""
    can_filter = "filter" in head.capabilities
    capabilities = "no-progress ofs-delta filter" if can_filter else "no-progress ofs-delta"
    request = [f"want {head.commit} {capabilities}\n", "deepen 1\n"]
    if can_filter:
        request.append(f"filter blob:limit={max_bytes}\n")
    body = b"".join(pkt_line(line.encode()) for line in request) + pkt_line(None) + pkt_line(b"done\n")
    response = await http.raw(
        "POST", f"{head.address}/git-upload-pack", body=body, limit=MAX_PACK_BYTES, Content_Type=_UPLOAD_PACK
    )
    return await asyncio.to_thread(_read_files, response, head.commit, max_bytes)


def _read_files(response: bytes, commit: str, max_bytes: int) -> dict[str, GitFile]:
    try:
        objects = unpack(_pack_of(response))
        tree = objects[commit].data.split(b"\n", 1)[0].removeprefix(b"tree ").decode()
        files = _walk(objects, tree, "", set())
        return {path: file for path, file in files if len(file.data) <= max_bytes}
    except _MALFORMED as error:
        raise Unreadable(
            f"The git server's response can't be read ({type(error).__name__}).", code="connector_refused"
        ) from None


def _walk(
    objects: Mapping[str, _Object], tree: str, folder: str, seen: set[str]
) -> Iterator[tuple[str, GitFile]]:
    key = f"{tree} {folder}"
    if key in seen or folder.count("/") > _MAX_DEPTH:
        raise ValueError("a tree that contains itself, or is too deep")
    seen.add(key)
    for raw_name, mode, sha in parse_tree(objects[tree].data, 20):
        name, digest = raw_name.decode("utf-8", "replace"), sha.decode()
        if S_ISDIR(mode):
            yield from _walk(objects, digest, f"{folder}{name}/", seen)
        elif S_ISREG(mode) and digest in objects:  # the server leaves out files that are too large
            yield f"{folder}{name}", GitFile(digest, objects[digest].data)


def _packet_lines(stream: io.BytesIO) -> Iterator[bytes]:
    """Packet lines to the end of the stream; a flush packet is an empty line."""
    protocol = Protocol(stream.read, _no_writes)
    while True:
        try:
            yield protocol.read_pkt_line() or b""
        except HangupException:
            return


def _no_writes(_: bytes) -> int | None:
    raise AssertionError("a response is only read")


def _pack_of(response: bytes) -> bytes:
    """The pack that follows the server's NAK."""
    stream = io.BytesIO(response)
    for line in _packet_lines(stream):
        if line.startswith(b"NAK"):
            pack = stream.read()
            checksum = hashlib.sha1(pack[:-_CHECKSUM_BYTES], usedforsecurity=False).digest()
            if pack[-_CHECKSUM_BYTES:] != checksum:
                raise ValueError("checksum")
            return pack
    raise ValueError("no pack")


# ── packs ────────────────────────────────────────────────────────────────────────────────────────────────


class _Budget:
    """How many bytes of objects may still be made."""

    def __init__(self) -> None:
        self._left = _MAX_OBJECT_BYTES

    def take(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise Unreadable("The repository is too large to read.", code="connector_refused")


def unpack(pack: bytes) -> dict[str, _Object]:
    """The objects of a pack by their digest."""
    _, count = read_pack_header_at(pack, 0)
    budget = _Budget()
    objects: dict[str, _Object] = {}
    by_offset: dict[int, _Object] = {}
    deltas: list[tuple[int, int | str, bytes]] = []  # offset, base, instructions
    offset = _HEADER_BYTES
    for _ in range(count):
        start = offset
        budget.take(_entry_size(pack, start))
        entry, offset = unpack_object_at(pack, start, hashlib.sha1)
        data = b"".join(entry.decomp_chunks)
        match entry.delta_base:
            case None:
                git_object = by_offset[start] = _Object(_TYPES[entry.pack_type_num], data)
                objects[git_object.digest] = git_object
            case int(distance):
                deltas.append((start, start - distance, data))
            case digest:
                deltas.append((start, digest.hex(), data))
    _resolve(deltas, objects, by_offset, budget)
    return objects


def _resolve(
    deltas: list[tuple[int, int | str, bytes]],
    objects: dict[str, _Object],
    by_offset: dict[int, _Object],
    budget: _Budget,
) -> None:
    """Rebuild what the pack has as a delta, base before delta, in as many rounds as it takes."""
    while deltas:
        unresolved: list[tuple[int, int | str, bytes]] = []
        for start, base, delta in deltas:
            known = by_offset.get(base) if isinstance(base, int) else objects.get(base)
            if known is None:
                unresolved.append((start, base, delta))
                continue
            budget.take(_target_size(delta))
            chunks = cast(list[bytes], apply_delta(known.data, delta))
            rebuilt = by_offset[start] = _Object(known.type, b"".join(chunks))
            objects[rebuilt.digest] = rebuilt
        if len(unresolved) == len(deltas):
            raise ValueError("a delta whose base is missing")
        deltas = unresolved


def _entry_size(pack: bytes, offset: int) -> int:
    """How large an entry is once decompressed, by its header."""
    (first, *rest), _, _ = take_msb_bytes_at(pack, offset)
    return first & 15 | _varint(rest) << 4


def _target_size(delta: bytes) -> int:
    """How large the object is that a delta makes."""
    _, after_base, _ = take_msb_bytes_at(delta, 0)
    return _varint(take_msb_bytes_at(delta, after_base)[0])


def _varint(encoded: list[int]) -> int:
    return sum((byte & 127) << 7 * place for place, byte in enumerate(encoded))
