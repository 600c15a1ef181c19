"""Where documents come from."""

from gristmill.sources.file import FileSource
from gristmill.sources.note import NoteSource
from gristmill.sources.source import Original, Source

__all__ = ["FileSource", "NoteSource", "Original", "Source"]
