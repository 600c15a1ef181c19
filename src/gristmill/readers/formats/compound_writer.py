"""Writes compound files (OLE): streams in storages, as one file that Office and our own readers open.

Only what an extracted document needs: sectors of 512 bytes, small streams in the mini stream, and a directory in which
the entries of each storage are a balanced search tree.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

_MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_SECTOR, _MINI_SECTOR, _MINI_CUTOFF = 512, 64, 4096
_FREE, _END, _FAT, _DIFAT, _NONE = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD, 0xFFFFFFFC, 0xFFFFFFFF


@dataclass
class _CompoundEntry:
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
    """A compound file that contains `streams`, by their paths."""
    entries = _directory_entries(streams)
    for entry in entries:
        entry.child = _link_siblings(entries, entry.children)
    mini = bytearray()
    mini_fat: list[int] = []
    body = bytearray()
    fat: list[int] = []
    for entry in entries:
        if entry.kind == 2:
            entry.size = len(entry.data)
            if 0 < entry.size < _MINI_CUTOFF:
                entry.start = _append_chain(mini, mini_fat, entry.data, _MINI_SECTOR)
            elif entry.size:
                entry.start = _append_chain(body, fat, entry.data, _SECTOR)
    root = entries[0]
    if mini:
        root.start, root.size = _append_chain(body, fat, bytes(mini), _SECTOR), len(mini)
    mini_table = struct.pack(f"<{len(mini_fat)}I", *mini_fat)
    mini_start = _append_chain(body, fat, mini_table, _SECTOR, filler=b"\xff") if mini_fat else _END
    directory = b"".join(_directory_record(entry, clsid if entry is root else bytes(16)) for entry in entries)
    directory_start = _append_chain(body, fat, directory, _SECTOR)
    mini_sectors = -(-len(mini_table) // _SECTOR)
    return _assemble(body, fat, directory_start, mini_start, mini_sectors)


def _directory_entries(streams: Mapping[tuple[str, ...], bytes]) -> list[_CompoundEntry]:
    entries = [_CompoundEntry("Root Entry", 5)]
    index_by_path: dict[tuple[str, ...], int] = {(): 0}
    for path, data in streams.items():
        for depth in range(1, len(path) + 1):
            if path[:depth] in index_by_path:
                continue
            index_by_path[path[:depth]] = len(entries)
            entries[index_by_path[path[: depth - 1]]].children.append(len(entries))
            is_stream = depth == len(path)
            entries.append(
                _CompoundEntry(path[depth - 1][:31], 2 if is_stream else 1, data if is_stream else b"")
            )
    return entries


def _link_siblings(entries: list[_CompoundEntry], children: list[int]) -> int:
    """Link the children into a balanced search tree; returns its root."""
    ordered = sorted(children, key=lambda index: (len(entries[index].name), entries[index].name.upper()))

    def build(low: int, high: int) -> int:
        if low >= high:
            return _NONE
        middle = (low + high) // 2
        entry = entries[ordered[middle]]
        entry.left, entry.right = build(low, middle), build(middle + 1, high)
        return ordered[middle]

    return build(0, len(ordered))


def _append_chain(
    body: bytearray, fat: list[int], data: bytes, sector_size: int, filler: bytes = b"\0"
) -> int:
    """Append `data` as a chain of sectors; returns the first one."""
    start, count = len(fat), -(-len(data) // sector_size)
    body += data + filler * (count * sector_size - len(data))
    fat += [*range(start + 1, start + count), _END]
    return start


def _directory_record(entry: _CompoundEntry, clsid: bytes) -> bytes:
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
    """Header, body and the allocation tables, whose size includes their own entries."""
    entries_per_sector = _SECTOR // 4
    fat_sectors = difat_sectors = 0
    while True:
        needed_fat = -(-(len(fat) + fat_sectors + difat_sectors) // entries_per_sector)
        needed_difat = max(0, -(-(needed_fat - 109) // (entries_per_sector - 1)))
        if (needed_fat, needed_difat) == (fat_sectors, difat_sectors):
            break
        fat_sectors, difat_sectors = needed_fat, needed_difat
    fat_positions = list(range(len(fat), len(fat) + fat_sectors))
    difat_positions = list(range(len(fat) + fat_sectors, len(fat) + fat_sectors + difat_sectors))
    all_fat = [*fat, *[_FAT] * fat_sectors, *[_DIFAT] * difat_sectors]
    all_fat += [_FREE] * (fat_sectors * entries_per_sector - len(all_fat))
    first_difat = difat_positions[0] if difat_positions else _END
    counts = (0, fat_sectors, directory, 0, _MINI_CUTOFF, mini, mini_sectors, first_difat, difat_sectors)
    header_difat = [*fat_positions[:109], *[_FREE] * (109 - min(109, fat_sectors))]
    out = bytearray(_MAGIC + bytes(16) + struct.pack("<HHHHH6x9I", 0x3E, 3, 0xFFFE, 9, 6, *counts))
    out += struct.pack("<109I", *header_difat) + body + struct.pack(f"<{len(all_fat)}I", *all_fat)
    remaining = fat_positions[109:]
    for number in range(difat_sectors):
        entries = remaining[number * (entries_per_sector - 1) : (number + 1) * (entries_per_sector - 1)]
        entries += [_FREE] * (entries_per_sector - 1 - len(entries))
        next_difat = difat_positions[number + 1] if number + 1 < difat_sectors else _END
        out += struct.pack(f"<{entries_per_sector}I", *entries, next_difat)
    return bytes(out)
