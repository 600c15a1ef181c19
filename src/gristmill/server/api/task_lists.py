"""Task lists of markdown: `- [ ] open` and `- [x] done` show a box as a character, which needs no element of a form. Pure."""

import re

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore

_BOX = re.compile(r"\[([ xX])\](?=\s)")
_OPEN, _DONE = "☐", "☑"


def add_task_lists(parser: MarkdownIt) -> None:
    """Let a parser render the boxes of task lists."""
    parser.core.ruler.push("task_lists", _mark_boxes)


def _mark_boxes(state: StateCore) -> None:
    for item, paragraph, inline in zip(state.tokens, state.tokens[1:], state.tokens[2:], strict=False):
        children = inline.children or []
        if item.type != "list_item_open" or paragraph.type != "paragraph_open" or not children:
            continue
        text = children[0]
        if text.type == "text" and (box := _BOX.match(text.content)):
            text.content = (_OPEN if box[1] == " " else _DONE) + text.content[box.end() :]
