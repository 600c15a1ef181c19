"""What a subscriber of the stream wants, and the batches that all subscribers share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from gristmill.catalog import Item
from gristmill.events.store import RecordedEvent
from gristmill.identity import LOCAL_ORG, OrgId

ITEM = "item"  # the type that subscribes to updates of items


@dataclass(frozen=True)
class StreamFilter:
    """The events and updates that a subscriber wants, of its own organisation."""

    base_id: UUID | None = None
    types: frozenset[str] | None = None
    org: OrgId = LOCAL_ORG

    @property
    def wants_items(self) -> bool:
        """Whether updates of items are wanted."""
        return self.types is None or ITEM in self.types

    def matches_event(self, event: RecordedEvent) -> bool:
        """Whether `event` is wanted."""
        return (
            event.org_id == self.org
            and (self.types is None or event.type in self.types)
            and self.matches_base(event.base_id)
        )

    def matches_base(self, base_id: UUID | None) -> bool:
        """Whether events of this base are wanted, if it belongs to the organisation."""
        return self.base_id is None or base_id == self.base_id

    def matches_change(self, base_id: UUID | None, batch: "StreamBatch") -> bool:
        """Whether a change of an item of this base is wanted; None means all bases of the organisation."""
        return base_id is None or (batch.owners.get(base_id) == self.org and self.matches_base(base_id))


@dataclass(frozen=True, eq=False)
class StreamBatch:
    """Events and item updates that are sent at once.

    `positions` are the positions of subscribers that have the batch, by organisation; `position` is that of a batch for one
    subscriber. `reload` are bases whose items have to be loaded again, None for all; `owners` are the organisations of the
    bases of items; `gap`: events after this one were swept before they were seen.
    """

    position: int
    events: Sequence[RecordedEvent] = ()
    items: Sequence[Item] = ()
    reload: Sequence[UUID | None] = ()
    gap: int | None = None
    positions: Mapping[OrgId, int] = field(default_factory=dict[OrgId, int])
    owners: Mapping[UUID, OrgId] = field(default_factory=dict[UUID, OrgId])
    encoded: dict[StreamFilter, bytes] = field(default_factory=dict[StreamFilter, bytes])

    def encode(
        self, stream_filter: StreamFilter, write: Callable[["StreamBatch", StreamFilter], bytes]
    ) -> bytes:
        """The batch for the wire, encoded once for all subscribers with the same filter."""
        if stream_filter not in self.encoded:
            self.encoded[stream_filter] = write(self, stream_filter)
        return self.encoded[stream_filter]

    def has_match(self, stream_filter: StreamFilter) -> bool:
        """Whether any of it is wanted."""
        return any(map(stream_filter.matches_event, self.events)) or (
            stream_filter.wants_items
            and any(
                stream_filter.matches_change(base_id, self)
                for base_id in (*(item.base_id for item in self.items), *self.reload)
            )
        )

    def __len__(self) -> int:
        return len(self.events) + len(self.items) + len(self.reload)
