"""The places that documents come from: files, folders, web pages, sitemaps, notes; and the blob store."""

from gristmill.sources.blobs import Blob, BlobStore
from gristmill.sources.directory import DirectoryEntry, list_folder
from gristmill.sources.file import FileSource
from gristmill.sources.ignore import IGNORE_FILE, IgnoreRules
from gristmill.sources.page import WebPage, to_markdown
from gristmill.sources.sitemap import SitemapListing, SitemapRules, list_sitemap
from gristmill.sources.sitemap_file import SitemapEntry
from gristmill.sources.source import NoteSource, Original, Source
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
