"""What an embedder's cosines mean: how near it puts a question to its answer, and to texts that have nothing to do with it.

    a local model      constants, measured once (`bench/scores.py`)
    an endpoint        measured at the first search of a process: eight questions and eight passages (`probe_texts.py`)

An embedder that puts both at the same distance does not know the language; then its cosines say nothing about a hit. If a
measurement fails, searches go on without a scale, and the next one after a while tries again.
"""

import asyncio
import logging
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

import numpy as np

from gristmill.embedding import Embedder
from gristmill.errors import GristmillError
from gristmill.search.probe_texts import CHINESE_PROBES, ENGLISH_PROBES

Script = Literal["spaced", "unspaced"]

_MIN_DEVIATIONS = (
    2.5  # of unrelated pairs, between the means; what is less can be chance. Local models have 5
)
_MIN_DIFFERENCE = 0.01
_RETRY_AFTER = timedelta(minutes=10)
_MAX_SCALES = 1000

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SimilarityScale:
    """The mean cosine of a question with an unrelated passage and with its answer."""

    unrelated: float
    related: float
    model: Literal["granite", "universal", "other"] = "other"

    def place(self, cosine: float) -> float:
        """A cosine on the scale: 0 is unrelated, 1 is an answer."""
        return (cosine - self.unrelated) / (self.related - self.unrelated)


_LOCAL_SCALES = {
    "granite-embedding-30m-english/": SimilarityScale(0.48, 0.738, "granite"),
    "use-multilingual-3/": SimilarityScale(0.015, 0.28, "universal"),
}


class SimilarityScales:
    """The scales of the embedders of this process."""

    def __init__(self) -> None:
        self._measured: dict[tuple[str, Script], SimilarityScale | None] = {}
        self._failed_at: dict[tuple[str, Script], float] = {}
        self._measuring = asyncio.Lock()

    async def scale_for(
        self, embedder: Embedder, script: Script, language: str | None = None
    ) -> SimilarityScale | None:
        """The scale of an embedder for questions in this script, and language if that is clear; None if it is not known, or
        if the embedder does not know the language."""
        if language is not None and embedder.strengths is not None and not embedder.strengths.get(language):
            return None
        for prefix, scale in _LOCAL_SCALES.items():
            if embedder.identity.startswith(prefix):
                return scale
        key = (embedder.identity, script)
        if key not in self._measured and not self._has_failed_recently(key):
            async with self._measuring:
                if key not in self._measured and not self._has_failed_recently(key):
                    await self._measure(embedder, key)
        return self._measured.get(key)

    def _has_failed_recently(self, key: tuple[str, Script]) -> bool:
        failed_at = self._failed_at.get(key)
        return failed_at is not None and time.monotonic() - failed_at < _RETRY_AFTER.total_seconds()

    async def _measure(self, embedder: Embedder, key: tuple[str, Script]) -> None:
        try:
            scale = await measure_scale(embedder, key[1])
        except GristmillError as error:
            log.warning("can't measure the similarities of an embedder", extra={"code": error.code})
            self._failed_at[key] = time.monotonic()
            return
        if len(self._measured) >= _MAX_SCALES:
            self._measured.clear()
        self._measured[key] = scale


async def measure_scale(embedder: Embedder, script: Script) -> SimilarityScale | None:
    """Embed questions and passages, and compare them; None if the embedder does not know which belong together."""
    probes = CHINESE_PROBES if script == "unspaced" else ENGLISH_PROBES
    questions = np.stack(await asyncio.gather(*(embedder.embed_query(question) for question, _ in probes)))
    passages = await embedder.embed_documents([passage for _, passage in probes])
    cosines = questions @ passages.T
    is_answer = np.eye(len(probes), dtype=bool)
    related, unrelated = float(cosines[is_answer].mean()), float(cosines[~is_answer].mean())
    is_clear = related - unrelated > max(_MIN_DEVIATIONS * float(cosines[~is_answer].std()), _MIN_DIFFERENCE)
    return SimilarityScale(unrelated, related) if is_clear else None
