"""A pool of two children for all tests of one worker process, and what reading a file with it gives."""

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gristmill.ingest.readers import Asset, Embedded, Part, ReaderPool, ReadLimits, Report, read
from tests.readers import samples


@dataclass
class Reading:
    parts: list[Part] = field(default_factory=list[Part])
    embedded: list[Embedded] = field(default_factory=list[Embedded])
    assets: list[Asset] = field(default_factory=list[Asset])
    report: Report = field(default_factory=Report)

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts)

    @property
    def files(self) -> dict[str, bytes]:
        return {one.name: one.path.read_bytes() for one in self.embedded}


Reader = Callable[..., Awaitable[Reading]]


@pytest.fixture
async def pool() -> AsyncGenerator[ReaderPool]:
    async with ReaderPool(1) as opened:
        yield opened


@pytest.fixture
def reads(pool: ReaderPool, tmp_path: Path) -> Reader:
    """Reads a file, or bytes under a name, to its end."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    async def run(data: bytes | str | Path, name: str = "", *, after: int = 0, **limits: object) -> Reading:
        if not isinstance(data, Path):
            data = samples.save(tmp_path, "input", data)
        return await gather(pool, data, name or data.name, scratch, ReadLimits(**limits), after)  # pyright: ignore[reportArgumentType]

    return run


async def gather(
    pool: ReaderPool, path: Path, name: str, scratch: Path, limits: ReadLimits, after: int = 0
) -> Reading:
    reading = Reading()
    results = read(
        pool, path, name=name, media_type=None, scratch=scratch, limits=limits, resume_after_page=after
    )
    async with contextlib.aclosing(results) as stream:
        async for result in stream:
            match result:
                case Part():
                    reading.parts.append(result)
                case Embedded():
                    reading.embedded.append(result)
                case Asset():
                    reading.assets.append(result)
                case Report():
                    reading.report = result
    return reading
