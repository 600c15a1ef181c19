"""The settings, read from `GRISTMILL_*` environment variables and `gristmill.toml`.

The environment takes precedence over the file, and the file over the defaults. The file is the one that
`GRISTMILL_CONFIG` names, else `./gristmill.toml`, else `gristmill.toml` in the user's config folder.
An unknown name is an error in both, so that a typo is never silently ignored. Without `database_url`, a data dir that was moved to
another database (`gristmill move`) names it itself.
"""

import difflib
import os
import re
from collections.abc import Mapping
from typing import Any

from pydantic import SecretStr, ValidationError
from pydantic_settings import SettingsError

from gristmill import validation
from gristmill.errors import SetupError
from gristmill.settings.model import ENV_PREFIX, Settings
from gristmill.settings.moved_database import read_moved_database
from gristmill.settings.services import EmbedderSettings, ProcessorSettings
from gristmill.settings.toml_file import CONFIG_VARIABLE, config_file

__all__ = [
    "CONFIG_VARIABLE",
    "ENV_PREFIX",
    "LOCAL_PROCESSOR",
    "EmbedderSettings",
    "ProcessorSettings",
    "Settings",
    "config_file",
    "load",
]

LOCAL_PROCESSOR = "local"  # the built-in file processor, which needs no settings


def load(**overrides: Any) -> Settings:
    """Read the settings; `SetupError` names the invalid ones. `overrides` take precedence over all sources."""
    _refuse_unknown_names(os.environ)
    try:
        current = Settings(**{name: value for name, value in overrides.items() if value is not None})
    except ValidationError as error:
        raise SetupError(" ".join(_messages(error)), code="bad_setting") from None
    except SettingsError as error:  # a list or a table in the environment
        raise SetupError(_not_json_message(error), code="bad_setting") from None
    if current.database_url is None and (url := read_moved_database(current.data_dir)) is not None:
        return current.model_copy(update={"database_url": SecretStr(url)})
    return current


def _refuse_unknown_names(environment: Mapping[str, str]) -> None:
    known = {ENV_PREFIX + name.upper() for name in Settings.model_fields} | {CONFIG_VARIABLE}
    for name in sorted(environment):
        if not name.upper().startswith(ENV_PREFIX) or name.upper().split("__")[0] in known:
            continue
        similar = difflib.get_close_matches(name.upper(), known, n=1)
        hint = (
            f" Did you mean {similar[0]}?"
            if similar
            else " `gristmill doctor --help` says where all settings are documented."
        )
        raise SetupError(f"{name} is not a setting of Gristmill.{hint}", code="unknown_setting")


def _not_json_message(error: SettingsError) -> str:
    """What to write instead. The library names the field in its message only."""
    field = re.search(r'field "(\w+)"', str(error))
    name = f"{ENV_PREFIX}{field[1].upper()}" if field else "A variable"
    return f'{name} is not JSON. Write a list as ["one", "two"], and a table as {{"key": "value"}}.'


def _messages(error: ValidationError) -> list[str]:
    problems = validation.field_errors(error.errors(include_url=False, include_input=False))
    return [validation.sentences([problem]) for problem in problems]
