"""What the routes need of the running Gristmill."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, cast
from uuid import UUID

from fastapi import Depends, Request
from pydantic import BaseModel, ConfigDict, ValidationError

from gristmill.catalog import BaseId, ItemId, Viewer, access
from gristmill.db import Database
from gristmill.doors.api import caller as callers
from gristmill.doors.api.caller import Caller
from gristmill.doors.api.meters import Meters
from gristmill.embedding import Embedders
from gristmill.errors import Forbidden, Invalid, NotFound, Unauthorised
from gristmill.events import Broadcaster
from gristmill.events.webhook import WebhookId
from gristmill.events.webhooks import Sender
from gristmill.jobs import JobId, QueueLimits
from gristmill.keys import KeyId
from gristmill.operations.connection import ConnectorId, Kinds, RunId
from gristmill.operations.originals import Originals
from gristmill.operations.ready import Readiness
from gristmill.organisation import LOCAL, OrgId
from gristmill.search import Searcher
from gristmill.settings import Settings
from gristmill.vault import Vault

ON_BEHALF = "X-Gristmill-On-Behalf-Of"


@dataclass(frozen=True)
class Context:
    """Handed over by `app.py`."""

    db: Database
    embedders: Embedders
    originals: Originals
    searcher: Searcher
    settings: Settings
    broadcaster: Broadcaster
    vault: Vault
    sender: Sender
    kinds: Kinds
    readiness: Readiness
    meters: Meters = field(default_factory=Meters)

    def confine(self, caller: Caller, path: str) -> None:
        """Refuse a path of the server's disk that this caller may not have read. On loopback the local organisation has
        the disk anyway; everybody else gets what is below `allowed_paths`, wherever links lead."""
        if caller.org == LOCAL and callers.is_loopback(self.settings.host):
            return
        real = Path(os.path.realpath(path))
        if not any(real.is_relative_to(os.path.realpath(folder)) for folder in self.settings.allowed_paths):
            raise Forbidden(
                f"{path} is not below a folder that may be read. Upload the file, or have allowed_paths extended.",
                code="path_not_allowed",
            )

    @property
    def queue_limits(self) -> QueueLimits:
        """How much may wait."""
        return QueueLimits(lane=self.settings.max_queue_per_base, total=self.settings.max_queue)


# All that routes depend on is async, though nothing here waits: the framework gives each plain function to a thread, which costs
# more than the rest of a read.


async def _context(request: Request) -> Context:
    return cast(Context, request.app.state.context)


def no_key() -> Unauthorised:
    """For who comes in with nothing where something is wanted."""
    return Unauthorised("Send an API key: Authorization: Bearer gm_…", code="no_key")


async def as_base_id(base_id: str) -> BaseId:
    """A base's id, from a path."""
    return BaseId(_uuid(base_id, f"There is no knowledge base {base_id!r}.", "base_not_found"))


async def as_item_id(item_id: str) -> ItemId:
    """An item's id, from a path."""
    return ItemId(_uuid(item_id, f"There is no item {item_id!r}.", "item_not_found"))


async def as_webhook_id(webhook_id: str) -> WebhookId:
    """A webhook's id, from a path."""
    return WebhookId(_uuid(webhook_id, f"There is no webhook {webhook_id!r}.", "webhook_not_found"))


async def as_job_id(job_id: str) -> JobId:
    """A job's id, from a path."""
    return JobId(_uuid(job_id, f"There is no job {job_id!r}.", "job_not_found"))


async def as_key_id(key_id: str) -> KeyId:
    """A key's id, from a path."""
    return KeyId(_uuid(key_id, f"There is no key {key_id!r}.", "key_not_found"))


async def as_connector_id(connector_id: str) -> ConnectorId:
    """A connector's id, from a path."""
    return ConnectorId(_uuid(connector_id, f"There is no connector {connector_id!r}.", "connector_not_found"))


async def as_run_id(run_id: str) -> RunId:
    """A run's id, from a path."""
    return RunId(_uuid(run_id, f"There is no run {run_id!r}.", "run_not_found"))


def _uuid(text: str, message: str, code: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        # What can't be an id is no different, to the caller, from an id that nothing has.
        raise NotFound(message, code=code) from None


# ── whose eyes ───────────────────────────────────────────────────────────────────────────────────────────


async def _asking(request: Request) -> Caller:
    caller = callers.of(request.scope)
    if caller is None:
        raise no_key()
    return caller


async def _viewer(request: Request) -> Viewer:
    """Whose eyes: the caller's own, or those of somebody on whose behalf an admin reads."""
    caller = await _asking(request)
    given = request.headers.get(ON_BEHALF)
    return caller.viewer if given is None else _member(given, caller.org)


def _member(given: str, org: OrgId) -> Viewer:
    named: dict[str, list[str]] = {"email": [], "team": [], "group": []}
    try:
        if given.lstrip().startswith("{"):
            told = _OnBehalf.model_validate_json(given)
            named = {"email": [told.email] if told.email else [], "team": told.teams, "group": told.groups}
        else:
            for part in filter(None, (part.strip() for part in given.split(","))):
                kind, _, name = part.partition(":")
                named[kind].append(name)
    except (KeyError, ValidationError):
        raise Invalid(
            f'{ON_BEHALF} takes email:…,team:…,group:… or {{"email": …, "teams": […], "groups": […]}}.',
            code="bad_principal",
        ) from None
    if len(named["email"]) > 1:
        raise Invalid(f"{ON_BEHALF} names one person, by one email.", code="bad_principal")
    return access.member(next(iter(named["email"]), None), named["team"], named["group"], org)


class _OnBehalf(BaseModel):
    model_config = ConfigDict(extra="forbid")
    email: str | None = None
    teams: list[str] = []
    groups: list[str] = []


InContext = Annotated[Context, Depends(_context)]
PathBase = Annotated[BaseId, Depends(as_base_id)]
PathItem = Annotated[ItemId, Depends(as_item_id)]
PathJob = Annotated[JobId, Depends(as_job_id)]
PathKey = Annotated[KeyId, Depends(as_key_id)]
PathWebhook = Annotated[WebhookId, Depends(as_webhook_id)]
AsViewer = Annotated[Viewer, Depends(_viewer)]
PathConnector = Annotated[ConnectorId, Depends(as_connector_id)]
PathRun = Annotated[RunId, Depends(as_run_id)]
Asking = Annotated[Caller, Depends(_asking)]
