"""A base of any size for measurements, written straight into the tables: some thousand chunks a second.

    words       natural frequencies (Zipf) over 200,000 words; 40 to 220 a chunk, titles of two words
    documents   1 to 100 chunks, ten on average
    vectors     384 dimensions, in 2,000 clusters that overlap
    segments    as compaction leaves them: of up to 65,536 chunks, and a dozen small ones
    access      one document in a thousand, in a hundred, in ten and in two is visible to the groups few, some, many and half

A data dir that has the base already is used as it is, so that runs of different code can be compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import numpy as np
from numpy.typing import NDArray

from gristmill import app, catalog, contents
from gristmill.catalog import Base
from gristmill.contents import FinishedVersion
from gristmill.db import Database
from gristmill.search import Chunk, inverted_index, segment, store
from gristmill.search.language_detection import ENGLISH
from gristmill.search.segment import MAX_CHUNKS, ChunkText, Segment, SegmentArrays
from gristmill.search.store import PreparedWrite, VersionChunks

DIMENSIONS = 384
VOCABULARY = 200_000
GROUP_INTERVALS = {"few": 1000, "some": 100, "many": 10, "half": 2}
_SEGMENT_CHUNKS = 3 * MAX_CHUNKS // 4
_SMALL_SEGMENT_CHUNKS = 2000
_SMALL_SEGMENTS = 12
_LETTERS = "bcdfghjklmnpqrtvwxz"

Vectors = NDArray[np.float32]
Ranks = NDArray[np.int64]


class Synthetic:
    """Words and vectors; the same centres and words for every seed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self._centres = np.random.default_rng(7).standard_normal((2000, DIMENSIONS)).astype(np.float32)
        weights = 1 / np.arange(1, VOCABULARY + 1)
        self._cumulative_weights = np.cumsum(weights / weights.sum())

    def ranks(self, count: int) -> Ranks:
        """The ranks of words of a text: 0 is the most common word."""
        return np.searchsorted(self._cumulative_weights[:-1], self.rng.random(count))

    def vectors(self, count: int) -> Vectors:
        """Vectors of length 1."""
        centres = self._centres[self.rng.integers(0, len(self._centres), count)]
        vectors = centres + 1.2 * self.rng.standard_normal((count, DIMENSIONS), np.float32)
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)

    def question(self) -> str:
        """Six words, as in typical questions: a common one, and rarer ones."""
        ranks = [int(self.rng.integers(0, 50)), *(int(10 ** self.rng.uniform(2, 4.5)) for _ in range(5))]
        return " ".join(word(rank) for rank in ranks)


def word(rank: int) -> str:
    """The word of a rank: only letters, and no ending that a stemmer would remove."""
    letters = ""
    rank += len(_LETTERS)
    while rank:
        rank, letter = divmod(rank, len(_LETTERS))
        letters += _LETTERS[letter]
    return f"a{letters}o"


async def open_base(mill: app.Gristmill, data_dir: Path, chunks: int) -> Base:
    """The base with so many chunks; it is written if the data dir does not have it."""
    marker = data_dir / f"bench-{chunks}"  # written last: it has the id of a complete base
    async with mill.db.transaction() as tx:
        if marker.exists():
            base = await catalog.find_base(tx, catalog.BaseId(UUID(marker.read_text())))
        else:
            base = await catalog.insert_base(
                tx,
                name=f"bench {chunks}, {uuid4()}",
                embedder=mill.embedders.default.name,
                embedder_identity=mill.embedders.default.identity,
                dimensions=DIMENSIONS,
                chunking={},
            )
    assert base is not None
    if not marker.exists():
        await write_chunks(mill.db, base, chunks)
        async with mill.db.connection() as tx:
            await tx.execute("vacuum analyze")
        marker.write_text(str(base.id))
    return base


async def write_chunks(db: Database, base: Base, chunks: int) -> None:
    """Fill a base with so many chunks."""
    await _Writer(db, base).write(chunks)


@dataclass(frozen=True)
class _Batch:
    """The documents of one segment: how many chunks each has, and the words of each chunk and each title."""

    documents: NDArray[np.int64]
    lengths: NDArray[np.int64]
    words: Ranks
    titles: Ranks  # two a document


class _Writer:
    """Writes a base, segment by segment."""

    def __init__(self, db: Database, base: Base) -> None:
        self._db, self._base = db, base
        self._synthetic = Synthetic(seed=11)
        self._words: NDArray[Any] = np.array([word(rank) for rank in range(VOCABULARY)], object)
        self._document_count = 0
        self._language = ENGLISH  # what texts of such words are taken for

    async def write(self, chunks: int) -> None:
        """Write so many chunks."""
        self._check()
        small = min(_SMALL_SEGMENTS, chunks // (2 * _SMALL_SEGMENT_CHUNKS)) * _SMALL_SEGMENT_CHUNKS
        written = 0
        while written < chunks:
            left = chunks - written
            target = min(_SEGMENT_CHUNKS, left - small) if left > small else min(_SMALL_SEGMENT_CHUNKS, left)
            batch = self._batch(target)
            await self._write_batch(batch)
            written += target
            if written % (4 * _SEGMENT_CHUNKS) == 0:
                print(f"{written:,} chunks written", flush=True)

    def _batch(self, chunks: int) -> _Batch:
        rng = self._synthetic.rng
        sizes = np.minimum(rng.geometric(0.1, chunks), 100)
        ends = np.cumsum(sizes)
        documents = sizes[: int(np.searchsorted(ends, chunks)) + 1]
        documents[-1] -= documents.sum() - chunks
        lengths = rng.integers(40, 221, chunks)
        ranks = self._synthetic.ranks(int(lengths.sum()))
        return _Batch(documents, lengths, ranks, rng.integers(100, VOCABULARY, 2 * len(documents)))

    async def _write_batch(self, batch: _Batch) -> None:
        texts, titles = self._texts(batch), self._titles(batch)
        vectors = self._synthetic.vectors(len(texts))
        numbers = range(self._document_count, self._document_count + len(titles))
        self._document_count += len(titles)
        new = [
            catalog.NewItem(
                "note",
                title,
                f"{number}",
                acl=[f"group:{g}" for g, interval in GROUP_INTERVALS.items() if number % interval == 0],
            )
            for number, title in zip(numbers, titles, strict=True)
        ]
        starts: list[int] = (np.cumsum(batch.documents) - batch.documents).tolist()
        async with self._db.transaction() as tx:
            items = await catalog.insert_items(tx, self._base.id, None, new)
            versions = [
                VersionChunks(
                    item.id,
                    item.title,
                    1,
                    [Chunk(k, texts[start + k], 0, 1, (), vectors[start + k]) for k in range(size)],
                )
                for item, start, size in zip(items, starts, batch.documents.tolist(), strict=True)
            ]
            built = self._segment(batch, [item.id for item in items], segment.pack_signs(vectors))
            await store.write(tx, self._base.chunk_set, PreparedWrite(versions, built))
            await contents.publish(
                tx,
                [
                    FinishedVersion(catalog.ItemId(version.item_id), 1, len(version.chunks), [], None, {})
                    for version in versions
                ],
            )

    def _texts(self, batch: _Batch) -> list[str]:
        words: list[str] = self._words[batch.words].tolist()
        ends: list[int] = np.cumsum(batch.lengths).tolist()
        return [" ".join(words[start:end]) for start, end in zip([0, *ends], ends, strict=False)]

    def _titles(self, batch: _Batch) -> list[str]:
        return [" ".join(pair) for pair in self._words[batch.titles].reshape(-1, 2).tolist()]

    def _segment(self, batch: _Batch, items: Sequence[UUID], signs: NDArray[np.uint64]) -> Segment:
        """What `segment.build` makes of these texts, without lexing words of which each is its own lexeme."""
        title_words = np.repeat(batch.titles.reshape(-1, 2), segment.TITLE_WEIGHT, axis=1)
        title_size = title_words.shape[1]
        ends = np.cumsum(batch.lengths + title_size)
        tokens = np.empty(int(ends[-1]), np.int64)
        is_title = np.zeros(len(tokens), bool)
        is_title[np.concatenate([ends - 1 - place for place in range(title_size)])] = True
        tokens[~is_title] = batch.words
        tokens[is_title] = np.repeat(title_words, batch.documents, axis=0).ravel()
        distinct, tokens = np.unique(tokens, return_inverse=True)
        names: list[str] = self._words[distinct].tolist()
        lexemes = {name: number for number, name in enumerate(names)}
        lengths = batch.lengths + title_size
        keys = np.array([segment.item_key(item) for item in items], np.int64)
        arrays = SegmentArrays(
            np.zeros(len(lengths), np.int64),
            np.repeat(keys, batch.documents),
            lengths.astype(np.uint16),
            signs,
        )
        index = inverted_index.build_index(lexemes, tokens, lengths)
        return Segment(arrays, frozenset({ENGLISH}), index, {self._language: len(lengths)})

    def _check(self) -> None:
        """The segment is the one that `segment.build` makes."""
        some = self._batch(500)
        items = [uuid4() for _ in some.documents]
        ids = np.repeat(np.arange(len(items)), some.documents).tolist()
        titles = self._titles(some)
        built = segment.build(
            [
                ChunkText(0, items[document], titles[document], (), text)
                for document, text in zip(ids, self._texts(some), strict=True)
            ],
            np.empty((0, 500), np.uint64),
        )
        (self._language,) = built.chunks_by_language
        ours = self._segment(some, items, np.empty((0, 500), np.uint64))
        assert segment.encode_arrays(built.arrays) == segment.encode_arrays(ours.arrays)
        assert (built.languages, built.chunks_by_language) == (ours.languages, ours.chunks_by_language)
        assert built.index.terms.data == ours.index.terms.data
        assert np.array_equal(built.index.ordinals, ours.index.ordinals)
        assert np.array_equal(built.index.counts, ours.index.counts)
