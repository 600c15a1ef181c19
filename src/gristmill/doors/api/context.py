"""What the routes need of the running Gristmill."""

from dataclasses import dataclass
from typing import Annotated, cast
from uuid import UUID

from fastapi import Depends, Request
from pydantic import BaseModel, ConfigDict, ValidationError

from gristmill.catalog import ADMIN, BaseId, ItemId, Viewer, access
from gristmill.db import Database
from gristmill.embedding import Embedders
from gristmill.errors import Forbidden, Invalid, NotFound
from gristmill.events import Broadcaster
from gristmill.events.webhook import WebhookId
from gristmill.events.webhooks import Sender
from gristmill.jobs import QueueLimits
from gristmill.operations.connection import ConnectorId, Kinds, RunId
from gristmill.operations.originals import Originals
from gristmill.search import Searcher
from gristmill.settings import Settings
from gristmill.vault import Vault

ON_BEHALF = "X-Gristmill-On-Behalf-Of"

# What goes by access lists. A route that is not here is refused on somebody's behalf, so that a new one can't leak.
READS = frozenset(
    {
        ("GET", "/api/knowledge-bases"),
        ("GET", "/api/knowledge-bases/{base_id}"),
        ("GET", "/api/knowledge-bases/{base_id}/items"),
        ("GET", "/api/knowledge-items/{item_id}"),
        ("GET", "/api/knowledge-items/{item_id}/chunks"),
        ("GET", "/api/knowledge-items/{item_id}/assets"),
        ("GET", "/api/knowledge-items/{item_id}/assets/{asset_hash}"),
        ("GET", "/api/knowledge-items/{item_id}/content"),
        ("GET", "/api/knowledge-items/{item_id}/original"),
        ("POST", "/api/knowledge-bases/{base_id}/search"),
        ("POST", "/api/search"),
        ("POST", "/api/knowledge-items/{item_id}/why-not"),
    }
)


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

    @property
    def queue_limits(self) -> QueueLimits:
        """How much may wait."""
        return QueueLimits(lane=self.settings.max_queue_per_base, total=self.settings.max_queue)


def _context(request: Request) -> Context:
    return cast(Context, request.app.state.context)


def _base_id(base_id: str) -> BaseId:
    return BaseId(_uuid(base_id, f"There is no knowledge base {base_id!r}.", "base_not_found"))


def _item_id(item_id: str) -> ItemId:
    return ItemId(_uuid(item_id, f"There is no item {item_id!r}.", "item_not_found"))


def _webhook_id(webhook_id: str) -> WebhookId:
    return WebhookId(_uuid(webhook_id, f"There is no webhook {webhook_id!r}.", "webhook_not_found"))


def _connector_id(connector_id: str) -> ConnectorId:
    return ConnectorId(_uuid(connector_id, f"There is no connector {connector_id!r}.", "connector_not_found"))


def _run_id(run_id: str) -> RunId:
    return RunId(_uuid(run_id, f"There is no run {run_id!r}.", "run_not_found"))


def _uuid(text: str, message: str, code: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        # What can't be an id is no different, to the caller, from an id that nothing has.
        raise NotFound(message, code=code) from None


def _viewer(request: Request) -> Viewer:
    """Whose eyes: the admin's own, or those of somebody on whose behalf the admin reads."""
    given = request.headers.get(ON_BEHALF)
    return ADMIN if given is None else _member(given)


def _member(given: str) -> Viewer:
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
    return access.member(next(iter(named["email"]), None), named["team"], named["group"])


class _OnBehalf(BaseModel):
    model_config = ConfigDict(extra="forbid")
    email: str | None = None
    teams: list[str] = []
    groups: list[str] = []


def reads_only(request: Request) -> None:
    """On somebody's behalf, only what goes by access lists is served: everything else is refused."""
    if ON_BEHALF not in request.headers:
        return
    # The route knows its own part of the path alone; where it was mounted, the request's path tells.
    path = str(getattr(request.scope.get("route"), "path", ""))
    mounted = "" if path.startswith("/api") or not request.url.path.startswith("/api") else "/api"
    if (request.method, mounted + path) not in READS:
        raise Forbidden(f"With {ON_BEHALF}, only reading and searching are served.", code="not_on_behalf")


InContext = Annotated[Context, Depends(_context)]
PathBase = Annotated[BaseId, Depends(_base_id)]
AsViewer = Annotated[Viewer, Depends(_viewer)]
PathItem = Annotated[ItemId, Depends(_item_id)]
PathConnector = Annotated[ConnectorId, Depends(_connector_id)]
PathRun = Annotated[RunId, Depends(_run_id)]
PathWebhook = Annotated[WebhookId, Depends(_webhook_id)]
