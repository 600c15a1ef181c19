"""Where documents come from."""

from gristmill.sources.blobs import Blob, BlobStore
from gristmill.sources.directory import DirectoryEntry, list_folder
from gristmill.sources.file import FileSource
from gristmill.sources.ignore import IGNORE_FILE, IgnoreRules
from gristmill.sources.note import NoteSource
from gristmill.sources.page import WebPage, to_markdown
from gristmill.sources.sitemap import SitemapListing, SitemapRules, list_sitemap
from gristmill.sources.sitemap_file import SitemapEntry
from gristmill.sources.source import Original, Source
from gristmill.sources.url import UrlSource, normalise

__all__ = [
    "IGNORE_FILE",
    "Blob",
    "BlobStore",
    "DirectoryEntry",
    "FileSource",
    "IgnoreRules",
    "NoteSource",
    "Original",
    "SitemapEntry",
    "SitemapListing",
    "SitemapRules",
    "Source",
    "UrlSource",
    "WebPage",
    "list_folder",
    "list_sitemap",
    "normalise",
    "to_markdown",
]
