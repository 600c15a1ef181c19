"""A pool of one child process, and a function that reads a sample with it."""

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gristmill.readers import Asset, AttachedFile, DocumentFields, ReadLimits, ReadReport, TextPart
from gristmill.readers.pool import ReaderPool
from gristmill.readers.supervisor import read_file
from tests.readers import samples


@dataclass
class CollectedResults:
    """Everything that reading one file yields."""

    parts: list[TextPart] = field(default_factory=list[TextPart])
    attachments: list[AttachedFile] = field(default_factory=list[AttachedFile])
    assets: list[Asset] = field(default_factory=list[Asset])
    document: dict[str, Any] = field(default_factory=dict[str, Any])
    report: ReadReport = field(default_factory=ReadReport)

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts)

    @property
    def files(self) -> dict[str, bytes]:
        return {attachment.name: attachment.path.read_bytes() for attachment in self.attachments}


ReadSample = Callable[..., Awaitable[CollectedResults]]


@pytest.fixture
async def pool() -> AsyncGenerator[ReaderPool]:
    """A pool of the test's own: its children may be killed."""
    async with ReaderPool(1) as reader_pool:
        yield reader_pool


@pytest.fixture
def read_sample(pool: ReaderPool, tmp_path: Path) -> ReadSample:
    """Reads a file, or bytes under a name, to its end."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    async def run(
        data: bytes | str | Path, name: str = "", *, after: int = 0, **limits: object
    ) -> CollectedResults:
        if not isinstance(data, Path):
            data = samples.save(tmp_path, "input", data)
        return await collect(pool, data, name or data.name, scratch, ReadLimits(**limits), after)  # pyright: ignore[reportArgumentType]

    return run


async def collect(
    pool: ReaderPool, path: Path, name: str, scratch: Path, limits: ReadLimits, after: int = 0
) -> CollectedResults:
    """Read the file to its end."""
    collected = CollectedResults()
    results = read_file(
        pool, path, name=name, media_type=None, scratch=scratch, limits=limits, resume_after_page=after
    )
    async with contextlib.aclosing(results) as stream:
        async for result in stream:
            match result:
                case TextPart():
                    collected.parts.append(result)
                case AttachedFile():
                    collected.attachments.append(result)
                case Asset():
                    collected.assets.append(result)
                case DocumentFields():
                    collected.document = result.fields | collected.document
                case ReadReport():
                    collected.report = result
    return collected
