"""Confluence's storage format as markdown.

    headings, lists, tables, code, links, tasks     their markdown counterparts
    <ac:structured-macro>                           by its name (storage_macros.py); an unknown one keeps its body
    <ac:link>, <ac:image>                           by their target; a link to a page shows the page's title
    a user                                          @ and the name in `people`, else the id
    any other element                               its content

`people` maps account ids, user keys and user names to names. Never raises.
"""

from collections.abc import Mapping

from gristmill.connectors.markup.storage_macros import convert_macro, plain_text
from gristmill.connectors.markup.storage_tree import Element, parse
from gristmill.connectors.markup.tree import Child, Node, is_block, quote_with_label, wrap_inline
from gristmill.connectors.markup.writer import write_markdown

_MARKS = {
    "strong": "strong",
    "b": "strong",
    "em": "em",
    "i": "em",
    "cite": "em",
    "del": "strike",
    "s": "strike",
    "strike": "strike",
    "tt": "mono",
    "kbd": "mono",
    "samp": "mono",
}
_BLOCKS = {
    "blockquote": "quote",
    "ul": "list",
    "ac:task-list": "list",
    "dd": "paragraph",
    "li": "item",
    "table": "table",
    "tr": "row",
}
_HEADINGS = {f"h{level}": str(level) for level in range(1, 7)}
# Elements that only begin a new paragraph.
_PARAGRAPHS = frozenset(
    ("div", "p", "section", "article", "ac:layout", "ac:layout-section", "ac:layout-cell", "ac:caption")
)
_IGNORED = frozenset(("style", "script", "ac:parameter", "ac:task-id", "ac:task-uuid", "colgroup"))
_TARGET_ATTRIBUTES = {
    "ri:page": "ri:content-title",
    "ri:blog-post": "ri:content-title",
    "ri:attachment": "ri:filename",
    "ri:url": "ri:value",
    "ri:space": "ri:space-key",
    "ri:shortcut": "ri:parameter",
    "ri:content-entity": "ri:content-id",
}


def to_markdown(body: str, people: Mapping[str, str] | None = None) -> str:
    """The body's text."""
    return write_markdown(_StorageReader(people or {}).children_of(parse(body)))


class _StorageReader:
    def __init__(self, people: Mapping[str, str]) -> None:
        self._people = people

    def children_of(self, element: Element) -> list[Child]:
        """The converted children of an element."""
        children: list[Child] = []
        for child in element.children:
            if isinstance(child, str):
                children.append(child)
            else:
                children.extend(self._convert(child))
        return children

    def _convert(self, element: Element) -> list[Child]:
        name = element.name
        if name in _IGNORED:
            return []
        if name in _MARKS:
            return wrap_inline(_MARKS[name], self.children_of(element))
        if name in _HEADINGS:
            return [Node("heading", self.children_of(element), {"level": _HEADINGS[name]})]
        if name in _BLOCKS:
            return [Node(_BLOCKS[name], self._without_whitespace(self.children_of(element), name))]
        if name in _PARAGRAPHS:
            return [Node("paragraph", self.children_of(element))]
        if name.startswith(("ac:", "ri:")):
            return self._convert_vendor(element)
        return self._convert_html(element)

    def _convert_html(self, element: Element) -> list[Child]:
        attributes = element.attributes
        match element.name:
            case "br":
                return [Node("break")]
            case "hr":
                return [Node("rule")]
            case "a":
                return wrap_inline("link", self.children_of(element), href=attributes.get("href", ""))
            case "img":
                facts = {"alt": attributes.get("alt", ""), "href": attributes.get("src", "")}
                return [Node("image", [], facts)]
            case "ol":
                facts = {"ordered": "yes", "start": attributes.get("start", "1")}
                return [Node("list", self._without_whitespace(self.children_of(element), "ol"), facts)]
            case "td" | "th":
                spans = {"columns": attributes.get("colspan", "1"), "rows": attributes.get("rowspan", "1")}
                return [Node("cell", self.children_of(element), spans)]
            case "pre":
                return [Node("code", [plain_text(element)])]
            case "code":
                text = plain_text(element)
                return [Node("code", [text])] if "\n" in text.strip() else [Node("mono", [text])]
            case "dt":
                return [Node("paragraph", wrap_inline("strong", self.children_of(element)))]
            case "time":
                return self.children_of(element) or [attributes.get("datetime", "")]
            case _:
                return self.children_of(element)

    def _without_whitespace(self, children: list[Child], name: str) -> list[Child]:
        """Without the whitespace between the items of a list or the cells of a table."""
        if name in ("li", "dd", "blockquote"):
            return children
        return [child for child in children if not isinstance(child, str) or child.strip()]

    def _convert_vendor(self, element: Element) -> list[Child]:
        match element.name:
            case "ac:structured-macro" | "ac:macro":
                return convert_macro(element, self.children_of)
            case "ac:link":
                return self._link(element)
            case "ac:image":
                return self._image(element)
            case "ac:emoticon":
                return [element.attributes.get("ac:emoji-fallback") or element.attributes.get("ac:name", "")]
            case "ac:task":
                return self._task(element)
            case "ac:plain-text-body" | "ac:plain-text-link-body":
                return [plain_text(element)]
            case "ac:adf-extension":
                return self._extension(element)
            case "ri:user":
                return [self._person(element)]
            case _:
                return self.children_of(element) or self._target(element)

    def _link(self, element: Element) -> list[Child]:
        label: list[Child] = []
        target_text: list[Child] = []
        href = ""
        for child in element.children:
            if isinstance(child, str):
                label.append(child)
            elif child.name.startswith("ri:"):
                target_text = target_text or self._target(child)
                href = href or child.attributes.get("ri:value", "")
            else:
                label.extend(self._convert(child))
        if not any(not isinstance(child, str) or child.strip() for child in label):
            label = target_text or [element.attributes.get("ac:anchor", "")]
        return wrap_inline("link", label, href=href) if href else label

    def _target(self, element: Element) -> list[Child]:
        """The name of a resource."""
        if element.name == "ri:user":
            return [self._person(element)]
        text = element.attributes.get(_TARGET_ATTRIBUTES.get(element.name, ""), "")
        return [text] if text else []

    def _person(self, element: Element) -> str:
        for name in ("ri:account-id", "ri:userkey", "ri:username"):
            if user_id := element.attributes.get(name):
                return f"@{self._people.get(user_id, user_id)}"
        return ""

    def _image(self, element: Element) -> list[Child]:
        href = ""
        caption: list[Child] = []
        for child in element.children:
            if isinstance(child, str):
                caption.append(child)
            elif child.name.startswith("ri:"):
                href = href or "".join(text for text in self._target(child) if isinstance(text, str))
            else:
                caption.extend(self._convert(child))
        alt = element.attributes.get("ac:alt") or element.attributes.get("ac:title") or ""
        image = Node("image", [], {"alt": alt, "href": href})
        return [image, *caption]

    def _task(self, element: Element) -> list[Child]:
        done, body = "no", list[Child]()
        for child in element.children:
            if isinstance(child, str):
                body.append(child)
            elif child.name == "ac:task-status":
                done = "yes" if plain_text(child).strip() == "complete" else "no"
            else:
                body.extend(self._convert(child))
        return [Node("item", body, {"done": done})]

    def _extension(self, element: Element) -> list[Child]:
        """An ADF node with a fallback for the same content: one of them is enough."""
        nodes = [child for child in element.children if not isinstance(child, str)]
        others = [child for child in nodes if child.name != "ac:adf-fallback"]
        children = [part for child in others for part in self._extension_node(child)]
        if not any(is_block(part) or (isinstance(part, str) and part.strip()) for part in children):
            children = [part for child in nodes for part in self.children_of(child)]
        return children

    def _extension_node(self, element: Element) -> list[Child]:
        content = Element(element.name)
        kind = ""
        for child in element.children:
            if isinstance(child, Element) and child.name == "ac:adf-attribute":
                kind = kind or (plain_text(child) if child.attributes.get("key") == "panel-type" else "")
            else:
                content.children.append(child)
        children = self.children_of(content)
        return [quote_with_label(kind.strip().capitalize(), children)] if kind else children
