"""Describe an image by OCR in a child process, or by a vision model behind an OpenAI-compatible endpoint.

    OCR              free of charge: may be retried
    vision model     paid: a request that may have been charged is not retried automatically

    429, 503, no connection                    Transient: the request was not accepted
    no response, or any other 5xx              Permanent vision_uncertain: it may have been charged
    401, 403                                   Permanent vision_unauthorized
    any other 4xx, or an unexpected response   Permanent vision_refused

Descriptions are stored by the image's hash and the describer's identity (images.py).
"""

import base64
import contextlib
import json
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import httpx

from gristmill import net, secret_references
from gristmill.errors import NoText, Permanent, Transient, Unreadable, Unsupported
from gristmill.readers import ReadLimits, TextPart, reader_identity
from gristmill.readers.pool import ReaderPool
from gristmill.readers.supervisor import read_file
from gristmill.stage_gate import ANYBODY, Requester

_RESPONSE_LIMIT = 4 * 1024 * 1024
_MAX_IMAGE_BYTES = 20 * 1024 * 1024
_VISION_TYPES = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))
# Part of the describer's identity: another wording would have every image described, and paid for, again.
_PROMPT = (
    "Describe this image from a document for somebody who searches for it. Write down any text in it word for word, "
    "tables as markdown tables; of charts and diagrams, say what they show, with their figures. No introduction."
)


class ImageDescriber(Protocol):
    """Describes images in words."""

    @property
    def identity(self) -> str:
        """Identifies the describer: descriptions of the same image by the same identity are reused."""
        ...

    @property
    def is_paid(self) -> bool:
        """Whether a request may cost money."""
        ...

    async def describe(
        self, path: Path, media_type: str, scratch: Path, requester: Requester = ANYBODY
    ) -> str:
        """The description of the image, made on behalf of `requester`; empty if there is nothing to describe."""
        ...


def ocr_identity(limits: ReadLimits) -> str:
    """The identity of the OCR reader with these limits."""
    return f"ocr/{reader_identity(limits)}"


class OcrDescriber:
    """Recognises the text in an image, in a child process of the reader pool."""

    def __init__(self, pool: ReaderPool, limits: ReadLimits) -> None:
        self._pool, self._limits = pool, limits

    @property
    def identity(self) -> str:
        """The OCR reader and its limits."""
        return ocr_identity(self._limits)

    @property
    def is_paid(self) -> bool:
        """OCR is free."""
        return False

    async def describe(
        self, path: Path, media_type: str, scratch: Path, requester: Requester = ANYBODY
    ) -> str:
        """The text in the image."""
        results = read_file(
            self._pool,
            path,
            name=path.name,
            media_type=media_type,
            scratch=scratch,
            limits=self._limits,
            requester=requester,
            is_image=True,
        )
        try:
            async with contextlib.aclosing(results) as stream:
                texts = [result.text async for result in stream if isinstance(result, TextPart)]
        except (NoText, Unsupported):  # a photograph, or a drawing in a format that can't be rendered
            return ""
        return "".join(texts).strip()


@dataclass(frozen=True)
class VisionConfig:
    """A vision model and its endpoint."""

    url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    timeout: timedelta = timedelta(minutes=3)
    prompt: str = _PROMPT

    @property
    def identity(self) -> str:
        """The model and the prompt. The endpoint doesn't matter."""
        return "vision/" + json.dumps([self.model, self.prompt], separators=(",", ":"))


class VisionDescriber:
    """A vision model behind an OpenAI-compatible endpoint."""

    def __init__(self, config: VisionConfig) -> None:
        self._config = config
        self._client = net.client(allow_private=True, timeout=config.timeout, with_references=True)

    @property
    def identity(self) -> str:
        """The model and the prompt."""
        return self._config.identity

    @property
    def is_paid(self) -> bool:
        """A vision model may be paid."""
        return True

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def describe(
        self,
        path: Path,
        media_type: str,
        scratch: Path,
        requester: Requester = ANYBODY,
    ) -> str:
        """The model's description of the image."""
        if media_type not in _VISION_TYPES:
            return ""
        data = path.read_bytes()  # noqa: ASYNC240  -- a few megabytes at most, in the scratch folder
        if len(data) > _MAX_IMAGE_BYTES:
            raise Unreadable(
                f"The image has {len(data):,} bytes, too many for the vision model.", code="vision_refused"
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
            message = "The vision model did not answer, and may have charged for the request. Re-index the item to retry."
            raise Permanent(message, code="vision_uncertain") from error
        if not response.is_success:
            self._refuse(response, response_body)
        return response_body

    def _refuse(self, response: httpx.Response, body: bytes) -> None:
        excerpt = " ".join(body[:2_000].decode(errors="replace").split())[:300]
        if self._config.api_key:
            excerpt = excerpt.replace(self._config.api_key, "…")
        excerpt = secret_references.redact(excerpt)
        message = f"The vision model answered {response.status_code}: {excerpt}"
        if response.status_code in (429, 503):
            raise Transient(message, code="vision_unavailable", retry_after=net.retry_after(response.headers))
        if response.status_code >= 500:
            raise Permanent(message, code="vision_uncertain")
        if response.status_code in (401, 403):
            raise Permanent(f"{message} Check its API key.", code="vision_unauthorized")
        raise Permanent(message, code="vision_refused")

    def _text(self, body: bytes) -> str:
        try:
            parsed: Any = json.loads(body)
            text = parsed["choices"][0]["message"]["content"]
        except (ValueError, LookupError, TypeError):
            text = None
        if not isinstance(text, str):
            raise Permanent("The vision model's response contains no text.", code="vision_refused")
        return text.strip()
