"""What routes depend on: the parts of the running Gristmill, ids from paths, the caller and the viewer."""

from dataclasses import dataclass, field
from typing import Annotated, cast
from uuid import UUID

from fastapi import Depends, Request
from pydantic import BaseModel, ConfigDict, ValidationError

from gristmill import identity
from gristmill.answers import Asker
from gristmill.catalog import BaseId, ItemId, Viewer, access
from gristmill.connectors.model import ConnectorId, RunId
from gristmill.connectors.registry import ConnectorRegistry
from gristmill.db import Database
from gristmill.embedding import Embedders
from gristmill.errors import Invalid, NotAuthenticated, NotFound
from gristmill.events import Broadcaster
from gristmill.events.webhook_delivery import WebhookSender
from gristmill.events.webhook_store import WebhookId
from gristmill.identity import GroupId, KeyId, UserId
from gristmill.identity.open_id import OpenIdProvider
from gristmill.identity.passwords import PasswordChecker
from gristmill.integrity.readiness import Readiness
from gristmill.jobs import JobId, QueueLimits
from gristmill.operations.estimates import CostEstimator
from gristmill.operations.source_factory import SourceFactory
from gristmill.search import Searcher
from gristmill.search.saved_searches import SavedSearchId
from gristmill.server.api import caller as callers
from gristmill.server.api.activity import ActivityRecorder
from gristmill.server.api.caller import Caller
from gristmill.server.api.page_images import PageImages
from gristmill.server.api.rate_limits import PushLimits, SignInLimits
from gristmill.settings import Settings
from gristmill.sources.disk import DiskAccess
from gristmill.telemetry.server_metrics import ServerMetrics
from gristmill.vault import Vault

ON_BEHALF = "X-Gristmill-On-Behalf-Of"


@dataclass(frozen=True)
class ApiContext:
    """The parts of the running Gristmill that routes use, assembled by `app.py`."""

    db: Database
    embedders: Embedders
    sources: SourceFactory
    searcher: Searcher
    settings: Settings
    broadcaster: Broadcaster
    vault: Vault
    sender: WebhookSender
    connector_registry: ConnectorRegistry
    readiness: Readiness
    asker: Asker
    activity: ActivityRecorder
    estimator: CostEstimator
    page_images: PageImages = field(default_factory=PageImages)
    metrics: ServerMetrics = field(default_factory=ServerMetrics)
    sign_in_limits: SignInLimits = field(default_factory=SignInLimits)
    push_limits: PushLimits = field(default_factory=PushLimits)
    passwords: PasswordChecker = field(default_factory=PasswordChecker)
    open_id: OpenIdProvider | None = None

    async def close(self) -> None:
        """Stop what checks and draws in the background."""
        await self.page_images.close()
        await self.readiness.close()

    def disk_access(self, caller: Caller) -> DiskAccess:
        """What this caller may have the server read of its disk: with a key, only what is below `allowed_paths`."""
        return self.sources.disk.unconfined() if caller.is_local_user else self.sources.disk

    @property
    def queue_limits(self) -> QueueLimits:
        """How many jobs may wait, per base and in total."""
        return QueueLimits(lane=self.settings.max_queue_per_base, total=self.settings.max_queue)


# These dependencies are async although they await nothing: FastAPI runs plain functions in a thread, which costs more than
# the rest of a read.


async def _current_context(request: Request) -> ApiContext:
    return cast(ApiContext, request.app.state.context)


def missing_key_error() -> NotAuthenticated:
    """The error for a request without a key where one is required."""
    return NotAuthenticated(
        "This request needs an API key. Send it as `Authorization: Bearer gm_…`; `gristmill keys create` creates one.",
        code="no_key",
    )


async def parse_base_id(base_id: str) -> BaseId:
    """The base id of a path."""
    return BaseId(_parse_uuid(base_id, f"There is no knowledge base {base_id!r}.", "base_not_found"))


async def parse_item_id(item_id: str) -> ItemId:
    """The item id of a path."""
    return ItemId(_parse_uuid(item_id, f"There is no item {item_id!r}.", "item_not_found"))


async def parse_webhook_id(webhook_id: str) -> WebhookId:
    """The webhook id of a path."""
    return WebhookId(_parse_uuid(webhook_id, f"There is no webhook {webhook_id!r}.", "webhook_not_found"))


async def parse_job_id(job_id: str) -> JobId:
    """The job id of a path."""
    return JobId(_parse_uuid(job_id, f"There is no job {job_id!r}.", "job_not_found"))


async def parse_key_id(key_id: str) -> KeyId:
    """The key id of a path."""
    return KeyId(_parse_uuid(key_id, f"There is no key {key_id!r}.", "key_not_found"))


async def parse_limit_id(limit_id: str) -> UUID:
    """The id of a limit, of a path."""
    return _parse_uuid(limit_id, f"There is no limit {limit_id!r}.", "limit_not_found")


async def parse_user_id(account_id: str) -> UserId:
    """The user id of a path."""
    return UserId(_parse_uuid(account_id, f"There is no user {account_id!r}.", "user_not_found"))


async def parse_group_id(group_id: str) -> GroupId:
    """The group id of a path."""
    return GroupId(_parse_uuid(group_id, f"There is no group {group_id!r}.", "group_not_found"))


async def parse_saved_search_id(search_id: str) -> SavedSearchId:
    """The id of a saved search, of a path."""
    return SavedSearchId(
        _parse_uuid(search_id, f"You have no saved search {search_id!r}.", "saved_search_not_found")
    )


async def parse_connector_id(connector_id: str) -> ConnectorId:
    """The connector id of a path."""
    return ConnectorId(
        _parse_uuid(connector_id, f"There is no connector {connector_id!r}.", "connector_not_found")
    )


async def parse_run_id(run_id: str) -> RunId:
    """The run id of a path."""
    return RunId(_parse_uuid(run_id, f"There is no run {run_id!r}.", "run_not_found"))


def _parse_uuid(text: str, message: str, code: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        # To the caller, a malformed id is the same as an unknown one.
        raise NotFound(message, code=code) from None


# ── caller and viewer ────────────────────────────────────────────────────────────────────────────────────


async def _current_caller(request: Request) -> Caller:
    caller = callers.current_caller(request.scope)
    if caller is None:
        raise missing_key_error()
    return caller


async def _current_viewer(request: Request) -> Viewer:
    """The viewer whose access lists apply: the caller, or the person on whose behalf an admin reads."""
    caller = await _current_caller(request)
    header = request.headers.get(ON_BEHALF)
    if header is None:
        return caller.viewer
    person = _parse_on_behalf(header)
    viewer = access.member(person.email, person.teams, person.groups, caller.org)
    if person.email is None:
        return viewer
    context = await _current_context(request)
    async with context.db.connection() as tx:
        user = await identity.users.find_member(tx, caller.org, person.email)
        if user is not None:
            return access.viewer_of_user(user, (viewer.entries or frozenset()) - {access.EVERYBODY})
        tool_groups = await identity.tool_groups.find_tool_groups(tx, caller.org, person.email)
    return access.member(person.email, person.teams, person.groups, caller.org, tool_groups)


def _parse_on_behalf(header: str) -> "_OnBehalf":
    principals: dict[str, list[str]] = {"email": [], "team": [], "group": []}
    try:
        if header.lstrip().startswith("{"):
            principal = _OnBehalf.model_validate_json(header)
            principals = {
                "email": [principal.email] if principal.email else [],
                "team": principal.teams,
                "group": principal.groups,
            }
        else:
            for part in filter(None, (part.strip() for part in header.split(","))):
                kind, _, name = part.partition(":")
                principals[kind].append(name)
    except (KeyError, ValidationError):
        raise Invalid(
            f"{ON_BEHALF} can't be read. Write email:…,team:…,group:… or "
            '{"email": …, "teams": […], "groups": […]}.',
            code="bad_principal",
        ) from None
    if len(principals["email"]) > 1:
        raise Invalid(f"{ON_BEHALF} names several people. Name one email.", code="bad_principal")
    return _OnBehalf(
        email=next(iter(principals["email"]), None), teams=principals["team"], groups=principals["group"]
    )


class _OnBehalf(BaseModel):
    model_config = ConfigDict(extra="forbid")
    email: str | None = None
    teams: list[str] = []
    groups: list[str] = []


CurrentContext = Annotated[ApiContext, Depends(_current_context)]
PathBase = Annotated[BaseId, Depends(parse_base_id)]
PathItem = Annotated[ItemId, Depends(parse_item_id)]
PathJob = Annotated[JobId, Depends(parse_job_id)]
PathKey = Annotated[KeyId, Depends(parse_key_id)]
PathUser = Annotated[UserId, Depends(parse_user_id)]
PathGroup = Annotated[GroupId, Depends(parse_group_id)]
PathWebhook = Annotated[WebhookId, Depends(parse_webhook_id)]
CurrentViewer = Annotated[Viewer, Depends(_current_viewer)]
PathConnector = Annotated[ConnectorId, Depends(parse_connector_id)]
PathRun = Annotated[RunId, Depends(parse_run_id)]
CurrentCaller = Annotated[Caller, Depends(_current_caller)]
