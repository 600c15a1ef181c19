"""A fake of Slack's Web API, written from its published methods: forms in, `{"ok": …}` out, newest messages first."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl

from tests.connectors.fakes.tool import ExpectedDocument, FakeCall, FakeError, FakeTool, words_in
from tests.sources.site import SiteRequest, SiteResponse

SCOPES = "channels:read,channels:history,groups:read,groups:history,users:read,users:read.email,files:read"
FORM = "application/x-www-form-urlencoded"


@dataclass
class Message:
    """A message, with the replies to it."""

    ts: str
    text: str
    user: str = "U1"
    edited: str | None = None
    subtype: str | None = None
    files: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    replies: list["Message"] = field(default_factory=list["Message"])

    @property
    def day(self) -> str:
        """The day it was written."""
        return f"{datetime.fromtimestamp(float(self.ts), UTC):%Y-%m-%d}"

    def show(self, thread: "Message | None" = None) -> dict[str, Any]:
        """As the API returns it."""
        shown: dict[str, Any] = {"type": "message", "ts": self.ts, "user": self.user, "text": self.text}
        if self.edited:
            shown["edited"] = {"user": self.user, "ts": self.edited}
        if self.subtype:
            shown["subtype"] = self.subtype
        if self.files:
            shown["files"] = self.files
        if self.replies:
            shown |= {
                "thread_ts": self.ts,
                "reply_count": len(self.replies),
                "latest_reply": self.replies[-1].ts,
            }
        if thread is not None:
            shown["thread_ts"] = thread.ts
        return shown


class FakeSlack(FakeTool):
    """A workspace with a public channel, a private one, and one that the app is not in."""

    kind = "slack"

    def __init__(self) -> None:
        super().__init__()
        self.messages: dict[str, list[Message]] = {"C1": [], "G2": [], "C3": []}
        self.members: dict[str, list[str]] = {"G2": ["U1", "UBOT"]}
        self.files: dict[str, bytes] = {}
        self.archived: set[str] = set()
        self.count = 0
        for method in ("auth.test", "conversations.list", "conversations.members", "users.list"):
            self.route("POST", f"/api/{method}", getattr(self, f"_{method.replace('.', '_')}"))
        self.route("POST", "/api/conversations.history", self._history)
        self.route("POST", "/api/conversations.replies", self._replies)
        self.route("GET", "/files/{name}", self._file)
        for _ in range(14):
            self.add()
        self.messages["C1"][0].subtype = "channel_join"
        self.messages["C1"][0].text = "joined the channel"

    # ── what it contains ─────────────────────────────────────────────────────────────────────────────────

    def config(self) -> dict[str, Any]:
        assert self.site is not None
        return {"baseUrl": f"{self.site.url}/api"}

    def expected_documents(self) -> dict[str, ExpectedDocument]:
        expected: dict[str, ExpectedDocument] = {}
        for channel in ("C1", "G2"):
            acl = self._acl(channel)
            days: dict[str, str] = {}
            for message in self.messages[channel]:
                if message.replies:
                    text = " ".join(entry.text for entry in (message, *message.replies))
                    expected[f"thread:{channel}:{message.ts}"] = ExpectedDocument(words_in(text), acl)
                elif message.subtype is None:
                    days[message.day] = f"{days.get(message.day, '')} {message.text}"
            for day, text in days.items():
                expected[f"day:{channel}:{day}"] = ExpectedDocument(words_in(text), acl)
        return expected

    def _acl(self, channel: str) -> frozenset[str]:
        users = self.members.get(channel, ["U1", "U2"])
        emails = {"U1": "ann@example.org", "U2": "bob@example.org"}
        return frozenset(f"user_email:{emails[user]}" for user in users if user in emails)

    def _new_message(self, text: str, *, days_ago: int = 0) -> Message:
        moment = (self.now - timedelta(days=days_ago)).timestamp()
        return Message(f"{moment + self.new_id() / 1_000_000:.6f}", text)

    def add(self) -> None:
        self.count += 1
        number, channel = self.count, ("C1", "G2")[self.count % 2]
        message = self._new_message(f"text {self.new_word()}", days_ago=number % 9)
        if number % 3 == 0:
            message.replies = [self._new_message(f"reply {self.new_word()}") for _ in range(2)]
        self.messages[channel].append(message)
        self.messages[channel].sort(key=lambda entry: entry.ts)

    def edit(self, pick: int) -> None:
        messages = self._followed()
        message = messages[pick % len(messages)]
        if message.replies and pick % 2:
            message.replies.append(self._new_message(f"reply {self.new_word()}"))
        else:
            message.text = f"text {self.new_word()} {self.new_word()}"
            message.edited = f"{self.now.timestamp() + self.new_id() / 1_000_000:.6f}"

    def delete(self, pick: int) -> None:
        if len(self.expected_documents()) > 8:
            message = self._followed()[pick % len(self._followed())]
            for messages in self.messages.values():
                if message in messages:
                    messages.remove(message)

    def reveal(self, pick: int) -> None:
        super().reveal(pick)
        for messages in self.messages.values():
            messages.sort(key=lambda entry: entry.ts)

    def _followed(self) -> list[Message]:
        return [entry for name in ("C1", "G2") for entry in self.messages[name] if entry.subtype is None]

    def change_permission(self, pick: int) -> None:
        members = self.members["G2"]
        user = ("U1", "U2")[pick % 2]
        if user in members:
            members.remove(user)
        else:
            members.append(user)

    def is_detail(self, call: FakeCall) -> bool:
        return call.path.endswith("conversations.replies") or "oldest" in (call.body or {})

    # ── serving ──────────────────────────────────────────────────────────────────────────────────────────

    def answer(self, request: SiteRequest) -> SiteResponse:
        """Slack takes forms: they are handed on as JSON."""
        if request.method == "POST":
            headers = {name.lower(): value for name, value in request.headers.items()}
            assert headers["content-type"] == FORM
            body = json.dumps(dict(parse_qsl(request.body.decode()))).encode()
            request = SiteRequest(request.method, request.path, request.headers, body)
        return super().answer(request)

    def check_authorization(self, call: FakeCall) -> None:
        try:
            super().check_authorization(call)
        except FakeError:
            if call.method == "GET":
                raise
            raise FakeError(200, {"ok": False, "error": "invalid_auth"}) from None

    def _auth_test(self, call: FakeCall) -> SiteResponse:
        assert call.body == {}
        body = {"ok": True, "url": "https://acme.slack.com/", "team": "Acme", "user": "reader"}
        return self.respond(body, X_OAuth_Scopes=SCOPES)

    def _conversations_list(self, call: FakeCall) -> dict[str, Any]:
        assert call.body["types"] == "public_channel,private_channel"
        channels = [
            {"id": "C1", "name": "general", "is_private": False, "is_member": True},
            {"id": "G2", "name": "secret", "is_private": True, "is_member": True},
            {"id": "C3", "name": "random", "is_private": False, "is_member": False},
        ]
        for channel in channels:  # archiving removes all members
            if channel["id"] in self.archived:
                channel |= {"is_archived": True, "is_member": False}
        return self._cursor_page(call, "channels", channels)

    def _users_list(self, call: FakeCall) -> dict[str, Any]:
        users: list[dict[str, Any]] = [
            {"id": "U1", "name": "ann", "profile": {"display_name": "Ann", "email": "Ann@example.org"}},
            {"id": "U2", "name": "bob", "profile": {"real_name": "Bob B.", "email": "bob@example.org"}},
            {"id": "U3", "name": "eve", "deleted": True, "profile": {"email": "eve@example.org"}},
            {"id": "U4", "name": "guest", "is_restricted": True, "profile": {"email": "guest@example.org"}},
            {"id": "UBOT", "name": "reader", "is_bot": True, "profile": {}},
        ]
        return self._cursor_page(call, "members", users)

    def _conversations_members(self, call: FakeCall) -> dict[str, Any]:
        return self._cursor_page(call, "members", self.members[call.body["channel"]])

    def _history(self, call: FakeCall) -> dict[str, Any]:
        oldest, latest = float(call.body.get("oldest", 0)), float(call.body.get("latest", 1e12))
        messages = [
            message for message in reversed(self._channel(call)) if oldest < float(message.ts) < latest
        ]
        size = min(self.page_size, int(call.body["limit"]))
        shown = [message.show() for message in messages[:size]]
        return {"ok": True, "messages": shown, "has_more": len(messages) > size}

    def _replies(self, call: FakeCall) -> dict[str, Any]:
        for message in self._channel(call):
            if message.ts == call.body["ts"]:
                replies = [reply.show(message) for reply in message.replies]
                return self._cursor_page(call, "messages", [message.show(), *replies])
        return {"ok": False, "error": "thread_not_found"}

    def _channel(self, call: FakeCall) -> list[Message]:
        if call.body["channel"] not in {"C1", "G2"} - self.archived:
            raise FakeError(200, {"ok": False, "error": "not_in_channel"})
        return self.messages[call.body["channel"]]

    def _cursor_page(self, call: FakeCall, name: str, rows: list[Any]) -> dict[str, Any]:
        start = int(call.body.get("cursor", 0))
        end = start + self.page_size
        cursor = str(end) if end < len(rows) else ""
        return {"ok": True, name: rows[start:end], "response_metadata": {"next_cursor": cursor}}

    def _file(self, call: FakeCall, name: str) -> SiteResponse:
        del call
        return SiteResponse(200, self.files[name])
