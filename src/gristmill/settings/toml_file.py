"""Finds and reads `gristmill.toml`."""

import os
import tomllib
from pathlib import Path
from typing import Any

import platformdirs

from gristmill.errors import SetupError

CONFIG_VARIABLE = "GRISTMILL_CONFIG"


def config_file() -> Path | None:
    """The `gristmill.toml` in use, if there is one."""
    configured = os.environ.get(CONFIG_VARIABLE)
    if configured:
        path = Path(configured).expanduser()
        if not path.is_file():
            raise SetupError(f"{CONFIG_VARIABLE} names {path}, which is not a file.", code="no_config_file")
        return path
    candidates = (
        Path("gristmill.toml"),
        Path(platformdirs.user_config_dir("gristmill", appauthor=False)) / "gristmill.toml",
    )
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def read_config_file() -> dict[str, Any]:
    """The contents of the file; empty if there is none."""
    path = config_file()
    if path is None:
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SetupError(f"{path} can't be read: {error}", code="bad_config_file") from error
