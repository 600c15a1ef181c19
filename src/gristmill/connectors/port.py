"""The interface that every connector implements, and the values that pass through it.

A connector reads one tool (GitHub, Confluence, an S3 bucket) and decides nothing: `sync.py` owns rows, hashes, pruning,
schedules, time budgets and permissions. Between calls a connector keeps no state but what its checkpoints say.

    check()                     who the credentials belong to; Permanent when they are refused
    find_problems()             what of the configuration can't be followed: names that don't exist, or nothing at all
    estimate(checkpoints)       about how many documents a run will look at; None when that can't be known cheaply
    sync(checkpoints, finished) batches, each of one stream; see below. `finished` are streams that this run has read to
                                their end before it was interrupted: they are skipped
    fetch(ref)                  one document as it is now; SourceGone when the tool no longer has it
    resolve_access(keys)        who may see what, without reading documents
    download(attachment)        the bytes of one attachment, or of the file that a document is

A **stream** is one kind of document in one scope: the issues of a repository, the pages of a space. Scopes and documents
are named by ids that never change (a repository's number, not its name).

A **checkpoint** is how far a stream was read: JSON that only the connector understands, with the version of its format.
Each is saved with the batch that carries it, in one transaction, and handed to the next run, or to the next attempt after
a kill. So everything that a checkpoint passes must be in its batch or an earlier one. A checkpoint of another version than
the kind's `checkpoint_version` is not handed back: the stream starts over, and unchanged documents are skipped by hash.

What keeps a stream complete:

    order           changes are read by updated-at, then id, oldest first. A page is requested by the last position read,
                    never by a page number: a document edited meanwhile moves to the end and is met again, and no
                    document moves into a gap
    watermark       the position where the next run starts. It moves only when the stream was read to its end. An overlap
                    is fine and costs a fetch: unchanged documents are skipped by hash
    listing         all documents of the stream, in `present`. One that is not known yet is read with `fetch`, however old its
                    last change is: it may have become visible just now. Once a listing is complete, documents that it
                    did not name are verified with `fetch`, then pruned. A listing may continue in a later attempt; then
                    what was named before still counts. A new one starts with the step "begin", and the batch that completes
                    it is the stream's last batch in a run
    mark            what a listing may say of a document: its ETag, revision or hash. A document whose mark differs from the one
                    it was last read with is read with `fetch`. A tool that lists marks needs no watermark, and its checkpoint is
                    only how far the listing is (listing/by_mark.py). With `can_move`, equal marks mean equal contents: a new
                    id with the mark of a document that is gone is that document, moved, and keeps its record
    every stream    a run reports on each stream that is followed, if only to list it. Documents of a stream that it did
                    not report on are verified with `fetch`, which raises SourceGone for what the configuration no longer covers
    failures        a document that can't be read is a `ReadFailure`, and the stream goes on. The next run tries it again
                    with `fetch`, so the watermark may pass it

Errors come from `transport.py`: RateLimited (the run waits without holding a worker), CredentialsRejected (the run ends),
Transient (the run is retried from its checkpoints), SourceGone and Unreadable of one document (caught, and made a ReadFailure). A
scope that is gone or closed is reported with `Batch.lost`; `sync.py` then prunes its documents.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from gristmill.connectors.transport import Transport
from gristmill.errors import Permanent, SourceGone
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
class Audience:
    """Who may see the documents that name its `key`: everyone that one of the entries names.

    `users` are accounts of the tool whose email address isn't known, by id, with a name to show. They get access through
    the mappings that admins make. `groups` are stable ids, written as `group:{id}`. Unless `complete`, some part could not
    be resolved, and only admins see these documents until it can: never guess.
    """

    key: str
    everybody: bool = False
    emails: frozenset[str] = frozenset()
    users: Mapping[str, str] = field(default_factory=dict[str, str])
    groups: frozenset[str] = frozenset()
    complete: bool = True

    @classmethod
    def of_users(cls, key: str, users: Iterable[ToolUser], *, complete: bool = True) -> "Audience":
        """These accounts: by email address where it is known, else by account id."""
        accounts = list(users)
        return cls(
            key,
            emails=frozenset(user.email for user in accounts if user.email),
            users={user.id: user.name for user in accounts if not user.email},
            complete=complete,
        )


@dataclass(frozen=True)
class Document:
    """One whole document. `source_id` never changes and is unique within its connector, e.g. "issue:1296269".

    `body` is markdown with all comments. A difference in `title`, `body`, `url`, `metadata` or `attachments` counts as a
    change, so nothing that changes by itself belongs there (no "3 days ago", no view counters, no signed links). A document
    that is a file (a PDF in a bucket) has `file` in place of a body: it is downloaded, and read as an uploaded file is.
    `mark` is the mark that a listing would give to exactly this state, or to an older one.
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


@dataclass(frozen=True)
class ReadFailure:
    """A document that can't be read at present, with a message that contains no secret."""

    ref: DocumentRef
    code: str
    message: str


@dataclass(frozen=True)
class Batch:
    """A step of one stream, of at most some hundred documents. All of it is saved together with `checkpoint`, or nothing.

    `audiences` come with or before the documents that name them. `present` are documents that the tool has, for the listing.
    """

    stream: Stream
    checkpoint: Checkpoint | None = None
    documents: Sequence[Document] = ()
    failures: Sequence[ReadFailure] = ()
    audiences: Sequence[Audience] = ()
    present: Sequence[ListedDocument] = ()
    listing: ListingStep | None = None
    lost: bool = False  # the scope is gone, or closed to these credentials
    note: str | None = None  # a line for the run's log
    problem: str | None = None  # why the stream can't be read: logged and counted; documents read before stay

    @property
    def is_listing_complete(self) -> bool:
        """Whether this batch completes the stream's listing."""
        return self.listing in ("complete", "single")


@dataclass(frozen=True)
class AccessUpdate:
    """A step of resolving permissions: audiences as they are now, and documents that got another one."""

    audiences: Sequence[Audience] = ()
    audience_by_source: Mapping[str, str] = field(default_factory=dict[str, str])  # source id → audience key


@dataclass(frozen=True)
class Account:
    """Who the credentials belong to, to show to people."""

    name: str
    detail: str = ""


class Connector(ABC):
    """One tool, opened with a configuration and credentials. It has to be closed."""

    def __init__(self, *transports: Transport) -> None:
        self._transports = transports

    @property
    def renewed_secrets(self) -> Mapping[str, str]:
        """Secrets that the tool replaced since the connector was opened, by their field: they are stored when it is closed."""
        return {}

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
        """What changed since `checkpoints`, and a complete listing of each stream that is not `finished`."""

    @abstractmethod
    async def fetch(self, ref: DocumentRef) -> Document:
        """One document as it is now; SourceGone when it is no longer there."""

    @abstractmethod
    def resolve_access(self, audience_keys: Sequence[str]) -> AsyncIterator[AccessUpdate]:
        """Who may see what now, for the audiences that documents name."""

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


# ── kinds ────────────────────────────────────────────────────────────────────────────────────────────────


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
    how large an attachment may be."""

    allow_private: bool
    max_wait: timedelta = timedelta(seconds=20)
    attachment_limit: int = 64 << 20

    def transport(self, base_url: str, headers: Mapping[str, str]) -> Transport:
        """HTTP to a tool under these limits."""
        return Transport(base_url, headers=headers, allow_private=self.allow_private, max_wait=self.max_wait)


@dataclass(frozen=True)
class OAuthFlow:
    """How a person signs in at the tool, so that the connector reads on their behalf: the code flow with PKCE.

    The addresses follow from the configuration. The credentials have `client_id`, `client_secret` and `refresh_token`.
    """

    authorize_url: Callable[[Any], str]
    token_url: Callable[[Any], str]
    scope: str
    parameters: Mapping[str, str] = field(
        default_factory=dict[str, str]
    )  # what else the tool wants at the start


@dataclass(frozen=True)
class ConnectorKind:
    """A kind of connector: its name, the forms of its configuration and credentials, and how it is opened.

    The configuration is stored and shown. The credentials are encrypted and never shown: every secret is a `SecretStr`.
    A kind is added by a `ConnectorKind` in its package and a line in `registry.py`, or by a plugin (plugins.py).
    """

    name: str
    config: type[ConnectorForm]
    credentials: type[ConnectorForm]
    open: Callable[[Any, Any, ConnectorLimits], Connector]
    checkpoint_version: int = 1  # raise it when checkpoints change their format: streams then start over
    title: str = ""  # what people call it; the name if empty
    oauth: OAuthFlow | None = None  # for tools at which people can sign in

    def json_schemas(self) -> tuple[Json, Json]:
        """The JSON schemas of its configuration and credentials."""
        return self.config.model_json_schema(), self.credentials.model_json_schema()
