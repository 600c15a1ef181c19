"""The port for a second look at the best hits, and the one that asks an endpoint of Cohere's form.

    POST {url}   {"model", "query", "documents": [text, …], "top_n"}
    answer       {"results": [{"index", "relevance_score"}, …]}

Cohere, Jina, Voyage-like servers, vLLM, TEI behind a proxy and llama.cpp speak it. A reranker is a refinement: when it
does not answer in time, or answers something else, the search is answered without it, and the log says so.
"""

import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

import httpx
from pydantic import BaseModel, ValidationError

from gristmill import net

RERANKED_HITS = 50  # hits
_TIMEOUT = timedelta(seconds=10)
_MAX_TEXT_LENGTH = 8000  # characters of a text; rerankers cut there or earlier

log = logging.getLogger(__name__)


class Reranker(Protocol):
    """Says how well texts answer a question."""

    async def scores(self, query: str, texts: Sequence[str]) -> list[float] | None:
        """A score for each text, higher is better; None when none can be had."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


class _RerankResult(BaseModel):
    index: int
    relevance_score: float


class _RerankResponse(BaseModel):
    results: list[_RerankResult]


class HttpReranker:
    """A reranker behind an endpoint."""

    def __init__(self, url: str, model: str | None, api_key: str | None) -> None:
        self._url, self._model = url, model
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._http = net.client(allow_private=True, timeout=_TIMEOUT)
        self._http.headers.update(headers)

    async def scores(self, query: str, texts: Sequence[str]) -> list[float] | None:
        """A score for each text; None when the endpoint does not give one for each."""
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
