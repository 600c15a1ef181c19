"""Where documents come from."""

from gristmill.sources.blobs import Blob, Blobs
from gristmill.sources.directory import Found, list_folder
from gristmill.sources.file import FileSource
from gristmill.sources.ignore import IGNORE_FILE, Rules
from gristmill.sources.note import NoteSource
from gristmill.sources.page import Page, to_markdown
from gristmill.sources.sitemap import SitemapListing, SitemapRules, list_sitemap
from gristmill.sources.sitemap_file import SitemapEntry
from gristmill.sources.source import Original, Source
from gristmill.sources.url import UrlSource, normalise

__all__ = [
    "IGNORE_FILE",
    "Blob",
    "Blobs",
    "FileSource",
    "Found",
    "NoteSource",
    "Original",
    "Page",
    "Rules",
    "SitemapEntry",
    "SitemapListing",
    "SitemapRules",
    "Source",
    "UrlSource",
    "list_folder",
    "list_sitemap",
    "normalise",
    "to_markdown",
]
