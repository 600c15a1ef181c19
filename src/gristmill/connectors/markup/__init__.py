"""Converters to markdown: Atlassian's document format, Confluence's storage format, Jira's wiki markup.

Pure functions: text in, text out. No converter raises, whatever the input, and none loses words: unknown markup keeps its
text. Time grows with the length of the input, not with its depth.
"""

from gristmill.connectors.markup.adf import to_markdown as adf
from gristmill.connectors.markup.storage import to_markdown as storage
from gristmill.connectors.markup.wiki import to_markdown as wiki
from gristmill.connectors.markup.writer import storable, strip_unstorable

__all__ = ["adf", "storable", "storage", "strip_unstorable", "wiki"]
