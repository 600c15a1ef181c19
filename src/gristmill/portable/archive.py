"""The file of a portable base: a zip that any tool opens.

    manifest.json                the format and its version, the base's settings, and every other member with size and SHA-256
    tables/NAME-00001.parquet    the rows, see tables.py
    originals/SHA256             uploaded files, pages as they were fetched, attachments and images, by the hash of their bytes

    version 1    the first
    version 2    where texts stand on their pages, marks of chunks, exclusions

A reader accepts its own version and all before it. What an archive from elsewhere may contain is checked before anything is used:
only these names, each once; only the members of the manifest, in the size and with the hash that it says; no more than a multiple
of the archive's own size when unpacked. No name becomes a path on the disk.
"""

import hashlib
import json
import re
import zipfile
from collections.abc import AsyncIterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import IO, Any, cast

from pydantic import TypeAdapter, ValidationError

from gristmill.errors import Invalid
from gristmill.portable.tables import TABLES, TABLES_SINCE, Row, decode_rows, encode_rows

FORMAT = 2
_KIND = "gristmill-base"
_MANIFEST = "manifest.json"
_NAME = re.compile(r"(?:tables/([a-z_]+)-\d{5}\.parquet|originals/[0-9a-f]{64})", re.ASCII)
_PIECE = 1 << 20
_MAX_MANIFEST = 512 << 20
_MAX_TABLE_FILE = 1 << 30
# Text compresses by ten or so. An archive that unpacks to much more is made to fill the disk.
MAX_EXPANSION = 200
_MIN_ALLOWANCE = 64 << 20


@dataclass(frozen=True)
class ArchivedBase:
    """The settings of a base, as an archive has them."""

    name: str
    embedder: str
    embedder_identity: str
    dimensions: int
    chunking: dict[str, int]
    acl: list[str]
    file_processor: str | None = None
    on_restart: str = "resume"
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    description: str = ""
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    expire_days: int | None = None


@dataclass(frozen=True)
class ArchiveMember:
    """A member of an archive."""

    size: int
    sha256: str


@dataclass(frozen=True)
class ArchiveManifest:
    """What an archive says of itself. `created_at` is the moment that it shows; `rows` is the number of rows of each table."""

    kind: str
    version: int
    created_at: datetime
    gristmill: str
    base: ArchivedBase
    rows: dict[str, int]
    members: dict[str, ArchiveMember]


_adapter = TypeAdapter(ArchiveManifest)


def damage_error(detail: str) -> Invalid:
    """The error for an archive that is not what an export writes."""
    return Invalid(
        f"The archive is damaged or was changed: {detail}. Nothing was imported. Export the base again.",
        code="archive_damaged",
    )


class ArchiveWriter:
    """Writes an archive, member by member. Not for two threads at once."""

    def __init__(self, file: IO[bytes], dimensions: int) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED)
        self._dimensions = dimensions
        self._members: dict[str, ArchiveMember] = {}
        self._files: dict[str, int] = {}
        self.rows: dict[str, int] = dict.fromkeys(TABLES, 0)

    def add_rows(self, table: str, rows: list[Row]) -> None:
        """Add rows to a table, as a file of their own."""
        number = self._files[table] = self._files.get(table, 0) + 1
        data = encode_rows(table, rows, self._dimensions)
        self.rows[table] += len(rows)
        self._add(f"tables/{table}-{number:05}.parquet", data)

    def _add(self, name: str, data: bytes) -> None:
        self._zip.writestr(zipfile.ZipInfo(name), data)
        self._members[name] = ArchiveMember(len(data), hashlib.sha256(data).hexdigest())

    async def add_original(self, digest: str, size: int, pieces: AsyncIterable[bytes]) -> None:
        """Add the bytes of an original file; `ValueError` when they are not those of the hash."""
        name = f"originals/{digest}"
        info = zipfile.ZipInfo(name)
        info.file_size = size
        hashed, written = hashlib.sha256(), 0
        with self._zip.open(info, "w", force_zip64=size >= zipfile.ZIP64_LIMIT) as member:
            async for piece in pieces:
                member.write(piece)
                hashed.update(piece)
                written += len(piece)
        if hashed.hexdigest() != digest:
            raise ValueError(f"the bytes of {digest} are damaged")
        self._members[name] = ArchiveMember(written, digest)

    def finish(self, base: ArchivedBase, created_at: datetime, release: str) -> ArchiveManifest:
        """Write the manifest: now the archive is complete."""
        manifest = ArchiveManifest(_KIND, FORMAT, created_at, release, base, self.rows, self._members)
        info = zipfile.ZipInfo(_MANIFEST)
        info.compress_type = zipfile.ZIP_DEFLATED
        self._zip.writestr(info, _adapter.dump_json(manifest, indent=1))
        self._zip.close()
        return manifest


class ArchiveReader:
    """Reads an archive, whose list of members is checked at once. `Invalid` for everything that an export does not write."""

    def __init__(self, file: IO[bytes]) -> None:
        size = file.seek(0, 2)
        file.seek(0)
        try:
            self._zip = zipfile.ZipFile(file)
            self.manifest = self._read_manifest()
        except (
            zipfile.BadZipFile,
            NotImplementedError,
            RuntimeError,
            EOFError,
            OSError,
            ValueError,
        ) as error:
            raise damage_error("it is no complete zip file with a manifest") from error
        self._check_members(size)

    def _read_manifest(self) -> ArchiveManifest:
        info = self._zip.NameToInfo.get(_MANIFEST)
        if info is None or info.file_size > _MAX_MANIFEST:
            raise damage_error("it has no manifest")
        data = self._zip.read(info)
        parsed: Any = json.loads(data)
        document: dict[str, Any] = cast(dict[str, Any], parsed) if isinstance(parsed, dict) else {}
        if document.get("kind") != _KIND:
            raise Invalid("This file is no export of a Gristmill base.", code="not_an_archive")
        version = document.get("version")
        if not isinstance(version, int) or version < 1:
            raise damage_error("it has no version")
        if version > FORMAT:
            raise Invalid(
                f"The archive has format {version}, and this release reads up to {FORMAT}. Upgrade Gristmill to import it.",
                code="archive_format",
            )
        try:
            return _adapter.validate_json(data)
        except ValidationError as error:
            place = ".".join(map(str, error.errors()[0]["loc"]))
            raise damage_error(f"its manifest is malformed at {place}") from error

    def _check_members(self, archive_size: int) -> None:
        infos = [info for info in self._zip.infolist() if info.filename != _MANIFEST]
        names = {info.filename for info in infos}
        if len(self._zip.infolist()) != len(infos) + 1 or len(names) != len(infos):
            raise damage_error("it has two members of one name")
        if names != self.manifest.members.keys():
            raise damage_error("its members are not those of its manifest")
        for info in infos:
            match = _NAME.fullmatch(info.filename)
            if match is None or (match[1] is not None and match[1] not in TABLES):
                raise damage_error(f"it has a member {info.filename[:80]!r}")
            if info.file_size != self.manifest.members[info.filename].size:
                raise damage_error(f"{info.filename} has another size than its manifest says")
            if match[1] is not None and info.file_size > _MAX_TABLE_FILE:
                raise damage_error(f"{info.filename} is too large")
            if match[1] is None and info.filename[10:] != self.manifest.members[info.filename].sha256:
                raise damage_error(f"{info.filename} has another hash than its name")
        self.check_expansion(sum(info.file_size for info in infos), archive_size)

    @staticmethod
    def check_expansion(unpacked: int, archive_size: int) -> None:
        """Refuse an archive that unpacks to much more than its own size."""
        if unpacked > MAX_EXPANSION * archive_size + _MIN_ALLOWANCE:
            raise damage_error(f"it unpacks to {unpacked >> 20:,} MB, far more than its size")

    def originals(self) -> list[str]:
        """The hashes of the original files."""
        return [name[10:] for name in self.manifest.members if name.startswith("originals/")]

    def stream(self, name: str) -> Iterator[bytes]:
        """The bytes of a member; `Invalid` at the end when they do not have its hash."""
        hashed = hashlib.sha256()
        try:
            with self._zip.open(name) as member:
                while piece := member.read(_PIECE):
                    hashed.update(piece)
                    yield piece
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError) as error:
            raise damage_error(f"{name} can't be read") from error
        if hashed.hexdigest() != self.manifest.members[name].sha256:
            raise damage_error(f"{name} has another hash than its manifest says")

    def rows(self, table: str, batch_rows: int = 500) -> Iterator[list[Row]]:
        """The rows of a table, in batches."""
        if self.manifest.version < TABLES_SINCE.get(table, 1):
            return
        prefix, count = f"tables/{table}-", 0
        for name in sorted(member for member in self.manifest.members if member.startswith(prefix)):
            data = b"".join(self.stream(name))
            try:
                for batch in decode_rows(
                    table, data, self.manifest.base.dimensions, batch_rows, self.manifest.version
                ):
                    count += len(batch)
                    yield batch
            except Invalid:
                raise
            except Exception as error:  # arro3 raises a type of its own, which is no subclass of any other
                raise damage_error(f"{name} is no table of this format") from error
        if count != self.manifest.rows.get(table, 0):
            raise damage_error(f"the table {table} has {count:,} rows, and its manifest says otherwise")


def json_column(row: Mapping[str, Any], name: str, kind: type[Any]) -> Any:
    """The value of a column of JSON text; `Invalid` when it is of another type."""
    try:
        value = json.loads(row[name])
    except (TypeError, ValueError) as error:
        raise damage_error(f"the column {name} has no JSON") from error
    if not isinstance(value, kind):
        raise damage_error(f"the column {name} has JSON of another type")
    return value
