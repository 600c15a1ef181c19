"""Who reads a document: our own readers, or the base's file processor. Pure.

the base names none, or `local`      direct
it names one that is not set up      invalid
the processor takes such files       process
it does not                          direct
"""

from collections.abc import Mapping
from typing import Literal

from gristmill.ingest.processors.processor import Processor
from gristmill.settings import LOCAL_PROCESSOR

ReaderChoice = Literal["direct", "process", "invalid"]


def choose_reader(name: str, processor_id: str | None, processors: Mapping[str, Processor]) -> ReaderChoice:
    """What to do with the file called `name` in a base whose file processor is `processor_id`."""
    if processor_id is None or processor_id == LOCAL_PROCESSOR:
        return "direct"
    processor = processors.get(processor_id)
    if processor is None:
        return "invalid"
    return "process" if name.rpartition(".")[2].lower() in processor.extensions else "direct"
