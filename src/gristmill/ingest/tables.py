"""Find markdown tables in a part of a content. Each is an asset of its document, and its text is part of the content.

A table is found if its header, the line below and at least one row are in the same part. Rows in the next part are not
counted as part of it.
"""

import hashlib
import re
from collections.abc import Iterator

from gristmill.contents import ContentAsset
from gristmill.readers import TextPart

MAX_ASSETS = 1_000  # of one document; more tables are not recorded
# Bounded by lines: a header, a line of dashes, rows.
_TABLE = re.compile(r"^\|[^\n]*\|[ \t]*\n\|[ \t:|-]*-[ \t:|-]*\|[ \t]*\n(?:\|[^\n]*(?:\n|\Z))+", re.MULTILINE)


def find_tables(part: TextPart, start: int) -> Iterator[ContentAsset]:
    """The tables of a part that starts at `start`, not numbered yet."""
    if "|" not in part.text:
        return
    for match in _TABLE.finditer(part.text):
        table = match.group().rstrip()
        text = table.encode()
        first = start + match.start()
        digest = hashlib.sha256(text).digest()
        yield ContentAsset(
            digest,
            0,
            "table",
            "text/markdown",
            len(text),
            part.page,
            first,
            first + len(table),
            "",
            True,
            None,
        )
