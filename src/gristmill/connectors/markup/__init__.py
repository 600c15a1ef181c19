"""What vendors write their texts in, as markdown: ADF, Confluence's storage format, Jira's wiki markup.

Pure: text in, text out. No converter raises, whatever it is given, and none loses words: what it does not know keeps its
text. Time grows with the length of the input, not with its depth.
"""

from gristmill.connectors.markup.adf import to_markdown as adf
from gristmill.connectors.markup.storage import to_markdown as storage
from gristmill.connectors.markup.wiki import to_markdown as wiki
from gristmill.connectors.markup.writer import strip_unstorable

__all__ = ["adf", "storage", "strip_unstorable", "wiki"]
