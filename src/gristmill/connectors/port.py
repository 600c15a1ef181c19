"""The interface that every connector implements, and the values that pass through it.

A connector reads one tool (GitHub, Confluence, an S3 bucket) and decides nothing: `sync.py` owns rows, hashes, pruning,
schedules, time budgets and permissions. Between runs a connector keeps no state but its checkpoints.

    check()                     who the credentials belong to; Permanent when they are refused, Transient while the tool is down
    find_problems()             what of the configuration can't be followed: names that don't exist, or nothing at all
    estimate(checkpoints)       about how many documents a run will look at; None when that can't be known cheaply
    sync(checkpoints, finished) batches, each of one stream; see below. It skips `finished` ones, which this run has read
    fetch(ref)                  one document as it is now; SourceGone when the tool no longer has it
    resolve_access(keys)        who may see what, without reading documents
    list_access(position)       the same for all documents, where that takes a listing; it goes on where a limit ended it
    download(attachment)        the bytes of one attachment, or of the file that a document is

A **stream** is one kind of document in one scope: the issues of a repository, the pages of a space. Scopes and documents
are named by ids that never change (a repository's number, not its name).

A **checkpoint** is how far a stream was read: JSON that only the connector understands, with the version of its format.
Each is saved with the batch that carries it, in one transaction, and handed to the next run, or to the next attempt after
a kill. So everything that a checkpoint passes must be in its batch or an earlier one. One of another version than the kind's
`checkpoint_version` is not handed back: the stream starts over, and unchanged documents are skipped by hash.

What keeps a stream complete:

    order           changes are read by updated-at, then id, oldest first. A page is requested by the last position read,
                    never by a number: a document edited meanwhile moves to the end, and none moves into a gap
    watermark       the position where the next run starts. It moves only when the stream was read to its end. An overlap
                    is fine: unchanged documents are skipped by hash
    listing         all documents of the stream, in `present`. One that is not known yet is read with `fetch`, however old its
                    last change is: it may have become visible just now. Once a listing is complete, documents that it
                    did not name are verified with `fetch`, then pruned. A listing may continue in a later attempt; then
                    what was named before still counts. A new one starts with the step "begin", and the batch that completes
                    it is the stream's last batch in a run. What an earlier run left half listed is first completed from its
                    checkpoint, then listed once more: so `sync` is called twice
    mark            what a listing may say of a document: its ETag, revision or hash. A document whose mark differs from the one
                    it was last read with is read with `fetch`. A tool that lists marks needs no watermark, and its checkpoint is
                    only how far the listing is (listing/by_mark.py). With `can_move`, equal marks mean equal contents: a new
                    id with the mark of a document that is gone is that document, moved, and keeps its record
    changes         a tool that reports changes since a token is listed once, and then only now and then (listing/by_change.py). A
                    batch without a `listing` prunes only `gone`, documents that the tool reports as gone, after verifying them
                    with `fetch`. `folders` changed: documents that were read in one of them with another mark of it
                    (`Document.folders`), or in one whose mark is None, are read again with `fetch`. Both are saved with the
                    batch's checkpoint, so that a token may pass them, and are still to do after a kill
    every stream    a run reports on each stream that is followed, if only to list it. Documents of other streams are verified
                    with `fetch`, which raises SourceGone for what the configuration no longer covers
    failures        a document that can't be read is a `ReadFailure`, and the stream goes on: the next run tries it again
    several hosts   a stream whose host alone does not respond is `Batch.unavailable`: the run reads the others, and comes back to it

Errors come from `transport.py`: RateLimited (the run waits), CredentialsRejected (it ends), Transient (it is retried from its
checkpoints), SourceGone and Unreadable of one document (a ReadFailure). A scope that is gone or closed is `Batch.lost`, and pruned.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from gristmill.connectors.sign_in import OAuthFlows, SecretKeeper
from gristmill.connectors.transport import Transport
from gristmill.errors import Permanent, SourceGone, Transient
from gristmill.sources.url import normalise

Json = dict[str, Any]
# "single" begins and completes a listing in one batch.
ListingStep = Literal["begin", "continue", "complete", "single"]


def listing_step(*, is_first: bool, is_last: bool) -> ListingStep:
    """What a batch means for its stream's listing."""
    if is_first:
        return "single" if is_last else "begin"
    return "complete" if is_last else "continue"


class Stream(NamedTuple):
    """One kind of document in one scope, e.g. ("repository:1296269", "issue")."""

    scope: str
    kind: str


@dataclass(frozen=True)
class Checkpoint:
    """How far a stream was read: `position` is the connector's own, in the format that `version` names."""

    version: int
    position: Json


Checkpoints = Mapping[Stream, Checkpoint]


@dataclass(frozen=True)
class DocumentRef:
    """What `fetch` needs to find a document again; `locator` is the connector's own."""

    source_id: str
    stream: Stream
    locator: Json = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class ListedDocument:
    """A document that a listing names. `companion_ids` are documents that it may come with, found by the same locator.

    `mark` changes with the document. If `can_move`, it is equal only for equal contents.
    """

    ref: DocumentRef
    companion_ids: tuple[str, ...] = ()
    mark: str | None = None
    can_move: bool = False


@dataclass(frozen=True)
class Attachment:
    """A file of a document: stored as its child, downloaded only when it is new. `source_id` changes with its bytes."""

    source_id: str
    name: str
    size: int | None = None
    media_type: str | None = None
    locator: Json = field(default_factory=dict[str, Any])


class ToolUser(NamedTuple):
    """An account of the tool, with its email address where that is known."""

    id: str
    name: str
    email: str | None


@dataclass(frozen=True)
class ToolGroup:
    """A group of the tool with all its members, directly or through other groups. `id` never changes.

    Members are as in `Audience`. Unless `complete`, some could not be resolved, and the group lets no one see anything until
    they can: never guess.
    """

    id: str
    name: str
    emails: frozenset[str] = frozenset()
    users: Mapping[str, str] = field(default_factory=dict[str, str])
    complete: bool = True

    @classmethod
    def of_users(cls, group_id: str, name: str, users: Iterable[ToolUser]) -> "ToolGroup":
        """A group of these accounts: by email address where it is known, else by account id."""
        emails, accounts = _split(users)
        return cls(group_id, name, emails, accounts)

    @cached_property
    def digest(self) -> bytes:
        """A hash of who is in it: groups of equal digests have the same members."""
        members = json.dumps([self.complete, sorted(self.emails), sorted(self.users)])
        return hashlib.sha256(members.encode("utf-8", "surrogatepass")).digest()


@dataclass(frozen=True)
class Audience:
    """Who may see the documents that name its `key`: everyone that one of the entries names.

    `users` are accounts of the tool whose email address isn't known, by id, with a name to show. They get access through
    the mappings that admins make. `groups` are stable ids that the identity provider knows, written as `group:{id}`.
    `tool_groups` are groups of the tool itself. They are stored once, and the lists of documents only name them: a group of
    any size is one entry, and a person who joins it rewrites no list. Unless `complete`, some part could not be resolved, and
    only admins see these documents until it can: never guess.
    """

    key: str
    everybody: bool = False
    emails: frozenset[str] = frozenset()
    users: Mapping[str, str] = field(default_factory=dict[str, str])
    groups: frozenset[str] = frozenset()
    complete: bool = True
    tool_groups: Sequence[ToolGroup] = ()

    @classmethod
    def of_users(cls, key: str, users: Iterable[ToolUser], *, complete: bool = True) -> "Audience":
        """These accounts: by email address where it is known, else by account id."""
        emails, accounts = _split(users)
        return cls(key, emails=emails, users=accounts, complete=complete)


def _split(users: Iterable[ToolUser]) -> tuple[frozenset[str], dict[str, str]]:
    """The addresses that are known, and the names of the other accounts by id."""
    accounts = list(users)
    return (
        frozenset(user.email for user in accounts if user.email),
        {user.id: user.name for user in accounts if not user.email},
    )


@dataclass(frozen=True)
class Document:
    """One whole document. `source_id` never changes and is unique within its connector, e.g. "issue:1296269". `body` is markdown
    with all comments. A difference in `title`, `body`, `url`, `metadata` or `attachments` counts as a change, so nothing that
    changes by itself belongs there (no "3 days ago", no view counters, no signed links). A document that is a file (a PDF in a
    bucket) has `file` in place of a body: it is downloaded, and read as an uploaded file is.
    `mark` is the mark that a listing would give to exactly this state, or to an older one. `folders` are the marks of the folders
    that it was read in, by id: all that its path, or its being followed, depends on.
    """

    ref: DocumentRef
    title: str
    body: str
    audience: str
    url: str | None = None
    updated_at: datetime | None = None
    metadata: Json = field(default_factory=dict[str, Any])
    attachments: tuple[Attachment, ...] = ()
    file: Attachment | None = None
    mark: str | None = None
    folders: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class ReadFailure:
    """A document that can't be read at present, with a message that contains no secret."""

    ref: DocumentRef
    code: str
    message: str


@dataclass(frozen=True)
class Batch:
    """A step of one stream, of at most some hundred documents. All of it is saved together with `checkpoint`, or nothing.
    `audiences` come with or before the documents that name them. `present` are documents that the tool has, for the listing, or
    because they changed. `gone` are ids of documents that the tool reports as gone; `folders` are folders that changed, with their
    marks now, or None for those whose documents all have to be read again."""

    stream: Stream
    checkpoint: Checkpoint | None = None
    documents: Sequence[Document] = ()
    failures: Sequence[ReadFailure] = ()
    audiences: Sequence[Audience] = ()
    present: Sequence[ListedDocument] = ()
    gone: Sequence[str] = ()
    folders: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    listing: ListingStep | None = None
    lost: bool = False  # the scope no longer exists, or these credentials can't read it
    note: str | None = None  # for the run's log, line by line
    problem: str | None = None  # why the stream can't be read: logged and counted; documents read before stay
    unavailable: Transient | None = (
        None  # the host of this stream alone does not respond, or asks for a wait: nothing is saved
    )
    ends_stream: bool = False  # this run need not read the stream again, though nothing lists all of it

    @property
    def is_listing_complete(self) -> bool:
        """Whether this batch completes the stream's listing."""
        return self.listing in ("complete", "single")


@dataclass(frozen=True)
class AccessUpdate:
    """A step of resolving permissions: audiences as they are now, documents that got another one, where `list_access` goes on."""

    audiences: Sequence[Audience] = ()
    audience_by_source: Mapping[str, str] = field(default_factory=dict[str, str])  # source id → audience key
    position: Json | None = None


@dataclass(frozen=True)
class Account:
    """Who the credentials belong to, to show to people."""

    name: str
    detail: str = ""


class Connector(ABC):
    """One tool, opened with a configuration and credentials. It has to be closed."""

    unresolvable_audiences: Collection[str] = ()  # runs don't ask again: the tool can't resolve these keys

    def __init__(self, *transports: Transport) -> None:
        self._transports = transports

    async def close(self) -> None:
        """Close its connections."""
        for transport in self._transports:
            await transport.close()

    @abstractmethod
    async def check(self) -> Account:
        """Ask the tool who we are, and whether what is configured can be read."""

    async def find_problems(self) -> list[str]:
        """What of the configuration can't be followed, in sentences for people."""
        return []

    async def estimate(self, checkpoints: Checkpoints) -> int | None:
        """About how many documents `sync` will look at; None when that can't be known cheaply."""
        del checkpoints

    @abstractmethod
    def sync(self, checkpoints: Checkpoints, finished: Collection[Stream] = ()) -> AsyncIterator[Batch]:
        """What changed since `checkpoints`, and a complete listing of each stream that is not `finished`, unless its tool reports
        what is gone, or names only what is new."""

    @abstractmethod
    async def fetch(self, ref: DocumentRef) -> Document:
        """One document as it is now; SourceGone when it is no longer there."""

    def companion_ids(self, ref: DocumentRef) -> tuple[str, ...]:
        """Documents that one may come with, found by the same locator."""
        del ref
        return ()

    @abstractmethod
    def resolve_access(self, audience_keys: Sequence[str]) -> AsyncIterator[AccessUpdate]:
        """Who may see what now, for the audiences that documents name."""

    def list_access(self, position: Json) -> AsyncIterator[AccessUpdate] | None:
        """Who may see every document now, from the `position` of a saved update on. None if the tool needs no listing for it."""
        del position

    async def download(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """The bytes of an attachment; the caller stops when there are too many. Not every tool has attachments."""
        raise SourceGone(f"{attachment.name} is no longer there.")
        yield b""


def scope_problems(kind: str, missing: Sequence[str], *, is_empty: bool, settings: str) -> list[str]:
    """Sentences about names that the tool does not have, and about a configuration that follows nothing."""
    problems = [
        f"The {kind} {name} does not exist, or these credentials can't see it. Correct its name, or give them access."
        for name in missing
    ]
    if is_empty and not missing:
        problems.append(
            f"Nothing is followed: there is no {kind} that these credentials can see. Set {settings}."
        )
    return problems


def _normalise_base_url(url: str) -> str:
    try:
        return normalise(url).rstrip("/")
    except Permanent as error:
        raise ValueError(error.message) from None


# The address of a tool: http or https, without a user, and without a slash at its end.
BaseUrl = Annotated[str, AfterValidator(_normalise_base_url)]


class ConnectorForm(BaseModel):
    """A configuration or credentials: camelCase in JSON, no unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)


@dataclass(frozen=True)
class ConnectorLimits:
    """What this installation allows: private addresses, how long a request itself may wait for a rate limit to end, and
    how large an attachment may be. `secrets` is None while the credentials are not stored."""

    allow_private: bool
    max_wait: timedelta = timedelta(seconds=20)
    attachment_limit: int = 64 << 20
    secrets: SecretKeeper | None = None

    def transport(self, base_url: str, headers: Mapping[str, str]) -> Transport:
        """HTTP to a tool under these limits."""
        return Transport(base_url, headers=headers, allow_private=self.allow_private, max_wait=self.max_wait)


@dataclass(frozen=True)
class ConnectorKind:
    """A kind of connector: its name, the forms of its configuration and credentials, and how it is opened. The credentials
    are encrypted and never shown: every secret is a `SecretStr`. A kind is added by a `ConnectorKind` in its package and a
    line in `registry.py`, or by a plugin (plugins.py).
    """

    name: str
    config: type[ConnectorForm]
    credentials: type[ConnectorForm]
    open: Callable[[Any, Any, ConnectorLimits], Connector]
    checkpoint_version: int = 1  # raise it when checkpoints change their format: streams then start over
    title: str = ""  # what people call it; the name if empty
    oauth: OAuthFlows | None = None  # for tools at which people can sign in
    reports_changes: bool = False  # runs read what the tool reports as changed, and list all now and then
    has_permissions: bool = True  # else everyone sees the documents, unless the connector has an `acl`

    def json_schemas(self) -> tuple[Json, Json]:
        """The JSON schemas of its configuration and credentials."""
        return self.config.model_json_schema(), self.credentials.model_json_schema()
