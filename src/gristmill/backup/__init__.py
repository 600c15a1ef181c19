"""Back-ups of an installation with the built-in PostgreSQL: database, blobs and sealing key, of one moment.

create.py          the order of a back-up, and why it is consistent
database_files.py  PostgreSQL's files and WAL while the server runs
repository.py      where back-ups are kept: pieces by hash, manifests, a lock
manifest.py        what one back-up consists of
restore.py         a data dir from a back-up
"""

from gristmill.backup.create import BackupResult, create_backup
from gristmill.backup.manifest import Manifest
from gristmill.backup.repository import BackupRepository
from gristmill.backup.restore import RestoreResult, restore_backup

__all__ = [
    "BackupRepository",
    "BackupResult",
    "Manifest",
    "RestoreResult",
    "create_backup",
    "restore_backup",
]
