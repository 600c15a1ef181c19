"""`gristmill support-bundle`: a file that a stranger can help by, without secrets and without documents.

    gristmill.json   version, Python, system, schema
    settings.json    every setting that differs from its default; secrets only as "set", addresses without credentials and queries
    doctor.json      the checks of `gristmill doctor`
    database.json    counts of items, jobs, errors by code, sizes of tables; no titles, names, texts or messages
    log.txt          the last lines of the servers and workers of this data dir, and of its PostgreSQL

Whatever can't be collected, as with a database that does not start, is named with its error in `missing.json`. The last step replaces
every known secret, and whatever looks like one, in all of it.
"""

import json
import platform
import re
import sys
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

from pydantic import BaseModel, SecretStr

from gristmill import __version__
from gristmill.cli.doctor import run_checks
from gristmill.cli.open_gristmill import open_gristmill
from gristmill.errors import GristmillError
from gristmill.integrity import support
from gristmill.settings import ENV_PREFIX, Settings
from gristmill.telemetry import recent_log

_LOG_LINES = 2_000
_REMOVED = "[removed]"
_PATTERNS = (
    re.compile(r"gm_[A-Za-z0-9_-]{16,}"),  # our keys and sessions
    re.compile(r"(?i)\b(?:bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"),
    re.compile(r"(?i)(?<=://)[^/\s@\"']+(?=@)"),  # user and password of an address
    re.compile(
        r"(?i)(?:password|passwd|secret|token|api[_-]?key|access[_-]?key)[\"']?\s*[=:]\s*[\"']?[^\s\"',;&]{4,}"
    ),
    re.compile(r"\b(?:sk|pk|ghp|gho|glpat|xox[abp]|whsec)[-_][A-Za-z0-9_-]{12,}"),
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL),
)
_SECRET_NAME = re.compile(r"(?i)password|secret|token|key|credential")
# Fields of log lines that hold no text of users; `code` says what failed.
_LOG_FIELDS = frozenset(
    [
        "at",
        "level",
        "logger",
        "message",
        "role",
        "job",
        "kind",
        "attempt",
        "in",
        "code",
        "worker",
        "base",
        "item",
        "status",
        "method",
        "path",
        "seconds",
        "count",
        "embedder",
        "number",
        "migration",
        "ended_pid",
        "after_seconds",
        "jobs_back_in_the_queue",
    ]
)
_TRACEBACK_PLACE = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
# What PostgreSQL says of rows and statements may have document texts in it.
_POSTGRES_LINE = re.compile(r"(?:LOG|FATAL|PANIC|WARNING):")


async def write_bundle(current: Settings, environment: Mapping[str, str], target: Path) -> list[str]:
    """Collect everything into a zip file; the parts that are missing."""
    parts, missing = await _collect(current)
    secrets = _collect_secrets(current, environment)
    if missing:
        parts["missing.json"] = _to_json(missing)
    _write_zip(target, {name: remove_secrets(text, secrets) for name, text in parts.items()})
    return list(missing)


def _write_zip(target: Path, parts: Mapping[str, str]) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, text in parts.items():
            bundle.writestr(f"gristmill-support/{name}", text)
    target.chmod(0o600)


async def _collect(current: Settings) -> tuple[dict[str, str], dict[str, str]]:
    parts = {
        "gristmill.json": _to_json(_describe_program()),
        "settings.json": _to_json(_describe_settings(current)),
    }
    missing: dict[str, str] = {}
    checks: list[dict[str, Any]] = []
    try:
        checks = [vars(check) async for check in run_checks(current)]
    except (GristmillError, OSError) as error:
        missing["doctor"] = f"{type(error).__name__}: {error}"
    parts["doctor.json"] = _to_json(checks)
    try:
        async with open_gristmill(current, work=False) as mill, mill.db.connection() as tx:
            parts["database.json"] = _to_json(await support.summarise(tx))
    except (GristmillError, OSError) as error:
        missing["database"] = f"{type(error).__name__}: {error}"
    parts["log.txt"] = "\n".join([*_own_lines(current), *_postgres_lines(current)]) + "\n"
    return parts, missing


def _describe_program() -> dict[str, Any]:
    return {
        "version": __version__,
        "python": sys.version,
        "system": platform.platform(),
        "machine": platform.machine(),
        "createdAt": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _describe_settings(current: Settings) -> dict[str, Any]:
    return {name: _describe(getattr(current, name)) for name in sorted(current.model_fields_set)}


def _describe(value: object) -> Any:
    """A setting's value without secrets."""
    match value:
        case SecretStr():
            return "set" if value.get_secret_value() else "empty"
        case BaseModel():
            return {name: _describe(getattr(value, name)) for name in type(value).model_fields}
        case Mapping():
            return {name: _describe(entry) for name, entry in cast("Mapping[str, object]", value).items()}
        case list() | tuple():
            return [_describe(entry) for entry in cast("Sequence[object]", value)]
        case str() if "://" in value:
            return _bare_address(value)
        case _:
            return value


def _bare_address(address: str) -> str:
    try:
        parts = urlsplit(address)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return _REMOVED
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def _collect_secrets(current: Settings, environment: Mapping[str, str]) -> list[str]:
    """Secret settings, whatever they are in, and variables of the environment that are named like secrets; the longest first."""
    values = {value for name, value in environment.items() if _SECRET_NAME.search(name)}
    values |= set(_secret_values(current.model_dump()))
    values |= {
        part
        for name, value in environment.items()
        if name.startswith(ENV_PREFIX) or "://" in value
        for part in re.findall(r"://[^:/\s]*:([^@/\s]+)@", value)
    }
    return sorted((value for value in values if len(value) >= 6), key=len, reverse=True)


def _secret_values(value: object) -> Iterable[str]:
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, Mapping):
        for entry in cast("Mapping[str, object]", value).values():
            yield from _secret_values(entry)
    elif isinstance(value, list | tuple):
        for entry in cast("Sequence[object]", value):
            yield from _secret_values(entry)


def remove_secrets(text: str, secrets: Iterable[str]) -> str:
    """The text without these secrets, and without what looks like one."""
    for secret in secrets:
        text = text.replace(secret, _REMOVED)
    for pattern in _PATTERNS:
        text = pattern.sub(_REMOVED, text)
    return text


def _own_lines(current: Settings) -> list[str]:
    return [_without_names(line) for line in recent_log.read_recent(current.data_dir, _LOG_LINES)]


def _without_names(line: str) -> str:
    """A log line without the fields that can name documents, files and addresses: what a job failed of, and values in tracebacks."""
    try:
        fields = cast("dict[str, Any]", json.loads(line))
    except ValueError:
        return _REMOVED
    entries = {name: value for name, value in fields.items() if name in _LOG_FIELDS}
    if "traceback" in fields:
        entries["traceback"] = _TRACEBACK_PLACE.findall(str(fields["traceback"]))
    return json.dumps(entries, ensure_ascii=False)


def _postgres_lines(current: Settings) -> list[str]:
    lines: list[str] = []
    for path in sorted(current.data_dir.glob("**/server.log"))[:3]:
        try:
            lines += path.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:]
        except OSError as error:
            lines.append(f"{path} can't be read: {error.strerror}")
    return [line for line in lines if _POSTGRES_LINE.search(line)][-_LOG_LINES:]


def _to_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)
