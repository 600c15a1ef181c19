"""Images are described, and nothing is paid for twice because of us (S3-03, S3-07, C26)."""

import base64
from collections.abc import Generator
from datetime import timedelta
from pathlib import Path

import pytest

from gristmill.errors import Permanent, Transient, WorkError
from gristmill.ingest.image_describers import OcrDescriber, VisionConfig, VisionDescriber
from gristmill.readers import ReadLimits
from gristmill.readers.pool import ReaderPool
from tests.embedding.endpoint import CannedResponse, EmbeddingRequest, Endpoint, serve
from tests.readers import samples
from tests.readers.conftest import pool as pool

pytestmark = pytest.mark.slow


@pytest.fixture
def endpoint() -> Generator[Endpoint]:
    with serve() as server:
        yield server


def analyst(endpoint: Endpoint) -> VisionDescriber:
    return VisionDescriber(VisionConfig(endpoint.url, "seer", "k3y", timedelta(seconds=5)))


def vision_response(text: str) -> dict[str, object]:
    return {"choices": [{"message": {"role": "assistant", "content": text}}]}


async def test_a_vision_model_is_shown_the_image_and_its_words_are_kept(
    endpoint: Endpoint, tmp_path: Path
) -> None:
    path = samples.save(tmp_path, "a.png", samples.PNG)
    endpoint.always_respond(200, vision_response(" A chart. \n"))
    seer = analyst(endpoint)
    assert await seer.describe(path, "image/png", tmp_path) == "A chart."
    (request,) = endpoint.requests
    assert request.path == "/v1/chat/completions"
    assert request.body["messages"][0]["content"][1]["image_url"]["url"].endswith(
        base64.b64encode(samples.PNG).decode()
    )
    # What a model can't be shown is not sent.
    assert await seer.describe(path, "image/emf", tmp_path) == ""
    assert len(endpoint.requests) == 1
    await seer.close()


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (429, Transient, "vision_unavailable"),
        (503, Transient, "vision_unavailable"),
        (500, Permanent, "vision_uncertain"),
        (504, Permanent, "vision_uncertain"),
        (401, Permanent, "vision_unauthorized"),
        (400, Permanent, "vision_refused"),
    ],
)
async def test_only_what_was_surely_not_charged_for_is_tried_again(
    endpoint: Endpoint, tmp_path: Path, status: int, kind: type[WorkError], code: str
) -> None:
    """S3-03, C26."""
    path = samples.save(tmp_path, "a.png", samples.PNG)
    endpoint.always_respond(status, {"error": "no, k3y"})
    seer = analyst(endpoint)
    with pytest.raises(kind) as caught:
        await seer.describe(path, "image/png", tmp_path)
    assert caught.value.code == code
    assert "k3y" not in caught.value.message
    assert len(endpoint.requests) == 1
    await seer.close()


async def test_an_answer_that_never_comes_is_not_asked_for_again(endpoint: Endpoint, tmp_path: Path) -> None:
    """S3-03, C26."""

    def hang_up(_: EmbeddingRequest) -> CannedResponse:
        raise ConnectionError

    endpoint.respond = hang_up
    seer = analyst(endpoint)
    with pytest.raises(Permanent) as caught:
        await seer.describe(samples.save(tmp_path, "a.png", samples.PNG), "image/png", tmp_path)
    assert caught.value.code == "vision_uncertain"
    await seer.close()


async def test_an_image_without_letters_says_nothing_and_is_no_failure(
    pool: ReaderPool, tmp_path: Path
) -> None:
    local = OcrDescriber(pool, ReadLimits())
    assert await local.describe(samples.save(tmp_path, "a.png", samples.PNG), "image/png", tmp_path) == ""
    wmf = samples.save(tmp_path, "a.wmf", b"\xd7\xcd\xc6\x9a" + bytes(100))
    assert await local.describe(wmf, "image/wmf", tmp_path) == ""
