"""A pool of two children for all tests of one worker process, and what reading a file with it gives."""

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gristmill.readers import (
    Asset,
    AttachedFile,
    ReaderPool,
    ReadLimits,
    ReadReport,
    TextPart,
    read_file,
)
from tests.readers import samples


@dataclass
class CollectedResults:
    parts: list[TextPart] = field(default_factory=list[TextPart])
    attachments: list[AttachedFile] = field(default_factory=list[AttachedFile])
    assets: list[Asset] = field(default_factory=list[Asset])
    report: ReadReport = field(default_factory=ReadReport)

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts)

    @property
    def files(self) -> dict[str, bytes]:
        return {one.name: one.path.read_bytes() for one in self.attachments}


Reader = Callable[..., Awaitable[CollectedResults]]


@pytest.fixture
async def pool() -> AsyncGenerator[ReaderPool]:
    async with ReaderPool(1) as opened:
        yield opened


@pytest.fixture
def reads(pool: ReaderPool, tmp_path: Path) -> Reader:
    """Reads a file, or bytes under a name, to its end."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    async def run(
        data: bytes | str | Path, name: str = "", *, after: int = 0, **limits: object
    ) -> CollectedResults:
        if not isinstance(data, Path):
            data = samples.save(tmp_path, "input", data)
        return await gather(pool, data, name or data.name, scratch, ReadLimits(**limits), after)  # pyright: ignore[reportArgumentType]

    return run


async def gather(
    pool: ReaderPool, path: Path, name: str, scratch: Path, limits: ReadLimits, after: int = 0
) -> CollectedResults:
    reading = CollectedResults()
    results = read_file(
        pool, path, name=name, media_type=None, scratch=scratch, limits=limits, resume_after_page=after
    )
    async with contextlib.aclosing(results) as stream:
        async for result in stream:
            match result:
                case TextPart():
                    reading.parts.append(result)
                case AttachedFile():
                    reading.attachments.append(result)
                case Asset():
                    reading.assets.append(result)
                case ReadReport():
                    reading.report = result
    return reading
