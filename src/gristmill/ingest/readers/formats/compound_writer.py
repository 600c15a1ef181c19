"""Writes compound files (OLE): streams in storages, as one file that Office and our own readers open.

Only what an extracted document needs: sectors of 512 bytes, small streams in the mini stream, a directory whose trees
are chains. Readers that walk the tree find every entry, because entries of one storage are kept in their order.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

_MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_SECTOR, _MINI, _CUTOFF = 512, 64, 4096
_FREE, _END, _FAT, _DIFAT, _NONE = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD, 0xFFFFFFFC, 0xFFFFFFFF


@dataclass
class _Entry:
    name: str
    kind: int  # 1 storage, 2 stream, 5 root
    data: bytes = b""
    children: list[int] = field(default_factory=list[int])
    start: int = _END
    size: int = 0
    left: int = _NONE
    right: int = _NONE
    child: int = _NONE


def write(streams: Mapping[tuple[str, ...], bytes], clsid: bytes = bytes(16)) -> bytes:
    """A compound file that holds `streams` by their paths."""
    entries = _entries(streams)
    for entry in entries:
        entry.child = _tree(entries, entry.children)
    mini = bytearray()
    mini_fat: list[int] = []
    body = bytearray()
    fat: list[int] = []
    for entry in entries:
        if entry.kind == 2:
            entry.size = len(entry.data)
            if 0 < entry.size < _CUTOFF:
                entry.start = _append(mini, mini_fat, entry.data, _MINI)
            elif entry.size:
                entry.start = _append(body, fat, entry.data, _SECTOR)
    root = entries[0]
    if mini:
        root.start, root.size = _append(body, fat, bytes(mini), _SECTOR), len(mini)
    mini_table = struct.pack(f"<{len(mini_fat)}I", *mini_fat)
    mini_start = _append(body, fat, mini_table, _SECTOR, filler=b"\xff") if mini_fat else _END
    directory = b"".join(_record(entry, clsid if entry is root else bytes(16)) for entry in entries)
    directory_start = _append(body, fat, directory, _SECTOR)
    mini_sectors = -(-len(mini_table) // _SECTOR)
    return _assemble(body, fat, directory_start, mini_start, mini_sectors)


def _entries(streams: Mapping[tuple[str, ...], bytes]) -> list[_Entry]:
    entries = [_Entry("Root Entry", 5)]
    known: dict[tuple[str, ...], int] = {(): 0}
    for path, data in streams.items():
        for depth in range(1, len(path) + 1):
            if path[:depth] in known:
                continue
            known[path[:depth]] = len(entries)
            entries[known[path[: depth - 1]]].children.append(len(entries))
            whole = depth == len(path)
            entries.append(_Entry(path[depth - 1][:31], 2 if whole else 1, data if whole else b""))
    return entries


def _tree(entries: list[_Entry], children: list[int]) -> int:
    """A balanced search tree over the children; its root."""
    ordered = sorted(children, key=lambda index: (len(entries[index].name), entries[index].name.upper()))

    def plant(low: int, high: int) -> int:
        if low >= high:
            return _NONE
        middle = (low + high) // 2
        entry = entries[ordered[middle]]
        entry.left, entry.right = plant(low, middle), plant(middle + 1, high)
        return ordered[middle]

    return plant(0, len(ordered))


def _append(body: bytearray, fat: list[int], data: bytes, unit: int, filler: bytes = b"\0") -> int:
    """Put `data` behind the rest, as a chain of units; where it starts."""
    start, count = len(fat), -(-len(data) // unit)
    body += data + filler * (count * unit - len(data))
    fat += [*range(start + 1, start + count), _END]
    return start


def _record(entry: _Entry, clsid: bytes) -> bytes:
    name = entry.name.encode("utf-16-le") + b"\0\0"
    return struct.pack(
        "<64sHBBIII16sIQQIQ",
        name,
        len(name),
        entry.kind,
        1,
        entry.left,
        entry.right,
        entry.child,
        clsid,
        0,
        0,
        0,
        entry.start if entry.size or entry.kind == 5 else _END,
        entry.size,
    )


def _assemble(body: bytearray, fat: list[int], directory: int, mini: int, mini_sectors: int) -> bytes:
    """Header, body and the allocation tables, which count themselves."""
    per = _SECTOR // 4
    tables = difats = 0
    while True:
        needed = -(-(len(fat) + tables + difats) // per)
        more = max(0, -(-(needed - 109) // (per - 1)))
        if (needed, more) == (tables, difats):
            break
        tables, difats = needed, more
    places = list(range(len(fat), len(fat) + tables))
    chain = list(range(len(fat) + tables, len(fat) + tables + difats))
    whole = [*fat, *[_FAT] * tables, *[_DIFAT] * difats]
    whole += [_FREE] * (tables * per - len(whole))
    first = chain[0] if chain else _END
    counts = (0, tables, directory, 0, _CUTOFF, mini, mini_sectors, first, difats)
    listed = [*places[:109], *[_FREE] * (109 - min(109, tables))]
    out = bytearray(_MAGIC + bytes(16) + struct.pack("<HHHHH6x9I", 0x3E, 3, 0xFFFE, 9, 6, *counts))
    out += struct.pack("<109I", *listed) + body + struct.pack(f"<{len(whole)}I", *whole)
    rest = places[109:]
    for number in range(difats):
        some = rest[number * (per - 1) : (number + 1) * (per - 1)]
        some += [_FREE] * (per - 1 - len(some))
        follows = chain[number + 1] if number + 1 < difats else _END
        out += struct.pack(f"<{per}I", *some, follows)
    return bytes(out)
