"""What an estimate has measured so far, which documents to read next, and what the others will come to. Pure.

The tokens of a document grow with its size: by a line of its own for each type of file, which is fitted to the documents that were
read. A type of which too few were read takes the line of all. How far documents are from their line says how uncertain the
sum is (`uncertainty`, for 19 of 20 estimates).
"""

import math
import random
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from gristmill.readers import TextPart

_MIN_SAMPLE = 5  # documents, for a rate of their own
_DEFAULT_RATE = 0.1  # tokens per byte, if nothing could be read
_DEFAULT_CHUNK = 250  # tokens
_OTHER_KIND_DOUBT = 2.0  # how much farther documents may be from the line of other types
_CONFIDENCE = 1.96  # standard deviations: 19 of 20


@dataclass
class DocumentTexts:
    """What reading a document gave: the texts of it and of its attachments, the descriptions of its images that are known, the
    other images by hash, and the number of attachments that can't be read."""

    texts: list[list[TextPart]] = field(default_factory=list[list[TextPart]])
    descriptions: list[str] = field(default_factory=list[str])
    images: list[str] = field(default_factory=list[str])
    failed: int = 0


@dataclass(frozen=True)
class EstimatedDocument:
    """A document to estimate: its kind and size, how its text is read, and how equal contents are recognised, if they can be."""

    kind: str
    size: int
    read: Callable[[], Coroutine[None, None, DocumentTexts]]
    chunking: dict[str, Any]
    fingerprint: Callable[[], Coroutine[None, None, bytes]] | None = None


@dataclass(frozen=True)
class MeasuredDocument:
    """What a document that was read has: chunks, the texts among them that are not known yet, their tokens; images."""

    document: EstimatedDocument
    chunks: int
    texts: int
    tokens: int
    images: int
    is_copy: bool = False  # of a document that was read before it


@dataclass
class EstimateSums:
    """What was found so far. `copies` are documents that are equal to others, and were not read."""

    measured: list[MeasuredDocument] = field(default_factory=list[MeasuredDocument])
    seen: set[bytes] = field(default_factory=set[bytes])
    left: list[EstimatedDocument] = field(default_factory=list[EstimatedDocument])
    copies: list[EstimatedDocument] = field(default_factory=list[EstimatedDocument])
    notes: list[str] = field(default_factory=list[str])
    images: int = 0  # of documents that need not be read
    begun: int = 0
    failed: int = 0


@dataclass(frozen=True)
class Totals:
    """The sums of all documents, and how far their tokens may be off."""

    chunks: int
    texts: int
    tokens: int
    images: int
    uncertainty: float


@dataclass(frozen=True)
class _Line:
    """`tokens = start + slope × size`, fitted to documents that were read; `spread` is the variance by byte of size, and the
    others are the covariance of start and slope by it. `chunks` are by byte, `texts` by token, `images` by document."""

    start: float
    slope: float
    spread: float
    start_variance: float
    covariance: float
    slope_variance: float
    chunks: float
    texts: float
    images: float

    def tokens_of(self, sizes: Sequence[int]) -> float:
        """The tokens of documents of these sizes."""
        return max(0.0, self.start * len(sizes) + self.slope * sum(sizes))

    def variance_of(self, sizes: Sequence[int]) -> float:
        """How far they may be off: documents from their line, and the line itself."""
        count, total = len(sizes), float(sum(sizes))
        line = (
            self.start_variance * count**2
            + 2 * self.covariance * count * total
            + self.slope_variance * total**2
        )
        return self.spread * (total + line)


def reading_order(documents: Sequence[EstimatedDocument]) -> list[EstimatedDocument]:
    """Some documents of each kind first, the kinds with the most bytes before others; then in a random order, large ones rather
    than small ones, because they count more. The same order for the same number of documents."""
    rng = random.Random(len(documents))  # noqa: S311 - a sample, not a secret
    shuffled = sorted(documents, key=lambda document: rng.expovariate(1.0) / max(1, document.size) ** 0.5)
    kinds: dict[str, list[EstimatedDocument]] = defaultdict(list)
    for document in shuffled:
        kinds[document.kind].append(document)
    by_bytes = sorted(kinds.values(), key=lambda kind: -sum(document.size for document in kind))
    first = [document for kind in by_bytes for document in kind[:_MIN_SAMPLE]]
    chosen = set(map(id, first))
    return [*first, *(document for document in shuffled if id(document) not in chosen)]


def sum_up(state: EstimateSums) -> Totals:
    """What was measured, and what the documents that were not read will come to."""
    chunks: float = sum(entry.chunks for entry in state.measured)
    texts: float = sum(entry.texts for entry in state.measured)
    tokens: float = sum(entry.tokens for entry in state.measured)
    images: float = state.images + sum(entry.images for entry in state.measured)
    samples, variance = _Samples(state.measured), 0.0
    for line, sizes in samples.assign(state.left):
        more = line.tokens_of(sizes)
        tokens += more
        texts += more * line.texts
        chunks += sum(sizes) * line.chunks
        images += len(sizes) * line.images
        variance += line.variance_of(sizes)
    for line, sizes in samples.assign(state.copies):
        chunks += sum(sizes) * line.chunks
    uncertainty = _CONFIDENCE * math.sqrt(variance) / tokens if tokens else float(variance > 0)
    return Totals(round(chunks), round(texts), round(tokens), round(images), min(1.0, uncertainty))


class _Samples:
    """The documents that were read, by kind, and all."""

    def __init__(self, measured: Sequence[MeasuredDocument]) -> None:
        self._members: dict[str | None, list[MeasuredDocument]] = defaultdict(list)
        for entry in measured:
            if entry.is_copy and entry.document.fingerprint is not None:
                continue  # the copies among the others are known, and don't cost anything either
            self._members[entry.document.kind].append(entry)
            self._members[None].append(entry)

    def assign(self, documents: Sequence[EstimatedDocument]) -> list[tuple[_Line, list[int]]]:
        """The sizes of the documents, by the line that says most about them."""
        assigned: dict[str | None, list[int]] = defaultdict(list)
        for document in documents:
            is_known = len(self._members.get(document.kind, ())) >= _MIN_SAMPLE
            assigned[document.kind if is_known else None].append(document.size)
        return [
            (_fit(self._members.get(kind, []), 1.0 if kind is not None else _OTHER_KIND_DOUBT), sizes)
            for kind, sizes in assigned.items()
        ]


def _fit(members: Sequence[MeasuredDocument], doubt: float) -> _Line:
    """The line through these documents, by least squares; documents are the farther from it, the larger they are."""
    members = [entry for entry in members if entry.document.size]
    count, size = len(members), sum(entry.document.size for entry in members)
    if not count:
        by_byte = _DEFAULT_RATE / _DEFAULT_CHUNK
        return _Line(0.0, _DEFAULT_RATE, _DEFAULT_RATE**2, 0.0, 0.0, 1.0, by_byte, 1 / _DEFAULT_CHUNK, 0.0)
    tokens = sum(entry.tokens for entry in members)
    rates = (
        sum(entry.chunks for entry in members) / size,
        sum(entry.texts for entry in members) / tokens if tokens else 0.0,
        sum(entry.images for entry in members) / count,
    )
    # Weights are 1 / size, so that the sums of squares become sums of sizes.
    weights = sum(1 / entry.document.size for entry in members)
    weighted_tokens = sum(entry.tokens / entry.document.size for entry in members)
    determinant = weights * size - count**2
    freedom = count - 2
    if freedom < 1 or determinant < 1e-6 * weights * size:  # few, or all of one size
        return _Line(0.0, tokens / size, (doubt * tokens / size) ** 2, 0.0, 0.0, 1.0, *rates)
    start = (size * weighted_tokens - count * tokens) / determinant
    slope = (weights * tokens - count * weighted_tokens) / determinant
    misses = sum(
        (entry.tokens - start - slope * entry.document.size) ** 2 / entry.document.size for entry in members
    )
    # The fewer there are, the less is known of the variance: near to Student's distribution.
    spread = misses / freedom * (1 + 1.2 / freedom) ** 2 * doubt**2
    covariances = (size / determinant, -count / determinant, weights / determinant)
    return _Line(start, slope, spread, *covariances, *rates)


def describe_limits(documents: Sequence[EstimatedDocument], state: EstimateSums, images: int) -> list[str]:
    """What of an estimate is not known for sure, and what it rests on."""
    notes = list(state.notes)
    if state.left:
        notes.append(
            f"{len(state.measured):,} of {len(documents):,} documents were read; the others are estimated from their size and type."
        )
    if state.failed:
        notes.append(f"{state.failed:,} documents can't be read now and are not counted.")
    if images:
        notes.append("The texts of image descriptions are estimated by their number and average length.")
    return notes
