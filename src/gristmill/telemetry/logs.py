"""What an operator reads: one line per happening, text on a terminal, JSON elsewhere.

`log.info("job done", extra={"job": …})`: the message says what happened, `extra` holds the facts. Text
lines put the facts behind the message as `key=value`; JSON lines make each one a field.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Literal

# What a LogRecord holds of itself; everything else on it came through `extra`.
_RECORD_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {
    "message",
    "asctime",
    "taskName",
    "color_message",
}


def configure(level: str, style: Literal["auto", "text", "json"]) -> None:
    """Send all logs of this process to standard error in the style asked for."""
    handler = logging.StreamHandler(sys.stderr)
    text = style == "text" or (style == "auto" and sys.stderr.isatty())
    handler.setFormatter(TextFormatter() if text else JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # They tell every request or connection at INFO; ours says the same once, with the facts we want.
    for noisy in ("httpx", "httpcore", "uvicorn.access"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    # It tells each connection that a restarted server left dead; who needed one tells it once.
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
    for ours in ("uvicorn", "uvicorn.error"):
        logging.getLogger(ours).handlers.clear()
        logging.getLogger(ours).propagate = True
    logging.captureWarnings(True)


def extra_fields(record: logging.LogRecord) -> dict[str, Any]:
    """What the caller put into `extra`."""
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
    """One JSON object a line; `at`, `level`, `logger`, `message`, then the facts."""

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
