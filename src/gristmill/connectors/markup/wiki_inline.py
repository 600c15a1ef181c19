"""The marks within a line of Jira's wiki markup.

    *strong* _em_ -strike- +inserted+ ^sup^ ~sub~ ??cited?? {{mono}}
    [text|address] [address] [~user] [^attachment] !image.png|width=300!
    {color:red}…{color} and {anchor:x}: what is inside     \\\\ a line break     \\* the sign itself

Every pattern stops at its own opening character, so that a line is scanned once per level of marks.
"""

import re
from collections.abc import Mapping

from gristmill.connectors.markup.tree import Child, Node

_MAX_NESTING = 4
_TOKEN = re.compile(
    r"""(?=[\\{\[!*_\-+^~?hf])(?:
      (?P<break>\\\\(?=\s|$))
    | \\(?P<escaped>[^\w\s\\])
    | (?P<address>(?<!\w)(?:https?|ftp|file)://[^\s|\[\]{}<>"]+)
    | \{\{(?P<mono>(?:[^{}\n]|\{(?!\{)|\}(?!\}))+)\}\}
    | (?P<dropped>\{(?:color|anchor)(?::[^{}\n]*)?\})
    | \[(?P<link>[^\[\]\n]+)\]
    | !(?P<image>(?=\S)[^!\n|]{1,300}\.\w{2,5}(?:\|[^!\n]{0,300})?|https?://[^!\s|]+(?:\|[^!\n]{0,300})?)!
    | (?<![\w*])\*(?=[^\s*])(?P<strong>[^*\n]+)(?<=\S)\*(?![\w*])
    | (?<!\w)_(?=[^\s_])(?P<em>[^_\n]+)(?<=\S)_(?!\w)
    | (?<![\w-])-(?=[^\s-])(?P<strike>[^-\n]+)(?<=\S)-(?![\w-])
    | (?<![\w+])\+(?=[^\s+])(?P<plus>[^+\n]+)(?<=\S)\+(?![\w+])
    | (?<!\w)\^(?=[^\s^])(?P<sup>[^^\n]+)(?<=\S)\^(?!\w)
    | (?<![\w~])~(?=[^\s~])(?P<sub>[^~\n]+)(?<=\S)~(?![\w~])
    | \?\?(?=\S)(?P<cite>[^?\n]+)(?<=\S)\?\?
    )""",
    re.X,
)
_KINDS = {"strong": "strong", "em": "em", "strike": "strike", "cite": "em", "plus": "", "sup": "", "sub": ""}
_SCHEME = re.compile(r"(?:https?|ftp|file|mailto|tel):|[/#]", re.I)


def read_line(text: str, people: Mapping[str, str], level: int = 0) -> list[Child]:
    """A line's text and marks."""
    children: list[Child] = []
    position = 0
    for token in _TOKEN.finditer(text):
        children.append(text[position : token.start()])
        children.extend(_convert_token(token, people, level))
        position = token.end()
    children.append(text[position:])
    return [child for child in children if child != ""]


def _convert_token(token: re.Match[str], people: Mapping[str, str], level: int) -> list[Child]:
    kind = token.lastgroup or ""
    content = token.group(kind)
    match kind:
        case "break":
            return [Node("break")]
        case "escaped":
            return [content]
        case "address":
            return [Node("link", [content], {"href": content})]
        case "mono":
            return [Node("mono", [content])]
        case "dropped":
            return []
        case "link":
            return _link(content, people, level)
        case "image":
            name, _, options = content.partition("|")
            alt = re.search(r"\balt=([^,|]+)", options)
            return [Node("image", [], {"href": name.strip(), "alt": alt.group(1).strip('"') if alt else ""})]
        case _:
            inner = read_line(content, people, level + 1) if level < _MAX_NESTING else [content]
            return [Node(_KINDS[kind], inner)] if _KINDS[kind] else inner


def _link(content: str, people: Mapping[str, str], level: int) -> list[Child]:
    text, bar, target = content.partition("|")
    target = (target.partition("|")[0] if bar else text).strip()
    if target.startswith("~"):
        user = target[1:].removeprefix("accountid:")
        return [f"@{people.get(user, user)}"]
    if target.startswith("^"):
        return [(text if bar else target[1:]).strip()]
    if not _SCHEME.match(target):  # a page of another tool, or no link at all: kept as it is
        return [f"[{content}]"]
    label: list[Child] = [text.strip()]
    if bar and level < _MAX_NESTING:
        label = read_line(text.strip(), people, level + 1)
    return [Node("link", label, {"href": target})]
