"""Confluence's macros as markdown nodes.

code, noformat                       a block of code, in its language, below its title
info, note, tip, warning, panel      a quote that begins with the macro's title or name
expand                               the same, only with the title
status, jira, include and the like   their target
toc, children, attachments …         nothing: they repeat other content
any other                            its body, below its title
"""

from collections.abc import Callable

from gristmill.connectors.markup.storage_tree import Element
from gristmill.connectors.markup.tree import Child, Node, is_block, quote_with_label

_PANELS = frozenset(("info", "note", "tip", "warning", "panel", "success", "error"))
# The parameter with the text of such a macro.
_MAIN_PARAMETER = {
    "status": "title",
    "jira": "key",
    "include": "",
    "excerpt-include": "",
    "view-file": "name",
    "viewpdf": "name",
    "viewdoc": "name",
    "viewxls": "name",
    "viewppt": "name",
    "multimedia": "name",
    "widget": "url",
    "iframe": "src",
    "mathinline": "body",
    "mention": "",
    "profile": "user",
    "drawio": "diagramname",
    "gliffy": "name",
}


def convert_macro(element: Element, children_of: Callable[[Element], list[Child]]) -> list[Child]:
    """The nodes of a macro; `children_of` converts the elements of its body."""
    name = element.attributes.get("ac:name", "").lower()
    title = macro_parameter(element, "title")
    if name in ("code", "noformat", "mathblock", "html"):
        head: list[Child] = [Node("paragraph", [Node("strong", [title])])] if title.strip() else []
        return [
            *head,
            Node("code", [_plain_body(element)], {"language": macro_parameter(element, "language")}),
        ]
    body = _rich_body(element, children_of)
    if name in _PANELS:
        return [quote_with_label(title or name.capitalize(), body)]
    if name == "expand":
        return [quote_with_label(title, body)]
    if name in _MAIN_PARAMETER and not body:
        return _main_parameter_text(element, name, children_of)
    if any(is_block(child) for child in body):
        heads: list[Child] = [Node("paragraph", [Node("strong", [title])])] if title.strip() else []
        return [Node("paragraph", [*heads, *body])]
    return body or ([title] if title else [])


def macro_parameter(element: Element, name: str) -> str:
    """A macro's parameter, empty when it has none of that name."""
    for child in element.children:
        if not isinstance(child, Element) or child.name != "ac:parameter":
            continue
        if child.attributes.get("ac:name", "").lower() == name:
            return plain_text(child)
    return ""


def plain_text(element: Element) -> str:
    """All text in an element, with its lines."""
    parts: list[str] = []
    for child in element.children:
        if isinstance(child, str):
            parts.append(child)
        else:
            parts.append("\n" if child.name == "br" else plain_text(child))
    return "".join(parts)


def _main_parameter_text(
    element: Element, name: str, children_of: Callable[[Element], list[Child]]
) -> list[Child]:
    if _MAIN_PARAMETER[name] and (text := macro_parameter(element, _MAIN_PARAMETER[name])).strip():
        return [text]
    # The page or file that it shows is a resource in one of its parameters.
    resources: list[Child] = []
    for child in element.children:
        if isinstance(child, Element) and child.name == "ac:parameter":
            resources.extend(part for part in children_of(Element("", {}, child.children)) if part != "")
            if any(isinstance(part, Element) for part in child.children):
                break
    return resources


def _plain_body(element: Element) -> str:
    """The plain text body; if there is none, everything in the macro but its parameters."""
    parts: list[str] = []
    for child in element.children:
        if isinstance(child, str):
            parts.append(child if child.strip() else "")
        elif child.name != "ac:parameter":
            parts.append(plain_text(child))
    return "".join(parts)


def _rich_body(element: Element, children_of: Callable[[Element], list[Child]]) -> list[Child]:
    children: list[Child] = []
    for child in element.children:
        if isinstance(child, str):
            children.extend([child] if child.strip() else [])
        elif child.name == "ac:plain-text-body":
            children.extend([Node("code", [plain_text(child)])] if plain_text(child).strip() else [])
        elif child.name != "ac:parameter":
            children.extend(children_of(Element("", {}, [child])))
    while children and isinstance(children[0], str) and not children[0].strip():
        children.pop(0)
    return children if any(not isinstance(child, str) or child.strip() for child in children) else []
