"""Every event: one class each. Its fields are its data, its docstring says when it is recorded.

A document's way, version by version:

    DocumentUploadCompleted → DocumentContentExtracted → DocumentChunkingCompleted → DocumentIndexingCompleted ┐
    (EmbeddedDocumentsExtracted) ┘                    └→ AllAssetsAnalyzed ────────────────────────────────────┤
                                                                                   DocumentIngestionCompleted ◀┘
    or, at any point, ItemFailed; and once nothing in its base is active and no image waits for its description,
    KnowledgeSpaceAllDocumentsIngested
"""

import functools
from dataclasses import dataclass, fields
from typing import Any, ClassVar, cast
from uuid import UUID

from gristmill.catalog import BaseId, ItemId


@dataclass(frozen=True)
class Event:
    """Something that happened in a base."""

    type: ClassVar[str]

    base_id: BaseId

    def __init_subclass__(cls) -> None:
        cls.type = cls.__name__

    @property
    def subject(self) -> UUID | None:
        """What it is about, in addition to the base."""
        return getattr(self, "item_id", None)

    def data(self) -> dict[str, Any]:
        """Its fields, by the names that readers see."""
        return {shown: _json_value(getattr(self, name)) for name, shown in _data_fields(type(self))}


# ── documents ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class DocumentUploadCompleted(Event):
    """A document was added: its row and its job exist, and so do its bytes if it was uploaded."""

    item_id: ItemId
    title: str
    document_type: str
    version: int


@dataclass(frozen=True)
class EmbeddedDocumentsExtracted(Event):
    """The documents inside a document (attachments, archive entries) were added, each as a document of its own."""

    item_id: ItemId
    version: int
    documents: int


@dataclass(frozen=True)
class DocumentContentExtracted(Event):
    """A version of a document was read: its canonical content is stored."""

    item_id: ItemId
    version: int
    characters: int


@dataclass(frozen=True)
class DocumentChunkingCompleted(Event):
    """The content of a version is divided into chunks, and all of them are stored."""

    item_id: ItemId
    version: int
    chunks: int


@dataclass(frozen=True)
class DocumentIndexingCompleted(Event):
    """The text of a version is searchable."""

    item_id: ItemId
    version: int
    chunks: int


@dataclass(frozen=True)
class AllAssetsAnalyzed(Event):
    """Every image and table of a version is described, or has failed. Once per version."""

    item_id: ItemId
    version: int
    assets: int
    failed: int


@dataclass(frozen=True)
class DocumentIngestionCompleted(Event):
    """A version is complete: its text, images and tables are searchable. Once per version."""

    item_id: ItemId
    version: int
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class ItemFailed(Event):
    """A version of an item failed permanently. The version that was searchable before stays searchable."""

    item_id: ItemId
    version: int
    code: str
    message: str


@dataclass(frozen=True)
class ContainerAdded(Event):
    """A container was added; the items that its source lists follow."""

    item_id: ItemId
    title: str
    container_type: str
    version: int


@dataclass(frozen=True)
class ContainerExpanded(Event):
    """All items that a container's source lists were added; those that it no longer lists are being deleted."""

    item_id: ItemId
    version: int


@dataclass(frozen=True)
class ItemsDeleted(Event):
    """Subtrees were marked for deletion: they are no longer visible."""

    root_ids: tuple[ItemId, ...]
    items: int


@dataclass(frozen=True)
class ItemsRemoved(Event):
    """Deleted subtrees were removed completely; the counts are the deletion's receipt."""

    root_ids: tuple[ItemId, ...]
    items: int
    chunks: int
    contents: int
    blobs: int


@dataclass(frozen=True)
class ItemsChanged(Event):
    """People changed what they say of items: `changes` names it (title, tags, metadata, acl, parent, chunks)."""

    item_ids: tuple[ItemId, ...]
    changes: tuple[str, ...]


@dataclass(frozen=True)
class ItemsMoved(Event):
    """Subtrees moved to another base, with their ids and chunks: recorded in the base that they left and in the one they came to."""

    root_ids: tuple[ItemId, ...]
    items: int
    from_base_id: BaseId
    to_base_id: BaseId


@dataclass(frozen=True)
class ReindexAccepted(Event):
    """A reindex of subtrees was accepted; the searchable versions stay searchable until it is done."""

    root_ids: tuple[ItemId, ...]


# ── bases ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class KnowledgeSpaceAllDocumentsIngested(Event):
    """The base became ready: nothing in it is active any more, and its images are described. Recorded again only after it got
    new work."""

    completed: int
    failed: int


@dataclass(frozen=True)
class BaseCreated(Event):
    """A base was created."""

    name: str
    embedder: str


@dataclass(frozen=True)
class BaseChanged(Event):
    """A base's name or settings were changed."""

    name: str


@dataclass(frozen=True)
class BaseFailed(Event):
    """A base has failed as a whole: none of its items can be processed."""

    code: str
    message: str


@dataclass(frozen=True)
class BaseRestored(Event):
    """A base that had failed works again."""


@dataclass(frozen=True)
class BaseEmbedderSuggested(Event):
    """Another embedder knows more of a base's texts than its own. Recorded once, some minutes after the base became ready."""

    embedder: str
    current_embedder: str


@dataclass(frozen=True)
class BaseEmbedderCompared(Event):
    """The embedder that is to take over in a base was compared with the old one: the swap waits for approval, or is
    refused."""

    swap_id: UUID
    embedder: str
    state: str


@dataclass(frozen=True)
class BaseEmbedderSwitched(Event):
    """Another embedder has taken over in a base: searches read its vectors from now on."""

    swap_id: UUID
    embedder: str
    previous_embedder: str


@dataclass(frozen=True)
class BaseDeleted(Event):
    """A base was marked for deletion: it is no longer visible."""

    name: str


@dataclass(frozen=True)
class BaseRemoved(Event):
    """A deleted base was removed completely; the counts are the deletion's receipt."""

    items: int
    chunks: int
    contents: int
    blobs: int


@dataclass(frozen=True)
class Reconciled(Event):
    """The reconciler repaired something: items and deletions without a job, containers whose status did not match their
    children, versions that were left over, or a base that was not announced as ready."""

    items: int
    containers: int
    deletions: int
    versions: int
    announced: int


EVENTS: tuple[type[Event], ...] = tuple(Event.__subclasses__())


@functools.cache
def _data_fields(kind: type[Event]) -> list[tuple[str, str]]:
    """The fields of its data, with the names that readers see."""
    names = [field.name for field in fields(kind) if field.name not in ("base_id", "item_id")]
    return [(name, _camel_case(name)) for name in names]


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _json_value(value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, tuple):
        return [_json_value(element) for element in cast("tuple[Any, ...]", value)]
    return value
