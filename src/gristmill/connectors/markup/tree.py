"""The tree of a text, before it is written as markdown: three readers build it, one writer writes it.

    blocks    document paragraph heading list item quote code rule table row cell
    inline    text (a plain str) strong em strike mono link image break

    heading   level            list   ordered, start     item   done ("yes", "no", or none: no task)
    code      language         link   href               image  href, alt
    cell      head, columns, rows (how many it spans)

No tree is deeper than MAX_DEPTH: readers put deeper content into the deepest element, so that a tree can be walked
recursively.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

MAX_DEPTH = 48  # pages that people write have fewer than 20

BLOCKS = frozenset(
    ("document", "paragraph", "heading", "list", "item", "quote", "code", "rule", "table", "row", "cell")
)


@dataclass(slots=True)
class Node:
    """A block or an inline element, with its children."""

    kind: str
    children: "list[Node | str]" = field(default_factory=list["Node | str"])
    attributes: dict[str, str] = field(default_factory=dict[str, str])


Child = Node | str


def is_block(child: Child) -> bool:
    """Whether it is a block, on lines of its own."""
    return isinstance(child, Node) and child.kind in BLOCKS


def wrap_inline(kind: str, children: list[Child], **facts: str) -> list[Child]:
    """The children as `kind`; unchanged if there are blocks among them, which an inline element can't contain."""
    if any(is_block(child) for child in children):
        return children
    return [Node(kind, children, facts)]


def quote_with_label(label: str, children: list[Child]) -> Node:
    """A quote that begins with a label, for panels."""
    head: list[Child] = [Node("paragraph", [Node("strong", [label])])] if label.strip() else []
    return Node("quote", [*head, *children])


def text_of(children: Iterable[Child]) -> str:
    """The text without markup."""
    return "".join(child if isinstance(child, str) else text_of(child.children) for child in children)
