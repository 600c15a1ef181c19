"""Secrets by reference: the value is in a file, in the environment or printed by a command, and is read when it is used.

    file:/run/secrets/github     a file below one of `secret_folders`
    env:GITHUB_TOKEN             a variable that `secret_variables` names
    command:jira                 the command that `secret_commands` has under this name: Vault, 1Password, a cloud's manager

Only the operator decides what can be referred to: paths, variables and commands are compared with the settings whenever a
reference is resolved, and nothing of a request becomes a path or a command line. Who may enter a reference is decided by the
routes: the operator alone, because a secret is sent to the address that is entered with it.

A value is cached for a minute. It is never part of an error or a log, and `redact` removes it from what a provider answers.
"""

import asyncio
import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any

from gristmill.errors import Invalid, Transient
from gristmill.settings import Settings

_PREFIXES = ("file:", "env:", "command:")
_CACHE_SECONDS = 60.0
_TIME_LIMIT = 10.0  # seconds
_MAX_BYTES = 64 << 10


class SecretUnavailable(Transient):
    """A secret can't be read where its reference says."""

    code = "secret_unavailable"


def is_reference(value: object) -> bool:
    """Whether a value refers to a secret instead of being one."""
    return isinstance(value, str) and value.startswith(_PREFIXES)


class SecretResolver:
    """Reads the secrets that references name, as far as the settings allow it."""

    def __init__(self, settings: Settings) -> None:
        self._folders = tuple(settings.secret_folders)
        self._variables = frozenset(settings.secret_variables)
        self._commands = settings.secret_commands
        self._cache: dict[str, tuple[float, str]] = {}

    def check(self, reference: str) -> None:
        """Raise Invalid unless the settings allow this reference. Reads no secret."""
        kind, _, name = reference.partition(":")
        allowed = {
            "file": lambda: self._locate_file(name) is not None,
            "env": lambda: name in self._variables,
            "command": lambda: name in self._commands,
        }[kind]
        if not allowed():
            setting = {"file": "secret_folders", "env": "secret_variables", "command": "secret_commands"}[
                kind
            ]
            raise Invalid(
                f"{reference} is not among the secrets that may be referred to. Add it to the setting {setting}.",
                code="secret_reference_unknown",
            )

    async def resolve(self, value: str) -> str:
        """The secret: the value itself, or what it refers to."""
        if not is_reference(value):
            return value
        cached = self._cache.get(value)
        if cached is not None and time.monotonic() - cached[0] < _CACHE_SECONDS:
            return cached[1]
        try:
            self.check(value)
            async with asyncio.timeout(_TIME_LIMIT):
                secret = await self._read(value)
        except TimeoutError:
            raise SecretUnavailable(f"{value} took longer than {_TIME_LIMIT:.0f} seconds.") from None
        except Invalid as error:
            raise SecretUnavailable(error.message) from None
        if not secret:
            raise SecretUnavailable(f"{value} is empty.")
        self._cache[value] = (time.monotonic(), secret)
        return secret

    async def resolve_json(self, document: str) -> str:
        """A JSON object with the references among its values replaced by their secrets."""
        if not any(f'"{prefix}' in document for prefix in _PREFIXES):
            return document
        values: dict[str, Any] = json.loads(document)
        return json.dumps(
            {
                name: await self.resolve(value) if isinstance(value, str) else value
                for name, value in values.items()
            }
        )

    def redact(self, text: str) -> str:
        """The text without the secrets that were read lately."""
        for _, secret in self._cache.values():
            text = text.replace(secret, "…")
        return text

    async def _read(self, reference: str) -> str:
        kind, _, name = reference.partition(":")
        match kind:
            case "file":
                return await asyncio.to_thread(self._read_file, name)
            case "env":
                secret = os.environ.get(name)
                if secret is None:
                    raise SecretUnavailable(f"The environment has no variable {name}.")
                return secret.strip()
            case _:
                return await self._run_command(name)

    def _locate_file(self, name: str) -> Path | None:
        """The file without links, if it is below one of the folders."""
        path = Path(name)
        if not path.is_absolute():
            return None
        target = path.resolve()
        below = any(target.is_relative_to(folder.resolve()) for folder in self._folders)
        return target if below else None

    def _read_file(self, name: str) -> str:
        path = self._locate_file(name)
        try:
            if path is None or not path.is_file():
                raise SecretUnavailable(f"There is no file {name}.")
            with path.open("rb") as file:
                return file.read(_MAX_BYTES).decode().strip()
        except (OSError, UnicodeDecodeError):
            raise SecretUnavailable(f"The file {name} can't be read.") from None

    async def _run_command(self, name: str) -> str:
        program, *arguments = self._commands[name] or [""]
        try:
            process = await asyncio.create_subprocess_exec(
                program,
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            raise SecretUnavailable(f"The command {name} can't be started: {error.strerror}.") from None
        try:
            assert process.stdout is not None
            output = await process.stdout.read(_MAX_BYTES)
            code = await process.wait()
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if code != 0:
            raise SecretUnavailable(f"The command {name} ended with exit code {code}.")
        try:
            return output.decode().strip()
        except UnicodeDecodeError:
            raise SecretUnavailable(f"The command {name} printed no text.") from None


_resolver: list[SecretResolver] = []


def use_settings(settings: Settings) -> SecretResolver:
    """Resolve references by these settings in this process from now on."""
    _resolver[:] = [SecretResolver(settings)]
    return _resolver[0]


async def resolve(value: str) -> str:
    """The secret that a value is or refers to, by the settings of this process."""
    if not is_reference(value):
        return value
    if not _resolver:
        raise SecretUnavailable(f"{value} can't be read here.")
    return await _resolver[0].resolve(value)


async def resolve_json(document: str) -> str:
    """A JSON object with the references among its values replaced by their secrets."""
    return await _resolver[0].resolve_json(document) if _resolver else document


def redact(text: str) -> str:
    """The text without secrets that references have led to."""
    return _resolver[0].redact(text) if _resolver else text
