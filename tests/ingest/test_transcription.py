"""Sound and video are read as their transcripts, sent once, and read later when there was nothing to transcribe them."""

import json
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from gristmill import app
from gristmill.errors import Permanent, Transient, WorkError
from gristmill.ingest.transcriber import HttpTranscriber, TranscriptionConfig
from gristmill.readers.media_format import is_media
from gristmill.settings import Settings
from tests.api_calls import make_base, search, wait_until_ended
from tests.embedding.hashed import HashedEmbedder
from tests.ingest.transcription_endpoint import TranscriptionEndpoint, serve_transcriptions, spoken
from tests.wait_until import wait_until

WAV = b"RIFF\x24\0\0\0WAVEfmt " + bytes(range(256)) * 400
LECTURE = spoken(
    (750.0, 752.5, "The miller dresses"), (752.5, 755.0, "the stones."), (900.0, 903.0, "Bakers bake.")
)


@pytest.fixture
def endpoint() -> Generator[TranscriptionEndpoint]:
    with serve_transcriptions() as running:
        running.body = LECTURE
        yield running


@pytest.mark.parametrize(
    ("head", "name", "expected"),
    [
        (b"ID3\4\0", "a", True),
        (b"\xff\xfb\x90\x64", "a.mp3", True),
        (b"\xff\xfe<\0", "a.mp3", False),
        (b"\xff\xfb\x90\x64", "a.txt", False),
        (b"RIFF\0\0\0\0WAVEfmt ", "a", True),
        (b"RIFF\0\0\0\0WEBPVP8 ", "a", False),
        (b"\0\0\0\x20ftypisom", "a.mp4", True),
        (b"\0\0\0\x20ftypheic", "a.heic", False),
        (b"\x1a\x45\xdf\xa3", "a.webm", True),
        (b"OggS\0", "a", True),
        (b"plain text", "a.mp3", False),
    ],
)
def test_sound_and_video_are_known_by_their_first_bytes(head: bytes, name: str, expected: bool) -> None:
    assert is_media(head, name) is expected


def transcriber(endpoint: TranscriptionEndpoint, **fields: object) -> HttpTranscriber:
    config = {"api_key": "k3y", "timeout": timedelta(seconds=5), "price_per_minute": 0.006, **fields}
    return HttpTranscriber(TranscriptionConfig(endpoint.url, "whisper", **config))  # pyright: ignore[reportArgumentType]


async def test_a_file_is_sent_as_a_form_and_its_segments_become_paragraphs(
    endpoint: TranscriptionEndpoint, tmp_path: Path
) -> None:
    path = tmp_path / "original"
    path.write_bytes(WAV)
    whisper = transcriber(endpoint)
    transcript = await whisper.transcribe(path, "lecture.wav")
    (request,) = endpoint.requests
    assert (request.path, request.authorization) == ("/v1/audio/transcriptions", "Bearer k3y")
    assert request.fields == {
        "model": "whisper",
        "response_format": "verbose_json",
        "timestamp_granularities[]": "segment",
    }
    assert (request.file_name, request.data) == ("lecture.wav", WAV)
    assert [(part.time_code, part.text) for part in transcript.paragraphs] == [
        ("00:12:30", "The miller dresses the stones."),
        ("00:15:00", "Bakers bake."),
    ]
    assert (transcript.seconds, transcript.language, whisper.cost(600)) == (903.0, "english", 0.06)
    endpoint.body = {"text": " All of it. "}
    (whole,) = (await whisper.transcribe(path, "a.wav")).paragraphs
    assert (whole.time_code, whole.text) == ("", "All of it.")
    endpoint.body = spoken((0.0, 1.0, " "))
    assert list((await whisper.transcribe(path, "a.wav")).paragraphs) == []
    await whisper.close()


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (429, Transient, "transcription_unavailable"),
        (500, Transient, "transcription_unavailable"),
        (401, Permanent, "transcription_unauthorized"),
        (413, Permanent, "media_too_large"),
        (400, Permanent, "transcription_refused"),
    ],
)
async def test_refusals_of_the_endpoint_say_what_to_do(
    endpoint: TranscriptionEndpoint, tmp_path: Path, status: int, kind: type[WorkError], code: str
) -> None:
    (tmp_path / "a").write_bytes(WAV)
    endpoint.status, endpoint.body, endpoint.headers = status, {"error": "no, k3y"}, {"Retry-After": "7"}
    whisper = transcriber(endpoint)
    with pytest.raises(kind) as caught:
        await whisper.transcribe(tmp_path / "a", "a.wav")
    assert caught.value.code == code
    assert "k3y" not in caught.value.message
    if isinstance(caught.value, Transient):
        assert caught.value.retry_after == timedelta(seconds=7)
    await whisper.close()


async def test_what_is_too_large_is_not_sent_and_what_is_no_answer_is_refused(
    endpoint: TranscriptionEndpoint, tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(WAV)
    small = transcriber(endpoint, max_bytes=1000)
    with pytest.raises(Permanent, match="transcription_max_mb") as caught:
        await small.transcribe(tmp_path / "a", "a.wav")
    assert (caught.value.code, endpoint.requests) == ("media_too_large", [])
    await small.close()
    whisper = transcriber(endpoint)
    for body in ("[]", '{"segments": []}', '{"text": 7}'):
        endpoint.body = json.loads(body)
        with pytest.raises(Permanent) as caught:
            await whisper.transcribe(tmp_path / "a", "a.wav")
        assert caught.value.code == "transcription_refused"
    await whisper.close()
    gone = HttpTranscriber(TranscriptionConfig("http://127.0.0.1:9/v1", "whisper"))
    with pytest.raises(Transient) as unreachable:
        await gone.transcribe(tmp_path / "a", "a.wav")
    assert unreachable.value.code == "transcription_unavailable"
    await gone.close()


@asynccontextmanager
async def running(settings: Settings, **changes: object) -> AsyncGenerator[httpx.AsyncClient]:
    changed = Settings.model_validate({**settings.model_dump(), **changes})
    async with app.gristmill(changed, work=True, extra_embedders={"hashed": HashedEmbedder()}) as mill:
        transport = httpx.ASGITransport(app=mill.api, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield client


async def upload(http: httpx.AsyncClient, base: str, name: str, data: bytes = WAV) -> str:
    response = await http.post(f"/api/knowledge-bases/{base}/files", files=[("files", (name, data))])
    return response.json()["created"][0]["id"]


async def test_a_recording_waits_for_its_endpoint_and_is_sent_once(
    settings: Settings, endpoint: TranscriptionEndpoint
) -> None:
    """Promise 4: equal files and a re-index send nothing again."""
    async with running(settings) as http:
        base = await make_base(http)
        item = await wait_until_ended(http, await upload(http, base, "lecture.wav"))
        assert (item["status"], item["error"]["code"]) == ("failed", "no_transcription")
        assert "transcription_url" in item["error"]["message"]
    configured = {"transcription_url": endpoint.url, "transcription_model": "whisper"}
    async with running(settings, **configured) as http:

        async def completed() -> dict[str, object] | None:
            shown = (await http.get(f"/api/knowledge-items/{item['id']}")).json()
            return shown if shown["status"] == "completed" else None

        shown = await wait_until(completed)
        assert shown["document"] == {"language": "en", "duration": "00:15:03"}
        (hit,) = await search(http, base, "bakers", limit=1, mode="text")
        assert (hit["text"], hit["source"]["page"]) == (
            "[00:12:30] The miller dresses the stones.\n\n[00:15:00] Bakers bake.",
            1,
        )
        other = await make_base(http, "other")
        again = await wait_until_ended(http, await upload(http, other, "copy.wav"))
        assert (again["status"], again["document"]) == ("completed", shown["document"])
        await http.post(f"/api/knowledge-bases/{base}/reindex", json={"itemIds": [item["id"]]})
        await wait_until_ended(http, item["id"])
        assert len(endpoint.requests) == 1
        # Silence is an answer too.
        endpoint.body = spoken((0.0, 1.0, " "))
        silent = await wait_until_ended(http, await upload(http, base, "silent.wav", WAV + b"0"))
        assert (silent["status"], silent["error"]["code"]) == ("failed", "no_text")
        await http.post(f"/api/knowledge-bases/{base}/reindex", json={"itemIds": [silent["id"]]})
        await wait_until_ended(http, silent["id"])
        assert len(endpoint.requests) == 2
