"""A chat model behind an OpenAI-compatible endpoint.

POST {url}/chat/completions   {"model", "messages", "stream": true, "stream_options": {"include_usage": true}}
response                      server-sent events with parts of the answer, or one JSON document; with the number of tokens, or without

400, 422                                sent once more without `stream_options`, which some endpoints refuse

429, 5xx, no connection, no response    Transient chat_unavailable: ask again
a stream that ends in the middle        the same: neither `[DONE]` nor a `finish_reason` says that the answer is complete
401, 403                                Permanent chat_unauthorized
any other 4xx, or another response      Permanent chat_refused
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from http import HTTPStatus
from typing import Any, Protocol

import httpx
from pydantic import BaseModel, ValidationError

from gristmill import net, secret_references
from gristmill.answers.model import ChatMessage, TokenUsage
from gristmill.errors import Permanent, Transient

_MAX_ANSWER = 200_000  # characters
_MAX_LINE = 1 << 20
_MAX_ERROR = 1 << 16


class ChatModel(Protocol):
    """Continues a conversation."""

    def reply(self, messages: Sequence[ChatMessage]) -> AsyncGenerator[str | TokenUsage]:
        """The parts of the reply, and the number of tokens if the model reports it. Raises Transient or Permanent."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


@dataclass(frozen=True)
class ChatModelConfig:
    """A chat model and its endpoint. `timeout` is for each part of a reply, and for the first one."""

    url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    timeout: timedelta = timedelta(minutes=2)


class HttpChatModel:
    """A chat model behind an endpoint. The operator chose its address, so that it may be private."""

    def __init__(self, config: ChatModelConfig) -> None:
        self._config = config
        self._client = net.client(allow_private=True, timeout=config.timeout, with_references=True)
        self._asks_for_usage = True

    async def reply(self, messages: Sequence[ChatMessage]) -> AsyncGenerator[str | TokenUsage]:
        """The parts of the reply, and the number of tokens if the model reports it."""
        length = 0
        try:
            async with self._send(messages) as response:
                if not response.is_success:
                    self._refuse(response, await net.read_limited(response, _MAX_ERROR))
                async with aclosing(_parts(response)) as parts:
                    async for part in parts:
                        length += len(part) if isinstance(part, str) else 0
                        if length > _MAX_ANSWER:
                            raise Permanent("The chat model does not stop writing.", code="chat_refused")
                        yield part
        except httpx.HTTPError as error:
            message = "The chat model does not answer. Ask again later, or look at `chat_url`."
            raise Transient(message, code="chat_unavailable") from error

    @asynccontextmanager
    async def _send(self, messages: Sequence[ChatMessage]) -> AsyncGenerator[httpx.Response]:
        config = self._config
        body: dict[str, Any] = {
            "model": config.model,
            "messages": [{"role": message.role, "content": message.content} for message in messages],
            "stream": True,
            "temperature": 0,
        }
        headers = {"Authorization": f"Bearer {config.api_key}"} if config.api_key else {}
        url = config.url.rstrip("/") + "/chat/completions"
        if self._asks_for_usage:
            with_usage = {**body, "stream_options": {"include_usage": True}}
            async with self._client.stream("POST", url, json=with_usage, headers=headers) as response:
                if response.status_code not in (400, 422):
                    yield response
                    return
        async with self._client.stream("POST", url, json=body, headers=headers) as response:
            self._asks_for_usage = self._asks_for_usage and not response.is_success
            yield response

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    def _refuse(self, response: httpx.Response, body: bytes) -> None:
        excerpt = " ".join(body[:2_000].decode(errors="replace").split())[:300]
        if self._config.api_key:
            excerpt = excerpt.replace(self._config.api_key, "…")
        excerpt = secret_references.redact(excerpt)
        message = f"The chat model answered {response.status_code}: {excerpt}"
        if response.status_code == HTTPStatus.TOO_MANY_REQUESTS or response.is_server_error:
            retry_after = net.retry_after(response.headers)
            raise Transient(f"{message} Ask again later.", code="chat_unavailable", retry_after=retry_after)
        if response.status_code in (401, 403):
            raise Permanent(f"{message} Check `chat_api_key`.", code="chat_unauthorized")
        raise Permanent(message, code="chat_refused")


class _ChatText(BaseModel):
    content: str | None = None


class _ChatChoice(BaseModel):
    finish_reason: str | None = None
    delta: _ChatText | None = None  # of a stream
    message: _ChatText | None = None


class _ChatUsage(BaseModel):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _ChatAnswer(BaseModel):
    choices: list[_ChatChoice] = []
    usage: _ChatUsage | None = None
    error: Any = None


async def _parts(response: httpx.Response) -> AsyncGenerator[str | TokenUsage]:
    if "text/event-stream" not in response.headers.get("content-type", ""):  # it does not stream
        for part in _read_answer(_parse_answer(await net.read_limited(response, 4 * _MAX_ANSWER))):
            yield part
        return
    is_complete = False
    async for line in response.aiter_lines():
        if len(line) > _MAX_LINE:
            raise Permanent("The chat model sends a line without end.", code="chat_refused")
        if not line.startswith("data:"):
            continue
        data = line.removeprefix("data:").strip()
        if data == "[DONE]":
            return
        answer = _parse_answer(data)
        is_complete = is_complete or any(choice.finish_reason for choice in answer.choices)
        for part in _read_answer(answer):
            yield part
    if not is_complete:
        raise Transient("The chat model broke off its answer. Ask again.", code="chat_unavailable")


def _parse_answer(data: str | bytes) -> _ChatAnswer:
    try:
        answer = _ChatAnswer.model_validate_json(data)
    except ValidationError:
        raise Permanent("The chat model's response has an unexpected form.", code="chat_refused") from None
    if answer.error is not None:
        raise Transient("The chat model stopped with an error. Ask again.", code="chat_unavailable")
    return answer


def _read_answer(answer: _ChatAnswer) -> list[str | TokenUsage]:
    """The text of the first choice, and the number of tokens, if they are in this part of the response."""
    contents = [choice.delta or choice.message for choice in answer.choices[:1]]
    parts: list[str | TokenUsage] = [part.content for part in contents if part is not None and part.content]
    if answer.usage is not None:
        parts.append(TokenUsage(answer.usage.prompt_tokens, answer.usage.completion_tokens))
    return parts
