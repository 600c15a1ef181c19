"""The named statements of files and batches."""

from gristmill.db import Queries

queries = Queries(__package__ or "gristmill.files")
