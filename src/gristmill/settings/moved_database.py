"""The address of the database that a data dir was moved to, if it was: a file that only its owner reads.

`gristmill move` writes it as its last step, and removes it as the last step of the way back; so this one file decides which database is
used. The setting `database_url` overrides it.
"""

import contextlib
import os
from pathlib import Path

_FILE = "database-url"


def read_moved_database(data_dir: Path) -> str | None:
    """The address of the database that is used instead of the built-in one; None if the data dir was not moved."""
    try:
        return (data_dir / _FILE).read_text(encoding="utf-8").strip() or None
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None


def write_moved_database(data_dir: Path, url: str | None) -> None:
    """Decide which database is used from now on: the one at `url`, or with None the built-in one."""
    if url is None:
        with contextlib.suppress(FileNotFoundError):
            (data_dir / _FILE).unlink()
    else:
        temporary = data_dir / f"{_FILE}.new"
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(f"{url}\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(data_dir / _FILE)
    folder = os.open(data_dir, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
