"""Mail in an IMAP mailbox: every message becomes a record, with its attachments below it.

A message is known by its `Message-ID`, so that one that is moved, or in several folders (Gmail's labels), is one record. One without it is known
by its folder, that folder's `UIDVALIDITY` and its number. Messages never change: the listing gives each the same mark, and it is read once.

The listing goes through the folders and, within one, by number. Its cursor is the folders that are left and the last number. When a folder got
a new `UIDVALIDITY` meanwhile, its numbers mean nothing any more, and it is listed from its first message.

At Google, a message that is archived is in the folder with everything alone. So that one is listed in place of the others, without drafts,
unless folders are chosen.

Mail is private. Without an access list of the connector, only the owner of the mailbox sees it, by the address that is the user name; if that is
no address, only admins do.
"""

import email
import fnmatch
import hashlib
import json
import re
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypeVar, cast

from gristmill.connectors.listing import by_mark
from gristmill.connectors.listing.by_mark import MarkedPage
from gristmill.connectors.mail_server import MailConnection, MailServer
from gristmill.connectors.mail_sign_in import ImapConfig, ImapCredentials, mail_login, mail_sign_in_flow
from gristmill.connectors.port import (
    AccessUpdate,
    Account,
    Attachment,
    Audience,
    Batch,
    Checkpoints,
    Connector,
    ConnectorKind,
    ConnectorLimits,
    Document,
    DocumentRef,
    ListedDocument,
    Stream,
    scope_problems,
)
from gristmill.connectors.streams import errors_as_problems
from gristmill.errors import SourceGone, Unreadable
from gristmill.readers.mail_headers import header_text

CHECKPOINT_VERSION = 1
MAIL = "mail"
OWNER = "owner"
_PAGE = 500  # messages of one request
_PIECE = 1 << 20
_READ_ONCE = "1"
_WITHOUT_TEXTS = (b"\\noselect", b"\\nonexistent")
# What a folder is for (RFC 6154): these are left out, unless they are named in `folders`.
_LEFT_OUT = (b"\\trash", b"\\junk", b"\\drafts", b"\\all")
_ID_FIELD = "BODY.PEEK[HEADER.FIELDS (MESSAGE-ID)]"
_HEAD_FIELDS = "BODY.PEEK[HEADER.FIELDS (MESSAGE-ID SUBJECT FROM TO CC DATE)]"
_MAX_NAME = 80

Result = TypeVar("Result")


@dataclass(frozen=True)
class _Position:
    """Where a listing is: the folders that are left, the first of which was read up to `uid`."""

    folders: tuple[str, ...]
    uid: int = 0
    validity: int | None = None

    def encode(self) -> str:
        return json.dumps({"folders": self.folders, "uid": self.uid, "validity": self.validity})

    @classmethod
    def decode(cls, cursor: str) -> "_Position":
        values = json.loads(cursor)
        return cls(tuple(values["folders"]), values["uid"], values["validity"])


class ImapConnector(Connector):
    """A mailbox, opened."""

    def __init__(
        self, config: ImapConfig, username: str, server: MailServer, limits: ConnectorLimits
    ) -> None:
        super().__init__()
        self._config, self._username, self._server = config, username, server
        self._max_bytes = limits.attachment_limit
        self._stream = Stream(f"mailbox:{username}@{config.host}", MAIL)
        self._closed: list[str] = []  # why folders are not listed; the run reports it
        self._unread: tuple[str, int, Sequence[int]] | None = (
            None  # a folder, its validity, and numbers still to be listed
        )

    async def close(self) -> None:
        """Log out."""
        await self._server.close()

    async def check(self) -> Account:
        """Whether the login is accepted."""
        await self._server.call(lambda client: client.noop())
        return Account(self._username, self._config.host)

    async def find_problems(self) -> list[str]:
        """Folders that are named and do not exist, or nothing to follow."""
        folders = await self._list_folders()
        missing = [
            glob
            for glob in self._config.folders
            if not re.search(r"[*?]", glob) and not any(_is_match(name, [glob]) for name, _ in folders)
        ]
        return scope_problems(
            "folder", missing, is_empty=not self._folders_to_follow(folders), settings="folders"
        )

    async def estimate(self, checkpoints: Checkpoints) -> int | None:
        """How many messages the folders have; None when only the newer ones are followed."""
        if self._config.days is not None:
            return None
        folders = self._folders_to_follow(await self._list_folders())

        def count(client: MailConnection) -> int:
            return sum(client.folder_status(name, ["MESSAGES"])[b"MESSAGES"] for name in folders)

        return await self._server.call(count)

    async def sync(self, checkpoints: Checkpoints, finished: Collection[Stream] = ()) -> AsyncIterator[Batch]:
        """A listing of all messages that are followed."""
        if self._stream in finished:
            return
        batches = by_mark.read(
            self._stream,
            CHECKPOINT_VERSION,
            checkpoints.get(self._stream),
            self._fetch_page,
            [self._audience()],
        )
        self._closed.clear()
        async for batch in errors_as_problems(self._stream, batches):
            for problem in self._closed:
                yield Batch(self._stream, problem=problem)
            self._closed.clear()
            yield batch

    async def fetch(self, ref: DocumentRef) -> Document:
        """One message as it is in its folder."""
        folder, validity, uid = (ref.locator[name] for name in ("folder", "validity", "uid"))
        if ref.stream != self._stream or not self._is_followed(folder):
            raise SourceGone(f"The folder {folder} is no longer followed.")

        def read(client: MailConnection) -> Mapping[bytes, Any] | None:
            if _open_folder(client, folder) != validity:
                return None
            # As the listing does: a message that has become too old is there, and no longer followed.
            if self._config.days is not None and not client.search(self._criteria(str(uid))):
                return None
            return client.fetch([uid], ["RFC822.SIZE", "INTERNALDATE", _HEAD_FIELDS]).get(uid)

        row = await self._call_in_folder(folder, read)
        if row is None or _source_id(folder, validity, uid, _header(row)) != ref.source_id:
            raise SourceGone(
                "The message is no longer in its folder, or is older than the days that are followed."
            )
        return self._document(ref, row)

    async def resolve_access(self, audience_keys: Sequence[str]) -> AsyncIterator[AccessUpdate]:
        """The owner of the mailbox."""
        if OWNER in audience_keys:
            yield AccessUpdate([self._audience()])

    async def download(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """The bytes of a message, in pieces."""
        folder, validity, uid = (attachment.locator[name] for name in ("folder", "validity", "uid"))
        start = 0
        while True:

            def read(client: MailConnection, start: int = start) -> bytes | None:
                if _open_folder(client, folder) != validity:
                    return None
                row = client.fetch([uid], [f"BODY.PEEK[]<{start}.{_PIECE}>"]).get(uid)
                return None if row is None else row.get(f"BODY[]<{start}>".encode()) or b""

            piece = await self._call_in_folder(folder, read)
            if piece is None:
                raise SourceGone("The message is no longer in its folder.")
            if piece:
                yield piece
            start += len(piece)
            if len(piece) < _PIECE:
                return

    # ── listing ──────────────────────────────────────────────────────────────────────────────────────────

    async def _fetch_page(self, cursor: str | None) -> MarkedPage:
        if cursor is None:
            position = _Position(tuple(self._folders_to_follow(await self._list_folders())))
        else:
            position = _Position.decode(cursor)
        if not position.folders:
            return MarkedPage([])
        folder, *others = position.folders
        rest = _Position(tuple(others))
        try:
            validity, rows, last_uid = await self._call_in_folder(
                folder, lambda client: self._read_page(client, folder, position)
            )
        except SourceGone:  # deleted since the folders were listed
            return MarkedPage([], rest.encode() if others else None)
        except Unreadable as error:  # servers name folders that this account may not open
            self._closed.append(f"The folder {folder} can't be read: {error.message} Its mail is left out.")
            return MarkedPage([], rest.encode() if others else None)
        entries = {
            ref.source_id: ListedDocument(ref, mark=_READ_ONCE)
            for uid, row in rows.items()
            if row.get(b"RFC822.SIZE", 0) <= self._max_bytes
            for ref in [self._ref(folder, validity, uid, row)]
        }
        left_out = sum(row.get(b"RFC822.SIZE", 0) > self._max_bytes for row in rows.values())
        note = f"{folder}: {left_out} messages are larger than {self._max_bytes:,} bytes and were left out."
        following = rest if last_uid is None else _Position(position.folders, last_uid, validity)
        return MarkedPage(
            list(entries.values()),
            following.encode() if following.folders else None,
            note if left_out else None,
        )

    def _read_page(
        self, client: MailConnection, folder: str, position: _Position
    ) -> tuple[int, Mapping[int, Mapping[bytes, Any]], int | None]:
        """The folder's validity, some messages after the position, and the last number among them; None if no more follow."""
        validity = _open_folder(client, folder)
        after = position.uid if position.validity in (None, validity) else 0
        if after and self._unread is not None and self._unread[:2] == (folder, validity):
            uids = [uid for uid in self._unread[2] if uid > after]
        else:  # "n:*" includes the last message even if its number is below n
            uids = sorted(uid for uid in client.search(self._criteria(f"{after + 1}:*")) if uid > after)
        page, rest = uids[:_PAGE], uids[_PAGE:]
        self._unread = (folder, validity, rest) if rest else None
        rows: Mapping[int, Mapping[bytes, Any]] = {}
        if page:
            rows = client.fetch(page, ["RFC822.SIZE", _ID_FIELD])
        return validity, rows, page[-1] if rest else None

    def _criteria(self, numbers: str) -> list[Any]:
        """Those of the messages with these numbers that are followed."""
        since = [] if self._config.days is None else ["SINCE", _days_ago(self._config.days)]
        return ["UID", numbers, *since, *(["UNDRAFT"] if self._follows_all_mail else [])]

    async def _list_folders(self) -> list[tuple[str, tuple[bytes, ...]]]:
        """All folders that can have messages, with what they are for."""
        rows = await self._server.call(lambda client: client.list_folders())
        return [
            (str(name), flags)
            for flags, _, name in rows
            for flags in [tuple(flag.lower() for flag in flags)]
            if not any(flag in flags for flag in _WITHOUT_TEXTS)
        ]

    def _folders_to_follow(self, folders: Iterable[tuple[str, tuple[bytes, ...]]]) -> list[str]:
        folders = list(folders)
        all_mail = [name for name, flags in folders if b"\\all" in flags]
        if self._follows_all_mail and all_mail:
            return all_mail
        named = {name.casefold() for name in self._config.folders}
        return sorted(
            name
            for name, flags in folders
            if self._is_followed(name)
            and (name.casefold() in named or not any(flag in flags for flag in _LEFT_OUT))
        )

    @property
    def _follows_all_mail(self) -> bool:
        """Whether the folder with everything is followed in place of the others: at Google, archived mail is in no other."""
        config = self._config
        return config.mail_provider == "google" and config.folders == ["*"] and not config.exclude

    def _is_followed(self, folder: str) -> bool:
        return _is_match(folder, self._config.folders) and not _is_match(folder, self._config.exclude)

    async def _call_in_folder(self, folder: str, action: Callable[[MailConnection], Result]) -> Result:
        """Run `action`; SourceGone when the folder does not exist."""

        def check_and_act(client: MailConnection) -> Result:
            if not client.folder_exists(folder):
                raise SourceGone(f"The folder {folder} no longer exists.")
            return action(client)

        return await self._server.call(check_and_act)

    # ── documents ────────────────────────────────────────────────────────────────────────────────────────

    def _audience(self) -> Audience:
        if "@" in self._username:
            return Audience(OWNER, emails=frozenset({self._username.lower()}))
        return Audience(OWNER, complete=False)

    def _ref(self, folder: str, validity: int, uid: int, row: Mapping[bytes, Any]) -> DocumentRef:
        locator = {"folder": folder, "validity": validity, "uid": uid}
        return DocumentRef(_source_id(folder, validity, uid, _header(row)), self._stream, locator)

    def _document(self, ref: DocumentRef, row: Mapping[bytes, Any]) -> Document:
        head = email.message_from_bytes(_header(row))
        title = header_text(head, "subject") or "(no subject)"
        metadata = {name: text for name in ("from", "to", "cc", "date") if (text := header_text(head, name))}
        received = cast("datetime | None", row.get(b"INTERNALDATE"))
        return Document(
            ref,
            title=title,
            body="",
            audience=OWNER,
            updated_at=received.astimezone(UTC) if received else None,
            metadata={"tool": "imap", "type": MAIL, **metadata},
            file=Attachment(
                ref.source_id, f"{title[:_MAX_NAME]}.eml", row.get(b"RFC822.SIZE"), locator=ref.locator
            ),
            mark=_READ_ONCE,
        )


def _is_match(folder: str, globs: Sequence[str]) -> bool:
    """Whether a folder is one of these, or matches a glob: "[Gmail]/Sent Mail" is a name that looks like a glob."""
    name = folder.casefold()
    return any(glob.casefold() == name or fnmatch.fnmatchcase(name, glob.casefold()) for glob in globs)


def _open_folder(client: MailConnection, folder: str) -> int:
    """Open a folder for reading; its validity."""
    return cast(int, client.select_folder(folder, readonly=True)[b"UIDVALIDITY"])


def _header(row: Mapping[bytes, Any]) -> bytes:
    """The header fields of a message, by whatever name the server returns them."""
    return next((value for key, value in row.items() if key.startswith(b"BODY[HEADER")), None) or b""


def _source_id(folder: str, validity: int, uid: int, header: bytes) -> str:
    value = email.message_from_bytes(header)["message-id"]
    if value is not None and (message_id := " ".join(str(value).split())):
        return f"mail:{hashlib.sha256(message_id.encode(errors='replace')).hexdigest()[:32]}"
    return f"mail:{validity}:{uid}:{folder}"


def _days_ago(days: int) -> date:
    return (datetime.now(UTC) - timedelta(days=days)).date()


def _open(config: ImapConfig, credentials: ImapCredentials, limits: ConnectorLimits) -> Connector:
    server = MailServer(mail_login(config, credentials, limits), allow_private=limits.allow_private)
    return ImapConnector(config, credentials.username, server, limits)


KIND = ConnectorKind(
    "imap", ImapConfig, ImapCredentials, _open, CHECKPOINT_VERSION, "Mail (IMAP)", mail_sign_in_flow
)
