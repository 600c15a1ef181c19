"""Requests to Slack's Web API, and the parts of its responses that we use.

Slack answers most errors with status 200 and `{"ok": false, "error": …}`; they are translated here. Arguments are sent as a
form, which all methods accept. Files are on another host (`files.slack.com`), which gets the token too; no other host does. Where the token
may not read files, that host answers with a log-in page and status 200.
"""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from gristmill.connectors.json_values import as_dict, as_list
from gristmill.connectors.transport import (
    ApiResponse,
    CredentialsRejected,
    Transport,
    parse,
    rate_limited,
)
from gristmill.errors import SourceGone, Transient, Unreadable

DEFAULT_URL = "https://slack.com/api"
# Where files are, by the address of the API: they get the token too, and no other host does.
FILES_URLS = {
    DEFAULT_URL: "https://files.slack.com",
    "https://slack-gov.com/api": "https://files.slack-gov.com",
}
PAGE_SIZE = 500
_MAX_PAGES = 1000  # of users, members or channels: a cursor that never ends is a mistake of the tool
_REJECTED = frozenset(
    (
        *("invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired"),
        *("no_permission", "org_login_required", "ekm_access_denied"),
    )
)
_GONE = frozenset(("channel_not_found", "thread_not_found", "message_not_found", "file_not_found"))
_DOWN = frozenset(("fatal_error", "internal_error", "service_unavailable", "request_timeout"))


@dataclass(frozen=True)
class SlackChannel:
    """A channel; its id stays when it is renamed."""

    id: str
    name: str
    is_private: bool
    is_member: bool
    is_archived: bool = False

    @property
    def scope(self) -> str:
        """Its scope, which is also the key of its audience."""
        return f"channel:{self.id}"


@dataclass(frozen=True)
class SlackUser:
    """An account. A guest sees only the channels that they were added to."""

    id: str
    name: str
    email: str | None
    is_person: bool = True  # not a bot, and not deactivated
    is_guest: bool = False


@dataclass(frozen=True)
class MessagePage:
    """Messages, newest first; whether there are older ones, and Slack's own time."""

    messages: list[dict[str, Any]]
    has_more: bool
    now: datetime


@dataclass(frozen=True)
class Workspace:
    """Where the token belongs: the team's address and name, the account, and what the token may do (empty if not said)."""

    url: str
    team: str
    user: str
    scopes: frozenset[str]
    now: datetime


class SlackApi:
    """Requests to Slack."""

    def __init__(self, http: Transport, files: Transport | None, files_url: str | None) -> None:
        self._http, self._files, self._files_url = http, files, files_url
        self._users: dict[str, SlackUser] | None = None

    async def workspace(self) -> Workspace:
        """Who the token belongs to."""
        response = await self._call("auth.test")
        data = as_dict(response.data)
        scopes = response.headers.get("x-oauth-scopes", "")
        return Workspace(
            str(data.get("url") or ""),
            str(data.get("team") or "Slack"),
            str(data.get("user") or ""),
            frozenset(scope.strip() for scope in scopes.split(",") if scope.strip()),
            response.server_time,
        )

    async def channels(self) -> list[SlackChannel]:
        """The public channels, and the private ones that the account is in."""
        return [
            SlackChannel(
                str(data["id"]),
                str(data.get("name") or data["id"]),
                bool(data.get("is_private")),
                bool(data.get("is_member")),
                bool(data.get("is_archived")),
            )
            async for data in self._pages(
                "conversations.list", "channels", types="public_channel,private_channel", limit=PAGE_SIZE
            )
        ]

    async def history(self, channel: str, *, oldest: str | None, latest: str | None) -> MessagePage:
        """Messages of a channel without the replies in threads, from `oldest` on and before `latest`."""
        response = await self._call(
            "conversations.history",
            channel=channel,
            limit=PAGE_SIZE,
            oldest=oldest,
            latest=latest,
            # `latest` itself is never wanted; `oldest` is the last microsecond before the window.
            inclusive="false",
        )
        data = as_dict(response.data)
        messages = [as_dict(message) for message in as_list(data.get("messages"))]
        return MessagePage(messages, bool(data.get("has_more")), response.server_time)

    async def replies(self, channel: str, ts: str) -> MessagePage:
        """A thread, its first message first."""
        messages: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            response = await self._call(
                "conversations.replies", channel=channel, ts=ts, limit=PAGE_SIZE, cursor=cursor
            )
            messages += [as_dict(message) for message in as_list(as_dict(response.data).get("messages"))]
            cursor = _next_cursor(response)
            if cursor is None:
                return MessagePage(messages, has_more=False, now=response.server_time)

    async def members(self, channel: str) -> list[str]:
        """The ids of the accounts in a channel."""
        return [str(user) async for user in self._pages("conversations.members", "members", channel=channel)]

    async def users(self) -> dict[str, SlackUser]:
        """All accounts by id, requested once."""
        if self._users is None:
            users = [
                _user_of(as_dict(data))
                async for data in self._pages("users.list", "members", limit=PAGE_SIZE)
            ]
            self._users = {user.id: user for user in users}
        return self._users

    async def download(self, url: str) -> AsyncIterator[bytes]:
        """The bytes of a file. The token goes to Slack alone."""
        is_slack_file = self._files_url is not None and url.startswith(f"{self._files_url}/")
        http = self._files if is_slack_file and self._files is not None else self._http
        async for piece in http.stream(url):
            yield piece

    async def _pages(self, method: str, field: str, **params: str | int) -> AsyncIterator[Any]:
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            response = await self._call(method, cursor=cursor, **params)
            for entry in as_list(as_dict(response.data).get(field)):
                yield entry
            cursor = _next_cursor(response)
            if cursor is None:
                return

    async def _call(self, method: str, **params: str | int | None) -> ApiResponse:
        form = {name: value for name, value in params.items() if value is not None}
        response = await self._http.post(
            f"/{method}", urlencode(form).encode(), Content_Type="application/x-www-form-urlencoded"
        )
        data = parse(dict[str, Any], response.data, "Slack")
        if data.get("ok"):
            return response
        code = str(data.get("error") or "unknown")
        if code in ("ratelimited", "rate_limited"):
            raise rate_limited(response.headers, f"Slack's {method}")
        if code in _REJECTED:
            raise CredentialsRejected(f"Slack rejects the token ({code}). Enter a new one, then sync again.")
        if code in _GONE:
            raise SourceGone(f"Slack no longer has it, or does not show it to this token ({method}: {code}).")
        if code in _DOWN:
            raise Transient(f"Slack's {method} failed ({code}).", code="connector_unavailable")
        raise _refusal(method, code, str(data.get("needed") or ""))


def _refusal(method: str, code: str, needed: str) -> Unreadable:
    match code:
        case "missing_scope":
            message = f"The token lacks the scope {needed}. Add it to the app, and install the app again."
        case "not_in_channel":
            message = "The app is not in this channel. Invite it there."
        case _:
            message = f"Slack refuses {method} ({code})."
    is_closed = code in ("missing_scope", "not_in_channel", "access_denied")
    return Unreadable(message, code="connector_forbidden" if is_closed else "connector_refused")


def _next_cursor(response: ApiResponse) -> str | None:
    return str(as_dict(as_dict(response.data).get("response_metadata")).get("next_cursor") or "") or None


def _user_of(data: dict[str, Any]) -> SlackUser:
    profile = as_dict(data.get("profile"))
    names: Iterator[Any] = iter(
        (profile.get("display_name"), profile.get("real_name"), data.get("real_name"), data.get("name"))
    )
    email = str(profile.get("email") or "").lower()
    return SlackUser(
        str(data.get("id")),
        next((str(name) for name in names if name), str(data.get("id"))),
        email if "@" in email else None,
        not data.get("is_bot") and not data.get("deleted") and data.get("id") != "USLACKBOT",
        bool(data.get("is_restricted") or data.get("is_ultra_restricted")),
    )
