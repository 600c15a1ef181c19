"""An embedder behind any OpenAI-compatible endpoint: OpenAI, Ollama, vLLM, TEI and others.

How responses are handled:

    200 with the right vectors            vectors, normalised, in the order of their `index`
    200 with vectors of another length    BadAnswer embedder_dimensions
    200 with anything else                BadAnswer embedder_bad_answer; Transient if it isn't even JSON
    408 425 429 5xx, incomplete response  Transient, with the pause that the server asks for
    401 403                               Permanent embedder_unauthorized
    404                                   Permanent embedder_unknown_model
    413, 400 and 422 about length         TextRefused embedder_text_too_long
    any other                             TextRefused embedder_refused, with the server's message

With a governor, every request waits until the rate limits allow it, and a Transient becomes a retry or `EmbedderPaused`
(governor.py). Cancelling a call closes the connections of its requests at once.

The API key is sent in one header only. It is removed from whatever a server returns before that is logged or shown.

Such an endpoint offers no tokenizer. Tokens are counted with granite's, which every installation has, and `max_tokens`
leaves a quarter in reserve for models with finer tokenizers. Byte-level BPE trained on English counts Chinese, Japanese
and Korean two to three times too high: chunks get shorter there, never too long.
"""

import asyncio
import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NoReturn, cast

import httpx
import numpy as np
from pydantic import BaseModel, ValidationError
from tokenizers import Tokenizer

from gristmill import clock, net
from gristmill.embedding import embedder, granite_pack, ratelimit
from gristmill.embedding.embedder import BadAnswer, TextRefused, Vectors
from gristmill.embedding.governor import Governor, plaintext_key
from gristmill.embedding.language_codes import language_names
from gristmill.errors import Permanent, SetupError, Transient
from gristmill.settings import EmbedderSettings

# The share of the model's limit that is used, because text is counted with another model's tokenizer.
TOKEN_RESERVE = 0.75

_MIN_TOKENS = 16
_QUERY_TIMEOUT = timedelta(seconds=15)  # a person waits for it
_SAMPLE = "The miller sharpens the stones every spring."
# A number takes at most 25 characters of JSON; the rest allows for servers that send more fields.
_BYTES_PER_NUMBER = 40
_FRAME_BYTES = 16 * 2**20
_EXCERPT_BYTES = 64 * 2**10
_EXCERPT_LENGTH = 200
# How servers word the error for a text that is too long for their model.
_TOO_LONG = re.compile(
    r"too (?:long|large|many tokens)|context length|maximum.{0,40}(?:tokens|length)|exceed", re.IGNORECASE
)


class _VectorEntry(BaseModel):
    index: int
    embedding: list[float]


class _EmbeddingResponse(BaseModel):
    """The fields that are read of a response. Pydantic parses them five times as fast as `json`, which blocks the loop."""

    data: list[_VectorEntry]


class OpenAIEmbedder:
    """The endpoint that `settings` describe, under the name that bases use for it; rate-limited by `governor`. The operator's
    settings may name a private address, everyone else only with `allow_private`."""

    def __init__(
        self,
        name: str,
        settings: EmbedderSettings,
        governor: Governor | None = None,
        *,
        allow_private: bool = True,
    ) -> None:
        self.name = name
        self.dimensions = settings.dimensions
        # An endpoint doesn't say which languages its model knows; who set it up may have said so.
        self.strengths: Mapping[str, float] | None = (
            dict.fromkeys(language_names(settings.languages), 1.0) if settings.languages else None
        )
        self._allow_private = allow_private
        self._settings = settings
        self._url = _endpoint(name, settings)
        self._governor = governor
        self._key = plaintext_key(settings)
        self._client: httpx.AsyncClient | None = None
        self._closed = False

    @property
    def identity(self) -> str:
        """Model, dimensions and prefixes. The address and the API key don't matter."""
        settings = self._settings
        parts = [settings.model, settings.dimensions, settings.send_dimensions]
        prefixes = [settings.document_prefix, settings.query_prefix]
        return "openai/" + json.dumps([*parts, *prefixes], ensure_ascii=False, separators=(",", ":"))

    @property
    def max_tokens(self) -> int:
        """The model's limit less the reserve and the prefix, which has at most as many tokens as bytes."""
        prefix = len(self._settings.document_prefix.encode())
        return max(_MIN_TOKENS, int(self._settings.max_tokens * TOKEN_RESERVE) - prefix)

    @property
    def tokenizer(self) -> Tokenizer:
        """Granite's tokenizer, as an approximation."""
        return granite_pack.tokenizer(granite_pack.find())

    def count_tokens(self, text: str) -> int:
        """Approximate number of tokens in `text`; see the module's docstring."""
        return embedder.count_tokens(self.tokenizer, text)

    async def load(self) -> None:
        """Load the tokenizer. Sends no request."""
        await asyncio.to_thread(lambda: self.tokenizer)

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """One row for each text, in order. Sends as many requests at once as the settings allow."""
        vectors = np.empty((len(texts), self.dimensions), np.float32)
        size = self._settings.batch_size
        prefixed = [self._settings.document_prefix + text for text in texts]
        batches = iter(range(0, len(texts), size))

        async def pull() -> None:
            for start in batches:
                vectors[start : start + size] = await self._embed_batch(prefixed[start : start + size])

        concurrency = self._settings.concurrency if self._governor else 1
        pullers = [asyncio.create_task(pull()) for _ in range(min(concurrency, -(-len(texts) // size)))]
        try:
            await asyncio.gather(*pullers)
        finally:
            await clock.cancel_tasks(pullers)
        return vectors

    async def embed_query(self, text: str) -> Vectors:
        """The vector of one query, by its own request, which doesn't wait for documents."""
        return (await self._embed_batch([self._settings.query_prefix + text], query=True))[0]

    async def measure_dimensions(self) -> int:
        """Ask the endpoint for one vector, without retries, and return its length."""
        (row,) = self._rows(await self._send([_SAMPLE]), 1)
        return len(row)

    async def close(self) -> None:
        """Close the connections."""
        self._closed = True
        if self._client is not None:
            await self._client.aclose()

    async def _embed_batch(self, texts: list[str], *, query: bool = False) -> Vectors:
        if self._governor is None:
            return await self._request(texts, query)
        must_count = self._governor.limits.tokens_per_minute is not None
        tokens = await asyncio.to_thread(self._tokens, texts) if must_count else 0
        return await self._governor.run(lambda: self._request(texts, query), tokens=tokens, query=query)

    def _tokens(self, texts: list[str]) -> int:
        return sum(map(len, self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)))

    async def _request(self, texts: Sequence[str], query: bool) -> Vectors:
        return self._vectors(await self._send(texts, query=query), len(texts))

    async def _send(self, texts: Sequence[str], *, query: bool = False) -> bytes:
        if self._closed:
            raise Transient("The embedder was closed; this process is stopping.", code="embedder_closed")
        limit = min(self._settings.timeout, _QUERY_TIMEOUT) if query else self._settings.timeout
        if self._client is None:
            self._client = net.client(
                allow_private=self._allow_private, timeout=self._settings.timeout, with_references=True
            )
        try:
            # httpx limits each single wait of a request; a server that sends byte by byte would never time out.
            async with (
                asyncio.timeout(limit.total_seconds()),
                self._client.stream(
                    "POST", self._url, json=self._body(texts), headers=self._headers()
                ) as response,
            ):
                if not response.is_success:
                    self._raise_for_status(response, await self._excerpt(response))
                return await net.read_limited(response, self._size_limit(len(texts)))
        except (TimeoutError, httpx.TimeoutException) as error:
            message = f"{self._label} did not answer within {limit.total_seconds():g} seconds."
            raise Transient(message, code="embedder_timeout") from error
        except httpx.HTTPError as error:
            message = f"{self._label} can't be reached: {self._redact(str(error)) or type(error).__name__}."
            raise Transient(message, code="embedder_unreachable") from error

    def _body(self, texts: Sequence[str]) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._settings.model,
            "input": list(texts),
            "encoding_format": "float",
        }
        return {**body, "dimensions": self.dimensions} if self._settings.send_dimensions else body

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._key}"} if self._key else {}

    def _size_limit(self, texts: int) -> int:
        return _FRAME_BYTES + texts * self.dimensions * _BYTES_PER_NUMBER

    def _vectors(self, body: bytes, count: int) -> Vectors:
        rows = self._rows(body, count)
        if wrong := {len(row) for row in rows} - {self.dimensions}:
            raise BadAnswer(
                f"{self._label} returns vectors of {min(wrong)} dimensions, but {self.dimensions} are configured."
                f" Set `dimensions` of the embedder {self.name} to {min(wrong)}.",
                code="embedder_dimensions",
            )
        with np.errstate(over="ignore"):  # becomes infinite, which the next check reports
            vectors = np.array(rows, np.float32)
        if not np.isfinite(vectors).all() or not vectors.any(axis=1).all():
            raise self._bad_response("contains a vector that is infinite, not a number or zero")
        return embedder.unit_vectors(vectors)

    def _rows(self, body: bytes, count: int) -> list[list[float]]:
        """The vectors as sent, ordered by `index`."""
        try:
            response = _EmbeddingResponse.model_validate_json(body)
        except ValidationError as error:
            if any(problem["type"] == "json_invalid" for problem in error.errors(include_input=False)):
                message = f"{self._label} answered with something that isn't JSON."
                raise Transient(message, code="embedder_unreadable_answer") from None
            raise self._bad_response("is not a list of vectors with their index") from None
        entries = sorted(response.data, key=lambda entry: entry.index)
        if [entry.index for entry in entries] != list(range(count)):
            raise self._bad_response(f"does not contain one vector for each of {count} texts")
        return [entry.embedding for entry in entries]

    def _raise_for_status(self, response: httpx.Response, excerpt: str) -> NoReturn:
        status = response.status_code
        message = f"{self._label} answered {status}" + (f": {excerpt}" if excerpt else ".")
        if status in (408, 425, 429) or status >= 500:
            code = "embedder_rate_limited" if status == 429 else "embedder_unavailable"
            raise Transient(message, code=code, retry_after=ratelimit.pause_from_headers(response.headers))
        if status in (401, 403):
            raise Permanent(f"{message} Check its `api_key`.", code="embedder_unauthorized")
        if status == 404:
            raise Permanent(f"{message} Check its `url` and `model`.", code="embedder_unknown_model")
        if status == 413 or (status in (400, 422) and _TOO_LONG.search(excerpt)):
            hint = "Set `max_tokens` of the embedder to its model's limit, or lower its `batch_size`."
            raise TextRefused(f"{message} {hint}", code="embedder_text_too_long")
        raise TextRefused(message, code="embedder_refused")

    async def _excerpt(self, response: httpx.Response) -> str:
        """The server's message, shortened and without secrets."""
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > _EXCERPT_BYTES:
                break
        text = body.decode(errors="replace")
        with contextlib.suppress(ValueError):
            text = _error_message(json.loads(text)) or text
        words = " ".join(self._redact(text).split())
        return words if len(words) <= _EXCERPT_LENGTH else words[:_EXCERPT_LENGTH] + "…"

    def _redact(self, text: str) -> str:
        for secret in (self._key, self._url.password):
            if secret:
                text = text.replace(secret, "…")
        return text

    def _bad_response(self, problem: str) -> BadAnswer:
        return BadAnswer(f"The response of {self._label} {problem}.")

    @property
    def _label(self) -> str:
        return f"The embedder {self.name} at {self._url.host}"


def _endpoint(name: str, settings: EmbedderSettings) -> httpx.URL:
    try:
        url = httpx.URL(settings.url.rstrip("/") + "/embeddings")
    except httpx.InvalidURL:
        url = httpx.URL()
    if url.scheme not in ("http", "https") or not url.host:
        raise SetupError(
            f"embedders.{name}.url must be a URL such as http://localhost:11434/v1.", code="bad_setting"
        )
    return url


def _error_message(body: Any) -> str | None:
    """The error message in any of the forms that servers use: {"error": {"message": …}}, {"error": …} and others."""
    for field in ("error", "message", "detail"):
        if isinstance(body, dict):
            body = cast(dict[str, Any], body).get(field, cast(Any, body))
    return body if isinstance(body, str) else None
