"""Every kind of durable work: its arguments, lane, attempts, uniqueness and priority.

    kind              arguments         lane     attempts    unique while it lives     priority
    index_document    item, version     base     10          item and version          normal; interactive for few
    prepare_root      item, version     base     5           item and version          as above
    delete_subtree    base, roots       base     unlimited   base and roots            interactive
    reindex_subtree   base, roots       base     5           base and roots            normal
    delete_base       base              base     unlimited   base                      interactive
    check_file_…      item, version     base     30          item and version          normal
    cancel_conversion processor, id     its own  5           processor and id          normal
    analyse_assets    item, version     base     5           item and version          bulk
    tidy_base         base              base     5           base                      bulk
    update_index      base              base     unlimited   base                      normal
    sweep_index       base              base     5           base                      bulk
    move_index        base              base     unlimited   base                      normal
    swap_embedder     base              base     10          base                      bulk
    index_title       item              base     10          item                      normal
    preview_chunks    item, chunking    base     3           item and chunking         interactive
    move_items        bases, roots      base     10          bases and roots           normal
    remove_chunk_set  base, set         base     unlimited   set                       bulk
    deliver_events    webhook           its own  unlimited   webhook                   normal, in a pool of its own
    sync_connector    connector         its own  9           connector                 normal; interactive when a user starts it
    sync_access       connector         its own  5           connector                 normal
    find_due          –                 its own  3           one                       normal
    refresh_documents base, items       base     5           base, or its items        bulk
    refresh_container base, item        base     5           item                      bulk; normal when a user asks for it
    reconcile         thorough          its own  3           thorough or not           normal
    export_base, import_base            base, or of all imports of an organisation; 3 attempts, one per base or file, normal

A new kind is added here, handled in `ingest/`, `connectors/`, `events/` or `integrity/`, and connected to it in `app.py`.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from gristmill.catalog import BaseId, ChunkSetId, ItemId
from gristmill.jobs import Priority, Work
from gristmill.portable.export_work import ExportBase, ImportBase  # noqa: F401  # pyright: ignore[reportUnusedImport]  # as those below
from gristmill.refresh_work import FindDue, RefreshContainer, RefreshDocuments  # noqa: F401  # pyright: ignore[reportUnusedImport]  # the kinds are used from here

UNLIMITED_ATTEMPTS = 30_000  # what is marked for deletion must be removed, however long an obstacle lasts

OnActive = Literal["reject", "skip", "after"]


@dataclass(frozen=True)
class ItemWork(Work):
    """Work on one item."""

    item_id: ItemId

    def subject(self) -> UUID:
        """The item."""
        return self.item_id


@dataclass(frozen=True)
class IndexDocument(ItemWork):
    """Read, chunk, embed and publish one version of a leaf."""

    kind = "index_document"
    attempts = 10  # a crash costs every document in progress an attempt, whichever caused it

    version: int

    def key(self) -> str:
        """One job per version of an item."""
        return f"item:{self.item_id}:{self.version}:index"


@dataclass(frozen=True)
class PrepareRoot(ItemWork):
    """List what a container's source holds, and file it as children."""

    kind = "prepare_root"

    version: int

    def key(self) -> str:
        """One job per version of a container."""
        return f"item:{self.item_id}:{self.version}:prepare"


@dataclass(frozen=True)
class CheckFileProcessing(ItemWork):
    """Send a version's file to a file processor, and check its conversion until it is done."""

    kind = "check_file_processing_result"
    attempts = 30  # for a service that is down for hours; a conversion without progress has its own limit

    version: int
    processor: str
    content: str  # the hash of the content that the markdown becomes, in hex

    def key(self) -> str:
        """One job per version of an item."""
        return f"item:{self.item_id}:{self.version}:convert"


@dataclass(frozen=True)
class CancelConversion(Work):
    """Cancel a conversion at its file processor."""

    kind = "cancel_conversion"

    processor: str
    remote_id: str

    def key(self) -> str:
        """One job per conversion."""
        return f"conversion:{self.processor}:{self.remote_id}:cancel"


@dataclass(frozen=True)
class AnalyseAssets(ItemWork):
    """Describe the images of a version that have no description yet, and index the descriptions."""

    kind = "analyse_assets"
    priority = Priority.BULK

    version: int

    def key(self) -> str:
        """One job per version of an item."""
        return f"item:{self.item_id}:{self.version}:assets"


@dataclass(frozen=True)
class DeleteSubtree(Work):
    """Remove subtrees that are marked as deleting, with everything that only they use."""

    kind = "delete_subtree"
    attempts = UNLIMITED_ATTEMPTS
    priority = Priority.INTERACTIVE

    base_id: BaseId
    root_ids: tuple[ItemId, ...]
    reason: str = "source"  # for the deletion report
    actor: str | None = None

    def key(self) -> str:
        """One job per selection."""
        return _selection_key(self.base_id, self.root_ids, "delete")


@dataclass(frozen=True)
class ReindexSubtree(Work):
    """Request a new version of everything in these subtrees."""

    kind = "reindex_subtree"

    base_id: BaseId
    root_ids: tuple[ItemId, ...]
    on_active: OnActive = "reject"

    def key(self) -> str:
        """One job per selection."""
        return _selection_key(self.base_id, self.root_ids, "reindex")


@dataclass(frozen=True)
class IndexTitle(ItemWork):
    """Index the chunks of an item again, because its title has changed."""

    kind = "index_title"
    attempts = 10

    def key(self) -> str:
        """One job per item; it notices a title that changes meanwhile."""
        return f"item:{self.item_id}:title"


@dataclass(frozen=True)
class PreviewChunks(Work):
    """Chunk the beginning of a document in another way, and report the chunks. None is what the base has, and 0 the default."""

    kind = "preview_chunks"
    attempts = 3
    priority = Priority.INTERACTIVE

    item_id: ItemId
    max_tokens: int | None = None
    overlap_tokens: int | None = None

    def key(self) -> str:
        """One job per item and way of chunking."""
        return f"item:{self.item_id}:preview:{self.max_tokens}:{self.overlap_tokens}"


@dataclass(frozen=True)
class MoveItems(Work):
    """Build the chunks of subtrees in another base, then let them belong to it."""

    kind = "move_items"
    attempts = 10

    base_id: BaseId
    root_ids: tuple[ItemId, ...]
    target_id: BaseId
    parent_id: ItemId | None = None

    def key(self) -> str:
        """One job per selection and target."""
        return _selection_key(self.base_id, self.root_ids, f"move:{self.target_id}")


@dataclass(frozen=True)
class DeleteBase(Work):
    """Remove a base that is marked as deleting, and everything in it."""

    kind = "delete_base"
    attempts = UNLIMITED_ATTEMPTS
    priority = Priority.INTERACTIVE

    base_id: BaseId
    reason: str = "person"  # for the deletion report
    actor: str | None = None

    def key(self) -> str:
        """One job per base."""
        return f"knowledge:{self.base_id}:delete"

    def subject(self) -> UUID:
        """The base."""
        return self.base_id


@dataclass(frozen=True)
class CompactBase(Work):
    """Bring a base's small segments together, and let go of what is gone."""

    kind = "tidy_base"
    priority = Priority.BULK

    base_id: BaseId

    def key(self) -> str:
        """One job per base."""
        return f"knowledge:{self.base_id}:tidy"


@dataclass(frozen=True)
class UpdateIndex(Work):
    """Bring the search engine up to date with a base: removed chunks, new labels, chunks of live versions."""

    kind = "update_index"
    attempts = UNLIMITED_ATTEMPTS

    base_id: BaseId

    def key(self) -> str:
        """One job per base."""
        return f"knowledge:{self.base_id}:index"


@dataclass(frozen=True)
class SweepIndex(Work):
    """Compare what a search engine has of a base with the tables, and put it right."""

    kind = "sweep_index"
    priority = Priority.BULK

    base_id: BaseId

    def key(self) -> str:
        """One job per base."""
        return f"knowledge:{self.base_id}:sweep"


@dataclass(frozen=True)
class MoveIndex(Work):
    """Fill another index of a base, then let it take over."""

    kind = "move_index"
    attempts = UNLIMITED_ATTEMPTS

    base_id: BaseId
    until: int  # the last chunk that was written before the move began

    def key(self) -> str:
        """One job per base."""
        return f"knowledge:{self.base_id}:move"


@dataclass(frozen=True)
class SwapEmbedder(Work):
    """Build the chunks of a base with another embedder, compare them with the old ones, then let them take over."""

    kind = "swap_embedder"
    attempts = 10
    priority = Priority.BULK

    base_id: BaseId

    def key(self) -> str:
        """One job per base."""
        return f"knowledge:{self.base_id}:swap"


@dataclass(frozen=True)
class RemoveChunkSet(Work):
    """Remove chunks of a base that no search reads any more."""

    kind = "remove_chunk_set"
    attempts = UNLIMITED_ATTEMPTS
    priority = Priority.BULK

    base_id: BaseId
    set_id: ChunkSetId

    def key(self) -> str:
        """One job per set."""
        return f"chunks:{self.set_id}:remove"

    def subject(self) -> UUID:
        """The set."""
        return self.set_id


@dataclass(frozen=True)
class DeliverEvents(Work):
    """Send a webhook the events that it has not been sent, one after the other. It keeps its own count of attempts."""

    kind = "deliver_events"
    attempts = UNLIMITED_ATTEMPTS
    pool = "webhooks"  # a receiver that hangs holds no slot that a document could use

    webhook_id: UUID

    def key(self) -> str:
        """One job per webhook: its events go out in order."""
        return f"webhook:{self.webhook_id}:deliver"

    def subject(self) -> UUID:
        """The webhook."""
        return self.webhook_id


@dataclass(frozen=True)
class SyncConnector(Work):
    """One run of a connector: read what changed in its tool, prune what is gone there, see it indexed."""

    kind = "sync_connector"
    # The next scheduled run may be hours away: minutes of an outage must not end this one.
    attempts = 9

    connector_id: UUID

    def key(self) -> str:
        """One run of a connector at a time."""
        return f"connector:{self.connector_id}:sync"

    def subject(self) -> UUID:
        """The connector."""
        return self.connector_id


@dataclass(frozen=True)
class SyncAccess(Work):
    """Ask a connector's tool who may see what, without reading documents."""

    kind = "sync_access"

    connector_id: UUID

    def key(self) -> str:
        """One a connector."""
        return f"connector:{self.connector_id}:access"

    def subject(self) -> UUID:
        """The connector."""
        return self.connector_id


@dataclass(frozen=True)
class Reconcile(Work):
    """Look for what should not be, and put it right."""

    kind = "reconcile"
    attempts = 3

    thorough: bool = False

    def key(self) -> str:
        """One pass of a kind at a time; two beside each other do no harm."""
        return "reconcile:thorough" if self.thorough else "reconcile"


_WITHOUT_BASE = (DeliverEvents, Reconcile, FindDue, CancelConversion, SyncConnector, SyncAccess, ImportBase)
KINDS_WITHOUT_BASE = frozenset(kind.kind for kind in _WITHOUT_BASE)


def _selection_key(base_id: BaseId, roots: Sequence[ItemId], action: str) -> str:
    ids = ",".join(sorted(str(root) for root in roots))
    if len(ids) > 1000:  # an index entry has room for some 2,700 bytes
        ids = hashlib.sha256(ids.encode()).hexdigest()
    return f"knowledge:{base_id}:{ids}:{action}"
