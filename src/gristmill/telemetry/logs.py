"""Log format: one line per record, as text on a terminal and as JSON elsewhere.

`log.info("job done", extra={"job": …})`: the message says what happened, `extra` holds the data. Text lines
append the extra fields as `key=value`; JSON lines have them as fields.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Literal

# The attributes of every LogRecord; all others came from `extra`.
_RECORD_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {
    "message",
    "asctime",
    "taskName",
    "color_message",
}


def configure(level: str, style: Literal["auto", "text", "json"], *, role: str | None = None) -> None:
    """Send all logs of this process to standard error in this style. `role` is its name, if several share the log."""
    handler = logging.StreamHandler(sys.stderr)
    if role is not None:
        handler.addFilter(lambda record: _add_role(record, role))
    text = style == "text" or (style == "auto" and sys.stderr.isatty())
    handler.setFormatter(TextFormatter() if text else JsonFormatter())
    root = logging.getLogger()
    for old in root.handlers:
        if isinstance(old, logging.FileHandler):
            old.close()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # These log every request or connection at INFO; our own access log has the fields we want.
    for noisy in ("httpx", "httpcore", "uvicorn.access"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    # It warns about every connection that a server restart broke; the code that needed one logs it once.
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
    for name in ("uvicorn", "uvicorn.error"):
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).propagate = True
    logging.captureWarnings(True)


def _add_role(record: logging.LogRecord, role: str) -> bool:
    record.role = role
    return True


def extra_fields(record: logging.LogRecord) -> dict[str, Any]:
    """The fields that the caller passed as `extra`."""
    return {name: value for name, value in vars(record).items() if name not in _RECORD_ATTRIBUTES}


class TextFormatter(logging.Formatter):
    """`12:30:01 info  jobs.worker  job done  kind=index_document took=0.02`."""

    def format(self, record: logging.LogRecord) -> str:
        """The line for `record`."""
        when = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        parts = [
            when,
            f"{record.levelname.lower():7}",
            record.name.removeprefix("gristmill."),
            record.getMessage(),
        ]
        parts += [f"{name}={_format_value(value)}" for name, value in extra_fields(record).items()]
        line = " ".join(parts)
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """One JSON object per line: `at`, `level`, `logger`, `message`, then the extra fields."""

    def format(self, record: logging.LogRecord) -> str:
        """The object for `record`."""
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **extra_fields(record),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def _format_value(value: object) -> str:
    text = f"{value:.3f}" if isinstance(value, float) else str(value)
    return json.dumps(text, ensure_ascii=False) if " " in text or "\n" in text else text
