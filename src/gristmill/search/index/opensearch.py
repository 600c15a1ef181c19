"""An index in an OpenSearch cluster with the k-NN plugin.

    one index per space        behind an alias, so that a rebuilt one can take its place
    one document per chunk     its base and number are its id; routed by base, so that a search asks one shard
    words                      BM25 with the base's own statistics: no base changes the ranking of another
    vectors                    HNSW of Lucene, filtered during the search

Every copy of a shard that is in sync acknowledges a write, so a node can be lost. `put` creates documents and never
overwrites one that has changed: a late repetition can't bring back old labels.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Literal, TypeVar
from uuid import UUID

from gristmill.catalog import BaseId, ItemId
from gristmill.errors import Permanent, SetupError
from gristmill.search.index import opensearch_queries as queries
from gristmill.search.index.engine import (
    SCAN_PAGE,
    Found,
    Health,
    IndexUnavailable,
    ItemCounts,
    KeywordLeg,
    Labels,
    Leg,
    Point,
    PointFilter,
    Space,
    Statistics,
    VectorLeg,
)
from gristmill.search.index.opensearch_http import Connection, encode_lines
from gristmill.search.index.opensearch_queries import Json
from gristmill.search.query_syntax import Term

_BULK_DOCUMENTS = 250
_CHANGE_BATCH = 1_000  # documents that one request relabels or removes: far from the time-out
_MAX_REFRESH_DELAY = timedelta(seconds=1)  # a put waits so long for others that are being sent
_SEARCH_TIMEOUT = timedelta(seconds=10)  # someone waits
_MAX_ITEMS = 500  # items that one request names
_STATUS: dict[str, Literal["ok", "degraded", "down"]] = {"green": "ok", "yellow": "degraded"}

Value = TypeVar("Value")


class OpenSearch:
    """The engine: a cluster by the addresses of some of its nodes."""

    def __init__(
        self, urls: Sequence[str], *, prefix: str = "gristmill", shards: int = 3, replicas: int = 1
    ) -> None:
        self._connection = Connection([url.strip().rstrip("/") for url in urls])
        self._prefix, self._shards, self._replicas = prefix, shards, replicas

    async def prepare(self, space: Space) -> "OpenSearchIndex":
        """The index of a space; creates it where there is none."""
        alias = f"{self._prefix}-{space.key}"
        wanted = queries.settings(space, shards=self._shards, replicas=self._replicas)
        status, answer = await self._connection.send("GET", f"/{alias}", accept=(404,))
        if status == 404:
            body = {**wanted, "aliases": {alias: {"is_write_index": True}}}
            # Another worker may create it at the same moment: 400, and the check below decides.
            # All copies must be there before the first write: one that a single node has is away when that node is.
            await self._connection.send(
                "PUT",
                f"/{alias}-1",
                body,
                parameters={"wait_for_active_shards": "all", "timeout": "25s"},
                accept=(400,),
            )
            _, answer = await self._connection.send("GET", f"/{alias}")
        for name, index in answer.items():
            dimension = index["mappings"].get("properties", {}).get("vector", {}).get("dimension")
            if dimension != space.dimension:
                message = f"The index {name} has vectors of {dimension} dimensions, not {space.dimension}. Rebuild it, or set another prefix."
                raise SetupError(message, code="index_settings_differ")
        return OpenSearchIndex(self._connection, alias)

    async def drop(self, base: BaseId) -> None:
        """Remove all points of a base that is gone, whatever its space was."""
        await OpenSearchIndex(self._connection, f"{self._prefix}-*").drop(base)

    async def health(self) -> Health:
        """Whether the cluster can answer; never raises."""
        try:
            _, answer = await self._connection.send("GET", f"/_cluster/health/{self._prefix}-*")
        except IndexUnavailable as error:
            return Health("down", error.message)
        detail = f"{answer['number_of_nodes']} nodes, {answer['unassigned_shards']} copies of shards missing"
        return Health(_STATUS.get(answer["status"], "down"), detail)

    async def close(self) -> None:
        """Close the connections."""
        await self._connection.close()


class OpenSearchIndex:
    """The points of one space."""

    def __init__(self, connection: Connection, alias: str) -> None:
        self._connection, self._alias = connection, alias
        self._puts = 0  # that are sending points
        self._all_sent = asyncio.Event()
        self._next_refresh: asyncio.Task[None] | None = None

    async def put(self, points: Sequence[Point], *, replace: bool = False) -> None:
        """Add points; returns when searches find them."""
        self._puts += 1
        self._all_sent.clear()
        try:
            await self._send(points, replace=replace)
        finally:
            self._puts -= 1
            if not self._puts:
                self._all_sent.set()
        # Each refresh writes a segment, which the engine merges later: puts of the same moment share one.
        if self._next_refresh is None:
            self._next_refresh = asyncio.create_task(self._refresh_when_sent())
            self._next_refresh.add_done_callback(_retrieve_error)
        await asyncio.shield(self._next_refresh)

    async def _refresh_when_sent(self) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._all_sent.wait(), _MAX_REFRESH_DELAY.total_seconds())
        self._next_refresh = None  # what is sent from now on needs another one
        await self._refresh()

    async def _send(self, points: Sequence[Point], *, replace: bool) -> None:
        for batch in _batches(points, _BULK_DOCUMENTS):
            states = await self._states(batch) if replace else {}
            lines = await asyncio.to_thread(_put_lines, batch, states)
            _, answer = await self._connection.send(
                "POST", f"/{self._alias}/_bulk", lines, parameters=_ONLY_ALIAS
            )
            for result in answer["items"]:
                [(action, outcome)] = result.items()
                _check_put(action, outcome)

    async def _states(self, points: Sequence[Point]) -> dict[int, Json]:
        """The state of those points that the index has. A request to overwrite names it, so that it has no effect on any
        later state, however late it arrives."""
        addresses = [queries.address(point.base, point.no) for point in points]
        body = {"docs": [{**address, "_source": False} for address in addresses]}
        _, answer = await self._connection.send("POST", f"/{self._alias}/_mget", body)
        return {
            point.no: {"if_seq_no": document["_seq_no"], "if_primary_term": document["_primary_term"]}
            for point, document in zip(points, answer["docs"], strict=True)
            if document.get("found")
        }

    async def _refresh(self) -> None:
        _, answer = await self._connection.send("POST", f"/{self._alias}/_refresh")
        if answer["_shards"]["failed"]:
            raise IndexUnavailable("A shard of the index could not be refreshed.")

    async def relabel(self, base: BaseId, items: Sequence[ItemId], labels: Labels) -> None:
        """Give all points of these items these labels."""
        script = queries.set_labels(labels)
        for batch in _batches(items, _MAX_ITEMS):
            # Those that have the labels already are left out, so that a repetition goes on where the last one ended.
            query = {
                "bool": {
                    "filter": [queries.base_filter(base), {"terms": {"item": [*map(str, batch)]}}],
                    "must_not": [{"term": {"labels": labels.key}}],
                }
            }
            await self._change("_update_by_query", base, {"query": query, "script": script}, "updated")

    async def remove(self, base: BaseId, nos: Sequence[int]) -> None:
        """Remove points by their numbers. One that is not there is fine."""
        for batch in _batches(nos, _CHANGE_BATCH):
            lines: list[Json] = [{"delete": queries.address(base, no)} for no in batch]
            _, answer = await self._connection.send(
                "POST", f"/{self._alias}/_bulk", lines, parameters=_ONLY_ALIAS
            )
            for result in answer["items"]:
                if "error" in result["delete"]:
                    raise IndexUnavailable("The search engine could not remove all points.")
        await self._refresh()

    async def drop(self, base: BaseId) -> int:
        """Remove all points of a base; their number."""
        return await self._change("_delete_by_query", base, {"query": queries.base_filter(base)}, "deleted")

    async def _change(self, action: str, base: BaseId, body: Mapping[str, Any], counter: str) -> int:
        """Change all documents that the query finds, batch by batch, until it finds none."""
        parameters = {
            "routing": str(base),
            "refresh": "true",
            "conflicts": "proceed",  # another worker has changed a document: the next round sees the new one
            "scroll_size": str(_CHANGE_BATCH),
            "max_docs": str(_CHANGE_BATCH),
        }
        changed = 0
        await self._refresh()  # it searches what was last refreshed, and a batch that failed may not be
        while True:
            _, answer = await self._connection.send(
                "POST", f"/{self._alias}/{action}", body, parameters=parameters
            )
            if answer["failures"] or answer["timed_out"]:
                raise IndexUnavailable("The search engine could not change all points.")
            changed += answer[counter]
            if answer["total"] == 0:
                return changed

    async def ask(
        self, base: BaseId, legs: Sequence[Leg], scope: PointFilter, limit: int
    ) -> list[list[Found]]:
        """The best points of each leg, best first."""
        filters = queries.scope_filters(base, scope)
        leg_queries = [
            queries.vector_query(leg, filters, limit)
            if isinstance(leg, VectorLeg)
            else queries.keyword_query(leg, filters)
            for leg in legs
        ]
        lines: list[Json] = []
        for query in leg_queries:
            if query is not None:
                lines.append({"routing": str(base), "allow_partial_search_results": False})
                lines.append({"query": query, "size": limit, "track_total_hits": False, **_ONLY_NUMBERS})
        answer = (
            await self._connection.send("POST", f"/{self._alias}/_msearch", lines, timeout=_SEARCH_TIMEOUT)
            if lines
            else None
        )
        responses = iter([] if answer is None else answer[1]["responses"])
        return [
            [] if query is None else _hits(leg, next(responses))
            for leg, query in zip(legs, leg_queries, strict=True)
        ]

    async def statistics(self, base: BaseId, terms: Sequence[Term], scope: PointFilter) -> Statistics:
        """What BM25 needs of the points that a filter passes. The engine caches it until the shard changes."""
        filters = queries.scope_filters(base, scope)
        return queries.read_statistics(await self._search(base, queries.count_terms(filters, terms)))

    async def item_counts(
        self, base: BaseId, terms: Sequence[Term], items: Sequence[ItemId]
    ) -> dict[ItemId, ItemCounts]:
        """How often all points of each item together have each term, and the sum of their lengths."""
        if not items:
            return {}
        filters = [queries.base_filter(base), queries.items_filter(items)]
        requests = [
            queries.sum_lengths_by_item(filters, len(items)),
            *(queries.sum_occurrences_by_item(term, filters, len(items)) for term in terms),
        ]
        header = {"routing": str(base), "allow_partial_search_results": False}
        lines = [line for request in requests for line in (header, request)]
        _, answer = await self._connection.send(
            "POST", f"/{self._alias}/_msearch", lines, timeout=_SEARCH_TIMEOUT
        )
        for response in answer["responses"]:
            _check_response(response)
        lengths, *counts = [queries.read_sums(response) for response in answer["responses"]]
        return {
            ItemId(UUID(item)): ItemCounts(tuple(of_term.get(item, 0.0) for of_term in counts), length)
            for item, length in lengths.items()
        }

    async def similar_words(self, base: BaseId, words: Sequence[str]) -> dict[str, list[str]]:
        """For each word the lexemes of the base's shard that it may be a typing mistake of."""
        return queries.read_suggestions(words, await self._search(base, queries.suggest_words(words)))

    async def count_above(self, base: BaseId, leg: KeywordLeg, score: float) -> int:
        """How many points have a higher score than this one."""
        query = queries.keyword_query(leg, [queries.base_filter(base)])
        if query is None:
            return 0
        # The engine counts scores that are as high too, and its scores have seven digits.
        body = {"size": 0, "track_total_hits": True, "query": query, "min_score": score * (1 + 1e-5)}
        return (await self._search(base, body))["hits"]["total"]["value"]

    async def _search(self, base: BaseId, body: Json) -> Json:
        parameters = {"routing": str(base), "allow_partial_search_results": "false"}
        _, answer = await self._connection.send(
            "POST", f"/{self._alias}/_search", body, parameters=parameters, timeout=_SEARCH_TIMEOUT
        )
        return answer

    async def scan(self, base: BaseId, after: int) -> list[tuple[int, ItemId, int]]:
        """Number, item and version of the points after a number, in order."""
        body = {
            "query": {"bool": {"filter": [queries.base_filter(base), {"range": {"no": {"gt": after}}}]}},
            "size": SCAN_PAGE,
            "sort": [{"no": "asc"}],
            "track_total_hits": False,
            "_source": False,
            "docvalue_fields": ["no", "item", "version"],
        }
        rows = [hit["fields"] for hit in (await self._search(base, body))["hits"]["hits"]]
        return [(row["no"][0], ItemId(UUID(row["item"][0])), row["version"][0]) for row in rows]


# Without it, a request to an index that is gone would create one without any settings.
_ONLY_ALIAS = {"require_alias": "true"}
_ONLY_NUMBERS: Json = {
    "_source": False,
    "docvalue_fields": ["no"],
    "sort": [{"_score": "desc"}, {"no": "asc"}],  # rankings are repeatable, whichever copy of a shard answers
}


def _retrieve_error(task: asyncio.Task[None]) -> None:
    """The puts that wait get the error; if all of them were cancelled, it is not needed."""
    if not task.cancelled():
        task.exception()


def _batches(values: Sequence[Value], size: int) -> Iterator[Sequence[Value]]:
    for start in range(0, len(values), size):
        yield values[start : start + size]


def _put_lines(points: Sequence[Point], states: Mapping[int, Json]) -> str:
    """Requests to create points, or to overwrite those that are in this state."""
    lines: list[Json] = []
    for point in points:
        address = queries.address(point.base, point.no)
        state = states.get(point.no)
        lines.append({"create": address} if state is None else {"index": {**address, **state}})
        lines.append(queries.document(point))
    return encode_lines(lines)


def _check_put(action: str, result: Json) -> None:
    """Whether a point is in the index now; 409 says that it was there before, or has changed since its state was read."""
    if result["status"] < 300 or (result["status"] == 409 and action == "create"):
        return
    if result["status"] in (404, 409, 429) or result["status"] >= 500:  # 404: the index is gone
        raise IndexUnavailable(f"The search engine could not store a point ({result['status']}).")
    raise Permanent(
        f"The search engine refused a point ({result['error']['type']}).", code="index_request_refused"
    )


def _hits(leg: Leg, response: Json) -> list[Found]:
    """The hits of one leg."""
    _check_response(response)
    score = queries.similarity if isinstance(leg, VectorLeg) else float
    return [Found(hit["fields"]["no"][0], score(hit["_score"])) for hit in response["hits"]["hits"]]


def _check_response(response: Json) -> None:
    """Raise if one of several searches has failed. A shard that fails must not look like one without hits."""
    if "error" in response and response["status"] < 500 and response["status"] != 429:
        raise Permanent(
            f"The search engine refused a search ({response['error']['type']}).", code="index_request_refused"
        )
    if "error" in response or response["_shards"]["failed"] or response["timed_out"]:
        raise IndexUnavailable("The search engine could not search all of the base.")
