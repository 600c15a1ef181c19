"""Slack and Google Drive as the npm package `emulate` emulates them."""

import json
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

from bench.connectors_real.tool import EVERYONE, VIEWERS, Move, NotOffered, Place, RealTool, ServerAddress
from tests.connectors.fakes.tool import ExpectedDocument
from tests.connectors.servers.emulator import TOKEN, VERSION, EmulatedTool, run_emulator

_FOLDER = "application/vnd.google-apps.folder"


class EmulatedToolBase(RealTool):
    """An emulated tool, started with a seed."""

    def __init__(self) -> None:
        super().__init__()
        self.server = f"emulate {VERSION}"

    def start_emulator(
        self, stack: ExitStack, place: Place, service: str, login: str, seed: dict[str, Any]
    ) -> ServerAddress:
        """Start the emulator of one service."""
        whole_seed: dict[str, Any] = {"tokens": {TOKEN: {"login": login, "scopes": []}}, service: seed}
        self.tool: EmulatedTool = stack.enter_context(run_emulator(whole_seed, place.cache))
        return ServerAddress.of(self.tool.url)

    def credentials(self) -> dict[str, Any]:
        return {"token": TOKEN}


class SlackTool(EmulatedToolBase):
    """A public and a private channel with threads and single messages. To hide a channel is to leave it."""

    name = kind = "slack"
    interrupt_after = 2

    def __init__(self) -> None:
        super().__init__()
        self._channels: dict[str, str] = {}  # ids by name
        self._threads: dict[tuple[str, str], list[str]] = {}  # words by channel and first message
        self._messages: dict[tuple[str, str], str] = {}  # words of messages without replies
        self._members = {VIEWERS[0]}  # of the private channel
        self._users: dict[str, str] = {}
        self._has_left = False
        self._turn = 0

    def start(self, stack: ExitStack, place: Place) -> ServerAddress:
        users = [{"name": email.partition("@")[0], "real_name": email, "email": email} for email in VIEWERS]
        seed = {"team": {"name": "Acme", "domain": "acme"}, "users": users, "channels": [{"name": "other"}]}
        address = self.start_emulator(stack, place, "slack", "ann", seed)
        members = self.tool.post("/api/users.list")["members"]
        self._users = {user["profile"].get("email", ""): user["id"] for user in members}
        for name, is_private in (("open", False), ("closed", True)):
            channel = self.tool.post("/api/conversations.create", name=name, is_private=is_private)["channel"]
            self._channels[name] = channel["id"]
        # The last member can't leave a channel.
        bob = self._users[VIEWERS[1]]
        self.tool.post("/api/conversations.invite", channel=self._channels["open"], users=bob)
        for _ in range(16):
            self.add()
        return address

    def config(self, url: str) -> dict[str, Any]:
        return {"baseUrl": f"{url}/api", "channels": []}

    def expected_documents(self) -> dict[str, ExpectedDocument]:
        expected: dict[str, ExpectedDocument] = {}
        for (channel, ts), words in self._threads.items():
            expected[f"thread:{channel}:{ts}"] = ExpectedDocument(frozenset(words), self._acl(channel))
        for (channel, ts), word in self._messages.items():
            key = _day_id(channel, ts)
            before = expected[key].words if key in expected else frozenset[str]()
            expected[key] = ExpectedDocument(before | {word}, self._acl(channel))
        return {
            key: document
            for key, document in expected.items()
            if not self._has_left or key.split(":")[1] != self._channels["open"]
        }

    def add(self) -> set[str]:
        self._turn += 1
        channel = self._channels[("open", "closed")[self._turn % 2]]
        word = self.new_word()
        ts = self._post(channel, word)
        if self._turn % 4 == 0:
            self._messages[channel, ts] = word
            return {_day_id(channel, ts)}
        reply = self.new_word()
        self._post(channel, reply, thread_ts=ts)
        self._threads[channel, ts] = [word, reply]
        return {f"thread:{channel}:{ts}"}

    def edit(self) -> set[str]:
        (channel, ts), words = next(iter(self._threads.items()))
        words[0] = self.new_word()
        self.tool.post("/api/chat.update", channel=channel, ts=ts, text=f"text {words[0]}")
        self._threads[channel, ts] = self._threads.pop((channel, ts))
        return {f"thread:{channel}:{ts}"}

    def delete(self) -> set[str]:
        if not self._messages:
            return self._delete_thread()
        channel, ts = next(iter(self._messages))
        gone = _day_id(channel, ts)
        for message_channel, message_ts in list(self._messages):
            if _day_id(message_channel, message_ts) == gone:
                self.tool.post("/api/chat.delete", channel=message_channel, ts=message_ts)
                del self._messages[message_channel, message_ts]
        return {gone}

    def _delete_thread(self) -> set[str]:
        """Delete the replies too: else the thread stays, with a message that says that its first one was deleted."""
        channel, ts = next(iter(self._threads))
        replies = self.tool.post("/api/conversations.replies", channel=channel, ts=ts)["messages"]
        for message in reversed(replies):
            self.tool.post("/api/chat.delete", channel=channel, ts=message["ts"])
        del self._threads[channel, ts]
        return {f"thread:{channel}:{ts}"}

    def rename(self) -> Move:
        self.tool.post("/api/conversations.rename", channel=self._channels["open"], name="opened")
        channel, ts = next(key for key in self._threads if key[0] == self._channels["open"])
        return Move(f"thread:{channel}:{ts}", f"thread:{channel}:{ts}")

    def change_permission(self) -> None:
        bob = VIEWERS[1]
        method = "kick" if bob in self._members else "invite"
        target = {"user": self._users[bob]} if method == "kick" else {"users": self._users[bob]}
        self.tool.post(f"/api/conversations.{method}", channel=self._channels["closed"], **target)
        self._members ^= {bob}

    def hide(self) -> set[str]:
        before = set(self.expected_documents())
        self.tool.post("/api/conversations.leave", channel=self._channels["open"])
        self._has_left = True
        return before - set(self.expected_documents())

    def show(self) -> None:
        self.tool.post("/api/conversations.join", channel=self._channels["open"])
        self._has_left = False

    def _post(self, channel: str, word: str, **more: str) -> str:
        return str(
            self.tool.post("/api/chat.postMessage", channel=channel, text=f"text {word}", **more)["ts"]
        )

    def _acl(self, channel: str) -> frozenset[str]:
        emails = self._members if channel == self._channels["closed"] else set(VIEWERS)
        return frozenset(f"user_email:{email}" for email in emails)


def _day_id(channel: str, ts: str) -> str:
    return f"day:{channel}:{datetime.fromtimestamp(float(ts), UTC):%Y-%m-%d}"


class GoogleDriveTool(EmulatedToolBase):
    """Files in a folder of My Drive. The emulator has no permissions, so the connector has a list of its own; it neither deletes
    files nor changes their bytes, so files are moved out of the folder instead."""

    name = kind = "google-drive"
    acl = ("org:*",)
    interrupt_after = 3

    def __init__(self) -> None:
        super().__init__()
        self._files: dict[str, str] = {}  # words by id
        self._hidden: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._count = 0

    def start(self, stack: ExitStack, place: Place) -> ServerAddress:
        owner = VIEWERS[0]
        folder = {"user_email": owner, "mime_type": _FOLDER, "parent_ids": ["root"]}
        items = [{"id": "docs", "name": "Docs", **folder}, {"id": "attic", "name": "Attic", **folder}]
        seed = {"users": [{"email": owner, "name": "Ann"}], "drive_items": items}
        address = self.start_emulator(stack, place, "google", owner, seed)
        for _ in range(16):
            self.add()
        return address

    def config(self, url: str) -> dict[str, Any]:
        return {"baseUrl": f"{url}/drive/v3", "drives": ["my"], "folders": ["docs"]}

    def expected_documents(self) -> dict[str, ExpectedDocument]:
        return {
            f"file:my:{file}": ExpectedDocument(frozenset({word}), EVERYONE)
            for file, word in self._files.items()
        }

    def add(self) -> set[str]:
        self._count += 1
        word = self.new_word()
        fields = {"name": f"file {self._count}.md", "mimeType": "text/markdown", "parents": ["docs"]}
        body = (
            "--cut\r\nContent-Type: application/json\r\n\r\n"
            f"{json.dumps(fields)}\r\n--cut\r\nContent-Type: text/markdown\r\n\r\ntext {word}\r\n--cut--\r\n"
        )
        path = "/upload/drive/v3/files?uploadType=multipart"
        file = self.tool.upload(path, body.encode(), "multipart/related; boundary=cut")
        self._files[file["id"]] = word
        return {f"file:my:{file['id']}"}

    def edit(self) -> set[str]:
        raise NotOffered("the emulator changes names only, not bytes")

    def delete(self) -> set[str]:
        file = next(iter(self._files))
        self._move(file, "docs", "attic")
        del self._files[file]
        return {f"file:my:{file}"}

    def rename(self) -> Move:
        file = next(iter(self._files))
        self.tool.patch(f"/drive/v3/files/{file}", name=f"renamed {file}.md")
        return Move(f"file:my:{file}", f"file:my:{file}")

    def change_permission(self) -> None:
        raise NotOffered("the emulator has no permissions")

    def hide(self) -> set[str]:
        file = next(iter(self._files))
        self._move(file, "docs", "attic")
        self._hidden[file] = self._files.pop(file)
        return {f"file:my:{file}"}

    def show(self) -> None:
        for file in self._hidden:
            self._move(file, "attic", "docs")
        self._files |= self._hidden
        self._hidden.clear()

    def _move(self, file: str, old: str, new: str) -> None:
        self.tool.patch(f"/drive/v3/files/{file}?addParents={new}&removeParents={old}")
