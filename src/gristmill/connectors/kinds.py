"""Every kind of connector by name, and how one is opened with what is stored of it."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from pydantic import SecretStr, ValidationError

from gristmill.connectors import confluence, github, gitlab, jira
from gristmill.connectors.kind import Form, Kind, OpenConnector, Surroundings
from gristmill.errors import FieldError, Invalid, Permanent
from gristmill.operations.connection import Connector as Row
from gristmill.operations.connections import about
from gristmill.vault import Vault

KINDS: dict[str, Kind] = {kind.name: kind for kind in (github.KIND, gitlab.KIND, jira.KIND, confluence.KIND)}


class Tools:
    """The tools that can be followed, in the surroundings of this installation."""

    def __init__(self, vault: Vault, surroundings: Surroundings) -> None:
        self._vault, self.surroundings = vault, surroundings

    def kind(self, name: str) -> Kind:
        """The kind of this name."""
        found = KINDS.get(name)
        if found is None:
            raise Permanent(f"There is no kind of connector named {name!r}.", code="unknown_connector_type")
        return found

    def checked(
        self, kind: str, config: dict[str, Any], credentials: dict[str, Any] | None
    ) -> tuple[dict[str, Any], str | None]:
        """The configuration as it is kept, and the credentials as they are sealed; `Invalid` when one is none."""
        found = KINDS.get(kind)
        if found is None:
            told = f"There is no kind of connector named {kind!r}; there are {', '.join(sorted(KINDS))}."
            raise Invalid(told, code="unknown_connector_type")
        kept = _validated(found.config, config, "config")
        given = None if credentials is None else _validated(found.credentials, credentials, "credentials")
        return (
            kept.model_dump(mode="json", by_alias=True, exclude_none=True),
            None if given is None else json.dumps(_told(given)),
        )

    def forms(self) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
        """The JSON schemas of each kind's configuration and credentials."""
        return {
            name: (kind.config.model_json_schema(), kind.credentials.model_json_schema())
            for name, kind in KINDS.items()
        }

    async def check(self, kind: str, config: dict[str, Any], credentials: str) -> str:
        """Ask the tool who the credentials are."""
        found = self.kind(kind)
        connector = _open(found, config, credentials, self.surroundings)
        try:
            account = await connector.check()
        finally:
            await connector.close()
        return f"{account.name} ({account.detail})" if account.detail else account.name

    @asynccontextmanager
    async def opened(self, row: Row) -> AsyncGenerator[OpenConnector]:
        """The connector of a row, until the end of the block."""
        credentials = self._vault.open(row.credentials, about(row.id))
        connector = _open(self.kind(row.type), row.config, credentials, self.surroundings)
        try:
            yield connector
        finally:
            await connector.close()


def _open(kind: Kind, config: dict[str, Any], credentials: str, surroundings: Surroundings) -> OpenConnector:
    return kind.open(
        kind.config.model_validate(config), kind.credentials.model_validate_json(credentials), surroundings
    )


def _validated(form: type[Form], given: dict[str, Any], field: str) -> Form:
    try:
        return form.model_validate(given)
    except ValidationError as error:
        fields = [
            FieldError(
                ".".join([field, *(str(part) for part in problem["loc"])]),
                problem["msg"].removeprefix("Value error, "),
            )
            # Without what was given: it may be a secret.
            for problem in error.errors(include_url=False, include_input=False, include_context=False)
        ]
        told = "; ".join(f"{one.field}: {one.message}" for one in fields)
        raise Invalid(f"The connector's {field} can't be taken: {told}.", fields=fields) from None


def _told(form: Form) -> dict[str, Any]:
    """Credentials in plain: to be sealed, and nothing else."""
    return {
        name: value.get_secret_value() if isinstance(value, SecretStr) else value
        for name, value in form
        if value is not None
    }
