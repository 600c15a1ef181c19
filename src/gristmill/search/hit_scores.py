"""From the results of both searches to the scores of hits, and which of them are high enough. Pure functions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gristmill.search import fuse, relevance
from gristmill.search.coverage import TermCounts, measure_coverage
from gristmill.search.index.port import KeywordAnswer
from gristmill.search.language_detection import detect_language
from gristmill.search.languages import certain_language, name_language
from gristmill.search.leg_weights import weights_for_languages
from gristmill.search.lexer import is_mostly_cjk, split_words
from gristmill.search.model import Hit, HitExplanation, SearchRequest, SkippedSearch, Target
from gristmill.search.query_syntax import without_syntax
from gristmill.search.relevance import Evidence
from gristmill.search.segment import ChunkText
from gristmill.search.similarity_scale import Script, SimilarityScale
from gristmill.search.store import ChunkRow

LOADED_TEXT_HITS = 10
BEST_BY_WORDS = 3  # hits that are loaded, whatever their rank is
_MANY_CANDIDATES = 100  # if vectors have found so many, there may be more
_COVERING_HITS = 3  # whose words are compared with the question


@dataclass(frozen=True)
class BaseResults:
    """The results of one base."""

    legs: fuse.LegResults
    keyword: KeywordAnswer
    scale: SimilarityScale | None = None  # of the vector scores; None if they say nothing about a hit
    skipped: SkippedSearch | None = None


@dataclass(frozen=True)
class LoadedHit:
    """A fused hit with its row."""

    fused: fuse.FusedHit
    row: ChunkRow
    rerank_score: float | None = None
    is_best_by_words: bool = False  # it ranks below the others that were loaded

    @property
    def texts(self) -> list[str]:
        """What its words are searched in."""
        return [self.row.text, self.row.index_title, *self.row.headings]


def script_of(query: str) -> Script:
    """Whether the words of a query are separated by spaces."""
    return "unspaced" if is_mostly_cjk(query) else "spaced"


def gather_evidence(
    request: SearchRequest, results: Sequence[BaseResults], chosen: Sequence[LoadedHit]
) -> list[Evidence]:
    """What is known of each hit."""
    query = without_syntax(request.query)
    asked_in = certain_language(query)
    evidence: list[Evidence] = []
    for hit in chosen:
        result = results[hit.fused.target_index]
        # A search by vectors looks words up only to explain them.
        counts = None if request.mode == "vector" else result.keyword.term_counts
        scale = result.scale
        if counts is not None and request.viewer.principals is not None:
            counts = counts.without_frequencies()
        coverage = None if counts is None else measure_coverage(query, counts, hit.texts)
        similarity, lead = _measure_similarity(hit, result)
        evidence.append(
            Evidence(
                coverage.share if coverage else None,
                coverage is not None and coverage.is_complete,
                similarity,
                script_of(query),
                "other" if scale is None else scale.model,
                scale is not None and asked_in is not None and language_of(hit.row.text) != asked_in,
                _count_chunks(request, result),
                lead,
                coverage.plain_share if coverage else None,
            )
        )
    return evidence


def _count_chunks(request: SearchRequest, result: BaseResults) -> int:
    """How many chunks the hit was the best of. For callers who don't see everything, of those that they see, or an ordinary number:
    a score must not reveal how much there is that they can't see."""
    seen, counts = len(result.legs.vector), result.keyword.term_counts
    if request.viewer.principals is not None or counts is None:
        return seen if 0 < seen < _MANY_CANDIDATES else relevance.ORDINARY_CHUNKS
    return counts.chunks


def _measure_similarity(hit: LoadedHit, result: BaseResults) -> tuple[float | None, float]:
    """How near a hit is on the embedder's scale, and how much nearer than the tenth chunk."""
    nearest, scale = result.legs.vector, result.scale
    if scale is None or not nearest:
        return None, 0.0
    # A chunk that is not among the nearest ones is at most as near as the last of them.
    cosine = hit.fused.vector_score
    similarity = scale.place(nearest[-1].score if cosine is None else cosine)
    tenth = nearest[min(relevance.LEAD_RANK, len(nearest)) - 1].score
    return similarity, similarity - scale.place(tenth)


def weigh_languages(
    request: SearchRequest,
    legs: fuse.LegResults,
    counts: TermCounts | None,
    texts: Sequence[ChunkText],
    asked_in: str,
) -> dict[int, float]:
    """The weights of vectors for the chunks of a base of several languages, for a question in one of them. `texts` are those
    of the chunks that vectors have found, and of the first that words have."""
    others = {text.no for text in texts if language_of(text.text) != asked_in}
    query, by_no = without_syntax(request.query), {text.no: text for text in texts}
    is_covered = False
    own_hits = [hit for hit in legs.text if hit.no in by_no and hit.no not in others]
    for candidate in own_hits[:_COVERING_HITS]:
        text = by_no[candidate.no]
        if counts is not None:
            coverage = measure_coverage(query, counts, [text.text, text.title, *text.headings])
            known = Evidence(coverage.share, coverage.is_complete, None, script_of(query))
            is_covered = is_covered or relevance.score(known) >= relevance.DEFAULT_MIN_SCORE
    weights = weights_for_languages(legs.vector_weight, is_covered_by_words=is_covered)
    # A chunk that only words have found is in the question's language.
    return {hit.no: weights.other if hit.no in others else weights.own for hit in (*legs.vector, *legs.text)}


def language_of(text: str) -> str:
    """The language of a chunk's text."""
    return name_language(text, detect_language(text, split_words(text)))


def hit_score(hit: LoadedHit, evidence: Evidence) -> float:
    """A reranker's score, if there is one, else what words and vectors say."""
    if hit.rerank_score is not None:
        return min(1.0, max(0.0, hit.rerank_score))
    return relevance.score(evidence)


def rank_by_evidence(
    request: SearchRequest, hits: Sequence[LoadedHit], evidence: Sequence[Evidence]
) -> tuple[list[int], list[float]]:
    """The order of hits, and their scores in it. The order is that of the ranking. But if none of its leading hits fits, those that
    have every word of the query come first: who types the words of a text looks for it, however many others are nearer by vectors."""
    scores = [hit_score(hit, known) for hit, known in zip(hits, evidence, strict=True)]
    order = list(range(len(hits)))
    is_reranked = any(hit.rerank_score is not None for hit in hits)
    fits = max(scores[: relevance.LEADING_HITS], default=0.0) >= relevance.DEFAULT_MIN_SCORE
    if request.mode == "hybrid" and not is_reranked and not fits:
        order.sort(key=lambda place: not evidence[place].has_every_word)
    return order, relevance.descending([scores[place] for place in order])


def with_coverage(explanation: HitExplanation | None, evidence: Evidence) -> HitExplanation | None:
    """The explanation, with how much of the query the hit covers."""
    if explanation is None or evidence.plain_coverage is None:
        return explanation
    return replace(explanation, coverage=evidence.plain_coverage, has_every_word=evidence.has_every_word)


def with_pinned_first(hits: Sequence[Hit]) -> list[Hit]:
    """Pinned hits that fit the query, then the others."""
    first = [hit for hit in hits if hit.is_pinned and hit.fits]
    return [*first, *(hit for hit in hits if not (hit.is_pinned and hit.fits))] if first else list(hits)


def lowest_score(targets: Sequence[Target], request: SearchRequest, hit: Hit) -> float:
    """The lowest score of a hit that is returned."""
    if request.min_score is not None:
        return request.min_score
    return next(target.base.min_score for target in targets if target.base.id == hit.base_id)


def fitting_score(target: Target, request: SearchRequest) -> float:
    """The lowest score of a hit that fits."""
    min_score = target.base.min_score if request.min_score is None else request.min_score
    return min_score or relevance.DEFAULT_MIN_SCORE
