"""tables: where markdown tables stand in a part of a content. Each is an asset of its document, whose text is the content's.

A table is found when its head, the line below it and a row stand in one part; rows that follow in the next part are not
counted to it.
"""

import hashlib
import re

from gristmill.contents import ContentAsset
from gristmill.ingest.document import Document
from gristmill.readers import TextPart

MAX_ASSETS = 1_000  # of one document
# Bounded by lines: a head, a line of dashes, rows.
_TABLE = re.compile(r"^\|[^\n]*\|[ \t]*\n\|[ \t:|-]*-[ \t:|-]*\|[ \t]*\n(?:\|[^\n]*(?:\n|\Z))+", re.MULTILINE)


def find_tables(document: Document, part: TextPart, start: int) -> None:
    """Note the tables of a part that begins at `start`."""
    if "|" not in part.text:
        return
    for match in _TABLE.finditer(part.text):
        if len(document.assets) >= MAX_ASSETS:
            return
        text = match.group().rstrip().encode()
        begin, end = start + match.start(), start + match.start() + len(match.group().rstrip())
        digest = hashlib.sha256(text).digest()
        number = len(document.assets) + 1
        document.add_asset(
            ContentAsset(
                digest, number, "table", "text/markdown", len(text), part.page, begin, end, "", True, None
            )
        )
