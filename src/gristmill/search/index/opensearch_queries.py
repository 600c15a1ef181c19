"""What is sent to OpenSearch: the settings of an index, documents and queries. Pure functions.

The score of a term in a chunk is BM25, as in `bm25.py`. The engine's own takes its statistics from all bases of a shard and
rounds lengths; here the field's similarity returns the plain number of occurrences, and a script per term computes the
score from it, from the exact length and from what was counted in the base.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gristmill.catalog import BaseId, ItemId
from gristmill.search.bm25 import K1, B, DocumentStatistics, idf
from gristmill.search.index.engine import (
    KeywordLeg,
    Labels,
    Point,
    PointFilter,
    Space,
    Statistics,
    VectorLeg,
)
from gristmill.search.query_syntax import Names, Term
from gristmill.search.spelling import MIN_LETTERS, max_mistakes

Json = dict[str, Any]

# Candidates that the graph search keeps for each hit. With one, half the neighbours can be missed; with two, 1.5 % were, of 20,000
# chunks in overlapping clusters.
_CANDIDATES_PER_HIT = 5
_MIN_CANDIDATES = 1_000
_MAX_CANDIDATES = 10_000  # the engine takes no more
_MAX_COUNTED_ITEMS = 40_000  # documents that have a term are counted exactly up to here, and estimated beyond
_MAX_SUGGESTIONS = 50  # for a word; other bases of the shard may have most of them
_ANY_FREQUENCY = 1_000_000_000  # by default, a word that many points of a shard have is not looked at
_BASE_LIST = "*base*"  # a principal of our own: the base's access list applies
_OCCURRENCES = "return doc.freq;"
_TERM_SCORE = (
    "double f = _score; return params.weight * f / (f + params.base + params.slope * doc['length'].value)"
)
_SET_LABELS = "ctx._source.putAll(params.labels)"


def settings(space: Space, *, shards: int, replicas: int) -> Json:
    """The settings and fields of the index of a space."""
    keyword = {"type": "keyword"}
    similarity = {"occurrences": {"type": "scripted", "script": {"source": _OCCURRENCES}}}
    words = {
        "type": "text",
        "analyzer": "whitespace",
        "index_options": "freqs",
        "norms": False,
        "similarity": "occurrences",
    }
    vector = {
        "type": "knn_vector",
        "dimension": space.dimension,
        "method": {
            "name": "hnsw",
            "engine": "lucene",
            "space_type": "innerproduct",
            "parameters": {"m": 16, "ef_construction": 100},
        },
    }
    return {
        "settings": {
            "index": {
                "number_of_shards": shards,
                "auto_expand_replicas": f"0-{replicas}",  # none where there is but one node
                "refresh_interval": "-1",  # every change refreshes once, when it is complete
                "knn": True,
                "similarity": similarity,
            }
        },
        "mappings": {
            "dynamic": "strict",
            "_routing": {"required": True},
            "_meta": {"embedder": space.embedder},
            "properties": {
                "no": {"type": "long"},
                "base": keyword,
                "item": keyword,
                "version": {"type": "long"},
                "length": {"type": "integer", "index": False},
                "labels": keyword,
                "principals": keyword,
                "ancestors": keyword,
                "type": keyword,
                "metadata": keyword,
                "words": words,
                "vector": vector,
            },
        },
    }


def address(base: BaseId, no: int) -> Json:
    """The id and the routing of a point. Two databases that share a cluster number their chunks alike."""
    return {"_id": f"{base}-{no}", "routing": str(base)}


def document(point: Point) -> Json:
    """A point as a document. Each lexeme is repeated as often as it occurs."""
    words = " ".join(lexeme for lexeme, count in point.lexemes.items() for _ in range(count))
    return {
        "no": point.no,
        "base": str(point.base),
        "item": str(point.item),
        "version": point.version,
        "length": point.length,
        "words": words,
        "vector": _unit(point.vector),
        **label_fields(point.labels),
    }


def label_fields(labels: Labels) -> Json:
    """The fields of a document that relabelling changes."""
    return {
        "labels": labels.key,
        "principals": [_BASE_LIST] if labels.principals is None else sorted(labels.principals),
        "ancestors": [*map(str, labels.ancestors)],
        "type": labels.type,
        "metadata": sorted(labels.metadata),
    }


def set_labels(labels: Labels) -> Json:
    """The script that gives a document these labels."""
    return {"source": _SET_LABELS, "params": {"labels": label_fields(labels)}}


def base_filter(base: BaseId) -> Json:
    """All points of a base."""
    return {"term": {"base": str(base)}}


def items_filter(items: Sequence[ItemId]) -> Json:
    """All points of these items."""
    return {"terms": {"item": [*map(str, items)]}}


def scope_filters(base: BaseId, scope: PointFilter) -> list[Json]:
    """The conditions that every hit meets."""
    conditions = [base_filter(base)]
    if scope.items is not None:
        conditions.append(items_filter(scope.items))
    if scope.principals is not None:
        own = [_BASE_LIST] if scope.sees_base_list else []
        conditions.append({"terms": {"principals": [*scope.principals, *own]}})
    if scope.types:
        conditions.append({"terms": {"type": [*scope.types]}})
    if scope.under:
        items = [*map(str, scope.under)]
        conditions.append({"bool": {"should": [{"terms": {"ancestors": items}}, {"terms": {"item": items}}]}})
    return conditions + [{"term": {"metadata": token}} for token in sorted(scope.metadata)]


def occurrences(term: Term) -> Json:
    """The documents that have a term, scored by how often. A document with words of a prefix counts as having one."""
    if term.prefix:
        prefix: Json = {"prefix": {"words": term.names[0]}}
        word: Json = {"terms": {"words": [*term.names[1:]]}}
        return (
            {"constant_score": {"filter": {"bool": {"should": [prefix, word]}}}} if term.names[1:] else prefix
        )
    return _any_of(term.names)


def _any_of(names: Names) -> Json:
    matches: list[Json] = [{"term": {"words": name}} for name in names]
    return matches[0] if len(matches) == 1 else {"bool": {"should": matches}}


def count_terms(filters: Sequence[Json], terms: Sequence[Term]) -> Json:
    """A request for the statistics of the points that filters pass."""
    counts = {str(number): occurrences(term) for number, term in enumerate(terms)}
    documents = {"documents": {"cardinality": {"field": "item", "precision_threshold": _MAX_COUNTED_ITEMS}}}
    return {
        "size": 0,
        "track_total_hits": True,
        "query": {"bool": {"filter": [*filters]}},
        "aggs": {
            "length": {"sum": {"field": "length"}},
            **documents,
            **({"terms": {"filters": {"filters": counts}, "aggs": documents}} if counts else {}),
        },
    }


def read_statistics(answer: Mapping[str, Any]) -> Statistics:
    """The statistics in the answer to `count_terms`."""
    chunks = answer["hits"]["total"]["value"]
    buckets = answer["aggregations"].get("terms", {"buckets": {}})["buckets"]
    in_order = [buckets[str(number)] for number in range(len(buckets))]
    length, documents = (answer["aggregations"][name]["value"] for name in ("length", "documents"))
    return Statistics(
        chunks,
        length / max(chunks, 1),
        tuple(bucket["doc_count"] for bucket in in_order),
        DocumentStatistics(
            documents, length / max(documents, 1), [bucket["documents"]["value"] for bucket in in_order]
        ),
    )


def keyword_query(leg: KeywordLeg, filters: Sequence[Json]) -> Json | None:
    """The query of a search by words; None if no chunk of the base has any of them."""
    statistics = leg.statistics
    scored = [
        _term_score(term, idf(chunks, statistics.chunks), statistics.mean_length)
        for term, chunks in zip(leg.terms, statistics.by_term, strict=True)
        if chunks
    ]
    if not scored:
        return None
    return {
        "bool": {
            "should": scored,
            "minimum_should_match": 1,
            "filter": [*filters, *map(_any_of, leg.required)],
            "must_not": [occurrences(term) for term in leg.excluded],
        }
    }


def _term_score(term: Term, term_idf: float, mean_length: float) -> Json:
    parameters = {
        "weight": term.weight * term_idf * (K1 + 1),
        "base": K1 * (1 - B),
        "slope": K1 * B / max(mean_length, 1e-9),
    }
    return {
        "script_score": {
            "query": occurrences(term),
            "script": {"source": _TERM_SCORE, "params": parameters},
        }
    }


def sum_occurrences_by_item(term: Term, filters: Sequence[Json], items: int) -> Json:
    """A request for how often the points of each item have a term."""
    query = {"bool": {"must": [occurrences(term)], "filter": [*filters]}}
    return _sum_by_item(query, {"script": {"source": "_score"}}, items)


def sum_lengths_by_item(filters: Sequence[Json], items: int) -> Json:
    """A request for the lengths of the points of each item."""
    return _sum_by_item({"bool": {"filter": [*filters]}}, {"field": "length"}, items)


def _sum_by_item(query: Json, value: Json, items: int) -> Json:
    by_item = {"terms": {"field": "item", "size": items}, "aggs": {"total": {"sum": value}}}
    return {"size": 0, "track_total_hits": False, "query": query, "aggs": {"items": by_item}}


def read_sums(answer: Mapping[str, Any]) -> dict[str, float]:
    """The sums by item in an answer to one of them."""
    return {bucket["key"]: bucket["total"]["value"] for bucket in answer["aggregations"]["items"]["buckets"]}


def suggest_words(words: Sequence[str]) -> Json:
    """A request for the words of a shard that are similar to these, and begin with the same letter."""
    return {
        "size": 0,
        "track_total_hits": False,
        "suggest": {str(number): _suggest_word(word) for number, word in enumerate(words)},
    }


def _suggest_word(word: str) -> Json:
    options = {
        "field": "words",
        "suggest_mode": "always",
        "max_edits": max_mistakes(word),
        "prefix_length": 1,
        "min_word_length": MIN_LETTERS,
        "max_term_freq": _ANY_FREQUENCY,
        "size": _MAX_SUGGESTIONS,
        "shard_size": _MAX_SUGGESTIONS,
    }
    return {"text": word, "term": options}


def read_suggestions(words: Sequence[str], answer: Mapping[str, Any]) -> dict[str, list[str]]:
    """The similar words in the answer to `suggest_words`."""
    return {
        word: [option["text"] for entry in answer["suggest"][str(number)] for option in entry["options"]]
        for number, word in enumerate(words)
    }


def vector_query(leg: VectorLeg, filters: Sequence[Json], limit: int) -> Json:
    """The query of a search by nearness."""
    candidates = min(_MAX_CANDIDATES, max(_MIN_CANDIDATES, _CANDIDATES_PER_HIT * limit))
    nearest = {
        "vector": _unit(leg.vector),
        "k": limit,
        "method_parameters": {"ef_search": candidates},
        "filter": {"bool": {"filter": [*filters]}},
    }
    return {"knn": {"vector": nearest}}


def similarity(score: float) -> float:
    """The cosine similarity that the engine has turned into a score above 0."""
    return score - 1 if score >= 1 else 1 - 1 / score


def _unit(vector: NDArray[np.float32]) -> list[float]:
    """The vector with length 1: then the inner product is the cosine similarity. Five decimals are more than the table has,
    and a third of the text that all digits take."""
    length = float(np.linalg.norm(vector))
    return np.round((vector / length if length else vector).astype(np.float64), 5).tolist()
