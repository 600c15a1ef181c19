"""File processors: external services that convert documents to markdown, as an alternative to Gristmill's own readers.

A conversion is started once, stored by its remote id, and polled until it is done, so that it is never paid for twice.
`processor.py` is the port and decides which files go to a processor, `conversion.py` polls one conversion, `client.py`
sends the HTTP requests.
"""

from gristmill.ingest.processors.conversion import Conversion, check_conversion, pause_before_check
from gristmill.ingest.processors.docling import DoclingServe
from gristmill.ingest.processors.mineru import MinerU
from gristmill.ingest.processors.processor import (
    ConversionState,
    Processor,
    ProcessorConfig,
    ReaderChoice,
    choose_reader,
)

__all__ = [
    "Conversion",
    "ConversionState",
    "DoclingServe",
    "MinerU",
    "Processor",
    "ProcessorConfig",
    "ReaderChoice",
    "check_conversion",
    "choose_reader",
    "pause_before_check",
]
