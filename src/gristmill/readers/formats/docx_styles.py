"""What the styles and lists of a Word document say of a paragraph: whether it is a heading, and the label of a list item."""

import re
from dataclasses import dataclass, field
from typing import Any

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_MAX_LEVELS = 6
_BODY_LEVEL = 9  # the outline level of text that is no heading
_MAX_BASES = 20  # styles that a style may be based on, one after the other
_HEADING_NAME = re.compile(r"heading ([1-9])", re.I)
_BULLETS = ("bullet", "none")
_ROMAN = ((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"))  # fmt: skip


def attribute(node: Any, path: str, name: str = "val") -> str | None:
    """The attribute of the element at `path`, or None."""
    target = node.find("/".join(f"{_W}{part}" for part in path.split("/"))) if node is not None else None
    return target.get(f"{_W}{name}") if target is not None else None


class WordStyles:
    """The styles of a document."""

    def __init__(self, tree: Any) -> None:
        styles = tree.iter(f"{_W}style") if tree is not None else ()
        self._styles = {style.get(f"{_W}styleId", ""): style for style in styles}

    def heading_level(self, properties: Any) -> int:
        """The level of the heading that a paragraph with these properties is, 0 for other paragraphs."""
        own = attribute(properties, "outlineLvl")
        if own is not None and own.isdigit():
            return 0 if int(own) >= _BODY_LEVEL else min(int(own) + 1, _MAX_LEVELS)
        for style in self._chain(properties):
            name = attribute(style, "name") or ""
            if name.lower() == "title":
                return 1
            if match := _HEADING_NAME.fullmatch(name):
                return min(int(match[1]), _MAX_LEVELS)
            level = attribute(style, "pPr/outlineLvl")
            if level is not None and level.isdigit():
                return 0 if int(level) >= _BODY_LEVEL else min(int(level) + 1, _MAX_LEVELS)
        style_id = attribute(properties, "pStyle") or ""  # a document without its styles
        match = re.fullmatch(r"[Hh]eading\s*([1-9])", style_id) if style_id not in self._styles else None
        return min(int(match[1]), _MAX_LEVELS) if match else 0

    def list_of(self, properties: Any) -> tuple[str, int] | None:
        """The number of the list that a paragraph is part of, and its level there."""
        if properties is None:
            return None
        for node in (properties, *(style.find(f"{_W}pPr") for style in self._chain(properties))):
            number = attribute(node, "numPr/numId")
            if number is not None:
                level = attribute(properties, "numPr/ilvl") or attribute(node, "numPr/ilvl") or "0"
                return (number, int(level)) if number != "0" and level.isdigit() else None
        return None

    def _chain(self, properties: Any) -> list[Any]:
        """The style of a paragraph and those it is based on."""
        chain: list[Any] = []
        name = attribute(properties, "pStyle")
        while name and (style := self._styles.get(name)) is not None and len(chain) < _MAX_BASES:
            chain.append(style)
            name = attribute(style, "basedOn")
        return chain


@dataclass
class _ListLevel:
    format: str = "bullet"
    text: str = ""
    start: int = 1


@dataclass
class WordLists:
    """The lists of a document, and how far each was counted."""

    _levels: dict[str, dict[int, _ListLevel]] = field(default_factory=dict[str, dict[int, _ListLevel]])
    _list_of_number: dict[str, str] = field(default_factory=dict[str, str])
    _counts: dict[str, dict[int, int]] = field(default_factory=dict[str, dict[int, int]])
    _restarts: dict[str, dict[int, int]] = field(default_factory=dict[str, dict[int, int]])

    @classmethod
    def parse(cls, tree: Any) -> "WordLists":
        """The lists of a part `numbering.xml`."""
        lists = cls()
        if tree is None:
            return lists
        for definition in tree.iter(f"{_W}abstractNum"):
            levels = {
                int(node.get(f"{_W}ilvl") or 0): _parse_level(node) for node in definition.iter(f"{_W}lvl")
            }
            lists._levels[definition.get(f"{_W}abstractNumId", "")] = levels
        for number in tree.iter(f"{_W}num"):
            name = number.get(f"{_W}numId", "")
            lists._list_of_number[name] = attribute(number, "abstractNumId") or ""
            for override in number.iter(f"{_W}lvlOverride"):
                start = attribute(override, "startOverride")
                if start is not None and start.isdigit():
                    lists._restarts.setdefault(name, {})[int(override.get(f"{_W}ilvl") or 0)] = int(start)
        return lists

    def next_label(self, number: str, level: int) -> str:
        """The label of the next item of a list: `-`, `3.`, `b)`, `1.2`; empty if it has none."""
        name = self._list_of_number.get(number)
        levels = self._levels.get(name or "", {})
        if name is None or level not in levels:
            return "-"
        counts = self._counts.setdefault(name, {})
        for place, start in self._restarts.pop(number, {}).items():
            counts[place] = start - 1
        counts[level] = counts.get(level, levels[level].start - 1) + 1
        for deeper in [place for place in counts if place > level]:
            del counts[deeper]
        if levels[level].format in _BULLETS:
            return "-" if levels[level].format == "bullet" else ""

        def value(match: re.Match[str]) -> str:
            place = int(match[1]) - 1
            known = levels.get(place, _ListLevel("decimal"))
            return _format_number(counts.get(place, known.start), known.format)

        return re.sub(r"%([1-9])", value, levels[level].text)


def _parse_level(node: Any) -> _ListLevel:
    start = attribute(node, "start") or "1"
    return _ListLevel(
        attribute(node, "numFmt") or "decimal",
        attribute(node, "lvlText") or "",
        int(start) if start.isdigit() else 1,
    )


def _format_number(number: int, name: str) -> str:
    if name in ("lowerLetter", "upperLetter"):
        letter = chr(ord("a") + (number - 1) % 26) * ((number - 1) // 26 + 1)
        return letter.upper() if name == "upperLetter" else letter
    if name in ("lowerRoman", "upperRoman") and 0 < number < 4000:
        letters, rest = "", number
        for value, roman in _ROMAN:
            letters += roman * (rest // value)
            rest %= value
        return letters.upper() if name == "upperRoman" else letters
    return str(number)
