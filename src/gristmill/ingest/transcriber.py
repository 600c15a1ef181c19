"""Transcribe sound and video by an OpenAI-compatible endpoint: `POST …/audio/transcriptions`.

The file is streamed from disk. The segments of `verbose_json` become paragraphs with time codes; an endpoint that returns the
text alone gives one paragraph.

    no connection, 408, 425, 429, 5xx     Transient, with the server's Retry-After
    no response to a request              Permanent transcription_uncertain: it may have been charged
    401, 403                              Permanent transcription_unauthorized
    413, or larger than the limit         Permanent media_too_large
    any other 4xx, an unexpected body     Permanent transcription_refused
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol, cast

import httpx

from gristmill import net, secret_references
from gristmill.errors import Permanent, Transient
from gristmill.readers.timed_text import Speech, TimedParagraph, paragraphs

_RESPONSE_LIMIT = 64 * 1024 * 1024
_VERSION = 1  # of what is made of a response


@dataclass(frozen=True)
class Transcript:
    """What is said, in paragraphs; how long it takes, and in which language, as far as the endpoint says."""

    paragraphs: Sequence[TimedParagraph]
    seconds: float | None = None
    language: str | None = None


class Transcriber(Protocol):
    """Turns speech into text."""

    @property
    def identity(self) -> str:
        """Identifies the transcriber: equal bytes are transcribed once by each identity."""
        ...

    async def transcribe(self, path: Path, name: str) -> Transcript:
        """What is said in the file `path`, whose name is `name`."""
        ...

    def cost(self, seconds: float) -> float | None:
        """What that much speech costs; None if no price is known."""
        ...


@dataclass(frozen=True)
class TranscriptionConfig:
    """A model that transcribes, and its endpoint."""

    url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    timeout: timedelta = timedelta(minutes=10)
    max_bytes: int = 25 * 1024 * 1024
    price_per_minute: float | None = None


class HttpTranscriber:
    """A model behind an OpenAI-compatible endpoint."""

    def __init__(self, config: TranscriptionConfig) -> None:
        self._config = config
        self._client = net.client(allow_private=True, timeout=config.timeout, with_references=True)

    @property
    def identity(self) -> str:
        """The model. The endpoint doesn't matter."""
        return "transcript/" + json.dumps([_VERSION, self._config.model], separators=(",", ":"))

    def cost(self, seconds: float) -> float | None:
        """What that much speech costs, by the price of the settings."""
        price = self._config.price_per_minute
        return None if price is None else round(seconds / 60 * price, 6)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def transcribe(self, path: Path, name: str) -> Transcript:
        """What is said in the file, with the times of the endpoint's segments."""
        size = path.stat().st_size  # noqa: ASYNC240  -- a file in the scratch folder or on the server's disk
        if size > self._config.max_bytes:
            raise Permanent(
                f"The file has {size >> 20:,} MiB, more than the {self._config.max_bytes >> 20:,} MiB that are sent to be "
                "transcribed. Split it, or raise transcription_max_mb if the endpoint takes more.",
                code="media_too_large",
            )
        return _parse(await self._post(path, name))

    async def _post(self, path: Path, name: str) -> bytes:
        config = self._config
        fields = {
            "model": config.model,
            "response_format": "verbose_json",
            "timestamp_granularities[]": "segment",
        }
        headers = {"Authorization": f"Bearer {config.api_key}"} if config.api_key else {}
        url = config.url.rstrip("/") + "/audio/transcriptions"
        try:
            with path.open("rb") as file:
                upload = {"file": (name, file, "application/octet-stream")}
                async with self._client.stream(
                    "POST", url, data=fields, files=upload, headers=headers
                ) as response:
                    body = await net.read_limited(response, _RESPONSE_LIMIT)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise Transient(
                "The transcription endpoint can't be reached.", code="transcription_unavailable"
            ) from error
        except httpx.HTTPError as error:
            raise Permanent(
                "The transcription endpoint did not answer, and may have charged for the request. Re-index the item to "
                "retry; raise transcription_timeout if the file is long.",
                code="transcription_uncertain",
            ) from error
        if not response.is_success:
            self._refuse(response, body)
        return body

    def _refuse(self, response: httpx.Response, body: bytes) -> None:
        excerpt = " ".join(body[:2_000].decode(errors="replace").split())[:300]
        if self._config.api_key:
            excerpt = excerpt.replace(self._config.api_key, "…")
        excerpt = secret_references.redact(excerpt)
        status = response.status_code
        message = f"The transcription endpoint answered {status}: {excerpt}"
        if status in (408, 425, 429) or status >= 500:
            retry_after = net.retry_after(response.headers)
            raise Transient(message, code="transcription_unavailable", retry_after=retry_after)
        if status in (401, 403):
            raise Permanent(f"{message} Check its API key.", code="transcription_unauthorized")
        if status == 413:
            raise Permanent(f"{message} Split the file.", code="media_too_large")
        raise Permanent(message, code="transcription_refused")


def _parse(body: bytes) -> Transcript:
    try:
        parsed: Any = json.loads(body)
    except ValueError:
        parsed = None
    fields: dict[str, Any] = cast("dict[str, Any]", parsed) if isinstance(parsed, dict) else {}
    text = fields.get("text")
    if not isinstance(text, str):
        raise Permanent(
            "The transcription endpoint's response contains no text.", code="transcription_refused"
        )
    spoken = list(paragraphs(_speech(fields.get("segments"))))
    if not spoken and text.strip():
        spoken = [TimedParagraph("", " ".join(text.split()))]
    duration, language = fields.get("duration"), fields.get("language")
    return Transcript(
        spoken,
        float(duration) if isinstance(duration, int | float) else None,
        language if isinstance(language, str) else None,
    )


def _speech(segments: Any) -> Iterator[Speech]:
    """The segments that are well formed."""
    for segment in cast("list[Any]", segments) if isinstance(segments, list) else ():
        fields = cast("dict[str, Any]", segment) if isinstance(segment, dict) else {}
        start, end, text = fields.get("start"), fields.get("end"), fields.get("text")
        if isinstance(start, int | float) and isinstance(text, str) and text.strip():
            yield Speech(
                float(start), float(end) if isinstance(end, int | float) else float(start), text.strip()
            )
