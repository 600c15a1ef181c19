"""The port: a tool that holds documents of a team, and is followed.

A connector reads one tool (GitHub, GitLab, Jira, Confluence) and decides nothing: `sync.py` owns rows, hashes, pruning,
schedules, budgets and permissions. It holds no state between calls but what the checkpoint says.

    check()               who the credentials are; Permanent when they are refused
    estimate(marks)       about how many documents a run will look at; None when that can't be known cheaply
    sync(marks, done)     batches, each of one stream; see below. `done` are streams that this run has read to their end
                          already, before it was interrupted: they are passed over
    fetch(ref)            one document by itself, as it is now; Gone when the tool no longer has it
    access(audiences)     who may see what, resolved anew, without reading documents
    download(attachment)  the bytes of one attachment

A **stream** is one kind of document in one scope: the issues of a repository, the pages of a space. Scopes, like
documents, are named by ids that never change (a repository's number, not its name).

A **mark** is how far a stream has come: JSON that only the connector understands, with the version of its form. Marks are
saved with the batch that carries them, in one transaction; the next run, or the next attempt after a kill, is given them
back. So whatever a batch's mark passes over must be in that batch or an earlier one. A mark of another version than
its kind's `mark_version` is not handed back: the stream begins anew, and unchanged documents are skipped by their hash.

What keeps a stream whole:

    order           changes are read by updated-at, then id, oldest first; a page is asked for by that anchor, never by a
                    page number: whatever is edited meanwhile moves to the end and is met again, nothing moves into a gap
    watermark       the anchor that the next run begins at; it moves only when the stream was read to its end. An
                    overlap is allowed and costs a fetch: equal documents are skipped by hash
    listing         the ids of all that the stream has, in `present`; with `whole` the listing is told to be complete, and
                    what it did not name is asked for once more with `fetch`, then pruned. A listing that goes on in a
                    later attempt says so by its mark, and what was named before still counts. A listing begins where
                    `listing` is "begin" and is given up by beginning another; the batch that says "whole" is the last of
                    its stream in a run
    every stream    a run speaks of each stream that is followed, if only to list it: one that it did not speak of when
                    `sync` came to its end seems to be followed no longer: its documents are asked for once more with
                    `fetch`, which raises Gone for what the configuration no longer covers, and pruned
    failures        one document that can't be read is a `Failure`, and the stream goes on; it is asked for again with
                    `fetch` in the next run, so the watermark may pass it

Errors: `transport.py` raises them. RateLimited (a run waits for it without holding a worker), Unauthorized (the run ends),
Transient (the run is tried again from its marks), Gone and Unreadable of one document (catch them, make a Failure). A
scope that is gone or closed is told with `Batch.lost`, and its documents are hidden or pruned by `sync.py`.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol

Json = dict[str, Any]


class Stream(NamedTuple):
    """One kind of document in one scope, e.g. ("repository:1296269", "issue")."""

    scope: str
    kind: str


@dataclass(frozen=True)
class Checkpoint:
    """How far a stream has come: `position` is the connector's own, in the form that `version` names."""

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
class Attachment:
    """A file of a document: filed as a child, fetched only when it is new. `source_id` changes with its bytes."""

    source_id: str
    name: str
    size: int | None = None
    media_type: str | None = None
    locator: Json = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Audience:
    """Who may see the documents that name its `key`: whoever one of the entries names.

    `users` are accounts of the tool whose address isn't known, by their id with a name for people; they are looked up
    among the mappings that somebody made by hand. `groups` are stable ids, told as `group:{id}`. Unless `complete`, some
    part could not be resolved, and nobody but admins sees these documents until it can: never guess.
    """

    key: str
    everybody: bool = False
    emails: frozenset[str] = frozenset()
    users: Mapping[str, str] = field(default_factory=dict[str, str])
    groups: frozenset[str] = frozenset()
    complete: bool = True


@dataclass(frozen=True)
class Document:
    """One document, whole. `source_id` never changes and is unique within its connector, e.g. "issue:1296269".

    `body` is markdown, comments and all; what is in `title`, `body`, `url`, `metadata` or `attachments` counts as a
    change, so nothing that changes by itself belongs there (no "3 days ago", no counters of views, no signed links).
    """

    ref: DocumentRef
    title: str
    body: str
    audience: str
    url: str | None = None
    updated_at: datetime | None = None
    metadata: Json = field(default_factory=dict[str, Any])
    attachments: tuple[Attachment, ...] = ()


@dataclass(frozen=True)
class ReadFailure:
    """A document that can't be read at present, with a sentence that holds no secret."""

    ref: DocumentRef
    code: str
    message: str


@dataclass(frozen=True)
class Batch:
    """A step of one stream: at most some hundred documents. All of it is saved together with `mark`, or nothing.

    `audiences` come with or before the documents that name them. `present` names ids that the tool has, for the listing.
    """

    stream: Stream
    checkpoint: Checkpoint | None = None
    documents: Sequence[Document] = ()
    failures: Sequence[ReadFailure] = ()
    audiences: Sequence[Audience] = ()
    present_ids: Sequence[str] = ()
    listing: Literal["begin", "goes_on", "whole", "at_once"] | None = None  # at_once: begins and is whole
    lost: bool = False  # the scope is gone, or closed to these credentials
    note: str | None = None  # a line for the run's log
    problem: str | None = (
        None  # the stream can't be read: told, and counted; what was read of it before stays
    )


@dataclass(frozen=True)
class AccessUpdate:
    """A step of resolving permissions: audiences as they are now, and documents that changed theirs."""

    audiences: Sequence[Audience] = ()
    audience_by_source: Mapping[str, str] = field(
        default_factory=dict[str, str]
    )  # source id → audience's key


@dataclass(frozen=True)
class Account:
    """Who the credentials are, for people."""

    name: str
    detail: str = ""


class Connector(Protocol):
    """One tool, opened with a configuration and credentials."""

    async def check(self) -> Account:
        """Ask the tool who we are, and whether what is configured can be read."""
        ...

    async def estimate(self, checkpoints: Checkpoints) -> int | None:
        """About how many documents `sync` will look at."""
        ...

    def sync(self, checkpoints: Checkpoints, finished: Collection[Stream] = ()) -> AsyncIterator[Batch]:
        """What changed since `marks`, and a complete listing of each stream that is not `done`."""
        ...

    async def fetch(self, ref: DocumentRef) -> Document:
        """One document as it is now; Gone when it is no longer there."""
        ...

    def resolve_access(self, audience_keys: Sequence[str]) -> AsyncIterator[AccessUpdate]:
        """Who may see what, for the audiences that documents name at present."""
        ...

    def download(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """The bytes of an attachment; the caller stops when they are too many."""
        ...
