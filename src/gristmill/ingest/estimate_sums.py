"""What an estimate has found so far, and what it adds up to. Pure."""

from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from gristmill.readers import TextPart


@dataclass(frozen=True)
class EstimatedDocument:
    """A document to estimate: its kind and size, and how its text is read."""

    kind: str
    size: int
    read: Callable[["EstimateSums"], Coroutine[None, None, list[list[TextPart]]]]
    chunking: dict[str, Any]


@dataclass
class MeasuredSums:
    """The sums of the documents of one kind that were read."""

    size: int = 0
    chunks: int = 0
    texts: int = 0
    tokens: int = 0


@dataclass
class EstimateSums:
    """What was found so far."""

    by_kind: dict[str, MeasuredSums] = field(
        default_factory=lambda: defaultdict[str, MeasuredSums](MeasuredSums)
    )
    seen: set[bytes] = field(default_factory=set[bytes])
    images: int = 0
    begun: int = 0
    read: int = 0
    failed: int = 0
    left: list[EstimatedDocument] = field(default_factory=list[EstimatedDocument])
    notes: list[str] = field(default_factory=list[str])


def add_measured(sums: MeasuredSums, measured: MeasuredSums, factor: float) -> None:
    """Add the sums of a sample, so many times."""
    sums.size += round(measured.size * factor)
    sums.chunks += round(measured.chunks * factor)
    sums.texts += round(measured.texts * factor)
    sums.tokens += round(measured.tokens * factor)


def describe_limits(documents: Sequence[EstimatedDocument], state: EstimateSums) -> list[str]:
    """What of an estimate is not known for sure, and what it rests on."""
    notes = list(state.notes)
    if state.left:
        notes.append(
            f"{state.read:,} of {len(documents):,} documents were read; the others are estimated from their size and type."
        )
    if state.failed:
        notes.append(f"{state.failed:,} documents can't be read now and are not counted.")
    if state.images:
        notes.append(
            "Images are described after their document; the texts of the descriptions are not counted."
        )
    return notes
