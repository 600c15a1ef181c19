"""The statements of this package."""

from gristmill.db import Queries

queries = Queries(__package__ or "gristmill.usage")
