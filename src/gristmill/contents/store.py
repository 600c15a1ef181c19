"""The named statements of this package: blobs, contents, versions, attachments, assets and conversions."""

from gristmill.db import Queries

queries = Queries(__package__ or "gristmill.contents")
