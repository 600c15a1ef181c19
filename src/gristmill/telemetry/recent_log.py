"""The last lines of the log, in the data dir: what a server or worker said before it ended, wherever its standard error went.

Each process writes a file of its own, at most half a megabyte and the one before it, readable by its user only. A disk that is full or
read-only never disturbs the process: its lines go to standard error as always.
"""

import logging
import logging.handlers
from io import TextIOWrapper
from pathlib import Path

from gristmill.telemetry.logs import JsonFormatter

_MAX_BYTES = 512 << 10
_MAX_FILES = 64


class _RecentLog(logging.handlers.RotatingFileHandler):
    """A file that never raises."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # the name of the standard library
        """Drop the line."""

    def _open(self) -> TextIOWrapper:
        stream = super()._open()
        Path(self.baseFilename).chmod(0o600)
        return stream


def keep_recent(data_dir: Path, role: str) -> None:
    """Write the log of this process to the data dir too, in the format of machines."""
    folder = log_folder(data_dir)
    try:
        folder.mkdir(mode=0o700, exist_ok=True, parents=True)
        _remove_oldest(folder)
        handler = _RecentLog(folder / f"{role}.log", maxBytes=_MAX_BYTES, backupCount=1, encoding="utf-8")
    except OSError:
        return
    handler.setFormatter(JsonFormatter())
    handler.addFilter(lambda record: _set_role(record, role))
    logging.getLogger().addHandler(handler)


def _remove_oldest(folder: Path) -> None:
    """Remove the logs of processes that ended long ago: each `gristmill worker` has a name of its own."""
    files = sorted(folder.glob("*.log*"), key=lambda path: path.stat().st_mtime)
    for path in files[:-_MAX_FILES]:
        path.unlink(missing_ok=True)


def _set_role(record: logging.LogRecord, role: str) -> bool:
    record.role = role
    return True


def log_folder(data_dir: Path) -> Path:
    """Where the files are."""
    return data_dir / "log"


def read_recent(data_dir: Path, limit: int) -> list[str]:
    """The last lines of all processes, in the order of their times."""
    lines: list[str] = []
    for path in log_folder(data_dir).glob("*.log*"):
        try:
            lines += path.read_text(encoding="utf-8", errors="replace").splitlines()[-limit:]
        except OSError:
            continue
    return sorted(lines)[-limit:]  # each begins with its time
