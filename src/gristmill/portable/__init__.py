"""Portable bases: one archive that holds everything of a base, for another installation or for other tools.

archive.py        the file: a zip with a manifest, Parquet tables and the original files
tables.py         the tables and their columns, and Parquet in both directions
check_archive.py  checks an archive from elsewhere in a child process, before anything is read from it
export_rows.py    the rows of a base
export_work.py    the kinds of durable work

`ingest/export_base.py` and `ingest/import_base.py` do the work.
"""

from gristmill.portable.archive import (
    FORMAT,
    ArchivedBase,
    ArchiveManifest,
    ArchiveReader,
    ArchiveWriter,
    damage_error,
)
from gristmill.portable.check_archive import check_archive
from gristmill.portable.export_rows import export_table, original_names
from gristmill.portable.export_work import AccessLists, ExportBase, ImportBase
from gristmill.portable.tables import TABLES, Row

__all__ = [
    "FORMAT",
    "TABLES",
    "AccessLists",
    "ArchiveManifest",
    "ArchiveReader",
    "ArchiveWriter",
    "ArchivedBase",
    "ExportBase",
    "ImportBase",
    "Row",
    "check_archive",
    "damage_error",
    "export_table",
    "original_names",
]
