"""All kinds of connectors by name; validates what users configure, and opens stored connectors."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from pydantic import SecretStr, ValidationError

from gristmill import secret_references, validation
from gristmill.connectors import (
    feeds,
    git_repository,
    google_drive,
    imap,
    linear,
    mediawiki,
    microsoft_drives,
    object_store,
    webdav,
)
from gristmill.connectors.confluence import connector as confluence
from gristmill.connectors.github import connector as github
from gristmill.connectors.gitlab import connector as gitlab
from gristmill.connectors.jira import connector as jira
from gristmill.connectors.model import ConnectorRow
from gristmill.connectors.notion import connector as notion
from gristmill.connectors.plugins import load_plugins
from gristmill.connectors.port import Connector, ConnectorForm, ConnectorKind, ConnectorLimits
from gristmill.connectors.secret_renewal import StoredSecrets, credentials_purpose
from gristmill.connectors.slack import connector as slack
from gristmill.db import Database
from gristmill.errors import Invalid, Permanent
from gristmill.vault import Vault

__all__ = ["KINDS", "ConnectorLimits", "ConnectorRegistry", "credentials_purpose"]

KINDS: dict[str, ConnectorKind] = {
    kind.name: kind
    for kind in (
        *(github.KIND, gitlab.KIND, jira.KIND, confluence.KIND),
        *object_store.KINDS,
        *(git_repository.KIND, webdav.KIND, imap.KIND, feeds.KIND, mediawiki.KIND),
        *(slack.KIND, google_drive.KIND, microsoft_drives.KIND, notion.KIND, linear.KIND),
    )
}


class ConnectorRegistry:
    """The kinds of connectors, within the limits of this installation."""

    def __init__(self, vault: Vault, limits: ConnectorLimits, db: Database | None = None) -> None:
        self._vault, self.limits, self._db = vault, limits, db
        self._plugins = {kind.name: kind for kind in load_plugins(KINDS)}

    @property
    def _kinds(self) -> dict[str, ConnectorKind]:
        return KINDS | self._plugins

    def kind(self, name: str) -> ConnectorKind:
        """The kind of this name."""
        kind = self._kinds.get(name)
        if kind is None:
            raise Permanent(f"There is no kind of connector named {name!r}.", code="unknown_connector_type")
        return kind

    def validate(
        self, kind: str, config: dict[str, Any], credentials: dict[str, Any] | None
    ) -> tuple[dict[str, Any], str | None]:
        """The configuration to store, and the credentials to encrypt; `Invalid` when one of them is not valid."""
        connector_kind = self._kinds.get(kind)
        if connector_kind is None:
            message = f"There is no kind of connector named {kind!r}. Choose one of {', '.join(sorted(self._kinds))}."
            raise Invalid(message, code="unknown_connector_type")
        valid_config = _validate(connector_kind.config, config, "config")
        valid_credentials = (
            None if credentials is None else _validate(connector_kind.credentials, credentials, "credentials")
        )
        return (
            valid_config.model_dump(mode="json", by_alias=True, exclude_none=True),
            None if valid_credentials is None else json.dumps(_plaintext_credentials(valid_credentials)),
        )

    def kinds(self) -> list[ConnectorKind]:
        """All kinds, those of plugins last."""
        return list(self._kinds.values())

    async def check_new(self, kind: str, config: dict[str, Any], credentials: str) -> str:
        """Ask the tool who credentials belong to that are not stored; a WorkError when it refuses them or can't be reached."""
        credentials = await secret_references.resolve_json(credentials)
        connector = _open(self.kind(kind), config, credentials, self.limits)
        try:
            return await _check(connector)
        finally:
            await connector.close()

    async def check(self, row: ConnectorRow) -> str:
        """Ask the tool who the stored credentials belong to; a WorkError when it refuses them or can't be reached."""
        async with self.open_connector(row) as connector:
            return await _check(connector)

    @asynccontextmanager
    async def open_connector(self, row: ConnectorRow) -> AsyncGenerator[Connector]:
        """The connector of a row, open until the end of the block. Secrets that its tool replaces are stored at once."""
        sealed = self._vault.open(row.credentials, credentials_purpose(row.id))
        credentials = await secret_references.resolve_json(sealed)
        secrets = None if self._db is None else StoredSecrets(self._db, self._vault, row.id)
        limits = replace(self.limits, secrets=secrets)
        connector = _open(self.kind(row.type), row.config, credentials, limits)
        try:
            yield connector
        finally:
            await connector.close()


async def _check(connector: Connector) -> str:
    account = await connector.check()
    if problems := await connector.find_problems():
        raise Permanent(" ".join(problems), code="connector_scope_missing")
    return f"{account.name} ({account.detail})" if account.detail else account.name


def _open(
    kind: ConnectorKind, config: dict[str, Any], credentials: str, limits: ConnectorLimits
) -> Connector:
    return kind.open(
        kind.config.model_validate(config), kind.credentials.model_validate_json(credentials), limits
    )


def _validate(form: type[ConnectorForm], values: dict[str, Any], field: str) -> ConnectorForm:
    try:
        return form.model_validate(values)
    except ValidationError as error:
        # Without the input: it may be a secret.
        problems = validation.field_errors(
            error.errors(include_url=False, include_input=False), values, within=field
        )
        subject = "credentials are" if field == "credentials" else f"{field} is"
        # What concerns several fields together says what to give, and is no sentence about one of them.
        together = next((problem.message for problem in problems if problem.field == field), None)
        reason = f". {validation.sentences(problems)}" if together is None else f": {together}."
        raise Invalid(f"The connector's {subject} not valid{reason}", fields=problems) from None


def _plaintext_credentials(form: ConnectorForm) -> dict[str, Any]:
    """Credentials in plain text, only to be encrypted."""
    return {
        name: value.get_secret_value() if isinstance(value, SecretStr) else value
        for name, value in form
        if value is not None
    }
