"""The port: a processor starts a conversion, reports its state, returns the result, and cancels it if it can.

`choose_reader` decides which files go to the base's processor. It is pure:

    the base names no processor, or `local`   direct: Gristmill's own readers
    the processor is not configured           invalid
    the processor accepts such files          process
    it does not                               direct
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Literal, Protocol

from gristmill.settings import LOCAL_PROCESSOR

ReaderChoice = Literal["direct", "process", "invalid"]


@dataclass(frozen=True)
class ProcessorConfig:
    """Address, credentials and limits of a processor."""

    url: str
    api_key: str | None = field(default=None, repr=False)
    timeout: timedelta = timedelta(seconds=60)  # of one request other than an upload
    upload_timeout: timedelta = timedelta(minutes=10)
    max_result_mb: int = 256


@dataclass(frozen=True)
class ConversionState:
    """The state of a conversion. `progress` only grows. A higher value, or another position in the queue, is progress."""

    kind: Literal["waiting", "running", "done", "failed"]
    progress: float = 0.0
    position: int | None = None
    message: str = ""


class Processor(Protocol):
    """A service that converts documents to markdown."""

    @property
    def identity(self) -> str:
        """Identifies the converter in content digests: the same input and identity are converted only once."""
        ...

    @property
    def extensions(self) -> Collection[str]:
        """The file extensions that it accepts, in lower case and without the dot."""
        ...

    async def start(self, path: Path, name: str) -> str:
        """Start to convert the file and return the remote id. Raises Transient only if nothing was started."""
        ...

    async def poll(self, remote_id: str) -> ConversionState:
        """The state of the conversion. Free of charge and repeatable."""
        ...

    async def fetch(self, remote_id: str) -> str:
        """The markdown of a finished conversion. Repeatable."""
        ...

    async def cancel(self, remote_id: str) -> bool:
        """Cancel the conversion. Returns False if the service can't cancel."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


def choose_reader(name: str, processor_id: str | None, processors: Mapping[str, Processor]) -> ReaderChoice:
    """Who reads the file `name` in a base whose file processor is `processor_id`."""
    if processor_id is None or processor_id == LOCAL_PROCESSOR:
        return "direct"
    processor = processors.get(processor_id)
    if processor is None:
        return "invalid"
    return "process" if name.rpartition(".")[2].lower() in processor.extensions else "direct"
