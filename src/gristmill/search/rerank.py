"""The reranker port, and an adapter for endpoints with Cohere's API.

    POST {url}   {"model", "query", "documents": [text, …], "top_n"}
    response     {"results": [{"index", "relevance_score"}, …]}

Cohere, Jina, Voyage-like servers, vLLM, TEI behind a proxy and llama.cpp have this API. A reranker is optional: if it
times out or its response is invalid, the search returns the hits in their fused order and logs a warning.
"""

import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

import httpx
from pydantic import BaseModel, ValidationError

from gristmill import net

RERANKED_HITS = 50
_TIMEOUT = timedelta(seconds=10)
_MAX_TEXT_LENGTH = 8000  # characters; rerankers truncate there or earlier

log = logging.getLogger(__name__)


class Reranker(Protocol):
    """Scores how well texts match a query."""

    async def scores(self, query: str, texts: Sequence[str]) -> list[float] | None:
        """A score for each text, higher is better; None if the reranker failed."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


class _RerankResult(BaseModel):
    index: int
    relevance_score: float


class _RerankResponse(BaseModel):
    results: list[_RerankResult]


class HttpReranker:
    """A reranker behind an HTTP endpoint."""

    def __init__(self, url: str, model: str | None, api_key: str | None) -> None:
        self._url, self._model = url, model
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._http = net.client(allow_private=True, timeout=_TIMEOUT, with_references=True)
        self._http.headers.update(headers)

    async def scores(self, query: str, texts: Sequence[str]) -> list[float] | None:
        """A score for each text; None if the endpoint fails or does not score every text."""
        body = {"query": query, "documents": [text[:_MAX_TEXT_LENGTH] for text in texts], "top_n": len(texts)}
        if self._model is not None:
            body["model"] = self._model
        try:
            response = await self._http.post(self._url, json=body)
            response.raise_for_status()
            parsed = _RerankResponse.model_validate_json(response.content)
        except (httpx.HTTPError, ValidationError) as error:
            log.warning("reranker gave no scores", extra={"reason": type(error).__name__})
            return None
        scores = {result.index: result.relevance_score for result in parsed.results}
        if set(scores) != set(range(len(texts))):
            log.warning("reranker gave no scores", extra={"reason": "not one for each text"})
            return None
        return [scores[index] for index in range(len(texts))]

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()
