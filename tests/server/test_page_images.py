"""Pictures of pages: what has none, what the cache counts, and what a picture shows."""

import asyncio
import io
from pathlib import Path

import numpy
import pytest
from PIL import Image

from gristmill.errors import Conflict
from gristmill.readers.formats import ocr
from gristmill.readers.pool import ReaderPool
from gristmill.server.api import page_images
from gristmill.server.api.page_images import PageImages
from tests.readers import samples


@pytest.mark.parametrize("data", [b"", b"# Stones", samples.docx("<w:p/>")])
async def test_a_text_or_an_office_file_has_no_pages_and_starts_no_process(
    tmp_path: Path, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(data)
    monkeypatch.delattr(ReaderPool, "lease_process")
    with pytest.raises(Conflict) as refusal:
        await PageImages().pages("key", "base", tmp_path / "file")
    assert refusal.value.code == "no_pages"


async def test_pages_that_several_people_open_at_once_are_counted_once_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A count that only grew left no room for any picture, and in the end refused all of them."""
    monkeypatch.setattr(page_images, "_MAX_CACHED_BYTES", 40_000)
    (tmp_path / "file").write_bytes(samples.pdf(["The miller grinds rye."]))
    images = PageImages()

    async def is_wanted() -> bool:
        return True

    pictures: list[bytes] = []
    try:
        for _ in range(3):
            pictures = await asyncio.gather(
                *(
                    images.image("key", "base", tmp_path / "file", 1, 400, is_wanted=is_wanted)
                    for _ in range(4)
                )
            )
            assert images.image_in_cache("key", 1, 400) in pictures
        assert len(pictures[0]) < 40_000 < 12 * len(pictures[0])
    finally:
        await images.close()


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
async def test_a_scan_with_greys_of_16_bits_is_no_white_paper(tmp_path: Path, kind: str) -> None:
    greys = numpy.linspace(0, 65_535, 400 * 100).astype("uint16").reshape(100, 400)
    Image.fromarray(greys).save(tmp_path / "scan", kind)
    assert 120 < numpy.mean(ocr.open_image((tmp_path / "scan").read_bytes())) < 135
    images = PageImages()

    async def is_wanted() -> bool:
        return True

    try:
        picture = await images.image("key", "base", tmp_path / "scan", 1, 400, is_wanted=is_wanted)
    finally:
        await images.close()
    with Image.open(io.BytesIO(picture)) as drawn:
        assert 120 < numpy.mean(numpy.asarray(drawn)) < 135
