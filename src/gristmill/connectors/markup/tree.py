"""tree: what a text is made of, before it is written as markdown. Three readers make it, one writer takes it.

    blocks    document paragraph heading list item quote code rule table row cell
    inline    text (a plain str) strong em strike mono link image break

    heading   level            list   ordered, start     item   done ("yes", "no", or none: no task)
    code      language         link   href               image  href, alt
    cell      head, columns, rows (how many it spans)

No tree is deeper than MOST_LEVELS: its readers put what lies deeper into the deepest element, so that whoever walks it
can do so by recursion.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

MAX_DEPTH = 48  # pages that people write have fewer than 20

BLOCKS = frozenset(
    ("document", "paragraph", "heading", "list", "item", "quote", "code", "rule", "table", "row", "cell")
)


@dataclass(slots=True)
class Node:
    """A block or a piece of a line, and what is in it."""

    kind: str
    children: "list[Node | str]" = field(default_factory=list["Node | str"])
    attributes: dict[str, str] = field(default_factory=dict[str, str])


Child = Node | str


def is_block(child: Child) -> bool:
    """Whether it stands on lines of its own."""
    return isinstance(child, Node) and child.kind in BLOCKS


def wrap_inline(kind: str, children: list[Child], **facts: str) -> list[Child]:
    """The children as `kind`, unless there are blocks among them, which no mark can hold."""
    if any(is_block(child) for child in children):
        return children
    return [Node(kind, children, facts)]


def labelled_quote(label: str, children: list[Child]) -> Node:
    """A quote that begins with its name, as panels are written."""
    head: list[Child] = [Node("paragraph", [Node("strong", [label])])] if label.strip() else []
    return Node("quote", [*head, *children])


def text_of(children: Iterable[Child]) -> str:
    """The words alone."""
    return "".join(child if isinstance(child, str) else text_of(child.children) for child in children)
