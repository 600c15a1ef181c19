"""File processors: services that convert a document to markdown, beside the readers of our own.

A conversion is started once, remembered by its remote id, and asked after until it is done; what it cost is never paid
twice because of us. `processor.py` is the port, `conversion.py` the way of one conversion, `planning.py` who takes what.
"""

from gristmill.ingest.processors.conversion import Conversion, check_conversion, pause_before_check
from gristmill.ingest.processors.docling import DoclingServe
from gristmill.ingest.processors.mineru import MinerU
from gristmill.ingest.processors.planning import ReaderChoice, choose_reader
from gristmill.ingest.processors.processor import ConversionState, Processor, ProcessorConfig

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
