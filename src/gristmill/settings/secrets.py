"""The settings of secrets: the keys that encrypt them, and where references to secrets may lead."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr
from pydantic_settings import BaseSettings


def make_absolute(path: Path) -> Path:
    """The path as seen from the root of the file system."""
    return path.expanduser().absolute()


AbsolutePath = Annotated[Path, AfterValidator(make_absolute)]


class SecretSettings(BaseSettings):
    """The part of the settings that is about secrets."""

    secret_key: SecretStr | None = Field(
        default=None,
        description="Keys that encrypt stored secrets, 32 bytes in base64 each, separated by commas: the first encrypts, all of them decrypt. By default the lines of `secret.key` in the data dir.",
    )
    secret_key_file: AbsolutePath | None = Field(
        default=None,
        description="File with such keys, one per line, which is read again when it changes; instead of `secret_key`.",
    )
    secret_folders: list[AbsolutePath] = Field(
        default_factory=list,
        description="Folders whose files may be named as secrets: `file:/run/secrets/github`.",
    )
    secret_variables: list[str] = Field(
        default_factory=list,
        description="Environment variables that may be named as secrets: `env:GITHUB_TOKEN`.",
    )
    secret_commands: dict[str, list[str]] = Field(
        default_factory=dict,
        description="Commands that print a secret, keyed by the name that `command:NAME` refers to, each a list of the program and its arguments.",
    )
