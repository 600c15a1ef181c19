"""Archives for tests: changed ones, and those of an earlier format.

`uv run python -m tests.portable.archives NEW OLD` makes an archive of format 1 from one of today, as the stored
`tests/portable/base-v1.gristmill` was made.
"""

import hashlib
import io
import json
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import arro3.core
from arro3.io import read_parquet, write_parquet

Members = dict[str, bytes]
_arrow: Any = arro3.core


def unpack(archive: bytes) -> Members:
    """The members of an archive by name."""
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        return {name: file.read(name) for name in file.namelist()}


def pack(members: Mapping[str, bytes], *, compress: bool = False) -> bytes:
    """An archive with these members."""
    target = io.BytesIO()
    kind = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with zipfile.ZipFile(target, "w", kind) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return target.getvalue()


def change_manifest(archive: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """The archive with another manifest."""
    members = unpack(archive)
    manifest = json.loads(members["manifest.json"])
    change(manifest)
    return pack({**members, "manifest.json": json.dumps(manifest).encode()})


def replace_member(archive: bytes, name: str, data: bytes, *, compress: bool = False) -> bytes:
    """The archive with another member, which its manifest names as it should."""
    members = {**unpack(archive), name: data}
    manifest = json.loads(members["manifest.json"])
    manifest["members"][name] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    members["manifest.json"] = json.dumps(manifest).encode()
    return pack(members, compress=compress)


def to_version_1(archive: bytes) -> bytes:
    """The archive as format 1 had it: without boxes of texts, marks and exclusions."""
    members = {
        name: data
        for name, data in unpack(archive).items()
        if not name.startswith(("tables/chunk_marks-", "tables/exclusions-"))
    }
    for name in [name for name in members if name.startswith("tables/content_parts-")]:
        table = read_parquet(io.BytesIO(members[name])).read_all()
        columns = {column: table.column(column) for column in table.column_names if column != "boxes"}
        target = io.BytesIO()
        write_parquet(_arrow.Table.from_pydict(columns), target, compression="zstd(3)")
        members[name] = target.getvalue()
    manifest = json.loads(members.pop("manifest.json"))
    manifest["version"] = 1
    manifest["members"] = {
        name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in members.items()
    }
    for table in ("chunk_marks", "exclusions"):
        del manifest["rows"][table]
    return pack({**members, "manifest.json": json.dumps(manifest).encode()})


if __name__ == "__main__":
    Path(sys.argv[2]).write_bytes(to_version_1(Path(sys.argv[1]).read_bytes()))
