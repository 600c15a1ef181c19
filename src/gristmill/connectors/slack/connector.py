"""Slack: the messages of channels, as one document for each thread and one for the other messages of each day.

    stream                   documents                                             named by
    (channel, conversation)  threads; days, with the messages that no one answered  channel and first message; channel and day

A run lists the messages of each channel, newest first, a whole number of days at a time. The cursor is the time before which
messages are still to be listed, so nothing moves into a gap. The mark of a day is a hash of its messages, which covers edits
and deletions. The mark of a thread is its first message, how many replies it has and when the last was written; an edited
reply does not show there, so a thread is read once a day until it had no reply for a week.

Private channels are for their members. Public ones are for all members of the workspace, or for everyone here with
`publicIsEveryone`. Access lists name the channel or the workspace as a group. Direct messages are never read.

A channel that is archived loses its apps, though its messages stay in Slack: what was read of a public one stays here too.
"""

import re
from collections.abc import AsyncIterator, Collection, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from pydantic import Field, SecretStr

from gristmill.connectors.listing import by_mark
from gristmill.connectors.listing.by_mark import MarkedPage
from gristmill.connectors.port import (
    AccessUpdate,
    Account,
    Attachment,
    Audience,
    BaseUrl,
    Batch,
    Checkpoints,
    Connector,
    ConnectorForm,
    ConnectorKind,
    ConnectorLimits,
    Document,
    DocumentRef,
    ListedDocument,
    Stream,
    ToolGroup,
    ToolUser,
    scope_problems,
)
from gristmill.connectors.slack import messages as rendering
from gristmill.connectors.slack.api import DEFAULT_URL, FILES_URLS, SlackApi, SlackChannel, Workspace
from gristmill.connectors.streams import errors_as_problems
from gristmill.connectors.transport import Transport
from gristmill.errors import SourceGone, Unreadable

CHECKPOINT_VERSION = 1
CONVERSATION = "conversation"
_SCOPES = frozenset(
    (
        *("channels:read", "channels:history", "groups:read", "groups:history"),
        *("users:read", "users:read.email", "files:read"),
    )
)
_PAGE = re.compile(rb"\s*<(!doctype\s+html|html)\b", re.I)
_PERSONAL_SCOPES = frozenset({"identify"})  # of tokens whose other scopes Slack does not list


class SlackConfig(ConnectorForm):
    """What to follow in Slack."""

    base_url: BaseUrl = Field(default=DEFAULT_URL, description="The address of Slack's Web API.")
    channels: list[str] = Field(
        default=[],
        max_length=1000,
        description="Channels by name or id; empty for all that the app was invited to.",
    )
    days: int | None = Field(
        default=None, ge=1, le=100_000, description="Only messages of the last so many days."
    )
    attachments: bool = Field(default=True, description="Whether to store files below their messages.")
    public_is_everyone: bool = Field(
        default=False, description="Whether every user of Gristmill may see public channels."
    )


class SlackCredentials(ConnectorForm):
    """The token of an app that is installed in the workspace."""

    token: SecretStr = Field(description="The bot token of the app: xoxb-….")


class SlackConnector(Connector):
    """One workspace, with what is followed of it."""

    def __init__(self, config: SlackConfig, api: SlackApi, *transports: Transport) -> None:
        super().__init__(*transports)
        self._config, self._api = config, api
        self._channels: dict[str, SlackChannel] | None = None
        self._archived: dict[str, SlackChannel] = {}  # public ones that can't be read any more
        self._missing: list[str] = []
        self._workspace: Workspace | None = None
        self._everyone: ToolGroup | None = None

    async def check(self) -> Account:
        """Who the token belongs to, and how many channels are followed."""
        workspace = await self._find_workspace()
        return Account(workspace.team, f"{workspace.user}, {len(await self._find_channels())} channels")

    async def find_problems(self) -> list[str]:
        """Channels that don't exist, and scopes that the token lacks."""
        channels = await self._find_channels()
        scopes = (await self._find_workspace()).scopes
        lacking = sorted(_SCOPES - scopes) if scopes - _PERSONAL_SCOPES else []
        problems = [
            f"The token lacks the scopes {', '.join(lacking)}. Add them to the app, and install it again."
        ]
        return [
            *(problems if lacking else []),
            *scope_problems("channel", self._missing, is_empty=not channels, settings="channels"),
        ]

    async def sync(self, checkpoints: Checkpoints, finished: Collection[Stream] = ()) -> AsyncIterator[Batch]:
        """A listing of each channel. The first run reads the days from the listing itself."""
        for channel in (await self._find_channels()).values():
            stream = Stream(channel.scope, CONVERSATION)
            if stream in finished:
                continue
            checkpoint = checkpoints.get(stream)

            async def fetch_page(
                cursor: str | None, channel: SlackChannel = channel, *, is_first: bool = checkpoint is None
            ) -> MarkedPage:
                return await self._list(channel, cursor, with_documents=is_first)

            batches = by_mark.read(
                stream, CHECKPOINT_VERSION, checkpoint, fetch_page, [await self._audience(channel)]
            )
            async for batch in errors_as_problems(stream, batches):
                yield batch
        for channel in self._archived.values():
            stream = Stream(channel.scope, CONVERSATION)
            if stream in checkpoints and stream not in finished:
                note = f"#{channel.name} is archived, which removes apps from it. What was read of it stays."
                yield Batch(stream, note=note)

    async def fetch(self, ref: DocumentRef) -> Document:
        """A thread or a day as it is now."""
        channel_id = str(ref.locator["channel"])
        channel = (await self._find_channels()).get(channel_id)
        if channel is None and channel_id in self._archived:
            raise Unreadable(_archiving_note(self._archived[channel_id]), code="connector_refused")
        if channel is None:
            raise SourceGone(f"{ref.source_id} is in a channel that is not followed.")
        if "thread" in ref.locator:
            return await self._fetch_thread(channel, str(ref.locator["thread"]))
        return await self._fetch_day(channel, date.fromisoformat(str(ref.locator["day"])))

    async def resolve_access(self, audience_keys: Sequence[str]) -> AsyncIterator[AccessUpdate]:
        """Who is in each channel now."""
        for channel in [*(await self._find_channels()).values(), *self._archived.values()]:
            if channel.scope in audience_keys:
                yield AccessUpdate([await self._audience(channel)])

    async def download(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """The bytes of a file."""
        is_first = True
        async for piece in self._api.download(str(attachment.locator["url"])):
            if is_first and attachment.media_type != "text/html" and _PAGE.match(piece):
                raise Unreadable(
                    "Slack returned its log-in page in place of the file. Add the scope files:read to the app, and install it again.",
                    code="connector_forbidden",
                )
            is_first = False
            yield piece

    # ── channels ─────────────────────────────────────────────────────────────────────────────────────────

    async def _find_workspace(self) -> Workspace:
        if self._workspace is None:
            self._workspace = await self._api.workspace()
        return self._workspace

    async def _find_channels(self) -> dict[str, SlackChannel]:
        """The channels that are followed, by id."""
        if self._channels is None:
            channels = await self._api.channels()
            if self._config.channels:
                names = {name.removeprefix("#").lower() for name in self._config.channels}
                followed = [
                    channel for channel in channels if {channel.id.lower(), channel.name.lower()} & names
                ]
                known = {name for channel in followed for name in (channel.id.lower(), channel.name.lower())}
                archived = [channel for channel in followed if _is_closed_by_archiving(channel)]
                self._missing = [
                    name for name in self._config.channels if name.removeprefix("#").lower() not in known
                ]
            else:
                followed = [channel for channel in channels if channel.is_member]
                archived = [channel for channel in channels if _is_closed_by_archiving(channel)]
            self._archived = {channel.id: channel for channel in archived}
            followed.sort(key=lambda channel: channel.id)
            self._channels = {channel.id: channel for channel in followed if channel not in archived}
        return self._channels

    async def _audience(self, channel: SlackChannel) -> Audience:
        if not channel.is_private and self._config.public_is_everyone:
            return Audience(channel.scope, everybody=True)
        group = await self._members(channel) if channel.is_private else await self._workspace_members()
        return Audience(channel.scope, tool_groups=[group])

    async def _members(self, channel: SlackChannel) -> ToolGroup:
        name = f"#{channel.name}"
        try:
            users = await self._api.users()
            members = [(user, users.get(user)) for user in await self._api.members(channel.id)]
        except (SourceGone, Unreadable):
            return ToolGroup(channel.scope, name, complete=False)
        accounts = [
            ToolUser(user_id, user.name if user else user_id, user.email if user else None)
            for user_id, user in members
            if user is None or user.is_person  # people of other workspaces are not in the list of users
        ]
        return ToolGroup.of_users(channel.scope, name, accounts)

    async def _workspace_members(self) -> ToolGroup:
        if self._everyone is None:
            group_id, name = "workspace", "All members of the workspace"
            try:
                users = (await self._api.users()).values()
            except (SourceGone, Unreadable):
                return ToolGroup(group_id, name, complete=False)
            accounts = [
                ToolUser(user.id, user.name, user.email)
                for user in users
                if user.is_person and not user.is_guest
            ]
            self._everyone = ToolGroup.of_users(group_id, name, accounts)
        return self._everyone

    # ── listing ──────────────────────────────────────────────────────────────────────────────────────────

    async def _oldest(self) -> str | None:
        """The end of the day before the first one that is followed."""
        first = await self._first_day()
        return None if first is None else _before(first)

    async def _first_day(self) -> date | None:
        if self._config.days is None:
            return None
        return ((await self._find_workspace()).now - timedelta(days=self._config.days)).date()

    async def _list(self, channel: SlackChannel, cursor: str | None, *, with_documents: bool) -> MarkedPage:
        """The documents of one or more whole days, newest first."""
        oldest, latest = await self._oldest(), cursor
        messages: list[dict[str, Any]] = []
        while True:
            page = await self._api.history(channel.id, oldest=oldest, latest=latest)
            messages += page.messages
            if not page.has_more or not page.messages:
                next_cursor = None
                break
            latest = str(page.messages[-1].get("ts"))
            last_day = rendering.day_of(page.messages[-1])
            if rendering.day_of(messages[0]) != last_day:  # the last day may go on in the next page
                messages = [message for message in messages if rendering.day_of(message) != last_day]
                next_cursor = _start(last_day + timedelta(days=1))
                break
        threads = [
            ListedDocument(
                _thread_ref(channel, str(message["ts"])), mark=rendering.thread_mark(message, page.now)
            )
            for message in messages
            if rendering.is_thread(message)
        ]
        days = _group_by_day(messages)
        if with_documents:
            documents = [await self._day_document(channel, day, group) for day, group in days.items()]
            return MarkedPage(threads, next_cursor, documents=documents)
        entries = [
            ListedDocument(_day_ref(channel, day), mark=rendering.mark_of(group))
            for day, group in days.items()
        ]
        return MarkedPage([*threads, *entries], next_cursor)

    # ── documents ────────────────────────────────────────────────────────────────────────────────────────

    async def _fetch_day(self, channel: SlackChannel, day: date) -> Document:
        first = await self._first_day()
        if first is not None and day < first:
            raise SourceGone(f"{day} is before the days that are followed.")
        messages: list[dict[str, Any]] = []
        latest = _start(day + timedelta(days=1))
        while True:
            page = await self._api.history(channel.id, oldest=_before(day), latest=latest)
            messages += page.messages
            if not page.has_more or not page.messages:
                break
            latest = str(page.messages[-1].get("ts"))
        group = _group_by_day(messages).get(day)
        if not group:
            raise SourceGone(f"#{channel.name} has no message of {day} any more.")
        return await self._day_document(channel, day, group)

    async def _day_document(
        self, channel: SlackChannel, day: date, messages: list[dict[str, Any]]
    ) -> Document:
        users, first_ts = await self._api.users(), str(messages[0]["ts"])
        return Document(
            _day_ref(channel, day),
            title=f"#{channel.name} {day}",
            body=rendering.to_markdown(messages, users),
            audience=channel.scope,
            url=await self._permalink(channel, first_ts),
            updated_at=rendering.time_of(str(messages[-1]["ts"])),
            metadata={"tool": "slack", "type": "day", "channel": channel.name, "day": str(day)},
            attachments=rendering.attachments_of(messages) if self._config.attachments else (),
            mark=rendering.mark_of(messages),
        )

    async def _fetch_thread(self, channel: SlackChannel, ts: str) -> Document:
        first = await self._first_day()
        page = await self._api.replies(channel.id, ts)
        root = next((message for message in page.messages if message.get("ts") == ts), None)
        if root is None or not rendering.is_thread(root) or (first and rendering.day_of(root) < first):
            raise SourceGone("The thread is no longer there.")
        users = await self._api.users()
        messages = [root, *(message for message in page.messages if message is not root)]
        title = rendering.title_of(root, users)
        return Document(
            _thread_ref(channel, ts),
            title=f"#{channel.name}: {title}" if title else f"#{channel.name}",
            body=rendering.to_markdown(messages, users),
            audience=channel.scope,
            url=await self._permalink(channel, ts),
            updated_at=rendering.time_of(str(messages[-1].get("ts"))),
            metadata={
                "tool": "slack",
                "type": "thread",
                "channel": channel.name,
                "day": str(rendering.day_of(root)),
            },
            attachments=rendering.attachments_of(messages) if self._config.attachments else (),
            mark=rendering.thread_mark(root, page.now),
        )

    async def _permalink(self, channel: SlackChannel, ts: str) -> str | None:
        url = (await self._find_workspace()).url.rstrip("/")
        return f"{url}/archives/{channel.id}/p{ts.replace('.', '')}" if url.startswith("https://") else None


def _is_closed_by_archiving(channel: SlackChannel) -> bool:
    """Whether the app lost the channel because it was archived. A private one looks as if the app had been removed."""
    return channel.is_archived and not channel.is_member and not channel.is_private


def _archiving_note(channel: SlackChannel) -> str:
    return f"#{channel.name} is archived, which removes apps from it."


def _group_by_day(messages: Sequence[dict[str, Any]]) -> dict[date, list[dict[str, Any]]]:
    """Messages without threads by day, oldest first within a day."""
    days: dict[date, list[dict[str, Any]]] = {}
    for message in sorted(messages, key=lambda entry: str(entry.get("ts"))):
        if not rendering.is_thread(message) and not rendering.is_noise(message):
            days.setdefault(rendering.day_of(message), []).append(message)
    return days


def _start(day: date) -> str:
    return f"{int(datetime.combine(day, time(), UTC).timestamp())}.000000"


def _before(day: date) -> str:
    """The last microsecond before a day: `oldest` itself is not returned."""
    return f"{int(datetime.combine(day, time(), UTC).timestamp()) - 1}.999999"


def _thread_ref(channel: SlackChannel, ts: str) -> DocumentRef:
    stream = Stream(channel.scope, CONVERSATION)
    return DocumentRef(f"thread:{channel.id}:{ts}", stream, {"channel": channel.id, "thread": ts})


def _day_ref(channel: SlackChannel, day: date) -> DocumentRef:
    stream = Stream(channel.scope, CONVERSATION)
    return DocumentRef(f"day:{channel.id}:{day}", stream, {"channel": channel.id, "day": str(day)})


def _open(config: SlackConfig, credentials: SlackCredentials, limits: ConnectorLimits) -> Connector:
    headers = {"Authorization": f"Bearer {credentials.token.get_secret_value()}"}
    http = limits.transport(config.base_url, headers)
    files_url = FILES_URLS.get(config.base_url)
    if files_url is None:
        return SlackConnector(config, SlackApi(http, None, None), http)
    files = limits.transport(files_url, headers)
    return SlackConnector(config, SlackApi(http, files, files_url), http, files)


KIND = ConnectorKind("slack", SlackConfig, SlackCredentials, _open, CHECKPOINT_VERSION, "Slack")
