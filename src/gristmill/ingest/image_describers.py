"""What an image inside a document says: by OCR in a child, or by a vision model behind an OpenAI-compatible endpoint.

    local      costs nothing but time: may be tried again
    vision     costs money: whatever may have been charged for is not asked again by itself

    429, 503, no connection               Transient: it was not taken up
    no answer, or any other 5xx           Permanent vision_uncertain: it may have been charged for
    401, 403                              Permanent vision_unauthorized
    any other 4xx, or an odd answer       Permanent vision_refused

A description is kept by the image's hash and the analyst's identity (analyse.py).
"""

import base64
import contextlib
import json
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import httpx

from gristmill import net
from gristmill.errors import NoText, Permanent, Transient, Unreadable, Unsupported
from gristmill.readers import ReaderPool, ReadLimits, TextPart, read_file, reader_identity

_RESPONSE_LIMIT = 4 * 1024 * 1024
_MAX_IMAGE_BYTES = 20 * 1024 * 1024
_VISION_TYPES = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))
_PROMPT = (
    "Describe this image from a document for somebody who searches for it. Write down any text in it word for word, "
    "tables as markdown tables; of charts and diagrams, say what they show, with their figures. No introduction."
)


class ImageDescriber(Protocol):
    """Says what is on an image."""

    @property
    def identity(self) -> str:
        """What names the maker of a description."""
        ...

    @property
    def is_paid(self) -> bool:
        """Whether asking may cost money."""
        ...

    async def describe(self, path: Path, media_type: str, scratch: Path) -> str:
        """The text of the image; empty when there is none to tell."""
        ...


class OcrDescriber:
    """OCR in a child of the pool."""

    def __init__(self, pool: ReaderPool, limits: ReadLimits) -> None:
        self._pool, self._limits = pool, limits

    @property
    def identity(self) -> str:
        """What names the maker of a description."""
        return f"ocr/{reader_identity(self._limits)}"

    @property
    def is_paid(self) -> bool:
        """Nothing but time."""
        return False

    async def describe(self, path: Path, media_type: str, scratch: Path) -> str:
        """The letters on the image."""
        results = read_file(
            self._pool,
            path,
            name=path.name,
            media_type=media_type,
            scratch=scratch,
            limits=self._limits,
        )
        try:
            async with contextlib.aclosing(results) as stream:
                texts = [result.text async for result in stream if isinstance(result, TextPart)]
        except (NoText, Unsupported):  # a photograph, or a drawing in a format that nothing here can draw
            return ""
        return "".join(texts).strip()


@dataclass(frozen=True)
class VisionConfig:
    """A model that sees, and where it is."""

    url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    timeout: timedelta = timedelta(minutes=3)
    prompt: str = _PROMPT


class VisionDescriber:
    """A vision model behind an OpenAI-compatible endpoint."""

    def __init__(self, config: VisionConfig) -> None:
        self._config = config
        self._client = net.client(allow_private=True, timeout=config.timeout)

    @property
    def identity(self) -> str:
        """The model and what it was asked; where it runs makes no difference."""
        return "vision/" + json.dumps([self._config.model, self._config.prompt], separators=(",", ":"))

    @property
    def is_paid(self) -> bool:
        """It may."""
        return True

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def describe(self, path: Path, media_type: str, scratch: Path) -> str:
        """What the model says of the image."""
        if media_type not in _VISION_TYPES:
            return ""
        data = path.read_bytes()  # noqa: ASYNC240  -- some megabytes at most, of our own scratch folder
        if len(data) > _MAX_IMAGE_BYTES:
            raise Unreadable(
                f"The image has {len(data):,} bytes, too many for a model.", code="vision_refused"
            )
        return self._text(await self._post(data, media_type))

    async def _post(self, data: bytes, media_type: str) -> bytes:
        config = self._config
        address = f"data:{media_type};base64,{base64.b64encode(data).decode()}"
        content = [
            {"type": "text", "text": config.prompt},
            {"type": "image_url", "image_url": {"url": address}},
        ]
        body = {"model": config.model, "messages": [{"role": "user", "content": content}]}
        headers = {"Authorization": f"Bearer {config.api_key}"} if config.api_key else {}
        url = config.url.rstrip("/") + "/chat/completions"
        try:
            async with self._client.stream("POST", url, json=body, headers=headers) as response:
                response_body = await net.read_limited(response, _RESPONSE_LIMIT)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise Transient("The vision model can't be reached.", code="vision_unavailable") from error
        except httpx.HTTPError as error:
            message = "The vision model gave no answer; the request may have been charged for."
            raise Permanent(message, code="vision_uncertain") from error
        if not response.is_success:
            self._refuse(response, response_body)
        return response_body

    def _refuse(self, response: httpx.Response, body: bytes) -> None:
        excerpt = " ".join(body[:2_000].decode(errors="replace").split())[:300]
        if self._config.api_key:
            excerpt = excerpt.replace(self._config.api_key, "…")
        message = f"The vision model answered {response.status_code}: {excerpt}"
        if response.status_code in (429, 503):
            raise Transient(message, code="vision_unavailable", retry_after=net.retry_after(response.headers))
        if response.status_code >= 500:
            raise Permanent(message, code="vision_uncertain")
        if response.status_code in (401, 403):
            raise Permanent(f"{message} Check its key.", code="vision_unauthorized")
        raise Permanent(message, code="vision_refused")

    def _text(self, body: bytes) -> str:
        try:
            parsed: Any = json.loads(body)
            text = parsed["choices"][0]["message"]["content"]
        except (ValueError, LookupError, TypeError):
            text = None
        if not isinstance(text, str):
            raise Permanent("The vision model's answer holds no text.", code="vision_refused")
        return text.strip()
