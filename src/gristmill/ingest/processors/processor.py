"""The port: a processor starts a conversion, tells how far it is, gives the result, and cancels if it can."""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Literal, Protocol


@dataclass(frozen=True)
class ProcessorConfig:
    """Where a processor is, and how it is spoken to."""

    url: str
    api_key: str | None = field(default=None, repr=False)
    timeout: timedelta = timedelta(seconds=60)  # of one request; uploads have longer
    upload_timeout: timedelta = timedelta(minutes=10)
    max_result_mb: int = 256


@dataclass(frozen=True)
class ConversionState:
    """How a conversion stands. `progress` only grows; any change of it, or of the place in the queue, is progress."""

    kind: Literal["waiting", "running", "done", "failed"]
    progress: float = 0.0
    position: int | None = None
    message: str = ""


class Processor(Protocol):
    """A service that converts documents to markdown."""

    @property
    def identity(self) -> str:
        """What names the maker of a content: the same input and identity need not be paid for again."""
        ...

    @property
    def extensions(self) -> Collection[str]:
        """The endings of names that it takes, in small letters and without the dot."""
        ...

    async def start(self, path: Path, name: str) -> str:
        """Begin to convert the file; the remote id. Transient only when nothing was begun."""
        ...

    async def poll(self, remote_id: str) -> ConversionState:
        """How the conversion stands. Asking costs nothing and may be repeated."""
        ...

    async def fetch(self, remote_id: str) -> str:
        """The markdown of a conversion that is done. May be repeated."""
        ...

    async def cancel(self, remote_id: str) -> bool:
        """Stop the conversion; False when the service can't be told to."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...
