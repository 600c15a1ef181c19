"""Every event: one class each. Its fields are what it tells, its docstring when it is written.

A document's way, version by version:

    DocumentUploadCompleted → DocumentContentExtracted → DocumentChunkingCompleted → DocumentIndexingCompleted ┐
    (EmbeddedDocumentsExtracted) ┘                    └→ AllAssetsAnalyzed ────────────────────────────────────┤
                                                                                   DocumentIngestionCompleted ◀┘
    or, at any point, ItemFailed; and once nothing in its base is active, KnowledgeSpaceAllDocumentsIngested
"""

from dataclasses import dataclass, fields
from typing import Any, ClassVar, cast
from uuid import UUID

from gristmill.catalog import BaseId, ItemId


@dataclass(frozen=True)
class Event:
    """Something that happened in a base. `cause` is told by who knows it; an item's event has its item's."""

    type: ClassVar[str]

    base_id: BaseId

    def __init_subclass__(cls) -> None:
        cls.type = cls.__name__

    @property
    def subject(self) -> UUID | None:
        """What it is about, beside the base."""
        return getattr(self, "item_id", None)

    def data(self) -> dict[str, Any]:
        """What it tells, by the names that readers see."""
        return {
            _camel_case(field.name): _json_value(getattr(self, field.name))
            for field in fields(self)
            if field.name not in ("base_id", "item_id")
        }


# ── documents ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class DocumentUploadCompleted(Event):
    """A document was filed: its row and its job are there, and so are its bytes if it was uploaded."""

    item_id: ItemId
    title: str
    document_type: str
    version: int


@dataclass(frozen=True)
class EmbeddedDocumentsExtracted(Event):
    """The documents inside a document (attachments, archive entries) are filed, each as a document of its own."""

    item_id: ItemId
    version: int
    documents: int


@dataclass(frozen=True)
class DocumentContentExtracted(Event):
    """A version of a document was read: its canonical content is kept."""

    item_id: ItemId
    version: int
    characters: int


@dataclass(frozen=True)
class DocumentChunkingCompleted(Event):
    """The content of a version is cut into chunks, and all of them are stored."""

    item_id: ItemId
    version: int
    chunks: int


@dataclass(frozen=True)
class DocumentIndexingCompleted(Event):
    """The text of a version answers searches."""

    item_id: ItemId
    version: int
    chunks: int


@dataclass(frozen=True)
class AllAssetsAnalyzed(Event):
    """Every image and table of a version is described, or was given up on. Once per version."""

    item_id: ItemId
    version: int
    assets: int
    failed: int


@dataclass(frozen=True)
class DocumentIngestionCompleted(Event):
    """All of a version is done: its text answers, and so do its images and tables. Once per version."""

    item_id: ItemId
    version: int
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class ItemFailed(Event):
    """A version of an item failed for good. What was searchable of it before stays so."""

    item_id: ItemId
    version: int
    code: str
    message: str


@dataclass(frozen=True)
class ContainerAdded(Event):
    """A container was filed; what its source lists will follow."""

    item_id: ItemId
    title: str
    container_type: str
    version: int


@dataclass(frozen=True)
class ContainerExpanded(Event):
    """All that a container's source lists is filed; what is gone from the source is being deleted."""

    item_id: ItemId
    version: int


@dataclass(frozen=True)
class ItemsDeleted(Event):
    """Subtrees were marked as deleting: from now on nothing shows them."""

    root_ids: tuple[ItemId, ...]
    items: int


@dataclass(frozen=True)
class ItemsRemoved(Event):
    """Nothing is left of deleted subtrees; the counts are the deletion's receipt."""

    root_ids: tuple[ItemId, ...]
    items: int
    chunks: int
    contents: int
    blobs: int


@dataclass(frozen=True)
class ReindexAccepted(Event):
    """The rebuilding of subtrees was accepted; what answers goes on answering until it is done."""

    root_ids: tuple[ItemId, ...]


# ── bases ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class KnowledgeSpaceAllDocumentsIngested(Event):
    """The base became ready: nothing in it is active any more. Again only after it was given new work."""

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
    """A base can't be worked on as a whole."""

    code: str
    message: str


@dataclass(frozen=True)
class BaseRestored(Event):
    """A base that had failed can be worked on again."""


@dataclass(frozen=True)
class BaseDeleted(Event):
    """A base was marked as deleting: from now on nothing shows it."""

    name: str


@dataclass(frozen=True)
class BaseRemoved(Event):
    """Nothing is left of a deleted base; the counts are the deletion's receipt."""

    items: int
    chunks: int
    contents: int
    blobs: int


@dataclass(frozen=True)
class Reconciled(Event):
    """The reconciler put right what should not have been: items and deletions that nothing moved on, containers that
    were not as their children are, versions that were left over, a base that was not announced as ready."""

    items: int
    containers: int
    deletions: int
    versions: int
    announced: int


EVENTS: tuple[type[Event], ...] = tuple(Event.__subclasses__())


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _json_value(value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, tuple):
        return [_json_value(element) for element in cast("tuple[Any, ...]", value)]
    return value
